return (await forge.parallel([])).results;
