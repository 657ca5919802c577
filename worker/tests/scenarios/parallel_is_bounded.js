const r = await forge.parallel([30, 10, 20].map((ms) => () => github.sleep({ ms })), { concurrency: 2 });
return r.results.map((x) => x.ms);
