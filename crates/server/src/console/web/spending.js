// Spending and rates over time, errors by code, latency percentiles.

import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import uPlot from "./vendor/uplot.js";
import { get } from "./api.js";
import { Badge, Empty, html, Loaded, Select, Table, Text, useLoad } from "./ui.js";
import { count, duration, moment, money, own, short, things } from "./text.js";

const SPANS = [["1", "last hour"], ["6", "6 hours"], ["24", "24 hours"], ["168", "7 days"], ["720", "30 days"]];
const BY = [["client", "by client"], ["server", "by server"], ["tool", "by tool"]];
const HEIGHT = 168;
// Distances between ticks of what is counted.
const COUNTS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((one) => [one, 2 * one, 5 * one]);

export function Spending({ route }) {
  const hours = SPANS.some(([key]) => key === route.query.hours) ? route.query.hours : "24";
  const by = BY.some(([key]) => key === route.query.by) ? route.query.by : "client";
  const load = useLoad((signal) => get("series", { hours, by }, signal), [hours, by]);
  const go = (next) => (location.hash = `#/spending?${new URLSearchParams({ hours, by, ...next })}`);
  return html`<div class="title"><h1 tabindex="-1">Spending and rates</h1>
      <${Select} label="Span of time" value=${hours} options=${SPANS} onChange=${(value) => go({ hours: value })} />
      <${Select} label="Group" value=${by} options=${BY} onChange=${(value) => go({ by: value })} />
      <button type="button" class="small" onClick=${load.reload}>Refresh</button></div>
    <${Loaded} load=${load} what="figures">${(data) => html`<${Figures} data=${data} by=${by}
      stale=${load.loading} />`}<//>`;
}

const sum = (list) => (list ?? []).reduce((all, one) => all + (Number(one) || 0), 0);
const sumAll = (byKey) => Object.values(byKey ?? {}).reduce((all, list) => all + sum(list), 0);

function Figures({ data, by, stale }) {
  const keys = useMemo(() => [...new Set([...data.keys, ...Object.keys(data.calls), ...Object.keys(data.cost ?? {})])].slice(0, 9), [data]);
  const calls = sumAll(data.calls);
  const failed = sumAll(data.failed);
  const spent = Math.round(sumAll(data.cost) * 1e6) / 1e6;
  if (!calls && !sum(data.runs) && !spent) {
    return html`<${Empty}><p>Nothing ran in this time.</p>
      <p>Choose a longer span, or connect a client with <code>forgefs connect</code>.</p><//>`;
  }
  const { tokens, runs } = data.saved;
  const totals = [...(tokens ? [["tokens saved", html`≈ ${count(tokens)}`]] : []), ["runs", count(sum(data.runs))], ["calls", count(calls)], ["failed calls", count(failed)], ["refused calls", count(sum(data.refused))],
    ["spent", money(String(spent))]];
  const each = (byKey) => keys.map((key) => ({ name: key, values: own(byKey, key) ?? [] }));
  return html`<div class=${stale ? "stale" : ""}>
    <dl class="totals">${totals.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${tokens > 0 && html`<p class="note">Tokens saved: the tool lists that ${things(runs, "script")} of agents did without,
      one turn each, by an estimate of four bytes a token.</p>`}
    <p class="legend keys" aria-label=${`Colours ${by}`}>${keys.map((key, at) => html`<span class="key c${at}">
      <${Text} text=${key} length=${30} /></span>`)}</p>
    <div class="plots">
      <${Plot} title="Calls" data=${data} series=${each(data.calls)} />
      <${Plot} title="Spending" data=${data}
        series=${each(data.cost)} whole=${false} />
      <${Plot} title="Failed calls" data=${data} series=${each(data.failed)} />
      <${Plot} title="Runs and refused calls" data=${data}
        series=${[{ name: "runs", values: data.runs, tone: "--c0" }, { name: "refused calls", values: data.refused, tone: "--bad" }]} apart />
      <${Plot} title="Latency over time, in ms" data=${data} unit="ms"
        series=${[{ name: "p50", values: data.p50_ms, tone: "--c0" }, { name: "p95", values: data.p95_ms, tone: "--warn" }]} apart whole=${false} />
    </div>
    <div class="halves uneven">
      <section aria-labelledby="latency-title"><h2 id="latency-title">Latency</h2><${Latency} rows=${data.latency}
        by=${by} /></section>
      <section aria-labelledby="errors-title"><h2 id="errors-title">Errors by code</h2>
        <${Errors} errors=${data.errors} /></section>
    </div></div>`;
}

