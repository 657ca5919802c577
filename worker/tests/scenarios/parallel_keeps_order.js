const r = await forge.parallel([() => github.sleep({ ms: 30 }), () => github.sleep({ ms: 1 })]);
return r.results.map((x) => x.ms);
