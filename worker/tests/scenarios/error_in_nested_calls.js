const inner = async () => await github.fail({});
const outer = async () => await inner();
await outer();
