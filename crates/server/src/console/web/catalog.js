// The catalog: a tree of servers and tools at the left, what was chosen at the right.

import { useEffect, useMemo, useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Badge, Capped, Confirm, Empty, html, Loaded, Long, Problem, Text, useAction, useLoad } from "./ui.js";
import { Add } from "./add.js";
import { Drift } from "./drift.js";
import { Logins } from "./logins.js";
import { Search } from "./search.js";
import { Script } from "./script.js";
import { Tool } from "./tool.js";
import { count, short, things } from "./text.js";

const PARTS = [["", "Browse"], ["search", "Search"], ["script", "Script"], ["drift", "Drift"], ["logins", "Logins"], ["add", "Add"]];

export function Catalog({ route, about }) {
  const part = route.rest[0] ?? "";
  return html`<div class="title"><h1 tabindex="-1">Catalog</h1>
      <nav class="parts" aria-label="Parts of the catalog"><ul>${PARTS.map(([name, title]) => html`<li>
        <a href=${name ? `#/catalog/${name}` : "#/catalog"}
        aria-current=${part === name ? "page" : undefined}>${title}</a></li>`)}</ul></nav></div>
    ${part === "search" ? html`<${Search} query=${route.query.q ?? ""} />`
      : part === "script" ? html`<${Script} about=${about} />`
      : part === "drift" ? html`<${Drift} />`
      : part === "logins" ? html`<${Logins} />`
      : part === "add" ? html`<${Add} about=${about} />`
      : html`<${Browse} path=${route.query.path ?? ""} />`}`;
}

// The address of a path of the catalog.
export const pathLink = (path) => `#/catalog?path=${encodeURIComponent(path)}`;

function Browse({ path }) {
  const servers = useLoad((signal) => get("ls", { path: "/" }, signal), []);
  // A server that was added or switched on is ready a while later.
  useEffect(() => {
    if (!servers.data?.entries.some((one) => one.state === "connecting")) return;
    const timer = setTimeout(servers.reload, 1500);
    return () => clearTimeout(timer);
  }, [servers.data]);
  return html`<div class="browse">
    <nav class="tree card" aria-label="Servers and tools">
      <${Loaded} load=${servers} what="servers">${(data) => data.entries.length
        ? html`<ul>${data.entries.map((entry) => html`<${ServerFolder} key=${entry.path} entry=${entry}
          path=${path} />`)}</ul>`
        : html`<${Empty}><p>No servers.</p><p><a href="#/catalog/add">Add one</a>, or use <code>forgefs add</code>.</p><//>`}<//>
    </nav>
    <div class="chosen"><${Chosen} path=${path} servers=${servers.data?.entries}
      onChanged=${servers.reload} /></div>
  </div>`;
}

function ServerFolder({ entry, path }) {
  const [open, setOpen] = useState(path.startsWith(entry.path));
  useEffect(() => {
    if (path.startsWith(entry.path)) setOpen(true);
  }, [path]);
  if (entry.kind !== "server") return html`<${Leaf} entry=${entry} path=${path} />`;
  const found = (entry.findings?.error ?? 0) + (entry.findings?.warning ?? 0);
  return html`<li><button type="button" class="folder" aria-expanded=${open ? "true" : "false"}
    onClick=${() => setOpen(!open)}>
      <span class="name"><${Text} text=${entry.name} length=${30} /></span>
      ${found > 0 && html`<span class="mark-of ${entry.findings.error ? "bad" : "warn"}"
        title=${things(found, "finding")}>!<span class="hidden"> ${things(found, "finding")}</span></span>`}
      ${entry.state !== "ready" && html`<${Badge} state=${entry.state} />`}
      <span class="dim">${count(entry.tools)}</span></button>
    ${open && html`<${Inside} folder=${entry.path} path=${path} />`}</li>`;
}

function Inside({ folder, path }) {
  const load = useLoad((signal) => get("ls", { path: folder }, signal), [folder]);
  return html`<${Loaded} load=${load} what="tools">${(data) => html`<${Entries} entries=${data.entries} folder=${folder}
    path=${path} />`}<//>`;
}

const FILTER_FROM = 30;

