// Hostile texts made fit to be shown, and numbers, times and values as words.

// Characters that are invisible, or that change how others are laid out.
const INVISIBLE = new RegExp(
  "([\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F\\u00AD\\u034F\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F" +
    "\\u200B-\\u200F\\u2028-\\u202E\\u2060-\\u206F\\u3164\\uFE00-\\uFE0E\\uFEFF\\uFFA0\\uFFF0-\\uFFFB" +
    "\\u{1D173}-\\u{1D17A}\\u{E0000}-\\u{E0FFF}]|\\p{Cs})\\1*",
  "gu",
);
const STACKED = /(\p{M}{3})(\p{M}+)/gu;

// `text` with invisible characters as ⟨U+202E⟩, and stacks of combining marks cut.
export function shown(text) {
  const whole = typeof text === "string" ? text : text === null || text === undefined ? "" : String(text);
  // Nearly every text is plain ASCII, which needs no second look.
  if (/^[\n\t\x20-\x7e]*$/.test(whole)) return whole;
  return whole
    .replace(/\r\n/g, "\n")
    .replace(INVISIBLE, (run, one) => escaped(one, run.length / one.length))
    .replace(STACKED, (_, some, more) => `${some}⟨+${[...more].length} marks⟩`);
}

function escaped(one, times) {
  const code = one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return times > 1 ? `⟨U+${code} ×${times}⟩` : `⟨U+${code}⟩`;
}

// The first `length` characters of `text` as shown, on one line, with an ellipsis where something is left out.
export function short(text, length = 80) {
  const whole = typeof text === "string" ? text : String(text ?? "");
  const cut = shown(safeCut(whole, length * 2).replace(/\s+/g, " ")).trim();
  return cut.length > length || whole.length > length * 2 ? `${safeCut(cut, length)}…` : cut;
}

// The first `length` units of `text`, without half of a surrogate pair.
export function safeCut(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}

// What an object itself has by a hostile name, not what all objects have, such as `constructor`.
export const own = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);

// A JSON value as text: strings as they are, all else indented.
export function valueText(value) {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  return JSON.stringify(value, null, 2);
}

// A number with separators: 12,400.
export const count = (number) => (Number(number) || 0).toLocaleString("en-US");

// `number` things: "1 call", "2 calls".
export const things = (number, noun) => `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;

// Bytes: "820 bytes", "1.0 MB".
export function bytes(number) {
  if (number < 1000) return things(number, "byte");
  return number < 999500 ? `${(number / 1e3).toFixed(number < 1e4 ? 1 : 0)} kB` : `${(number / 1e6).toFixed(1)} MB`;
}

// Milliseconds: "0.4 ms", "380 ms", "2.4 s", "3 min 5 s", "2 h 4 min".
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(Number(ms))) return "–";
  if (ms < 10) return `${Number(ms).toFixed(ms === 0 ? 0 : 1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

// A time of day, with the date unless it is today: "14:18:10", "24 Nov 14:18", "2025-11-24 14:18".
export function moment(ms) {
  if (!ms) return "–";
  const [time, now] = [new Date(ms), new Date()];
  const clock = time.toLocaleTimeString("en-GB");
  if (time.toDateString() === now.toDateString()) return clock;
  const near = time.getFullYear() === now.getFullYear();
  const date = near ? time.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : time.toLocaleDateString("en-CA");
  return `${date} ${clock.slice(0, 5)}`;
}

// The machine's form of a time, for those that are one.
export function isoTime(ms) {
  const time = new Date(ms);
  return ms && !Number.isNaN(time.getTime()) ? time.toISOString() : undefined;
}

// Time since `ms`, or until it: "3 min ago", "in 40 s".
export function relative(ms, now = Date.now()) {
  const away = Math.abs(now - ms);
  if (away < 1000) return "now";
  const seconds = Math.floor(away / 1000);
  const words =
    seconds < 60 ? `${seconds} s`
    : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86400)} days`;
  return ms < now ? `${words} ago` : `in ${words}`;
}

// A cost, "0" as a dash.
export function money(cost) {
  const text = short(String(cost ?? "0"), 24);
  if (!Number(text)) return "–";
  return text;
}
