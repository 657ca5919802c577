// For `forgefs run --dry-run`: calls that only read are made. A call that may write is planned, and answers with a
// sample of its output schema, as in `created`.
const { content } = await filesystem.read_text_file({ path: "README.md" });
const created = await memory.create_entities({
  entities: [{ name: "README.md", entityType: "file", observations: [`${content.length} characters`] }],
});
return { line: content.split("\n")[0], created };