function Entries({ entries, folder, path }) {
  const [words, setWords] = useState("");
  const groups = useMemo(() => grouped(entries, words.trim().toLowerCase()), [entries, words]);
  if (!entries.length) return html`<p
    class="dim">Nothing here. The server offers no tools, or it is not connected.</p>`;
  return html`<div class="inside"><a class="leaf" href=${pathLink(folder)}
    aria-current=${path === folder ? "true" : undefined}>About this server</a>
    ${entries.length > FILTER_FROM && html`<input type="search" class="small"
      aria-label=${`Filter ${short(folder, 60)}`} placeholder="Filter names" value=${words} onInput=${(event) => setWords(event.target.value)} />`}
    ${groups.map(([name, some]) => name
      ? html`<${Group} key=${name} name=${name} entries=${some} path=${path}
        open=${words !== "" || some.some((one) => one.path === path)} />`
      : html`<${Leaves} key="" entries=${some} path=${path} />`)}
    ${groups.length === 0 && html`<p class="dim">No name has “${short(words, 30)}”.</p>`}</div>`;
}

// Entries by category, those without one first; resources and prompts in groups of their own.
function grouped(entries, words) {
  const groups = new Map([["", []]]);
  for (const entry of entries) {
    if (words && !String(entry.name).toLowerCase().includes(words)) continue;
    const name = entry.kind === "tool" ? entry.category ?? "" : `${entry.kind}s`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(entry);
  }
  return [...groups].filter(([, some]) => some.length > 0);
}

function Group({ name, entries, path, open: first }) {
  const [open, setOpen] = useState(first);
  useEffect(() => setOpen(first), [first]);
  return html`<div><button type="button" class="folder" aria-expanded=${open ? "true" : "false"}
    onClick=${() => setOpen(!open)}>
    <span class="name"><${Text} text=${name} length=${30} /></span><span class="dim">${count(entries.length)}</span>
      </button>
    ${open && html`<div class="inside"><${Leaves} entries=${entries} path=${path} /></div>`}</div>`;
}

const Leaves = ({ entries, path }) => html`<${Capped} items=${entries} step=${100} noun="entries">${(some) =>
  html`<ul>${some.map((entry) => html`<${Leaf} key=${entry.path} entry=${entry} path=${path} />`)}</ul>`}<//>`;

const Leaf = ({ entry, path }) => html`<li><a class="leaf" href=${pathLink(entry.path)}
  aria-current=${entry.path === path ? "true" : undefined} title=${short(entry.summary, 200)}>
  <${Text} text=${entry.name} length=${40} />${entry.quarantined && html` <${Badge} state="quarantined" tone="bad" />`}
    </a></li>`;

function Chosen({ path, servers, onChanged }) {
  if (!path) {
    return html`<${Empty}><p>Choose a tool.</p><p>Open a server in the tree, or <a
      href="#/catalog/search">search</a> all of them as an agent does.</p><//>`;
  }
  const [server, ...rest] = path.split("/").filter(Boolean);
  const last = rest.at(-1) ?? "";
  if (rest.length && last.endsWith(".pyi")) return html`<${Tool} key=${path} server=${server} tool=${last.slice(0, -4)}
    path=${path} />`;
  const entry = servers?.find((one) => one.path === path);
  if (entry?.kind === "server") return html`<${ServerPage} key=${path} entry=${entry} onChanged=${onChanged} />`;
  return path.endsWith("/") ? html`<${Folder} key=${path} path=${path} />` : html`<${File} key=${path} path=${path} />`;
}

function Folder({ path }) {
  const load = useLoad((signal) => get("ls", { path }, signal), [path]);
  return html`<h2><${Text} text=${path} length=${100} /></h2>
    <${Loaded} load=${load} what="the folder">${(data) => html`<${Leaves} entries=${data.entries} path=${path} />`}
      <//>`;
}

