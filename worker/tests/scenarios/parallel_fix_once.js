const one = () => github.missing({});
const { errors } = await forge.parallel([one, one, one], { concurrency: 1 });
const shown = JSON.parse(JSON.stringify(errors)).map((error) => error.suggested_fix ?? null);
return [shown, errors.every((error) => error.code === "TOOL_NOT_FOUND")];
