// Code with line numbers and marks, to read and to edit.

import { useMemo, useRef, useState } from "./vendor/hooks.js";
import { html, Capped } from "./ui.js";
import { bytes, safeCut, short, shown } from "./text.js";

const LONGEST_LINE = 1000;
const LONGEST_COLOURED = 200000;
const MOST_MARKS = 8;

const WORDS = {
  __proto__: null,
  javascript: /^(?:async|await|break|case|catch|class|const|continue|default|delete|do|else|false|finally|for|from|function|if|import|in|instanceof|let|new|null|of|return|switch|this|throw|true|try|typeof|undefined|var|void|while|yield)$/,
  starlark: /^(?:and|break|continue|def|elif|else|False|for|if|in|lambda|load|None|not|or|pass|return|True|while)$/,
};
const TOKENS = {
  __proto__: null,
  javascript: /(\/\/[^\n]*|\/\*[^]*?(?:\*\/|$))|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\[^]|[^`\\])*`?)|(\b\d[\w.]*)|([A-Za-z_$][\w$]*)/g,
  starlark: /(#[^\n]*)|("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g,
};

// Lines of `code`, each a list of `[kind, text]`.
function colouredLines(code, language) {
  const lines = [[]];
  const add = (kind, text) => text.split("\n").forEach((part, at) => {
    if (at > 0) lines.push([]);
    if (part) lines.at(-1).push([kind, part]);
  });
  const tokens = TOKENS[language];
  if (!tokens || code.length > LONGEST_COLOURED) {
    add("", code);
    return lines;
  }
  let end = 0;
  for (const found of code.matchAll(tokens)) {
    add("", code.slice(end, found.index));
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "number" : WORDS[language].test(found[4]) ? "word" : "";
    add(kind, found[0]);
    end = found.index + found[0].length;
  }
  add("", code.slice(end));
  return lines;
}

function marksByLine(marks) {
  const lines = new Map();
  for (const mark of marks ?? []) lines.set(mark.line, [...(lines.get(mark.line) ?? []), mark]);
  return lines;
}

// `code` to read. `marks`: `{line, kind, text}` with kinds call, error and warning; lines count from 1.
export function Code({ code, language, marks, label }) {
  const lines = useMemo(() => colouredLines(code.replace(/\r\n/g, "\n"), language).map((parts, at) => ({ parts, number: at + 1 })), [code, language]);
  const places = useMemo(() => marksByLine(marks), [marks]);
  return html`<${Capped} items=${lines} step=${400} noun="lines">${(some) => html`<div class="code" role="region"
    tabindex="0" aria-label=${label}>
    ${some.map((line) => html`<${Line} key=${line.number} line=${line} marks=${places.get(line.number)} />`)}</div>`}
      <//>`;
}

function Line({ line, marks = [] }) {
  const worst = ["error", "warning", "call"].find((kind) => marks.some((mark) => mark.kind === kind)) ?? "";
  const calls = marks.filter((mark) => mark.kind === "call");
  const said = marks.filter((mark) => mark.kind !== "call");
  let room = LONGEST_LINE;
  const pieces = [];
  for (const [kind, text] of line.parts) {
    if (room <= 0) break;
    pieces.push(html`<span class=${kind}>${shown(safeCut(text, room))}</span>`);
    room -= text.length;
  }
  const left = line.parts.reduce((sum, [, text]) => sum + text.length, 0) - LONGEST_LINE;
  return html`<div class="line ${worst}">
    <span class="no">${line.number}</span>
    <code>${pieces}${left > 0 && html`<em>… ${bytes(left)} more on this line</em>`}${calls.length > 0 && html`<span
      class="made">${short(callWords(calls), 60)}</span>`}</code>
    ${said.slice(0, MOST_MARKS).map((mark) => html`<p class="said ${mark.kind}"><b>${mark.kind}</b> <bdi>
      ${short(mark.text, 400)}</bdi></p>`)}
  </div>`;
}

function callWords(calls) {
  const names = new Map();
  for (const { text } of calls) names.set(text, (names.get(text) ?? 0) + 1);
  return [...names].slice(0, 3).map(([name, times]) => (times > 1 ? `${name} ×${times}` : name)).join(", ") + (names.size > 3 ? ", …" : "");
}

// `code` to edit. Lines do not wrap, so numbers and marks stand beside them. `marks`: `{line, column, kind, message}`.
export function Editor({ id, code, onInput, marks, label, jump }) {
  const area = useRef();
  const [scroll, setScroll] = useState({ top: 0, left: 0 });
  const places = marksByLine(marks);
  const lines = code.split("\n");
  jump.current = (mark) => moveTo(area.current, lines, mark);
  // Only lines in sight are drawn behind the text; a line has the height that style.css gives it.
  const height = 20;
  const from = Math.max(0, Math.floor(scroll.top / height) - 5);
  const some = lines.slice(from, from + 60);
  const shift = { transform: `translate(${-scroll.left}px, ${from * height - scroll.top}px)` };
  const up = { transform: `translateY(${from * height - scroll.top}px)` };
  return html`<div class="editor">
    <div class="gutter" aria-hidden="true"><div style=${up}>${some.map((_, at) => {
      const kind = worstKind(places.get(from + at + 1));
      return html`<span key=${from + at} class=${kind}>${from + at + 1}</span>`;
    })}</div></div>
    <div class="sheet">
      <div class="behind" aria-hidden="true"><div style=${shift}>${some.map((text, at) => html`<${Behind}
        key=${from + at} text=${text} marks=${places.get(from + at + 1)} />`)}</div></div>
      <textarea id=${id} ref=${area} aria-label=${label} aria-describedby=${`${id}-findings`} spellcheck=${false}
        autocapitalize="off" autocomplete="off" wrap="off"
        value=${code} onInput=${(event) => onInput(event.target.value)}
        onScroll=${(event) => setScroll({ top: event.target.scrollTop, left: event.target.scrollLeft })}></textarea>
    </div>
  </div>`;
}

const worstKind = (marks = []) => (marks.some((mark) => mark.kind === "error") ? "error" : marks.length ? "warning" : "");

// The word at a mark's column is underlined; its own text is invisible, that of the text field above it shows.
function Behind({ text, marks }) {
  if (!marks) return html`<div> </div>`;
  const column = Math.max(0, (marks[0].column ?? 1) - 1);
  const word = text.slice(column).match(/^[\w$]+|^[^\w\s]+|^\s+/)?.[0] ?? " ";
  return html`<div class=${worstKind(marks)}>${text.slice(0, column)}<u>${word}</u></div>`;
}

function moveTo(area, lines, { line, column }) {
  const before = lines.slice(0, Math.max(0, line - 1)).reduce((sum, text) => sum + text.length + 1, 0);
  const at = before + Math.max(0, (column ?? 1) - 1);
  area.focus();
  area.setSelectionRange(at, at);
  area.scrollTop = Math.max(0, (line - 4) * 20);
}
