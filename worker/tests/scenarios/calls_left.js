const left = [forge.calls_left()];
await github.echo({});
left.push(forge.callsLeft());
const [one] = (await forge.parallel([() => github.echo({ a: 1 })])).results;
return [...left, forge.calls_left(), one.a * 48];
