await github.echo({ a: 1 });
await github.fail({});
await github.echo({ a: 2 });
