// Adding a server: its words, then a question with all that would be written and started.

import { useState } from "./vendor/hooks.js";
import { post } from "./api.js";
import { Act, announce, Confirm, Empty, Field, html, Long, Problem, Text, useAction } from "./ui.js";
import { pathLink } from "./catalog.js";
import { short } from "./text.js";

const NOTHING = { name: "", target: "", args: "", env: "" };
// What is asked about is shown whole.
const WHOLE = 200000;

const lines = (text) => text.split(/\r?\n/).filter((line) => line.trim());

export function Add({ about }) {
  const [words, setWords] = useState(NOTHING);
  const [seen, setSeen] = useState(null);
  const action = useAction();
  if (about && !about.adds) {
    return html`<${Empty}><p>Servers are added on the machine of the gateway.</p>
      <p><code>forgefs console</code> there has a form for it, and <code>forgefs add</code> does the same.</p><//>`;
  }
  const send = (digest) => action.run(() => post("server/add", {
    name: words.name.trim(), target: words.target.trim(), args: lines(words.args),
    env: lines(words.env).map((name) => name.trim()), seen: digest,
  }));
  const look = async (event) => {
    event.preventDefault();
    setSeen(await send(""));
  };
  const answer = async (yes) => {
    setSeen(null);
    if (!yes) return;
    const told = await send(seen.digest);
    if (!told) return announce("Nothing was added.");
    announce("The server is added.");
    location.hash = told.path ? pathLink(told.path) : "#/catalog";
  };
  const field = (name, label, note, rows) => {
    const id = `add-${name}`;
    const given = { id, value: words[name], spellcheck: false, autocomplete: "off", "aria-describedby": `${id}-note`,
      onInput: (event) => setWords({ ...words, [name]: event.target.value }) };
    return html`<${Field} label=${label} id=${id} note=${note}>
      ${rows ? html`<textarea rows=${rows} ...${given}></textarea>` : html`<input class="mono" ...${given} />`}<//>`;
  };
  return html`<form class="card add" aria-labelledby="add-title" onSubmit=${look}>
      <h2 id="add-title">Add a server</h2>
      ${field("name", "Name", "Its tools appear under this name.")}
      ${field("target", "Command or URL", "A program with its arguments, such as npx -y PACKAGE, or the address of a server on HTTP.")}
      ${field("args", "Arguments, one a line", "For arguments with spaces; the field above has the program alone then.", 3)}
      ${field("env", "Variables, one a line", "Names of variables that the program gets from the gateway's environment. For a key or token, write ${NAME} in an argument or a URL.", 2)}
      <div class="buttons"><${Act} type="submit" class="primary" busy=${action.busy}>Show what would be written<//></div>
    </form>
    <${Problem} error=${action.error} />
    ${seen && html`<${Confirm} title="Add this server?" act=${seen.enabled ? "Add and start" : "Add"} onClose=${answer}>
      <p><b><${Text} text=${seen.server} length=${64} /></b> ${seen.enabled
        ? "is written into the configuration file, and started or reached at once. A program runs as you, outside the sandbox of scripts."
        : "is written into the configuration file, switched off."}</p>
      <p class="dim">Started or reached:</p>
      <${Long} value=${seen.starts} limit=${WHOLE} label="What is started or reached" />
      <p class="dim">Written to <bdi>${short(seen.file, 300)}</bdi>:</p>
      <${Long} value=${seen.writes} limit=${WHOLE} label="What is written" />
      ${seen.notes.map((note) => html`<p key=${note} class="note"><bdi>${short(note, 400)}</bdi></p>`)}<//>`}`;
}
