return [await forge.stash.get('absent'), await forge.stash.delete('absent'), await forge.stash.keys()];
