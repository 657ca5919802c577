// The inbox of calls that wait for an approval, and what was decided.

import { useEffect, useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Badge, Capped, Copy, Empty, Field, html, Labels, Loaded, Long, Problem, Resume, Table, Text, useAction, useLoad } from "./ui.js";
import { count, moment, own, relative, short, things } from "./text.js";

const REFRESH_MS = 10000;

export function Approvals({ live }) {
  const waiting = live.state?.approvals ?? 0;
  const load = useLoad((signal) => get("approvals", {}, signal), [waiting]);
  const [allowed, setAllowed] = useState(null);
  // The count alone does not tell that one was decided elsewhere and another came.
  useEffect(() => {
    const timer = setInterval(load.reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="title"><h1 tabindex="-1">Approvals</h1>
      ${load.data && html`<p class="dim" role="status">${things(load.data.waiting.length, "call")} waiting</p>`}
      <button type="button" class="small" onClick=${load.reload}>Refresh</button></div>
    ${allowed && html`<${Next} key=${allowed.id} approval=${allowed} />`}
    <${Loaded} load=${load} what="approvals">${(data) => html`
      <section aria-labelledby="waiting-title"><h2 id="waiting-title" class="hidden">Waiting</h2>
        ${data.waiting.length ? data.waiting.map((one) => html`<${Waiting} key=${one.id} approval=${one}
          offset=${live.offset}
          onDecided=${(told) => (setAllowed(told.decision?.allowed && told.run ? told : null), load.reload())} />`)
          : html`<${Nothing} waits=${data.waits} />`}
      </section>
      <section aria-labelledby="decided-title"><h2 id="decided-title">Decided</h2>
        ${data.decided.length ? html`<div class="card flush"><${Decided} decided=${data.decided} /></div>` : html`<p
          class="dim">Nothing yet.</p>`}
      </section>`}<//>`;
}

const Nothing = ({ waits }) => html`<${Empty}><p>No call waits.</p>
  ${waits ? html`<p>A call that a rule asks about waits here until you allow or deny it.</p>`
    : html`<p>Calls do not wait for approvals here: set <code>wait</code> in <code>[approvals]</code> of forge.toml to decide them in this view.</p>`}<//>`;

// What makes an allowed call: the run goes on with it.
const Next = ({ approval }) => html`<section class="told good" aria-label="What comes next">
  <p><strong>Allowed: <${Text} text=${`${approval.server}.${approval.tool}`} length=${70} />.</strong> The call is made when
    its run is resumed. An agent does that by itself when it is told; a script of the command line does not.</p>
  <div class="buttons">${approval.client === "local" && html`<${Resume} run=${approval.run} />`}
    <${Copy} text=${`execute(resume="${approval.run}")`}>Copy line for the agent<//>
    ${approval.client === "local" && html`<${Copy} text=${`forgefs run --resume ${approval.run}`}>Copy command<//>`}</div>
</section>`;

function Waiting({ approval, offset, onDecided }) {
  const [denies, setDenies] = useState(false);
  const [reason, setReason] = useState("");
  const [, tick] = useState(0);
  const decide = useAction();
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const send = (allow, scope) => async () => {
    const plan = scope === "plan" ? approval.plan_digest : null;
    const body = { allow, scope, plan, reason: allow ? null : reason.trim() || null };
    const told = await decide.run(() => post(`approvals/${encodeURIComponent(approval.id)}`, body));
    if (told) {
      announce(allow ? "The call is allowed." : "The call is denied.");
      document.querySelector("main h1")?.focus();
      onDecided(told);
    }
  };
  const deny = (event) => (event.preventDefault(), send(false, "once")());
  const now = Date.now() + offset;
  const call = `${approval.server}.${approval.tool}`;
  const who = approval.client_name || approval.client;
  const id = `deny-${short(approval.id, 40)}`;
  return html`<article class="card approval" id=${`approval-${approval.id}`} aria-label=${`Approval of ${short(call, 60)}`}>
    <div class="head"><h3><${Text} text=${asked(approval.question)} length=${200} /></h3><${Effect} effect=${approval.effect} writes />
      <span class="dim">asked ${relative(approval.asked_ms, now)} · ${approval.until_ms > now ? `expires ${relative(approval.until_ms, now)}` : "expired"}</span></div>
    <dl class="facts">
      <div><dt>who asks</dt><dd><${Text} text=${who} length=${50} />${who !== approval.client && html` <span
        class="dim"><${Text} text=${approval.client} length=${40} /></span>`}</dd></div>
      ${approval.run && html`<div><dt>run</dt><dd><a href=${`#/runs/${encodeURIComponent(approval.run)}`}>
        <${Text} text=${approval.run} length=${20} /></a></dd></div>`}
      <div><dt>holds data of</dt><dd><${Labels} labels=${approval.labels} /></dd></div>
      ${approval.reasons.length > 0 && html`<div><dt>why it waits</dt><dd>
        ${approval.reasons.slice(0, 10).map((text) => html`<div><bdi>${short(text, 300)}</bdi></div>`)}</dd></div>`}
    </dl>
    <div class=${approval.plan ? "side-by-side" : ""}>
      <div><h4>Arguments</h4><${Long} value=${approval.arguments} label=${`Arguments of ${short(call, 60)}`}
        limit=${WHOLE} /></div>
      ${approval.plan && html`<div><h4>Plan of the script</h4><${Plan} steps=${approval.plan} /></div>`}
    </div>
    <div class="buttons">
      <${Act} class="primary" busy=${decide.busy} onClick=${send(true, "once")}>Allow once<//>
      ${approval.run && html`<${Act} busy=${decide.busy} onClick=${send(true, "run")}>Allow for the run<//>`}
      ${approval.plan && html`<${Act} busy=${decide.busy} onClick=${send(true, "plan")}>Allow the plan<//>`}
      <${Act} class="danger" busy=${decide.busy} onClick=${() => setDenies(!denies)}>Deny…<//>
    </div>
    ${approval.run && html`<p class="note">For the run: every call of this tool in this run and those that resume it${approval.plan
      && "; the plan: each call of this script as often as it is listed"}, with any arguments.</p>`}
    ${denies && html`<form class="inline" onSubmit=${deny}><${Field} label="Reason, which the agent reads" id=${id}>
      <input id=${id} value=${reason} maxlength="2000"
      onInput=${(event) => setReason(event.target.value)} /><//><${Act} type="submit" class="danger"
        busy=${decide.busy}>Deny<//></form>`}
    <${Problem} error=${decide.error} />
  </article>`;
}

// What a person decides by is never cut; the gateway bounds it.
const WHOLE = 300000;

// The question alone: its reasons, labels and arguments stand below it.
const asked = (question) => question.split("\n")[0].replace(/^ForgeFS asks: m/, "M");

// What a call does, by the annotations of its tool.
const Effect = ({ effect, writes }) => (effect === "destructive" ? html`<${Badge} state="destructive" tone="bad" />`
  : effect === "read-only" || !writes ? html`<${Badge} state="reads" tone="calm" />` : html`<${Badge} state="writes"
    tone="warn" />`);

// Steps of a plan: which tools a script may call, and how often.
export function Plan({ steps }) {
  if (!steps.length) return html`<p class="dim">It calls no tools.</p>`;
  const cols = [
    { name: "Tool", cell: (step) => html`<${Text} text=${`${step.server}.${step.tool}`} length=${70} />` },
    { name: "Effect", cell: (step) => html`<${Effect} effect=${step.effect} writes=${step.writes} />` },
    { name: "Places", class: "num", cell: (step) => count(step.places) },
    { name: "Repeats", cell: (step) => (step.repeats ? "in a loop" : "–") },
  ];
  return html`<${Capped} items=${steps} step=${30} noun="steps">${(some) => html`<${Table} caption="Plan" cols=${cols}
    rows=${some} />`}<//>`;
}

const SCOPES = { once: "once", run: "for the run", plan: "for the plan" };

function Decided({ decided }) {
  const cols = [
    { name: "When", class: "when", cell: (one) => moment(one.decision?.at_ms ?? one.until_ms) },
    { name: "Call", class: "wide", cell: (one) => html`<b><${Text} text=${`${one.server}.${one.tool}`} length=${60} />
      </b>
        ${one.arguments !== null && html`<span class="sub dim"><${Text} text=${JSON.stringify(one.arguments)} length=${90} />
          </span>`}` },
    { name: "Client", cell: (one) => html`<${Text} text=${one.client_name || one.client} length=${30} />` },
    { name: "Decision", cell: (one) => html`<${Badge} state=${one.state} />${one.decision?.allowed && html`<span
      class="sub dim">${own(SCOPES, one.decision.scope) ?? short(one.decision.scope, 20)}</span>`}${one.state === "allowed"
      && html`<a class="sub" href=${`#/runs/${encodeURIComponent(one.run)}`}>resume its run</a>`}` },
    { name: "By", cell: (one) => (one.decision ? html`<${Text} text=${one.decision.by} length=${30} />` : "–") },
    { name: "Reason", cell: (one) => (one.decision?.reason ? html`<${Text} text=${one.decision.reason}
      length=${160} />` : "–") },
    { name: "Run", cell: (one) => (one.run ? html`<a href=${`#/runs/${encodeURIComponent(one.run)}`}>
      <${Text} text=${one.run} length=${12} /></a>` : "–") },
  ];
  return html`<${Table} caption="Decided approvals, newest first" cols=${cols} rows=${decided}
    keyOf=${(one) => one.id} />`;
}
