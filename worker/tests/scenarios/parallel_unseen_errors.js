return await forge.parallel([() => github.fail({}), () => github.echo({ n: 2 })]);
