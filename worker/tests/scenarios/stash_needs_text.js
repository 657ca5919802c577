await forge.stash.put(5, 1);
