// Sign-in, the frame around the views, and the router.

import { render } from "./vendor/preact.js";
import { useEffect, useErrorBoundary, useRef, useState } from "./vendor/hooks.js";
import { currentSession, follow, get, login, logout, onEnded, takeToken } from "./api.js";
import { announce, Field, html, Problem, useAction, useLoad } from "./ui.js";
import { short, things } from "./text.js";
import { Now } from "./now.js";
import { Runs } from "./runs.js";
import { Run } from "./run.js";
import { Approvals } from "./approvals.js";
import { Catalog } from "./catalog.js";
import { Spending } from "./spending.js";

const VIEWS = [
  { name: "now", title: "Now", view: Now },
  { name: "runs", title: "Runs", view: Runs },
  { name: "approvals", title: "Approvals", view: Approvals },
  { name: "catalog", title: "Catalog", view: Catalog },
  { name: "spending", title: "Spending", view: Spending },
];

const LEFT = "You signed out.";
const LEFT_HERE = "You signed out here. The gateway did not answer, and keeps the session for twelve hours at most.";

// The view that the address names: `#/runs/ID?client=x` is `{name: "runs", rest: ["ID"], query}`.
function readRoute() {
  const [path, words] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(plain);
  const name = VIEWS.some((view) => view.name === parts[0]) ? parts[0] : "now";
  return { name, rest: parts.slice(1), query: Object.fromEntries(new URLSearchParams(words ?? "")) };
}

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const change = () => setRoute(readRoute());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

function App() {
  const [session, setSession] = useState(currentSession);
  const [said, setSaid] = useState("");
  const entry = useAction();
  const enter = (token) => entry.run(() => login(token)).then((made) => made && (setSaid(""), setSession(made)));
  useEffect(() => {
    onEnded((text) => (setSaid(text), setSession(null)));
    const arrive = () => {
      const token = takeToken();
      if (token) enter(token);
    };
    arrive();
    // A second address with a token, opened in the same tab, only changes the fragment.
    addEventListener("hashchange", arrive);
    return () => removeEventListener("hashchange", arrive);
  }, []);
  const leave = () => logout().then((ended) => (setSaid(ended ? LEFT : LEFT_HERE), setSession(null)));
  if (!session) return html`<${SignIn} said=${said} entry=${entry} enter=${enter} />`;
  return html`<${Frame} key=${session.session} session=${session} leave=${leave} />`;
}

function SignIn({ said, entry, enter }) {
  const [token, setToken] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) enter(token.trim());
  };
  useEffect(() => (document.title = "Sign in · ForgeFS console"), []);
  return html`<main class="signin" id="main">
    <h1><${Mark} /> ForgeFS console</h1>
    ${said && html`<p role="status">${short(said, 300)}</p>`}
    <${Problem} error=${entry.error} />
    <form onSubmit=${submit}>
      <${Field} label="Token" id="token"><input id="token" type="password" autocomplete="off" spellcheck=${false}
        value=${token}
        onInput=${(event) => setToken(event.target.value)} /><//>
      <button type="submit" class="primary" disabled=${entry.busy}>${entry.busy ? "Signing in…" : "Sign in"}</button>
    </form>
    <h2>Where is a token?</h2>
    <p>On this machine, <code>forgefs console</code> prints an address with a new token and opens it.</p>
    <p>For a gateway on HTTP, it is the token of <code>[console]</code> in its configuration.</p>
  </main>`;
}

const Mark = () => html`<svg class="mark" viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16"
  rx="3.5" />
  <path d="M4 4h8v2H6.5v1.5H11v2H6.5V12H4z" /></svg>`;

function Frame({ session, leave }) {
  const route = useRoute();
  const [live, setLive] = useState({ link: "connecting", state: null, offset: 0 });
  const about = useLoad((signal) => get("about", {}, signal), []);
  const main = useRef();
  const first = useRef(true);
  const waiting = live.state?.approvals ?? 0;
  const place = [route.name, ...route.rest].join("/");

  useEffect(() => {
    const control = new AbortController();
    follow({
      signal: control.signal,
      onLink: (link) => setLive((old) => ({ ...old, link })),
      onState: (state) => setLive((old) => ({ ...old, state, offset: state.at_ms - Date.now() })),
    });
    return () => control.abort();
  }, []);
  useEffect(() => {
    document.title = `${VIEWS.find((view) => view.name === route.name).title} · ForgeFS console`;
    // A reader of the page goes on at the heading of the view that was opened.
    if (!first.current) {
      scrollTo(0, 0);
      (main.current.querySelector("h1") ?? main.current).focus({ preventScroll: true });
    }
    first.current = false;
  }, [place]);
  useEffect(() => {
    if (waiting) announce(`${things(waiting, "approval")} waiting`);
  }, [waiting]);

  const { view } = VIEWS.find((one) => one.name === route.name);
  return html`
    <button type="button" class="skip" onClick=${() => main.current.focus()}>Skip to the content</button>
    <header>
      <a class="brand" href="#/now"><${Mark} />ForgeFS</a>
      <nav aria-label="Views"><ul>${VIEWS.map(({ name, title }) => html`<li><a href=${`#/${name}`}
        aria-current=${name === route.name ? "page" : undefined}>${title}${name === "approvals" && waiting > 0 &&
        html`<span class="tally">${waiting}<span class="hidden"> waiting</span></span>`}</a></li>`)}</ul></nav>
      <div class="side">
        <${Link} state=${live.link} />
        <button type="button" class="small" onClick=${leave}>Sign out</button>
      </div>
    </header>
    ${!session.can_act && html`<p class="band"
      id="read-only">This session is read-only: it shows everything, and its buttons that act are off.</p>`}
    <main id="main" ref=${main} tabindex="-1">
      <${Guard} key=${place}>
        ${route.name === "runs" && route.rest[0]
          ? html`<${Run} id=${route.rest[0]} about=${about.data} />`
          : html`<${view} route=${route} live=${live} about=${about.data} />`}
      <//>
    </main>
    <footer>ForgeFS ${short(session.version, 30)}${about.data?.config && html` · <bdi>${short(about.data.config, 120)}
      </bdi>`}</footer>`;
}

const LINKS = { connecting: ["busy", "connecting"], live: ["good", "live"], lost: ["bad", "lost; trying again"] };

const Link = ({ state }) => html`<span class="link ${LINKS[state][0]}" role="status"><span class="dot"
  aria-hidden="true"></span>${LINKS[state][1]}</span>`;

// A fault in one view leaves the others usable.
function Guard({ children }) {
  const [error, reset] = useErrorBoundary((fault) => console.error(fault));
  if (!error) return children;
  const failure = { message: "This view cannot show what the gateway sent.", hint: error.message };
  return html`<h1 tabindex="-1">Something is wrong</h1><${Problem} error=${failure} retry=${reset} />`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
