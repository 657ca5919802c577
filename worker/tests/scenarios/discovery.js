console.log(await forge.ls());
console.log(await forge.ls("/github", { depth: 2 }));
console.log(await forge.cat(["/a", "/b"], { lines: "1-3" }));
console.log(await forge.search("issues", { limit: 3, path: "/github" }));
return [await forge.readResource("github", "x://y"), await forge.prompt("github", "p", { a: 1 })];
