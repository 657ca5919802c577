forge.progress("half of it");
const [listed] = await forge.runs.list();
return [listed.state, (await forge.runs.get(listed.id)).state, await forge.runs.cancel(listed.id)];
