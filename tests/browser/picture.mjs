// The picture of README: an agent, the four tools, servers, and what a task costs. Its numbers are those of docs/benchmarks.md.

import { readFile } from "node:fs/promises";
import path from "node:path";

const TOOLS = 250;
export const SIZE = { width: 880, height: 372 };

// Tokens of a task with the plain tool list and with ForgeFS, in the row of `TOOLS` tools.
async function tokens() {
  const text = await readFile(path.join(import.meta.dirname, "../../docs/benchmarks.md"), "utf8");
  const [head, row] = ["tools", `${TOOLS}`].map((first) => text.match(new RegExp(`^\\| ${first} \\| .*$`, "m"))[0]);
  const [names, values] = [head, row].map((line) => line.split("|").map((cell) => cell.trim()));
  const of = (name) => Number(values[names.indexOf(name)]);
  return { plain: of("plain in all"), forgefs: of("ForgeFS in all") };
}

const COLOURS = {
  light: { paper: "#ffffff", text: "#1c2430", dim: "#5b6675", line: "#d5dbe3", card: "#f5f7fa", own: "#2f6fde", soft: "#e6eefc", bad: "#c8d0da" },
  dark: { paper: "#0d1117", text: "#e6edf3", dim: "#9aa5b1", line: "#30363d", card: "#161b22", own: "#5b9bff", soft: "#16263f", bad: "#3b4550" },
};
const SERVERS = ["github", "postgres", "slack", "linear", "filesystem", "… any number"];

const box = (x, y, width, height, fill, stroke) =>
  `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="8" fill="${fill}" stroke="${stroke}"/>`;
const say = (x, y, text, fill, more = "") => `<text x="${x}" y="${y}" fill="${fill}" ${more}>${text}</text>`;
const arrow = (from, to, colour) =>
  `<path d="M${from} C${from[0] + 40},${from[1]} ${to[0] - 44},${to[1]} ${to[0] - 4},${to[1]}" fill="none" stroke="${colour}"
    stroke-width="1.6" marker-end="url(#head)"/>`;
const grouped = (number) => number.toLocaleString("en-US");

// The picture as a page.
export async function picture(scheme) {
  const c = COLOURS[scheme];
  const { plain, forgefs } = await tokens();
  const middle = 'text-anchor="middle"';
  const tools = ["ls", "cat", "search", "execute"].map(
    (name, at) => box(300, 62 + at * 40, 112, 30, c.soft, c.own) + say(356, 82 + at * 40, name, c.own, `${middle} class="code"`),
  );
  const servers = SERVERS.map(
    (name, at) =>
      box(684, 14 + at * 37, 172, 29, c.card, c.line) +
      say(770, 33 + at * 37, name, at === SERVERS.length - 1 ? c.dim : c.text, middle) +
      arrow([600, 125], [684, 28 + at * 37], c.dim),
  );
  const bar = (y, name, number, colour) => {
    const width = Math.max(3, (560 * number) / plain);
    return (
      say(24, y + 13, name, c.text) + `<rect x="150" y="${y}" width="${width}" height="17" rx="3" fill="${colour}"/>` +
      say(150 + width + 10, y + 13, `${grouped(number)} tokens`, c.text, 'class="strong"')
    );
  };
  return `<style>body{margin:0;background:${c.paper}} text{font:14px system-ui,sans-serif}
    .strong{font-weight:600} .code{font-family:ui-monospace,monospace} .small{font-size:12px}</style>
  <svg width="${SIZE.width}" height="${SIZE.height}" xmlns="http://www.w3.org/2000/svg">
    <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0,0 L8,4 L0,8 z" fill="${c.dim}"/></marker></defs>
    ${box(24, 92, 168, 66, c.card, c.line)}${say(108, 120, "Agent", c.text, `${middle} class="strong"`)}
    ${say(108, 141, "Claude Code, Cursor, …", c.dim, `${middle} class="small"`)}
    ${arrow([192, 125], [276, 125], c.dim)}
    ${box(276, 14, 324, 222, "none", c.own)}${say(292, 40, "ForgeFS", c.own, 'class="strong"')}${tools.join("")}
    ${["typed stubs as files,", "found by BM25", "one script calls many", "tools, in a sandbox"].map((line, at) => say(424, 82 + at * 20 + (at > 1 ? 20 : 0), line, c.dim)).join("")}
    ${say(424, 202, "policy · approval · audit", c.dim)}
    ${servers.join("")}
    ${say(24, 282, `A task with ${TOOLS} tools behind it costs an agent`, c.dim)}
    ${bar(296, "plain tool list", plain, c.bad)}${bar(326, "ForgeFS", forgefs, c.own)}
  </svg>`;
}
