const r = await forge.parallel([() => github.echo({ n: 1 }), () => github.fail({}), () => forge.callTool("github", "echo", { n: 3 })]);
return [r.results, r.errors[0].code, r.errors[0].index];
