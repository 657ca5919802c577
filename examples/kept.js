// The stash keeps a value for later scripts of the session; here it is a resource.
const key = "features";
await forge.stash.put(key, await forge.readResource("everything", "demo://resource/static/document/features.md"), { ttl: 600 });

const document = await forge.stash.get(key);
const text = document.contents[0].text;
const keys = await forge.stash.keys();
await forge.stash.delete(key);
return { keys, title: text.split("\n")[0], left: await forge.stash.keys() };
