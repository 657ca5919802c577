// One run: its script, its calls, what was refused and why, and what can be done with it.

import { useEffect, useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Badge, Capped, Copy, Empty, Field, html, Labels, Loaded, Long, Problem, Resume, Table, Text, useAction, useLoad } from "./ui.js";
import { Code } from "./code.js";
import { Flow, Timeline, toneOf } from "./timeline.js";
import { bytes, count, duration, isoTime, moment, money, short, things } from "./text.js";

export function Run({ id }) {
  const load = useLoad((signal) => get(`runs/${encodeURIComponent(id)}`, {}, signal), [id]);
  const running = load.data?.outcome === "running";
  useEffect(() => {
    if (!running) return;
    const timer = setTimeout(load.reload, 2000);
    return () => clearTimeout(timer);
  }, [running, load.data]);
  return html`<p class="crumbs"><a href="#/runs">Runs</a> <span aria-hidden="true">/</span> <${Text} text=${id}
    length=${48} /></p>
    ${!load.data && html`<h1 tabindex="-1">Run</h1>`}
    <${Loaded} load=${load} what="the run">${(run) => html`<${Whole} run=${run} />`}<//>`;
}

function Whole({ run }) {
  const refused = run.operations.filter((op) => op.refused);
  const [picked, setPicked] = useState(null);
  return html`
    <div class="title"><h1 tabindex="-1"><${Text} text=${run.title || run.request || "Run"} length=${120} /></h1>
      <${Badge} state=${run.outcome} />${run.dry_run && html`<${Badge} state="dry run" tone="calm" />`}</div>
    <${Facts} run=${run} />
    <${Doing} run=${run} />
    <${Chain} run=${run} />
    <div class=${run.explained && refused.length ? "halves" : ""}>
      ${run.explained && html`<section aria-labelledby="why-title">
        <h2 id="why-title">Why it ended, as the agent read it</h2>
        <${Long} value=${run.explained} label="The error as the agent read it" class="wrong" /></section>`}
      ${refused.length > 0 && html`<section aria-labelledby="refused-title"><h2 id="refused-title">Refused calls</h2>
        <${Capped} items=${refused} step=${20} noun="refused calls">${(some) => some.map((op) => html`<${Refusal}
          key=${op.op} op=${op} />`)}<//></section>`}
    </div>
    <div class="halves">
      <div>
        <section aria-labelledby="script-title"><h2 id="script-title">Script</h2>
          ${run.script !== null && run.script !== undefined
            ? html`<${Code} code=${run.script} language=${run.language} marks=${run.marks} label="Script" />`
            : html`<${Empty}><p>${noScript(run)}</p><//>`}</section>
        ${run.value !== null && run.value !== undefined && html`<section aria-labelledby="value-title">
          <h2 id="value-title">Value</h2><${Long} value=${run.value} label="Value of the script" /></section>`}
        ${run.output && html`<section aria-labelledby="output-title"><h2 id="output-title">Output</h2>
          <${Long} value=${run.output} label="Output of the script" /></section>`}
        <${Read} run=${run} />
      </div>
      <div>
        <section aria-labelledby="time-title"><h2 id="time-title">Timeline</h2><${Timeline} operations=${run.operations}
          onPick=${(op) => setPicked({ op: op.op })} /></section>
        <section aria-labelledby="calls-title"><h2 id="calls-title">Calls</h2><${Operations} run=${run}
          picked=${picked} /></section>
        <section aria-labelledby="flow-title"><h2 id="flow-title">Where data may have gone</h2><${Flow} run=${run} /></section>
        <${Tokens} tokens=${run.tokens} />
      </div>
    </div>`;
}

function noScript(run) {
  if (run.kind !== "script") return "This run is one request, without a script.";
  return run.journal === "off" ? "The script is not kept: [journal] is off in forge.toml." : "The script is not kept any more.";
}

function Facts({ run }) {
  const link = (id) => html`<a href=${`#/runs/${encodeURIComponent(id)}`}><${Text} text=${id} length=${20} /></a>`;
  const facts = [
    ["began", html`<time dateTime=${isoTime(run.at_ms)}>${moment(run.at_ms)}</time>`],
    ["took", duration(run.ms)],
    ["calls", html`${count(run.calls)}${run.refused > 0 && html` <span class="bad">
      ${count(run.refused)} refused</span>`}`],
    ["cost", money(run.cost)],
    ["client", html`<${Text} text=${run.client_name || run.client} length=${40} />${run.client_name
      && html` <span class="dim"><${Text} text=${run.client} length=${40} /></span>`}`],
    ["holds data of", html`<${Labels} labels=${run.labels} />`],
    run.language && ["language", short(run.language, 20)],
    run.continues && ["continues", link(run.continues)],
    run.resumed_by && ["continued by", link(run.resumed_by)],
  ];
  const more = [
    run.profile && ["profile", html`<${Text} text=${run.profile} length=${40} />`],
    run.session && ["session", html`<${Text} text=${run.session} length=${40} />`],
    run.engine && ["engine", html`<${Text} text=${run.engine} length=${40} />`],
    run.warm !== null && run.warm !== undefined && ["worker", run.warm ? "warm" : "new"],
    run.confined?.length > 0 && ["layers of the sandbox", html`<${Labels} labels=${run.confined} />`],
    run.unconfined?.length > 0 && ["layers that were off", html`<${Labels} labels=${run.unconfined} />`],
    run.trace && ["trace", html`<${Text} text=${run.trace} length=${40} />`],
  ];
  const listed = (some) => html`<dl class="facts">${some.filter(Boolean).map(([name, value]) => html`<div><dt>
    ${name}</dt><dd>${value}</dd></div>`)}</dl>`;
  return html`${listed(facts)}${more.some(Boolean) && html`<details class="aside"><summary>More</summary>
    ${listed(more)}</details>`}`;
}

// The runs that resumed each other, as one history.
function Chain({ run }) {
  if (!run.chain?.length) return null;
  const cols = [
    { name: "Run", cell: (one) => (one.id === run.id ? html`<b><${Text} text=${one.id} length=${20} /></b> <span
      class="dim">this one</span>` : html`<a href=${`#/runs/${encodeURIComponent(one.id)}`}><${Text} text=${one.id}
      length=${20} /></a>`) },
    { name: "When", class: "when", cell: (one) => moment(one.at_ms) },
    { name: "Outcome", cell: (one) => (one.outcome ? html`<${Badge} state=${one.outcome} />` : "–") },
    { name: "Replayed", class: "num", cell: (one) => (one.outcome ? count(one.replayed) : "–") },
    { name: "Made", class: "num", cell: (one) => (one.outcome ? count(Math.max(0, one.calls - one.replayed - one.refused)) : "–") },
    { name: "Refused", class: "num", cell: (one) => (one.outcome ? count(one.refused) : "–") },
  ];
  return html`<section aria-labelledby="chain-title"><h2 id="chain-title">History of the resumed run</h2>
    <div class="card flush"><${Table} caption="Runs of the chain, oldest first" cols=${cols} rows=${run.chain}
      keyOf=${(one) => one.id} /></div>
    <p class="note">Replayed calls were answered from the journals of earlier runs: they were not made again.</p></section>`;
}

function Doing({ run }) {
  const replay = useAction();
  const save = useAction();
  const [name, setName] = useState(null);
  const base = `runs/${encodeURIComponent(run.id)}`;
  const submit = async (event) => {
    event.preventDefault();
    if (name.trim() && (await save.run(() => post(`${base}/save`, { name: name.trim() })))) {
      setName(null);
      announce("The script is saved.");
    }
  };
  const again = async () => {
    const told = await replay.run(() => post(`${base}/replay`, {}));
    if (told) announce(told.same ? "The replay went the same way." : "The replay differs.");
  };
  if (!run.can_replay && !run.can_save && !run.resume && !run.resume_cli) return null;
  return html`<div class="buttons">
      ${run.can_replay && html`<${Act} busy=${replay.busy} onClick=${again}>${replay.busy ? "Replaying…" : "Replay"}
        <//>`}
      ${run.can_save && html`<${Act} onClick=${() => setName(name === null ? "" : null)}>Save as script<//>`}
      ${run.can_resume && html`<${Resume} run=${run.id} onDone=${(told) => (location.hash = `#/runs/${encodeURIComponent(told.run)}`)} />`}
      ${run.resume && html`<${Copy} text=${run.resume}>Copy resume line<//>`}
      ${run.resume_cli && html`<${Copy} text=${run.resume_cli}>Copy resume command<//>`}
    </div>
    ${name !== null && html`<form class="inline" onSubmit=${submit}><${Field} label="Name of the script" id="save-name">
      <input id="save-name" value=${name} autocomplete="off"
      onInput=${(event) => setName(event.target.value)} /><//><${Act} type="submit" class="primary"
        busy=${save.busy}>Save<//></form>`}
    <${Problem} error=${save.error} /><${Problem} error=${replay.error} />
    ${save.done && html`<div class="told"><p>Saved as <code><${Text} text=${save.done.file} length=${200} />
      </code>. ${short(save.done.note, 400)}</p><${Code} code=${save.done.code} language=${run.language}
        label="Saved script" /></div>`}
    ${replay.done && html`<div class="told ${replay.done.same ? "good" : "warn"}"><p><strong>
      ${replay.done.same ? "The replay went the same way." : "The replay differs."}
        </strong> ${short(replay.done.summary, 400)}</p>
      ${replay.done.parted && html`<${Long} value=${replay.done.parted} label="Where the replay parted" />`}
      ${replay.done.error && html`<${Long} value=${replay.done.error} label="Error of the replay" class="wrong" />`}
      ${replay.done.value !== null && html`<${Long} value=${replay.done.value} label="Value of the replay" />`}
      ${replay.done.output && html`<${Long} value=${replay.done.output} label="Output of the replay" />`}</div>`}`;
}

const Refusal = ({ op }) => html`<div class="card refusal">
  <p><span class="nr">${count(op.op)}</span> <b><${Text} text=${op.label} length=${80} />
    </b> ${op.error && html`<${Badge} state=${op.error.code} />`}</p>
  ${op.verdict && html`<p><span class="dim">rule</span> <bdi>${short(op.verdict, 600)}</bdi></p>`}
  ${op.error && op.error.message !== op.verdict && html`<p class="dim"><bdi>${short(op.error.message, 600)}</bdi></p>`}
  ${op.labels?.length > 0 && html`<p><span class="dim">held data of</span> <${Labels} labels=${op.labels} /></p>`}
  ${op.approval && html`<p><a href="#/approvals">Approval <${Text} text=${op.approval} length=${24} /></a></p>`}
</div>`;

function Operations({ run, picked }) {
  const [pinned, setPinned] = useState(null);
  useEffect(() => {
    if (!picked) return;
    setPinned(picked.op);
    requestAnimationFrame(() => document.getElementById(`op-${picked.op}`)?.scrollIntoView({ block: "center" }));
  }, [picked]);
  if (!run.operations.length) return html`<p
    class="dim">It made no calls${run.journal === "gone" ? " that are still kept" : ""}.</p>`;
  return html`<${Capped} items=${run.operations} step=${100} noun="calls">${(some) => html`<div class="ops">
    ${some.map((op) =>
    html`<${Operation} key=${op.op} op=${op} pinned=${pinned === op.op && picked} />`)}</div>`}<//>`;
}

function Operation({ op, pinned }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (pinned) setOpen(true);
  }, [pinned]);
  return html`<details id=${`op-${op.op}`} class="op ${toneOf(op)}" open=${open}
    onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><span class="nr">${count(op.op)}</span><span class="what"><b><${Text} text=${op.label} length=${60} /></b>
      ${op.nested && html` <span class="dim">in <${Text} text=${op.from ?? "a script"} length=${40} /></span>`}
      ${op.inherited && html` <span class="dim">replayed: answered by an earlier run</span>`}</span>
      <span class="ms">${duration(op.ms)}</span>
        <${Badge} state=${op.refused ? "refused" : op.unknown ? "unknown" : op.error ? op.error.code : op.outcome}
          tone=${op.outcome === "ok" && !op.refused ? "good" : undefined} /></summary>
    ${open && html`<div class="within">
      ${op.verdict && html`<p><span class="dim">verdict</span> <bdi>${short(op.verdict, 600)}</bdi></p>`}
      ${op.unknown && html`<p>The call was sent and its answer is not known: it may have taken effect.</p>`}
      <h3>Arguments</h3>${op.args !== null && op.args !== undefined ? html`<${Long} value=${op.args} label="Arguments"
        limit=${1500} />`
        : op.args_text ? html`<${Long} value=${op.args_text} label="Arguments" limit=${1500} />` : html`<p
          class="dim">not kept</p>`}
      <h3>Answer</h3>${op.error ? html`<${Long} value=${op.error.message} label="Error" class="wrong" />`
        : op.answer !== null && op.answer !== undefined ? html`<${Long} value=${op.answer} label="Answer"
          limit=${1500} />` : html`<p class="dim">not kept</p>`}
      ${op.left_out_bytes > 0 && html`<p class="note">${bytes(op.left_out_bytes)} of the answer are not kept.</p>`}
      <dl class="facts">${op.at_ms && html`<div><dt>began</dt><dd>${moment(op.at_ms)}</dd></div>`}<div><dt>cost</dt><dd>
        ${money(op.cost)}</dd></div>
        <div><dt>held data of</dt><dd><${Labels} labels=${op.labels} /></dd></div>
        ${op.inherited && html`<div><dt>taken from</dt><dd><a href=${`#/runs/${encodeURIComponent(op.inherited.run)}`}>
          <${Text} text=${op.inherited.run} length=${20} /></a>, call ${count(op.inherited.op)}</dd></div>`}
        ${op.approval && html`<div><dt>approval</dt><dd><a href="#/approvals"><${Text} text=${op.approval}
          length=${24} /></a></dd></div>`}</dl>
    </div>`}
  </details>`;
}

function Read({ run }) {
  if (!run.read?.length && !run.read_missing) return null;
  return html`<section aria-labelledby="read-title"><h2 id="read-title">What the agent had read before</h2>
    <${Capped} items=${run.read ?? []} step=${40} noun="files">${(some) => html`<div class="ops">
      ${some.map((file) => html`<${ReadFile} key=${file.path} run=${run.id} file=${file} />`)}</div>`}<//>
    ${run.read_missing > 0 && html`<p class="note">
      ${things(run.read_missing, "file")} more, whose text is not kept any more.</p>`}</section>`;
}

function ReadFile({ run, file }) {
  const [open, setOpen] = useState(false);
  return html`<details class="op" onToggle=${(event) => setOpen(event.currentTarget.open)}><summary><span class="what">
    <${Text} text=${file.path} length=${90} /></span></summary>
    ${open && html`<${ReadText} run=${run} path=${file.path} />`}</details>`;
}

function ReadText({ run, path }) {
  const load = useLoad((signal) => get(`runs/${encodeURIComponent(run)}/read`, { path }, signal), [run, path]);
  return html`<${Loaded} load=${load} what="the text">${(file) => html`<${Long} value=${file.text}
    label=${`Text of ${short(path, 80)}`} />`}<//>`;
}

// What the agent would have carried in each turn with a plain list of tools, as they were then.
function Tokens({ tokens }) {
  if (!tokens?.plain_list) return null;
  const rows = [["plain tool list", tokens.plain_list], ["the four tools", tokens.four_tools]].filter(([, value]) => value > 0);
  const most = Math.max(...rows.map(([, value]) => value));
  const saved = rows.length > 1 ? Math.round((1 - tokens.four_tools / tokens.plain_list) * 100) : 0;
  return html`<section aria-labelledby="tokens-title"><h2 id="tokens-title">Tokens of tool definitions, at this run</h2>
    <div class="meters tall">${rows.map(([name, value]) => html`<div class="meter"><span>${name}</span>
      <span class="bar" aria-hidden="true"><span style=${{ width: `${(value / most) * 100}%` }}></span></span>
      <span class="amount">${count(value)}</span></div>`)}</div>
    <p class="note">${saved > 0 ? `${saved} % less in each turn of the agent.` : "An agent with a plain list carries them in each turn."}</p></section>`;
}
