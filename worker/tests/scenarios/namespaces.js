await github["create-issue"]({ a: 1 }).catch((e) => console.log(e.suggested_fix));
await github.issues.echo({ a: 2 });
await forge.callTool("github", "echo", { a: 3 });
await forge.server("my-server").echo({ a: 4 });
await my_server.echo({});
await my_server.echo();
return [typeof console.log, typeof github.echo];
