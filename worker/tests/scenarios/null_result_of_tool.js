const r = await github.raw({ json: "null" });
return [r === null, r];
