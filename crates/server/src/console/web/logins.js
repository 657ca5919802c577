// Logins to servers, by server and client, and ending them.

import { useState } from "./vendor/hooks.js";
import { get, post } from "./api.js";
import { Act, announce, Badge, Capped, Confirm, Empty, html, Loaded, Problem, Text, useAction, useLoad } from "./ui.js";
import { short, things } from "./text.js";

const OWNERS = { gateway: "one login for all", client: "each client its own", user: "each person their own" };

export function Logins() {
  const [turn, setTurn] = useState(0);
  const load = useLoad((signal) => get("logins", {}, signal), [turn]);
  return html`<${Loaded} load=${load} what="logins">${({ servers }) => servers.length
    ? servers.map((one) => html`<${Server} key=${one.server} ...${one} onEnded=${() => setTurn(turn + 1)} />`)
    : html`<${Empty}><p>No server is reached by HTTP, so none has a login.</p><//>`}<//>`;
}

function Server({ server, owner, logins, onEnded }) {
  return html`<article class="card" aria-label=${short(`Logins to ${server}`, 100)}>
    <div class="head"><h2><${Text} text=${server} length=${80} /></h2><span class="dim">${OWNERS[owner]}</span></div>
    <${Capped} items=${logins} step=${50} noun="logins">${(some) => html`<ul class="plain">${some.map((one) =>
      html`<${Login} key=${one.client ?? ""} server=${server} ...${one} onEnded=${onEnded} />`)}</ul>`}<//>
  </article>`;
}

function Login({ server, client, detail, usable, kept, onEnded }) {
  const [asks, setAsks] = useState(false);
  const end = useAction();
  const name = client ? `${server} as ${client}` : server;
  const answer = async (yes) => {
    setAsks(false);
    if (!yes) return;
    const told = await end.run(() => post("logins/end", client ? { server, client } : { server }));
    if (!told) return;
    announce(`${things(told.ended.length, "login")} ended.`);
    onEnded();
  };
  return html`<li><${Badge} state=${usable ? "ready" : "no login"} tone=${usable ? "good" : "warn"} />${" "}
    <b>${client ? html`<${Text} text=${client} length=${60} />` : "the gateway"}</b>: <bdi>${short(detail, 400)}</bdi>
    ${kept && html` <${Act} class="small" busy=${end.busy} label=${`End the login to ${short(name, 80)}`}
      onClick=${() => setAsks(true)}>End<//>`}
    <${Problem} error=${end.error} />
    ${asks && html`<${Confirm} title="End this login?" act="End" danger onClose=${answer}>
      <p>The login to <b><${Text} text=${name} length=${80} /></b> is revoked and forgotten. Calls that use it are refused
        until there is a new one.</p><//>`}</li>`;
}
