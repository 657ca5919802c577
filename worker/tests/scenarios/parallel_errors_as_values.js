const r = await forge.parallel([() => github.echo({ n: 1 }), () => github.fail({}), () => github.echo({ n: 3 })], { concurrency: 1 });
return [r.results[0], r.errors[0].code, r.results[2]];
