// The list of recorded runs, with filters that stand in the address.

import { useEffect, useState } from "./vendor/hooks.js";
import { get } from "./api.js";
import { Badge, Empty, Field, html, isNarrow, Labels, Loading, Problem, Select, Table, Text, useAction, useLoad } from "./ui.js";
import { count, duration, isoTime, moment, money, short, things } from "./text.js";

const FILTERS = ["client", "outcome", "server", "tool", "label", "text", "from_ms", "to_ms"];

export function Runs({ route, about }) {
  const filter = Object.fromEntries(FILTERS.map((name) => [name, route.query[name] ?? ""]));
  const key = JSON.stringify(filter);
  // A row is a block of several lines there.
  const limit = isNarrow() ? 20 : 100;
  const load = useLoad((signal) => get("runs", { ...filter, limit }, signal), [key]);
  const [more, setMore] = useState({ key, runs: [], next: undefined });
  const further = useAction();
  // Pages that were added belong to the first page they followed.
  useEffect(() => setMore({ key, runs: [], next: undefined }), [key, load.data]);
  const data = load.data;
  const runs = [...(data?.runs ?? []), ...(more.key === key ? more.runs : [])];
  const next = more.next === undefined ? data?.next : more.next;
  const add = () => further.run(async () => {
    const page = await get("runs", { ...filter, limit, cursor: next });
    setMore((old) => ({ key, runs: [...old.runs, ...page.runs], next: page.next }));
  });
  const active = FILTERS.some((name) => filter[name]);
  return html`<div class="title"><h1 tabindex="-1">Runs</h1>
      ${data && html`<p class="dim" role="status">
        ${active ? `${count(data.matched)} of ${things(data.indexed, "run")}` : things(data.indexed, "run")}</p>`}
      <button type="button" class="small" onClick=${load.reload}>Refresh</button></div>
    <${Filter} address=${key} filter=${filter} facets=${data?.facets} active=${active} />
    ${data?.note && html`<p class="note">${short(data.note, 400)}</p>`}
    ${load.error ? html`<${Problem} error=${load.error} retry=${load.reload} />`
      : !data ? html`<${Loading} what="runs" />`
      : !runs.length ? html`<${None} active=${active} about=${about} />`
      : html`<div class="card flush ${load.loading ? "stale" : ""}"><${List} runs=${runs} /></div>`}
    <${Problem} error=${further.error} retry=${add} />
    ${next && runs.length > 0 && html`<p class="more"><button type="button" disabled=${further.busy} onClick=${add}>
      ${further.busy ? "Loading…" : `Show ${count(Math.min(limit, Math.max(1, data.matched - runs.length)))} more of ${count(data.matched - runs.length)}`}</button></p>`}`;
}

function Filter({ address, filter, facets, active }) {
  const [draft, setDraft] = useState(filter);
  useEffect(() => setDraft(filter), [address]);
  const apply = (next) => {
    const words = new URLSearchParams(Object.entries(next).filter(([, value]) => value !== "")).toString();
    location.hash = words ? `#/runs?${words}` : "#/runs";
  };
  const set = (name) => (value) => setDraft({ ...draft, [name]: value });
  const choose = (name) => (value) => (setDraft({ ...draft, [name]: value }), apply({ ...draft, [name]: value }));
  const options = (values, name, all, before = []) => {
    const known = (values ?? []).filter((value) => !before.some(([key]) => key === value));
    const extra = filter[name] && !known.includes(filter[name]) && !before.some(([key]) => key === filter[name]) ? [filter[name]] : [];
    return [["", all], ...before, ...extra, ...known];
  };
  const submit = (event) => (event.preventDefault(), apply(draft));
  const input = (name, label) => html`<${Field} label=${label} id=${`f-${name}`}><input id=${`f-${name}`} type="search"
    value=${draft[name]}
    onInput=${(event) => set(name)(event.target.value)} /><//>`;
  // Days of this machine; the last one is in it whole.
  const date = (name, label, days) => html`<${Field} label=${label} id=${`f-${name}`}><input id=${`f-${name}`} type="date"
    value=${dayOf(draft[name] && draft[name] - days)} onChange=${(event) => {
      const [year, month, day] = event.target.value.split("-").map(Number);
      // A year that is being typed.
      if (year < 1970) return;
      const at = event.target.value ? String(new Date(year, month - 1, day + days).getTime() - days) : "";
      choose(name)(at);
    }} /><//>`;
  const select = (name, label, values, before) => html`<${Field} label=${label} id=${`f-${name}`}>
    <${Select} id=${`f-${name}`} value=${draft[name]}
    options=${options(values, name, "any", before)} onChange=${choose(name)} /><//>`;
  return html`<form class="filters" role="search" aria-label="Filter runs" onSubmit=${submit}>
    ${select("client", "Client", facets?.clients)}
    ${select("outcome", "Outcome", facets?.outcomes, [["ok", "ok"], ["failed", "failed"], ["refused", "a call was refused"]])}
    ${select("server", "Server", facets?.servers)}
    ${input("tool", "Tool")}
    ${select("label", "Label", facets?.labels)}
    ${input("text", "Text of the code")}
    ${date("from_ms", "From", 0)}
    ${date("to_ms", "To", 1)}
    <div class="buttons"><button type="submit" class="primary">Filter</button>
      ${active && html`<button type="button" onClick=${() => (location.hash = "#/runs")}>Clear</button>`}</div>
  </form>`;
}

