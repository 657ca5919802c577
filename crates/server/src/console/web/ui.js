// Parts that all views share.

import { h } from "./vendor/preact.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { currentSession, post } from "./api.js";
import { bytes, count, own, safeCut, short, shown, valueText } from "./text.js";

export const html = htm.bind(h);

const CHUNK = 16 * 1024;
// Texts longer than this are cut until all is asked for.
const CUT = 3000;

// Tells users of screen readers what happened.
export function announce(text) {
  const news = document.getElementById("news");
  if (news.textContent === text) news.textContent = "";
  requestAnimationFrame(() => (news.textContent = text));
}

// Loads by `fetcher(signal)` and again when `deps` change: `{data, error, loading, reload}`. Old data stays meanwhile.
export function useLoad(fetcher, deps) {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState({ data: null, error: null, loading: true });
  useEffect(() => {
    const control = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    fetcher(control.signal).then(
      (data) => setState({ data, error: null, loading: false }),
      (error) => {
        if (!control.signal.aborted) setState({ data: null, error, loading: false });
      },
    );
    return () => control.abort();
  }, [...deps, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  return { ...state, reload };
}

// Runs one action at a time: `{busy, error, done, run(action)}`; `done` is what the last one returned.
export function useAction() {
  const [state, setState] = useState({ busy: false, error: null, done: null });
  const alive = useRef(true);
  useEffect(() => () => (alive.current = false), []);
  const run = async (action) => {
    setState({ busy: true, error: null, done: null });
    let next;
    try {
      next = { busy: false, error: null, done: (await action()) ?? true };
    } catch (error) {
      next = { busy: false, error, done: null };
    }
    if (alive.current) setState(next);
    return next.done;
  };
  return { ...state, run };
}

// A short hostile text on one line, apart from the direction of what stands around it.
export const Text = ({ text, length = 120, class: name }) => html`<bdi class=${name ?? ""}>
  ${short(text, length)}</bdi>`;

// A hostile text or JSON value of any size, in a frame that scrolls; long ones are cut until all is asked for.
export function Long({ value, label, limit = CUT, class: name = "" }) {
  const [all, setAll] = useState(false);
  const text = useMemo(() => valueText(value), [value]);
  const cut = text.length > limit;
  useEffect(() => setAll(false), [text]);
  return html`<div class="long ${name}">
    <pre tabindex="0" role="region" aria-label=${label}>
      ${all ? html`<${Chunks} text=${text} />` : html`<span>${shown(safeCut(text, limit))}${cut ? "…" : ""}</span>`}
    </pre>
    ${cut && html`<button type="button" class="small" onClick=${() => setAll(!all)}>
      ${all ? "Show less" : `Show all (${bytes(text.length)})`}</button>`}
  </div>`;
}

// Adds two chunks a frame, so that a megabyte never holds the page up; chunks out of sight are not laid out.
function Chunks({ text }) {
  const [until, setUntil] = useState(2);
  const parts = useMemo(() => chunks(text), [text]);
  useEffect(() => {
    if (until >= parts.length) return;
    const frame = requestAnimationFrame(() => setUntil(until + 2));
    return () => cancelAnimationFrame(frame);
  }, [until, parts]);
  return parts.slice(0, until).map((part, at) => html`<span class="chunk" key=${at}>${shown(part)}</span>`);
}

// Parts of at most one chunk, cut behind a line where there is one.
function chunks(text) {
  const parts = [];
  for (let at = 0; at < text.length; at += parts.at(-1).length) {
    const part = safeCut(text.slice(at, at + CHUNK + 1), CHUNK);
    const line = part.length < text.length - at ? part.lastIndexOf("\n") + 1 : 0;
    parts.push(line ? part.slice(0, line) : part);
  }
  return parts;
}

// A failure with what to do about it.
export const Problem = ({ error, retry }) => error && html`<div class="problem" role="alert">
  <p><strong>${short(error.message, 600)}</strong></p>
  ${error.hint && html`<p>${short(error.hint, 600)}</p>`}
  ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
</div>`;

export const Loading = ({ what }) => html`<p class="loading" role="status">Loading ${what}…</p>`;

// Says that there is nothing, and what to do.
export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

// Shows what `load` has: its failure, that it loads, or `children(data)`.
export function Loaded({ load, what, children }) {
  if (load.error) return html`<${Problem} error=${load.error} retry=${load.reload} />`;
  if (load.data === null) return html`<${Loading} what=${what} />`;
  return children(load.data);
}

const TONES = {
  __proto__: null,
  APPROVAL_WAITS: "busy", MAYBE_DONE: "warn", CANCELLED: "calm",
  ok: "good", ready: "good", allowed: "good", used: "good", closed: "good", running: "busy", connecting: "busy",
  waits: "busy", resting: "calm", disabled: "calm", planned: "calm", expired: "calm", unfinished: "warn",
  "half-open": "warn", needs_login: "warn", offline: "bad", failed: "bad", open: "bad", denied: "bad",
};

// An outcome or a state. Its word says all; the colour only helps.
export const Badge = ({ state, tone, title }) =>
  html`<span class="badge ${tone ?? TONES[state] ?? "bad"}" title=${title}>
    ${short(state in TONES && /^[a-z]/.test(state) ? state.replaceAll("_", " ") : state, 40)}</span>`;

// Without labels `none` is shown.
export const Labels = ({ labels, none = html`<span class="dim">none</span>` }) => labels?.length
  ? html`<span class="labels">${labels.slice(0, 12).map((label) => html`<span class="label"><${Text} text=${label}
    length=${32} /></span>`)}
      ${labels.length > 12 && html` and ${count(labels.length - 12)} more`}</span>`
  : none;

// True in a window so narrow that rows of tables are blocks.
export const isNarrow = () => matchMedia("(max-width: 680px)").matches;

// Continues a run that failed: asks first, then says what became of it. `run` is its id.
export function Resume({ run, onDone }) {
  const [asks, setAsks] = useState(false);
  const resume = useAction();
  const answer = async (yes) => {
    setAsks(false);
    if (!yes) return;
    const told = await resume.run(() => post(`runs/${encodeURIComponent(run)}/resume`, {}));
    if (!told) return;
    announce(told.ok ? "The run ended." : "The run failed.");
    onDone?.(told);
  };
  return html`<${Act} class="primary" busy=${resume.busy} onClick=${() => setAsks(true)}>
      ${resume.busy ? "Running…" : "Resume the run"}<//>
    ${resume.busy && html`<span class="note">It can be stopped in <a href="#/now">Now</a>.</span>`}
    <${Problem} error=${resume.error} />
    ${resume.done && html`<${Answer} answer=${resume.done} />`}
    ${asks && html`<${Confirm} title="Resume this run?" act="Resume" onClose=${answer}>
      <p>The script runs again from its begin. Calls that were made are answered from its journal; the others are made now,
        and may write.</p><//>`}`;
}

// What a call or a script gave: its value, or its error with the fix that is suggested.
export const Answer = ({ answer }) => html`<div class="told ${answer.ok ? "good" : "warn"}">
  <p>${answer.ok ? html`<strong>It answered.</strong>` : html`<strong>It failed.</strong> ${answer.error && html`<${Badge} state=${answer.error.code} />`}`}
    ${answer.run && html` <a href=${`#/runs/${encodeURIComponent(answer.run)}`}>See the run</a>`}</p>
  ${answer.error && html`<${Long} value=${answer.error.message} label="Error" class="wrong" />
    ${answer.error.suggested_fix && html`<p><bdi>${short(answer.error.suggested_fix, 600)}</bdi></p>`}`}
  ${answer.ok && html`<${Long} value=${answer.value} label="Answer" />`}</div>`;

// A button that acts. A read-only session has it, with the reason why it does nothing.
export function Act({ onClick, busy, class: name = "", children, label, type = "button" }) {
  const allowed = currentSession()?.can_act;
  const off = !allowed || busy;
  return html`<button type=${type} class=${name} aria-label=${label} aria-disabled=${off ? "true" : undefined}
    aria-describedby=${allowed ? undefined : "read-only"} title=${allowed ? undefined : "This session is read-only."}
    onClick=${(event) => {
      if (off) return event.preventDefault();
      onClick?.(event);
    }}>${children}</button>`;
}

// A table whose rows become blocks on narrow screens; roles keep it a table then. `cols`: `{name, cell(row), class}`.
export const Table = ({ caption, cols, rows, keyOf, class: name = "" }) => html`<table role="table"
  class="rows ${name}">
  <caption class="hidden">${caption}</caption>
  <thead role="rowgroup"><tr role="row">
    ${cols.map((col) => html`<th role="columnheader" scope="col" class=${col.class ?? ""}>${col.name}</th>`)}
  </tr></thead>
  <tbody role="rowgroup">${rows.map((row, at) => html`<tr role="row" key=${keyOf ? keyOf(row) : at}>
    ${cols.map((col) => html`<td role="cell" data-name=${col.name} class=${col.class ?? ""}><div>
      ${col.cell(row)}</div></td>`)}
  </tr>`)}</tbody>
</table>`;

// The first `step` of `items`, and a button for more.
export function Capped({ items, step = 100, noun, children }) {
  const [most, setMost] = useState(step);
  const left = items.length - most;
  return html`${children(items.slice(0, most))}
    ${left > 0 && html`<p class="more"><button type="button" class="small" onClick=${() => setMost(most + step)}>
      Show ${left > step ? `${count(step)} more of ${count(left)}` : `${count(left)} more`} ${noun}</button></p>`}`;
}

// Asks before something is done. `onClose(true)` is consent.
export function Confirm({ title, children, act, onClose, danger }) {
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const answer = (yes) => {
    dialog.current.close();
    onClose(yes);
  };
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title"
    onCancel=${(event) => (event.preventDefault(), answer(false))}>
    <h2 id="confirm-title">${title}</h2>
    ${children}
    <div class="buttons">
      <button type="button" autofocus onClick=${() => answer(false)}>Cancel</button>
      <button type="button" class=${danger ? "danger" : "primary"} onClick=${() => answer(true)}>${act}</button>
    </div>
  </dialog>`;
}

// A button that copies `text`, and says so. Where a page may not copy, the text is shown to be copied by hand.
export function Copy({ text, children }) {
  const [said, setSaid] = useState("");
  const [byHand, setByHand] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(""), 2500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
      announce("Copied");
    } catch {
      setByHand(true);
    }
  };
  return html`<button type="button" onClick=${copy}>${said || children}</button>${byHand && html`<code class="copied">
    ${shown(text)}</code>`}`;
}

// A field with its label.
export const Field = ({ label, id, children, note, class: name = "" }) => html`<div class="field ${name}">
  <label for=${id}>${label}</label>${children}${note && html`<p class="note" id=${`${id}-note`}>${note}</p>`}
</div>`;

// A choice of one of `options`: texts or `[value, text]`.
export const Select = ({ id, value, options, onChange, label }) => html`<select id=${id} aria-label=${label}
  value=${value}
  onChange=${(event) => onChange(event.target.value)}>
  ${options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return html`<option value=${key} selected=${key === value}>${short(text, 60)}</option>`;
  })}
</select>`;

const SEVERITIES = { error: "bad", warning: "warn", note: "calm" };

// What is suspicious in a definition: severity and rule first, then the place and its text.
export const Findings = ({ findings }) => findings?.length > 0 && html`<${Capped} items=${findings} step=${20}
  noun="findings">${(some) => html`<ul class="findings">${some.map((one) => html`<li>
    <p><${Badge} state=${one.severity} tone=${own(SEVERITIES, one.severity)} /> <b>${short(one.rule, 60)}</b> <code
      class="dim"><${Text} text=${one.pointer} length=${100} /></code></p>
    ${one.excerpt && html`<p class="excerpt"><bdi>${short(one.excerpt, 400)}</bdi></p>`}
    ${one.advice && html`<p>${short(one.advice, 400)}</p>`}</li>`)}</ul>`}<//>`;
