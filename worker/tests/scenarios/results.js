const listed = await forge.results.list();
return [listed[0].path, await forge.results.get(listed[0].path)];
