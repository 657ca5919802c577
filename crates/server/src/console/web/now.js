// What runs now: scripts with their calls, servers, workers.

import { useEffect, useState } from "./vendor/hooks.js";
import { post } from "./api.js";
import { Act, announce, Badge, Capped, Confirm, Empty, html, Labels, Loading, Long, Problem, Table, Text, useAction } from "./ui.js";
import { count, duration, money, short, things } from "./text.js";

export function Now({ live }) {
  const { state, offset } = live;
  const [, tick] = useState(0);
  const running = state && state.runs.length + state.elsewhere.length > 0;
  // The clocks of running scripts go on between two snapshots.
  useEffect(() => {
    if (!running || live.link !== "live") return;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [running, live.link]);
  if (!state) {
    return html`<div class="title"><h1 tabindex="-1">Now</h1></div>
      ${live.link === "lost" ? html`<${Problem}
        error=${{ message: "The gateway does not answer.", hint: "Check that it still runs. The console tries again by itself." }} />`
        : html`<${Loading} what="what runs now" />`}`;
  }
  const now = live.link === "live" ? Date.now() + offset : state.at_ms;
  return html`<div class="title"><h1 tabindex="-1">Now</h1></div>
    <${Totals} state=${state} />
    <div class="halves now ${live.link === "live" ? "" : "stale"}">
      <section aria-labelledby="running-title">
        <h2 id="running-title">Running scripts</h2>
        ${state.runs.map((run) => html`<${Running} key=${run.id} run=${run} now=${now} />`)}
        ${state.elsewhere.map((run) => html`<${Elsewhere} key=${run.id} run=${run} now=${now} />`)}
        ${!state.runs.length && !state.elsewhere.length && html`<${Empty}><p>No script runs.</p><p>A script of any gateway of yours appears here with its calls.
              You can also <a href="#/catalog/script">run one yourself</a>.</p><//>`}
        ${state.runs_left_out > 0 && html`<p class="note">
          ${things(state.runs_left_out, "more script")} running, not shown here.</p>`}
      </section>
      <section aria-labelledby="servers-title">
        <h2 id="servers-title">Servers of this gateway</h2>
        <${Servers} servers=${state.servers} />
      </section>
    </div>`;
}

function Totals({ state }) {
  const { workers, today } = state;
  const items = [
    ["running", count(state.runs.length + state.runs_left_out + state.elsewhere.length)],
    ["workers busy", html`${count(workers.busy)}<small> of ${count(workers.max)}</small>`],
    ["queued", html`${count(workers.queued)}<small> of ${count(workers.queue_max)}</small>`],
    ["approvals waiting", state.approvals ? html`<a href="#/approvals">${count(state.approvals)}</a>` : "0"],
    ["sessions open", count(state.clients)],
    ["spent today", html`${money(today.spent)}${today.limit && html`<small> of ${money(today.limit)}</small>`}`],
  ];
  return html`<dl class="totals">${items.map(([name, value]) => html`<div><dt>${name}</dt><dd>
    ${value}</dd></div>`)}</dl>`;
}

// A script of another gateway, of which the journal and the audit log tell.
function Elsewhere({ run, now }) {
  const name = run.client_name || run.client;
  return html`<article class="card running" aria-label=${`Script of ${short(name, 40)} in another gateway`}>
    <div class="head">
      <h3><a href=${`#/runs/${encodeURIComponent(run.id)}`}><${Text} text=${name} length=${40} /></a></h3>
      <span class="dim">${short(run.language, 20)} · ${duration(Math.max(0, now - run.began_ms))}</span>
    </div>
    ${run.title && html`<p><${Text} text=${run.title} length=${160} /></p>`}
    ${run.calls !== null && html`<p class="dim">${things(run.calls, "call")}${run.last && html`, last <b>
      <${Text} text=${run.last} length=${60} /></b>`}</p>`}
    <p class="note">In ${run.pid ? `gateway ${run.pid}` : "another gateway"}${run.config && html` of <${Text} text=${run.config}
      length=${120} />`}; it can be stopped there.</p>
  </article>`;
}

function Running({ run, now }) {
  const [asks, setAsks] = useState(false);
  const stop = useAction();
  const ran = Math.max(0, now - run.began_ms);
  const name = run.client_name || run.client;
  const end = async (yes) => {
    setAsks(false);
    if (yes && (await stop.run(() => post(`live/${encodeURIComponent(run.id)}/stop`, {})))) announce("The script is told to stop.");
  };
  return html`<article class="card running" aria-label=${`Script of ${short(name, 40)}`}>
    <div class="head">
      <h3><a href=${`#/runs/${encodeURIComponent(run.id)}`}><${Text} text=${name} length=${40} /></a></h3>
      <span class="dim">
        ${short(run.language, 20)}${run.dry_run ? " · dry run" : ""}${run.background ? " · background" : ""}</span>
      <${Act} class="small danger" busy=${stop.busy || stop.done} label=${`Stop the script of ${short(name, 40)}`}
        onClick=${() => setAsks(true)}>
        ${stop.done ? "Stopping…" : "Stop"}<//>
    </div>
    <${Problem} error=${stop.error} />
    ${run.title && html`<p><${Text} text=${run.title} length=${160} /></p>`}
    <div class="meters">
      <${Meter} name="time" value=${ran} max=${run.wall_ms} text=${`${duration(ran)} of ${duration(run.wall_ms)}`} />
      <${Meter} name="calls" value=${run.calls} max=${run.max_calls}
        text=${`${count(run.calls)} of ${count(run.max_calls)}`} />
    </div>
    ${run.progress && html`<p class="progress"><${Text} text=${run.progress} length=${200} /></p>`}
    ${run.labels.length > 0 && html`<p class="dim">has read from <${Labels} labels=${run.labels} /></p>`}
    ${run.recent.length ? html`<${Capped} items=${run.recent} step=${8} noun="calls">${(some) =>
      html`<ol class="calls" aria-label="Newest calls">${some.map((call) => html`<${Call} key=${call.call} call=${call}
        now=${now} />`)}</ol>`}<//>`
      : html`<p class="dim">No calls yet.</p>`}
    <details><summary>Code</summary><${Long} value=${run.code} label="Code of the script" limit=${2000} /></details>
    ${asks && html`<${Confirm} title="Stop this script?" act="Stop it" danger onClose=${end}>
      <p>The script of <${Text} text=${name}
        length=${60} /> ends now, after ${things(run.calls, "call")}. Calls that are under way may still take effect at their servers.</p><//>`}
  </article>`;
}

function Meter({ name, value, max, text }) {
  const part = max > 0 ? Math.min(100, (value / max) * 100) : 0;
  return html`<div class="meter"><span>${name}</span>
    <span class="bar" aria-hidden="true"><span class=${part > 85 ? "high" : ""} style=${{ width: `${part}%` }}></span>
      </span>
    <span class="amount">${text}</span></div>`;
}

function Call({ call, now }) {
  const ms = call.ms ?? Math.max(0, now - call.began_ms);
  const wrong = !["running", "ok", "planned"].includes(call.outcome);
  return html`<li class=${wrong ? "wrong" : ""}>
    <span class="nr">${count(call.call)}</span>
    <span class="what"><b><${Text} text=${`${call.server}.${call.tool}`} length=${60} /></b>${" "}<span class="dim">
      <${Text} text=${call.args} length=${120} /></span>
      ${(call.error || wrong) && html`<span class="why"><${Text} text=${call.error || call.verdict} length=${240} />
        </span>`}</span>
    <span class="ms">${duration(ms)}</span>
    <${Badge} state=${call.outcome} title=${short(call.verdict, 200)} />
  </li>`;
}

function Servers({ servers }) {
  if (!servers.length) {
    return html`<${Empty}><p>No servers are configured.</p><p><code>forgefs add NAME -- COMMAND</code> adds one.</p>
      <//>`;
  }
  const cols = [
    { name: "Server", cell: (s) => html`<a href=${`#/catalog?path=${encodeURIComponent(`/${s.ident}/`)}`}>
      <${Text} text=${s.name} length=${28} /></a><span class="sub dim">
        ${things(s.tools, "tool")}${s.instances > 1 ? ` · ${things(s.instances, "instance")}` : ""}</span>
        ${s.state !== "ready" && s.detail && html`<span class="why"><${Text} text=${s.detail} length=${90} />
          </span>`}` },
    { name: "State", cell: (s) => html`<${Badge} state=${s.state} />` },
    { name: "Breaker", cell: (s) => (s.breaker ? html`<${Badge} state=${s.breaker}
      tone=${s.breaker === "closed" ? "calm" : undefined} />` : "–") },
    { name: "In flight", class: "num", cell: (s) => count(s.in_flight) },
    { name: "Calls", class: "num", cell: (s) => html`${count(s.calls)}${s.failed > 0 && html`<span class="bad sub">
      ${count(s.failed)} failed</span>`}` },
    { name: "p50", class: "num", cell: (s) => duration(s.p50_ms) },
    { name: "p95", class: "num", cell: (s) => duration(s.p95_ms) },
  ];
  return html`<div class="card flush"><${Table} caption="Servers" cols=${cols} rows=${servers}
    keyOf=${(s) => s.ident} /></div>`;
}
