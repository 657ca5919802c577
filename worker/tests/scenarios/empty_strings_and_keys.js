return await github.echo({ '': '', a: [], b: {}, c: '' });
