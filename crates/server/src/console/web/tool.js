// One tool: its stubs side by side, findings, definition, and a form to try it.

import { useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Answer, Badge, Findings, html, Loaded, Long, Problem, Text, useAction, useLoad } from "./ui.js";
import { Code } from "./code.js";
import { collect, Form } from "./form.js";
import { short, things } from "./text.js";

export function Tool({ server, tool, path }) {
  const load = useLoad((signal) => get("tool", { server, tool }, signal), [server, tool]);
  return html`<${Loaded} load=${load} what="the tool">${(data) => html`<${Whole} tool=${data} server=${server}
    path=${path} />`}<//>`;
}

function Whole({ tool, server, path }) {
  return html`
    <div class="title"><h2><${Text} text=${`${tool.server}.${tool.name}`} length=${80} /></h2>
      ${tool.effect && html`<${Badge} state=${tool.effect} tone=${tool.effect === "read-only" ? "good" : "warn"} />`}
      ${tool.state && html`<${Badge} state="quarantined" tone="bad" />`}</div>
    <p class="dim path"><${Text} text=${tool.path ?? path} length=${160} /></p>
    ${tool.state && html`<div class="problem"><p><strong>Quarantined: </strong><bdi>${short(tool.state, 600)}</bdi></p>
      <p>See <a href="#/catalog/drift">Drift</a> for what changed.</p></div>`}
    ${tool.findings?.length > 0 && html`<section aria-labelledby="findings-title">
      <h3 id="findings-title">${things(tool.findings.length, "finding")}</h3><${Findings} findings=${tool.findings} /></section>`}
    <section aria-labelledby="stubs-title"><h3 id="stubs-title">Stubs</h3>
      <div class="side-by-side">
        <div><h4>Python</h4><${Code} code=${tool.stubs.pyi} language="starlark" label="Python stub" /></div>
        <div><h4>TypeScript</h4><${Code} code=${tool.stubs.dts} language="javascript" label="TypeScript stub" /></div>
      </div></section>
    <${Try} tool=${tool} server=${server} />
    <details class="fold"><summary>Documentation</summary><${Long} value=${tool.stubs.md} label="Documentation"
      class="prose" /></details>
    <details class="fold"><summary>Definition by the server</summary><${Long} value=${tool.definition}
      label="Definition" /></details>`;
}

function Try({ tool, server }) {
  const [values, setValues] = useState({});
  const [raw, setRaw] = useState(null);
  const [wrong, setWrong] = useState([]);
  const call = useAction();
  const submit = async (event) => {
    event.preventDefault();
    const made = raw === null ? collect(tool.schema, values) : fromJson(raw);
    setWrong(made.errors);
    if (made.errors.length) return announce(made.errors[0]);
    const told = await call.run(() => post("call", { server, tool: tool.ident, arguments: made.value }));
    if (told) announce(told.ok ? "The tool answered." : "The call failed.");
  };
  const swap = () => {
    if (raw === null) return setRaw(JSON.stringify(collect(tool.schema, values).value, null, 2));
    const { value, errors } = fromJson(raw);
    setWrong(errors);
    if (!errors.length) (setValues(value), setRaw(null));
  };
  return html`<section aria-labelledby="try-title"><h3 id="try-title">Try it</h3>
    <form class="card try" onSubmit=${submit}>
      ${raw === null ? html`<${Form} schema=${tool.schema} values=${values} onChange=${setValues} />`
        : html`<label for="try-json">Arguments as JSON</label><textarea id="try-json" class="mono" rows="8"
          spellcheck=${false} value=${raw} onInput=${(event) => setRaw(event.target.value)}></textarea>`}
      ${wrong.length > 0 && html`<ul class="wrong-list" role="alert">${wrong.slice(0, 20).map((text) => html`<li>
        ${short(text, 200)}</li>`)}</ul>`}
      <div class="buttons"><${Act} type="submit" class="primary" busy=${call.busy}>
        ${call.busy ? "Calling…" : "Call the tool"}<//>
        <button type="button" onClick=${swap}>${raw === null ? "Write JSON" : "Use the form"}</button></div>
      ${tool.effect !== "read-only" && html`<p class="note">The call takes effect at the server: it is a real one.</p>`}
    </form>
    <${Problem} error=${call.error} />
    ${call.done && html`<${Answer} answer=${call.done} />`}</section>`;
}

function fromJson(text) {
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return { value, errors: [] };
    return { value: {}, errors: ["The arguments are one JSON object: {…}."] };
  } catch (error) {
    return { value: {}, errors: [`Not JSON: ${error.message}`] };
  }
}
