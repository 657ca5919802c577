const r = await github.raw({ json: '{"__proto__": {"x": 1}, "constructor": 2}' });
return Object.keys(r);
