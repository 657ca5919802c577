const r = await forge.parallel(Array.from({ length: 52 }, (_, n) => () => github.echo({ n })));
return [r.results.filter((x) => x).length, r.errors.length, r.errors[0].code];
