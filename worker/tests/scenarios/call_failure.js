await github.echo({ a: 1 });
const x = 1;
await github.fail({ why: "test" });
return x;
