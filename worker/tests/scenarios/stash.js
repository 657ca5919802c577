await forge.stash.put("k", { a: [1] }, { ttl: 60 });
const got = await forge.stash.get("k");
const keys = await forge.stash.keys();
const gone = await forge.stash.delete("k");
return [got, keys, gone, await forge.stash.get("k")];
