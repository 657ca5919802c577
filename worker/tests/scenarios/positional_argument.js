return await github.echo({ a: 1 }, 2);
