// git → filesystem → memory: writes the last commits to a file, and remembers the file.
const file = "forgefs-example-changes.txt";

const log = await git.git_log({ repo_path: ".", max_count: 5 });
const subjects = log.split("\n").filter((line) => line.startsWith("Message: ")).map((line) => line.slice(9));
await filesystem.write_file({ path: file, content: subjects.join("\n") });

await memory.create_entities({
  entities: [{ name: file, entityType: "file", observations: [`${subjects.length} commits`] }],
});
const remembered = await memory.open_nodes({ names: [file] });

console.log("wrote", file);
return { subjects, observations: remembered.entities[0].observations };
