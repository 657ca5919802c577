// [[flows]] of forge.toml decides by the servers whose data the script holds: `everything` gets data of memory only if
// the user agrees, and none of git. `forgefs run --yes` agrees beforehand; nothing allows a denied flow.
async function echo(message) {
  try {
    return await everything.echo({ message });
  } catch (error) {
    return error.code;
  }
}

const empty = await echo("nothing yet");
await memory.read_graph();
const asked = await echo("after memory");
await git.git_status({ repo_path: "." });
const refused = await echo("after git");
return { empty, asked, refused };
