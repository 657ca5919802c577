const r = await forge.readResource('github', 'repo://a/b');
const p = await forge.prompt('github', 'review', { pr: 7 });
return [r.text, p.args];
