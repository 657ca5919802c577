// Calls over time in lanes, and where data may have gone from server to server.

import { html, Text } from "./ui.js";
import { count, duration, short, things } from "./text.js";

const MOST_BARS = 600;
const MOST_LANES = 40;
const MOST_NODES = 14;

// Puts each timed call into the first lane that is free: `{lane, from, until, op}`, lanes from 0.
export function lanes(operations) {
  const timed = operations.filter((op) => op.at_ms !== null && op.at_ms !== undefined).sort((a, b) => a.at_ms - b.at_ms);
  const ends = [];
  return timed.map((op) => {
    const until = op.at_ms + Math.max(0, op.ms ?? 0);
    const free = ends.findIndex((end) => end <= op.at_ms);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = until;
    return { lane, from: op.at_ms, until, op };
  });
}

// How a call ended, as one of the colours of bars.
export const toneOf = (op) => (op.refused ? "refused" : op.error || op.unknown ? "failed" : op.outcome === "planned" ? "planned" : "ok");

// A bar for each call, parallel ones below each other. A click on one calls `onPick` with its operation.
export function Timeline({ operations, onPick }) {
  const all = lanes(operations);
  if (!all.length) return html`<p class="dim">No times are recorded.</p>`;
  const bars = all.slice(0, MOST_BARS).filter((bar) => bar.lane < MOST_LANES);
  const began = all[0].from;
  const span = Math.max(1, bars.reduce((most, bar) => Math.max(most, bar.until), began) - began);
  const tall = bars.reduce((most, bar) => Math.max(most, bar.lane), 0) + 1;
  const left = all.length - bars.length;
  const percent = (ms) => `${Math.min(100, Math.max(0, (ms / span) * 100)).toFixed(3)}%`;
  const label = `${things(all.length, "call")} over ${duration(span)}, at most ${count(all.reduce((most, bar) => Math.max(most, bar.lane), 0) + 1)} at once. The list below has each.`;
  return html`<div class="timeline" role="img" aria-label=${label}>
      <div class="ticks">${[0, 0.25, 0.5, 0.75].map((part) => html`<span style=${{ left: `${part * 100}%` }}>
        ${duration(Math.round(span * part))}</span>`)}</div>
      <div class="lanes" style=${{ height: `${tall * 22}px` }}>
        ${bars.map(({ lane, from, until, op }) => html`<div key=${op.op} class="bar-of ${toneOf(op)}"
          title=${`${short(op.label, 80)}: ${duration(op.ms)}`}
          style=${{ left: percent(from - began), width: percent(until - from), top: `${lane * 22}px` }} onClick=${() => onPick(op)}>
          ${(until - from) / span > 0.1 && html`<bdi>${short(op.label, 40)}</bdi>`}</div>`)}
      </div>
    </div>
    <p class="legend"><span class="key ok">ok</span><span class="key failed">failed</span>
      <span class="key refused">refused</span><span class="key planned">planned</span>
      ${left > 0 && html` ${things(left, "more call")} in the list only.`}</p>`;
}

// Edges `{from, to, calls, refused}`: what a call held from one server when it went to another, and what the agent got.
export function flowsOf(run) {
  const edges = new Map();
  const add = (from, to, refused) => {
    const key = `${from}\u0000${to}`;
    const edge = edges.get(key) ?? { from, to, calls: 0, refused: 0 };
    edge.calls += 1;
    if (refused) edge.refused += 1;
    edges.set(key, edge);
  };
  for (const op of run.operations) {
    for (const label of op.labels ?? []) if (op.server && label !== op.server) add(label, op.server, op.refused);
  }
  if (run.outcome === "ok") for (const label of run.labels ?? []) add(label, null, false);
  return [...edges.values()];
}

const nameOf = (to) => (to === null ? "the agent" : to);

// The flows as a drawing, and as a table for those who do not see it.
export function Flow({ run }) {
  const edges = flowsOf(run);
  if (!edges.length) return html`<p class="dim">Nothing that one server answered was held when another was called.</p>`;
  const from = [...new Set(edges.map((edge) => edge.from))].slice(0, MOST_NODES);
  const to = [...new Set(edges.map((edge) => edge.to))].slice(0, MOST_NODES);
  const height = Math.max(from.length, to.length) * 36 + 12;
  const y = (list, name) => height / 2 + (list.indexOf(name) - (list.length - 1) / 2) * 36;
  const drawn = edges.filter((edge) => from.includes(edge.from) && to.includes(edge.to));
  return html`<svg class="flow" viewBox=${`0 0 456 ${height}`} role="img"
    aria-label=${`Data may have gone along ${things(edges.length, "way")}. The table below has each.`}>
      ${drawn.map((edge) => {
        const [a, b] = [y(from, edge.from), y(to, edge.to)];
        const all = edge.refused === edge.calls;
        return html`<path class=${all ? "refused" : edge.refused ? "part" : ""}
          stroke-width=${Math.min(8, 1.5 + Math.log2(edge.calls))} d=${`M150 ${a} C228 ${a} 228 ${b} 302 ${b}`} />
          <path class="tip ${all ? "refused" : ""}" d=${`M300 ${b - 5} L308 ${b} L300 ${b + 5} Z`} />`;
      })}
      ${from.map((name) => html`<${Node} x=${10} y=${y(from, name)} name=${name} />`)}
      ${to.map((name) => html`<${Node} x=${308} y=${y(to, name)} name=${nameOf(name)} agent=${name === null} />`)}
    </svg>
    <p class="note">The script held data of the one server when it called the other. What it passed on is in the arguments.</p>
    <details><summary>As a table</summary><table class="plain"><thead><tr><th scope="col">Held data of</th>
      <th scope="col">Called then</th><th scope="col">Calls</th><th scope="col">Refused</th></tr></thead>
      <tbody>${edges.slice(0, 200).map((edge) => html`<tr><td><${Text} text=${edge.from} length=${40} /></td><td>
        <${Text} text=${nameOf(edge.to)} length=${40} /></td>
        <td>${edge.to === null ? "answer" : count(edge.calls)}</td><td>${count(edge.refused)}</td></tr>`)}</tbody>
          </table></details>`;
}

const Node = ({ x, y, name, agent }) => html`<g class=${agent ? "agent" : ""}><rect x=${x} y=${y - 13} width="138"
  height="26" rx="5" />
  <text x=${x + 69} y=${y + 4} text-anchor="middle">${short(name, 18)}</text></g>`;
