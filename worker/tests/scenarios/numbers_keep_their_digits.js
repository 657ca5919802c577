const r = await github.raw({ json: '[1915883588174806058, 0.12345678901234567890, 1e+400, -0, {"a": -9007199254740993}]' });
await forge.stash.put("r", r);
console.log(JSON.stringify(await forge.stash.get("r")));
return [(await github.echo({ r })).r, JSON.parse("1e-400")];
