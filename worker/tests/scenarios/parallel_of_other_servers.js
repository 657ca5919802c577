const r = await forge.parallel([() => github.echo({ a: 1 }), () => my_server.echo({ a: 2 })], { concurrency: 1 });
return r.results;