// Bars over time. Series are stacked, or with `apart` are lines of their own. With a `unit` they are no counts: an empty
// step is a gap, and nothing is summed.
function Plot({ title, data, series, apart, unit, whole = true }) {
  const place = useRef();
  const steps = Math.max(0, ...series.map((one) => one.values?.length ?? 0));
  const theme = useTheme();
  useEffect(() => {
    const node = place.current;
    if (!steps) return;
    const plot = new uPlot(options(data, series, { apart, unit, whole, width: node.clientWidth }), plotted(data, series, steps, { apart, unit }), node);
    node.plot = plot;
    const watch = new ResizeObserver(() => plot.setSize({ width: node.clientWidth, height: HEIGHT }));
    watch.observe(node);
    return () => (watch.disconnect(), plot.destroy());
  }, [data, series.length, theme]);
  const total = unit ? "" : series.map((one) => `${short(one.name, 40)} ${count(Math.round(sum(one.values) * 100) / 100)}`).join(", ");
  return html`<section class="card plot" aria-label=${title}><h2>${title}</h2>
    ${apart && html`<p class="legend">${series.map((one) => html`<span
      class="key ${own(TONES, one.tone) ?? "c0"}">${one.name}</span>`)}</p>`}
    <div class="canvas" ref=${place} role="img" aria-label=${unit ? title : `${title} over time. In all: ${short(total, 400)}`}></div>
    <details><summary>As a table</summary><${Values} data=${data} series=${series} steps=${steps} /></details>
      </section>`;
}

const TONES = { "--bad": "refused", "--warn": "failed" };

// Changes when the system's colours change, so that plots are drawn anew.
function useTheme() {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTurn((n) => n + 1);
    scheme.addEventListener("change", change);
    return () => scheme.removeEventListener("change", change);
  }, []);
  return turn;
}

const timesOf = (data, steps) => Array.from({ length: steps }, (_, at) => (data.from_ms + at * data.step_ms) / 1000);

// A stack is drawn from its top: each series holds the sum of itself and of those before it, and the highest comes first.
function plotted(data, series, steps, { apart, unit }) {
  const times = timesOf(data, steps);
  const rows = series.map((one) => times.map((_, at) => (unit ? one.values?.[at] ?? null : Number(one.values?.[at]) || 0)));
  if (apart) return [times, ...rows];
  for (let at = 1; at < rows.length; at += 1) rows[at] = rows[at].map((value, step) => value + rows[at - 1][step]);
  return [times, ...rows.reverse()];
}

