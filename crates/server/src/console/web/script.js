// An editor for a script: findings of the check at their places, dry run and run.

import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { post } from "./api.js";
import { Act, announce, Answer, Badge, Capped, Confirm, html, Long, Problem, Select, Text, useAction } from "./ui.js";
import { Plan } from "./approvals.js";
import { Editor } from "./code.js";
import { count, short, things } from "./text.js";

const DRAFT = "forgefs.console.draft";
const CHECK_AFTER_MS = 500;
const FIRST = {
  javascript: "// A tool is called by its server's name, such as:\n//   await tickets.list_tickets({ status: \"open\" })\nreturn \"ready\";\n",
  starlark: "# A tool is called by its server's name, such as:\n#   tickets.list_tickets(status=\"open\")\nresult = \"ready\"\n",
};

function draft() {
  try {
    return JSON.parse(sessionStorage.getItem(DRAFT)) ?? {};
  } catch {
    return {};
  }
}

export function Script({ about }) {
  const languages = about?.languages ?? ["javascript", "starlark"];
  const [language, setLanguage] = useState(draft().language ?? languages[0]);
  const [codes, setCodes] = useState({ ...FIRST, ...draft().codes });
  const [asks, setAsks] = useState(false);
  const jump = useRef(null);
  const run = useAction();
  const code = codes[language] ?? "";
  const check = useCheck(language, code);
  useEffect(() => sessionStorage.setItem(DRAFT, JSON.stringify({ language, codes })), [language, codes]);
  const execute = (dry_run) => async () => {
    const told = await run.run(() => post("execute", { language, code, dry_run }));
    if (told) announce(told.ok ? "The script ended." : "The script failed.");
  };
  const answered = (yes) => (setAsks(false), yes && execute(false)());
  const writes = check.data?.plan?.steps?.filter((step) => step.writes) ?? [];
  return html`<div class="halves">
    <div>
      <div class="buttons"><${Select} label="Language" value=${language} options=${languages} onChange=${setLanguage} />
        <${Act} busy=${run.busy} onClick=${execute(true)}>Dry run<//>
        <${Act} class="primary" busy=${run.busy} onClick=${() => (writes.length ? setAsks(true) : execute(false)())}>
          ${run.busy ? "Running…" : "Run"}<//></div>
      <${Editor} id="script" code=${code} label="Script" jump=${jump} marks=${check.marks}
        onInput=${(text) => setCodes({ ...codes, [language]: text })} />
      ${run.busy && html`<p class="note">It can be stopped in <a href="#/now">Now</a>.</p>`}
      <${Problem} error=${run.error} />
      ${run.done && html`<${Outcome} told=${run.done} />`}
    </div>
    <div>
      <section aria-labelledby="check-title"><h2 id="check-title">Check</h2><${Findings} check=${check} jump=${jump} />
        </section>
      ${check.data && html`<section aria-labelledby="plan-title"><h2 id="plan-title">What it may call</h2><${WholePlan}
        plan=${check.data.plan} /></section>`}
    </div>
    ${asks && html`<${Confirm} title="Run this script?" act="Run it" onClose=${answered}>
      <p>It may write: ${writes.slice(0, 6).map((step) => html`<${Text} text=${`${step.server}.${step.tool}`}
        length=${60} class="item" /> `)}${writes.length > 6 ? `and ${writes.length - 6} more` : ""}</p><//>`}
  </div>`;
}

// Checks the code when no key was pressed for a while: `{data, error, busy, marks}`.
function useCheck(language, code) {
  const [state, setState] = useState({ data: null, error: null, busy: true });
  useEffect(() => {
    const control = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      post("check", { language, code }, control.signal).then(
        (data) => setState({ data, error: null, busy: false }),
        (error) => control.signal.aborted || setState({ data: null, error, busy: false }),
      );
    }, CHECK_AFTER_MS);
    return () => (clearTimeout(timer), control.abort());
  }, [language, code]);
  const marks = [
    ...(state.data?.mistakes ?? []).map((one) => ({ ...one, kind: "error" })),
    ...(state.data?.warnings ?? []).map((one) => ({ ...one, kind: "warning" })),
  ];
  return { ...state, marks };
}

function Findings({ check, jump }) {
  if (check.error) return html`<${Problem} error=${check.error} />`;
  return html`<div id="script-findings" role="status">
    ${!check.data ? html`<p class="dim">Checking…</p>`
      : !check.marks.length ? html`<p><${Badge} state="no mistakes" tone="good" /></p>`
      : html`<${Capped} items=${check.marks} step=${30} noun="findings">${(some) => html`<ul class="findings">
        ${some.map((one) => html`<li>
          <p><${Badge} state=${one.kind} tone=${one.kind === "error" ? "bad" : "warn"} />
          ${one.line ? html`<button type="button" class="small"
            onClick=${() => jump.current?.(one)}>line ${count(one.line)}${one.column ? `:${count(one.column)}` : ""}
              </button>` : ""} <span class="dim">${short(one.code, 40)}</span></p>
          <p><bdi>${short(one.message, 500)}</bdi></p>${one.suggested_fix && html`<p class="dim"><bdi>
            ${short(one.suggested_fix, 500)}</bdi></p>`}</li>`)}</ul>`}<//>`}</div>`;
}

function WholePlan({ plan }) {
  if (!plan) return html`<p class="dim">The script has no plan.</p>`;
  const flow = (one) => (typeof one === "string" ? one : Array.isArray(one) ? one.join(" → ") : one?.from !== undefined ? `${one.from} → ${one.to}` : JSON.stringify(one));
  return html`<div class="card flush"><${Plan} steps=${plan.steps ?? []} /></div>
    <p class="dim">
      ${plan.most_calls === null || plan.most_calls === undefined ? "Nothing bounds its calls but the budget." : `At most ${things(plan.most_calls, "call")}.`}
      ${plan.is_partial ? " Some calls are only known when it runs." : ""}</p>
    ${plan.flows?.length > 0 && html`<ul class="findings">${plan.flows.slice(0, 50).map((one) => html`<li><bdi>
      ${short(flow(one), 200)}</bdi></li>`)}</ul>`}`;
}

function Outcome({ told }) {
  return html`<section aria-label="What the script gave"><${Answer} answer=${told} />
    ${told.error?.line && html`<p class="dim">at line ${count(told.error.line)}</p>`}
    ${(told.notes ?? []).slice(0, 20).map((note) => html`<p class="note"><bdi>${short(note, 400)}</bdi></p>`)}
    ${told.output && html`<h3>Output</h3><${Long} value=${told.output} label="Output" />`}
    ${told.calls?.length > 0 && html`<details class="fold"><summary>${things(told.calls.length, "call")}</summary>
      <${Long} value=${told.calls} label="Calls" /></details>`}</section>`;
}
