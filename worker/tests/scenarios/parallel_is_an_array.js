const r = await forge.parallel([() => github.echo({ n: 1 }), () => github.fail({}), () => github.echo({ n: 3 })]);
const [a, b, c] = r;
return [a.n, b, c.n, r.length, r.errors[0].index, r.results === r && Array.isArray(r) && Object.keys(r).length === 3, r.aborted];