// The day of a time, as a field for dates has it.
const dayOf = (ms) => (Number(ms) ? new Date(Number(ms)).toLocaleDateString("en-CA") : "");

function None({ active, about }) {
  if (active) return html`<${Empty}><p>No run matches.</p><p>Clear a filter, or look for other words.</p><//>`;
  if (about && !about.journal) {
    return html`<${Empty}><p>No runs are kept.</p>
      <p>Set <code>[journal]</code> in forge.toml to record what scripts do.</p><//>`;
  }
  return html`<${Empty}><p>No runs yet.</p><p>Connect a client with <code>forgefs connect</code>, or <a
    href="#/catalog/script">run a script here</a>.</p><//>`;
}

// The end of a path of a configuration, which tells those of a list apart.
const nearEnd = (path) => path.split(/[\\/]/).slice(-2).join("/");

function List({ runs }) {
  const mixed = new Set(runs.map((run) => run.config).filter(Boolean)).size > 1;
  const cols = [
    { name: "When", class: "when", cell: (run) => html`<time dateTime=${isoTime(run.at_ms)}>
      ${moment(run.at_ms)}</time>` },
    { name: "Client", class: "client", cell: (run) => html`<${Text} text=${run.client_name || run.client}
      length=${24} />${mixed && run.config && html`<span class="sub dim" title=${short(run.config, 300)}><${Text}
      text=${nearEnd(run.config)} length=${40} /></span>`}` },
    { name: "Run", class: "text", cell: (run) => html`<a class="code-line"
      href=${`#/runs/${encodeURIComponent(run.id)}`}>
        <${Text} text=${run.title || run.id} length=${160} /></a>${run.code && run.code !== run.title && html`<span
          class="code-of mono"><${Text} text=${run.code} length=${160} /></span>`}${run.dry_run && html`<${Badge}
          state="dry run" tone="calm" />`}
        ${run.error && html`<span class="why"><${Text} text=${run.error} length=${140} /></span>`}` },
    { name: "Outcome", class: "outcome", cell: (run) => html`<${Badge} state=${run.outcome} />` },
    { name: "Calls", class: "num", cell: (run) => html`${count(run.calls)}${run.refused > 0 && html`<span
      class="bad sub">${count(run.refused)} refused</span>`}` },
    { name: "Time", class: "num", cell: (run) => (run.ms === null ? "" : duration(run.ms)) },
    { name: "Cost", class: "num", cell: (run) => (Number(run.cost) ? money(run.cost) : "") },
    { name: "Labels", class: "held", cell: (run) => html`<${Labels} labels=${run.labels} none="" />` },
  ];
  return html`<${Table} class="fixed" caption="Runs, newest first" cols=${cols} rows=${runs}
    keyOf=${(run) => run.id} />`;
}
