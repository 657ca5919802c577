// The session, requests to the API, and the event stream.

const KEPT = "forgefs.console.session";
const BASE = new URL("../api/", document.baseURI);
const BACK_OFF_MS = [500, 1000, 2000, 4000, 8000, 15000];
// A stream that is silent for so long is taken for dead. The gateway sends comments in between.
const SILENCE_MS = 60000;
const LOGOUT_MS = 10000;
const LONGEST_EVENT = 16 * 1024 * 1024;

// A request that failed: `message` says what was wrong, `hint` what to do, `status` is that of HTTP, 0 without an answer.
export class Failure extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

let session = read();
let ended = () => {};

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

function keep(value) {
  session = value;
  if (value) sessionStorage.setItem(KEPT, JSON.stringify(value));
  else sessionStorage.removeItem(KEPT);
}

// The session in force: `{session, can_act, version, expires_ms}`, or null.
export const currentSession = () => session;

// Calls `listener` with a text when the session ends without the user's doing.
export const onEnded = (listener) => (ended = listener);

// Takes the one-time token out of the address, so that neither the address nor the history has it. Views begin with `#/`.
export function takeToken() {
  const fragment = location.hash.slice(1);
  if (!fragment || fragment.startsWith("/")) return null;
  history.replaceState(null, "", location.pathname + location.search + "#/now");
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

// Exchanges a token for a session. A failure leaves the session that there is.
export async function login(token) {
  keep(await send("login", { body: { token }, bearer: null }));
  return session;
}

// Forgets the session, then ends it at the gateway. True if the gateway has ended it.
export async function logout() {
  const bearer = session?.session;
  keep(null);
  if (!bearer) return true;
  // A page that closes meanwhile still sends it.
  const ended = send("logout", { body: {}, bearer, keepalive: true, signal: AbortSignal.timeout(LOGOUT_MS) });
  return ended.then(() => true, (failure) => failure.status === 401);
}

function end(text) {
  if (!session) return;
  keep(null);
  ended(text);
}

// Reads `path` below /api/, with `query` as parameters; those that are empty are left out.
export function get(path, query, signal) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") words.set(key, value);
  }
  const tail = words.toString();
  return send(tail ? `${path}?${tail}` : path, { signal });
}

// Sends `body` as JSON to `path` below /api/.
export const post = (path, body, signal) => send(path, { body, signal });

async function send(path, { body, signal, keepalive, bearer = session?.session }) {
  const headers = {};
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init = { headers, signal, keepalive, credentials: "omit", cache: "no-store", redirect: "error" };
  if (body !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(body) });
  let answer;
  try {
    answer = await fetch(new URL(path, BASE), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The gateway does not answer.", "Check that it still runs, then try again.", 0);
  }
  if (answer.ok) return parsed(answer);
  const failure = await refused(answer);
  if (answer.status === 401 && path !== "login") end(failure.message);
  throw failure;
}

async function parsed(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The answer of the gateway is not whole.", "Try again.", answer.status);
  }
}

async function refused(answer) {
  const error = await answer.json().then((body) => body?.error, () => null);
  const message = error?.message || `The gateway answered with status ${answer.status}.`;
  return new Failure(String(message), error?.hint ? String(error.hint) : "", answer.status);
}

// Follows /api/live until `signal` aborts: `onState` gets each snapshot, `onLink` "connecting", "live" or "lost".
export async function follow({ onState, onLink, signal }) {
  onLink("connecting");
  for (let failures = 0; !signal.aborted; ) {
    const began = Date.now();
    let heard = false;
    try {
      await stream(signal, (state) => {
        if (!heard) onLink("live");
        heard = true;
        onState(state);
      });
    } catch {
      // Every end of the stream is followed by another try, whatever ended it.
    }
    if (signal.aborted || !session) return;
    onLink("lost");
    failures = heard && Date.now() - began > 5000 ? 0 : failures + 1;
    const pause = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)];
    await sleep(pause * (0.75 + Math.random() / 2), signal);
  }
}

async function stream(signal, onState) {
  const control = new AbortController();
  const stop = () => control.abort();
  signal.addEventListener("abort", stop);
  let watchdog = setTimeout(stop, SILENCE_MS);
  try {
    const headers = { Authorization: `Bearer ${session.session}`, Accept: "text/event-stream" };
    const init = { headers, signal: control.signal, credentials: "omit", cache: "no-store", redirect: "error" };
    const answer = await fetch(new URL("live", BASE), init);
    if (answer.status === 401) return end((await refused(answer)).message);
    if (!answer.ok) throw await refused(answer);
    const decoder = new TextDecoder();
    const reader = answer.body.getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MS);
      const events = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = events.pop();
      if (rest.length > LONGEST_EVENT) throw new Failure("An event is too long.", "", 0);
      for (const event of events) {
        const { name, data } = fields(event);
        if (name === "over") return end("The session ended.");
        if (name === "state") onState(JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    control.abort();
  }
}

function fields(event) {
  let name = "message";
  const data = [];
  for (const line of event.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return { name, data: data.join("\n") };
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
