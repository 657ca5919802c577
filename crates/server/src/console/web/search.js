// Search as an agent's, with why each hit ranks where it does.

import { useState } from "./vendor/hooks.js";
import { get } from "./api.js";
import { Badge, Empty, Field, html, Loaded, Text, useLoad } from "./ui.js";
import { pathLink } from "./catalog.js";
import { own, short, things } from "./text.js";

const HOW = { word: "same word", synonym: "synonym", like: "word like it", name: "share of the name", meaning: "meaning",
  learned: "use" };

export function Search({ query }) {
  const [draft, setDraft] = useState(query);
  const submit = (event) => {
    event.preventDefault();
    location.hash = draft.trim() ? `#/catalog/search?q=${encodeURIComponent(draft.trim())}` : "#/catalog/search";
  };
  return html`<form class="filters" role="search" aria-label="Search the catalog" onSubmit=${submit}>
      <${Field} label="What should the tool do?" id="q" class="grow"><input id="q" type="search" value=${draft}
        onInput=${(event) => setDraft(event.target.value)} /><//>
      <div class="buttons"><button type="submit" class="primary">Search</button></div></form>
    ${query ? html`<${Hits} query=${query} />` : html`<${Empty}><p>Search as an agent does.</p>
      <p>Each hit shows which words found it, and what each of them gives.</p><//>`}`;
}

function Hits({ query }) {
  const load = useLoad((signal) => get("search", { q: query, limit: 20 }, signal), [query]);
  return html`<${Loaded} load=${load} what="hits">${(data) => {
    if (!data.hits.length) return html`<${Empty}><p>Nothing matches.</p>
      <p>Use words for what the tool does, such as “create ticket”.</p><//>`;
    const best = Math.max(...data.hits.map((hit) => hit.score), 1e-9);
    return html`<p class="dim" role="status">
      ${things(data.hits.length, "hit")}${data.weak ? "; all of them weak: an agent is told so" : ""}</p>
      <ol class="hits">${data.hits.map((hit) => html`<${Hit} key=${hit.path} hit=${hit} best=${best} />`)}</ol>`;
  }}<//>`;
}

const number = (value) => (value === null || value === undefined ? "–" : Number(value).toFixed(2));

const Hit = ({ hit, best }) => html`<li class="card hit">
  <div class="head"><h2><a href=${pathLink(hit.path)}><${Text} text=${`${hit.server}.${hit.name}`} length=${70} /></a>
    </h2>
    ${hit.effect && html`<${Badge} state=${hit.effect} tone=${hit.effect === "read-only" ? "good" : "warn"} />`}
    ${hit.agent_sees === false && html`<${Badge} state="not shown to agents" tone="calm" />`}
    <span class="score"><span class="bar" aria-hidden="true"><span style=${{ width: `${(hit.score / best) * 100}%` }}>
      </span></span>${number(hit.score)}</span></div>
  <p><bdi>${short(hit.summary, 240)}</bdi></p>
  <details open=${hit.score === best}><summary>Why it ranks here</summary>
    <table class="plain"><thead><tr><th scope="col">Word</th><th scope="col">Found as</th><th scope="col">How</th>
      <th scope="col">In</th><th scope="col" class="num">Rarity</th><th scope="col" class="num">Gives</th></tr></thead>
      <tbody>${(hit.why ?? []).slice(0, 40).map((one) => html`<tr><td><${Text} text=${one.word ?? "–"} length=${30} /></td><td>
        <${Text} text=${one.as} length=${30} /></td><td>${own(HOW, one.how) ?? short(one.how, 20)}</td>
        <td>${short((one.fields ?? []).join(", "), 60)}</td><td class="num">${number(one.rarity)}</td><td class="num">
          ${number(one.gives)}</td></tr>`)}</tbody></table>
    ${(hit.boosts ?? []).map((boost) => html`<p class="dim">× ${number(boost.factor)} <bdi>
      ${short(boost.what, 120)}</bdi></p>`)}</details>
</li>`;
