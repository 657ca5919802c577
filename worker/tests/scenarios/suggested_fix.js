const e = await github.missing({}).catch((e) => e);
return [e.code, e.suggested_fix];
