const { results, errors, aborted } = await forge.parallel([1, 2, 3].map((n) => () => github.sleep({ ms: 50, n })));
return [results.map((r) => r.n), errors.length, aborted];
