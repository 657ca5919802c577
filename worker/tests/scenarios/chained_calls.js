const a = await github.echo({ items: [3, 1, 2] });
const b = await my_server.echo({ sorted: [...a.items].sort(), total: a.items.reduce((x, y) => x + y, 0) });
return b;
