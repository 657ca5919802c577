// What differs from the reviewed definitions, and accepting it.

import { useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Badge, Capped, Confirm, Empty, Findings, html, Loaded, Long, Problem, Text, useAction, useLoad } from "./ui.js";
import { own, short, shown, safeCut, things } from "./text.js";

const LONGEST_DIFF = 20000;

export function Drift() {
  const load = useLoad((signal) => get("drift", {}, signal), []);
  const [newer, setNewer] = useState(null);
  // The server's list is read anew after an acceptance, which takes a moment.
  const accepted = (left) => {
    setNewer(left);
    for (const ms of [1000, 4000, 10000, 20000, 40000]) setTimeout(() => get("drift").then(({ items }) => setNewer(items), () => {}), ms);
  };
  return html`<${Loaded} load=${load} what="drift">${(data) => {
    const items = newer ?? data.items;
    const rules = (data.unmatched ?? []).map((rule) => html`<p key=${rule} class="note"><bdi>${short(rule, 600)}</bdi></p>`);
    if (!items.length) {
      return html`${rules}<${Empty}>${data.pinned ? html`<p>All definitions are as they were reviewed.</p>
        <p>A change at a server shows here, and its tools are not offered until you accept it.</p>`
        : html`<p>No definitions are pinned.</p><p>Set <code>pin_first_use</code> in <code>[manifest]</code> of forge.toml,
          or review what <code>forgefs stubs generate</code> writes.</p>`}<//>`;
    }
    return html`${rules}<p class="dim" role="status">${things(items.length, "difference")} from the pins</p>
      ${data.note && html`<p class="note"><bdi>${short(data.note, 400)}</bdi></p>`}
      <${Capped} items=${items} step=${50} noun="differences">${(some) => some.map((item) =>
        html`<${Item} key=${`${item.server} ${item.kind} ${item.name}`} item=${item}
          onAccepted=${accepted} />`)}<//>`;
  }}<//>`;
}

const CLASSES = { breaking: "bad", "annotation-risk": "bad", widening: "warn", "text-only": "calm" };

function Item({ item, onAccepted }) {
  const [asks, setAsks] = useState(false);
  const accept = useAction();
  const name = `${item.server}${item.name ? `.${item.name}` : ""}`;
  const answer = async (yes) => {
    setAsks(false);
    if (!yes) return;
    // The digest is that of what was shown: what a server lists meanwhile is not accepted unseen.
    const { server, kind, name, digest } = item;
    const told = await accept.run(() => post("drift/accept", { server, kind, name, digest }));
    if (!told) return;
    announce("The change is accepted.");
    document.querySelector("main h1")?.focus();
    onAccepted(told.items);
  };
  return html`<article class="card drift" aria-label=${short(`Difference of ${name}`, 100)}>
    <div class="head"><h2><${Text} text=${name} length=${80} /></h2><${Badge} state=${item.kind} tone="calm" />
      ${item.class && html`<${Badge} state=${item.class} tone=${own(CLASSES, item.class)} />`}
      ${item.accept && html`<${Act} class="small" busy=${accept.busy} label=${`Accept the change of ${short(name, 60)}`}
        onClick=${() => setAsks(true)}>Accept<//>`}</div>
    <${Findings} findings=${item.findings} />
    ${item.changes.length > 0 && html`<ul class="plain">${item.changes.slice(0, 50).map((one) => html`<li>
      ${one.class !== item.class && html`<${Badge} state=${one.class} tone=${own(CLASSES, one.class)} /> `}<bdi>
      ${short(one.what, 300)}</bdi></li>`)}</ul>`}
    <p class="dim"><bdi>${short(item.change, 600)}</bdi></p>
    ${item.diff ? html`<${Diff} text=${item.diff} label=${short(`Difference of ${name}`, 100)} />`
      : item.now && html`<${Long} value=${item.now} label=${short(`Definition of ${name}`, 100)} />`}
    <${Problem} error=${accept.error} />
    ${asks && html`<${Confirm} title="Accept this change?" act="Accept" onClose=${answer}>
      <p>The pin of <b><${Text} text=${name} length=${80} />
        </b> becomes what the server says now. Agents see and can call it from then on.</p><//>`}
  </article>`;
}

function Diff({ text, label }) {
  const lines = safeCut(text, LONGEST_DIFF).replace(/\n$/, "").split("\n");
  const kind = (line) => (/^(---|\+\+\+) /.test(line) ? "place" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : line.startsWith("@@") ? "place" : "");
  return html`<${Capped} items=${lines} step=${200} noun="lines">${(some) => html`<pre class="diff" tabindex="0"
    role="region" aria-label=${label}>${some.map((line, at) =>
    html`<span key=${at} class=${kind(line)}>${shown(line) || " "}</span>`)}</pre>`}<//>
    ${text.length > LONGEST_DIFF && html`<p
      class="note">The difference is longer; <code>forgefs stubs check</code> shows all of it.</p>`}`;
}
