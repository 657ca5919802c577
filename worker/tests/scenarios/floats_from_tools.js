const r = await github.raw({ json: '[1.5, 1e3, -2.25e-3]' });
return r.map((x) => x > 0);
