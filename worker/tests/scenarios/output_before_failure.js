console.log("before");
await github.fail({});
console.log("after");
