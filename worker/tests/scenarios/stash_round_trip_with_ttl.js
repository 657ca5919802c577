await forge.stash.set('k', { list: [1, 'two', null] }, { ttl: 60 });
return await forge.stash.get('k');