function ServerPage({ entry, onChanged }) {
  const found = entry.findings ?? {};
  return html`<h2><${Text} text=${entry.name} length=${60} /></h2>
    <dl class="facts">
      <div><dt>state</dt><dd><${Badge} state=${entry.state} /> ${entry.detail !== entry.state && html`<bdi>
        ${short(entry.detail, 300)}</bdi>`}</dd></div>
      <div><dt>tools</dt><dd>${count(entry.tools)}${entry.hidden > 0 && html` <span class="dim">
        ${count(entry.hidden)} hidden</span>`}</dd></div>
      <div><dt>resources</dt><dd>${count(entry.resources)}</dd></div><div><dt>prompts</dt><dd>
        ${count(entry.prompts)}</dd></div>
      ${entry.protocol && html`<div><dt>protocol</dt><dd><${Text} text=${entry.protocol} length=${20} /></dd></div>`}
      <div><dt>findings</dt><dd>
        ${things(found.error ?? 0, "error")}, ${things(found.warning ?? 0, "warning")}, ${things(found.note ?? 0, "note")}</dd></div>
    </dl>
    <${Server} entry=${entry} onChanged=${onChanged} />
    <p><a href=${`#/runs?server=${encodeURIComponent(entry.path.split("/")[1])}`}>Runs that called it</a></p>
    ${entry.description && html`<h3>Instructions</h3><${Long} value=${entry.description}
      label="Instructions of the server" class="prose" />`}`;
}

const ACTS = {
  enable: ["Enable", "Enable this server?", "Its program is started, or its address reached, and agents can call its tools."],
  disable: ["Disable", "Disable this server?", "It is ended, and agents do not see its tools until it is enabled."],
  restart: ["Restart", "Restart this server?", "It is started or reached anew. Calls that are under way may still take effect."],
};
// A server that was started is ready a while later.
const LATER_MS = [500, 2000, 6000];

// What is done with a server, and what it said. Those of the configuration can be switched.
function Server({ entry, onChanged }) {
  const name = entry.path.split("/")[1];
  const load = useLoad((signal) => get("server", { server: name }, signal), [name, entry.state]);
  const [asks, setAsks] = useState(null);
  const action = useAction();
  const answer = async (yes) => {
    setAsks(null);
    if (!yes) return;
    const told = await action.run(() => post("server", { server: load.data.server, act: asks, seen: load.data.digest }));
    announce(told ? "The server is changed." : "The server is as it was.");
    load.reload();
    onChanged();
    for (const ms of LATER_MS) setTimeout(onChanged, ms);
  };
  return html`<${Loaded} load=${load} what="the server">${({ enabled, held, log, starts }) => html`
    ${enabled !== null && html`<div class="buttons">${(enabled ? ["restart", "disable"] : ["enable"]).map((act) => html`<${Act}
      key=${act} busy=${action.busy} onClick=${() => setAsks(act)}>${ACTS[act][0]}<//>`)}</div>`}
    <${Problem} error=${action.error} />
    ${held > 0 && html`<p><a href="#/catalog/drift">${things(held, "difference")} held back: review and accept</a></p>`}
    ${log && html`<details class="fold"><summary>Log of the server</summary><${Long} value=${log} label="Log of the server" />
      <p class="more"><button type="button" class="small" onClick=${load.reload}>Refresh</button></p></details>`}
    ${asks && html`<${Confirm} title=${ACTS[asks][1]} act=${ACTS[asks][0]} danger=${asks !== "enable"} onClose=${answer}>
      <p><b><${Text} text=${entry.name} length=${60} /></b>: ${ACTS[asks][2]}</p>
      ${starts && asks !== "disable" && html`<${Long} value=${starts} label="What is started or reached" />`}
      ${asks !== "restart" && html`<p>It is written into the configuration file. Other gateways of it take it up at
        <code>forgefs reload</code>.</p>`}<//>`}`}<//>`;
}

function File({ path }) {
  const load = useLoad((signal) => get("cat", { path }, signal), [path]);
  return html`<h2><${Text} text=${path} length=${100} /></h2>
    <${Loaded} load=${load} what="the file">${(data) => data.files.length
      ? data.files.slice(0, 20).map((file) => html`<${Long} key=${file.path} value=${file.text}
        label=${`Text of ${short(file.path, 80)}`} />`)
      : html`<${Empty}><p>Nothing is at this path.</p><p>Choose another in the tree.</p><//>`}<//>`;
}