function options(data, series, { apart, unit, whole, width }) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const tones = series.map((one, at) => colour(one.tone ?? `--c${at}`));
  const order = apart ? tones : [...tones].reverse();
  const bars = uPlot.paths.bars({ size: [0.86, 40], align: 1 });
  const line = { width: 1.75, points: { show: false }, paths: uPlot.paths.stepped({ align: 1, extend: true }) };
  if (unit) Object.assign(line, { paths: uPlot.paths.linear(), points: { show: true, size: 4 } });
  return {
    width,
    height: HEIGHT,
    padding: [6, 22, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    // A step is drawn from its begin to its end: the newest one ends now.
    scales: { x: { range: () => [data.from_ms / 1000, data.to_ms / 1000] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [{ ...axis, size: 26, space: 64, values: (_, times) => times.map(tickOf(times)) }, { ...axis, size: 46, incrs: whole ? COUNTS : undefined, values: (_, numbers) => numbers.map((one) => compact(one)) }],
    series: [{}, ...order.map((tone) => (apart ? { ...line, stroke: tone } : { fill: tone, stroke: tone, width: 0, paths: bars, points: { show: false } }))],
  };
}

// Ticks at midnight are dates.
const tickOf = (times) => (time) => {
  const at = new Date(time * 1000);
  const days = times.length > 1 && times[1] - times[0] >= 86400;
  const midnight = at.getHours() === 0 && at.getMinutes() === 0;
  if (days || midnight) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
};

const compact = (number) => (Math.abs(number) >= 1000 ? `${Number((number / 1000).toFixed(1))}k` : String(Number(number.toPrecision(3))));

function Values({ data, series, steps }) {
  const times = timesOf(data, steps);
  const rows = times.map((time, at) => ({ time, at })).filter(({ at }) => series.some((one) => Number(one.values?.[at]))).reverse().slice(0, 200);
  if (!rows.length) return html`<p class="dim">All values are 0.</p>`;
  const cols = [{ name: "From", class: "when", cell: (row) => moment(row.time * 1000) },
    ...series.map((one) => ({ name: short(one.name, 24), class: "num", cell: (row) => String(Number((Number(one.values?.[row.at]) || 0).toFixed(4))) }))];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Values"><${Table} caption="Values" cols=${cols}
    rows=${rows} /></div>`;
}

function Latency({ rows, by }) {
  if (!rows?.length) return html`<p class="dim">No calls.</p>`;
  const most = Math.max(...rows.map((row) => row.p99_ms ?? 0), 1);
  const at = (ms) => `${(Math.sqrt((ms ?? 0) / most) * 100).toFixed(2)}%`;
  const range = (row) => row.p50_ms !== null && html`<span class="range" aria-hidden="true"><span class="most"
    style=${{ left: at(row.p50_ms), right: `calc(100% - ${at(row.p99_ms)})` }}></span>
    <span class="mid" style=${{ left: at(row.p50_ms), right: `calc(100% - ${at(row.p95_ms)})` }}></span></span>`;
  const cols = [
    { name: by, cell: (row) => html`<${Text} text=${row.key} length=${40} />` },
    { name: "Calls", class: "num", cell: (row) => count(row.calls) },
    { name: "p50", class: "num", cell: (row) => duration(row.p50_ms) },
    { name: "p95", class: "num", cell: (row) => duration(row.p95_ms) },
    { name: "p99", class: "num", cell: (row) => duration(row.p99_ms) },
    { name: "p50 to p99", class: "grow", cell: range },
  ];
  return html`<div class="card flush"><${Table} caption="Latency" cols=${cols} rows=${rows.slice(0, 40)}
    keyOf=${(row) => row.key} /></div>`;
}

function Errors({ errors }) {
  const rows = Object.entries(errors ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 40);
  if (!rows.length) return html`<p class="dim">No errors.</p>`;
  const all = rows.reduce((sum, [, times]) => sum + times, 0) || 1;
  const cols = [
    { name: "Code", cell: ([code]) => html`<a href=${`#/runs?outcome=${encodeURIComponent(code)}`}>
      <${Badge} state=${code} /></a>` },
    { name: "Count", class: "num", cell: ([, times]) => count(times) },
    { name: "Share", class: "grow", cell: ([, times]) => html`<span class="shared"><span class="bar" aria-hidden="true"><span class="high"
      style=${{ width: `${(times / all) * 100}%` }}></span></span>${Math.round((times / all) * 100)} %</span>` },
  ];
  return html`<div class="card flush"><${Table} caption="Errors by code" cols=${cols} rows=${rows}
    keyOf=${([code]) => code} /></div>`;
}
