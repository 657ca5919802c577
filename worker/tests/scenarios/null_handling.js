const r = await github.echo({ a: null, list: [null], nested: { b: null } });
return [r.a === null, r.list, r.nested];
