// A browser for the tests, pages that watch what must never happen, and the API behind the pages.
// README.md has the variables that say where they look.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const modules = process.env.FORGEFS_BROWSER_MODULES;
const require = createRequire(modules ? path.resolve(modules, "package.json") : import.meta.url);
const { chromium } = require("playwright-core");
export const axe = require("axe-core").source;

const KEPT = "forgefs.console.session";
export const SCHEMES = ["light", "dark"];
export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 400, height: 800 };

// Characters that must not reach the page as they are.
const INVISIBLE = "[\\u200B-\\u200F\\u202A-\\u202E\\u2060-\\u2069\\u061C\\uFEFF\\u{E0000}-\\u{E007F}]";

function address(name) {
  const text = process.env[name];
  assert.ok(text, `${name} must be the address of a console with its token`);
  const url = new URL(text);
  const token = url.hash.slice(1);
  assert.ok(token, `${name} has no token behind #`);
  url.hash = "";
  return { page: url.href, token, origin: url.origin };
}

export const main = address("FORGEFS_CONSOLE_URL");
export const readOnly = address("FORGEFS_CONSOLE_READONLY_URL");

let browser;

export async function launch() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // Playwright makes a new, empty folder for the user's data.
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export const close = () => browser?.close();

// The sessions that the first tests made, as the page keeps them. A token is good for one login.
export const sessions = { main: null, readOnly: null };

// A handler that still answers when its page closes fails after its test, and node then fails the whole file.
async function closed(context) {
  for (const page of context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" });
  await context.close();
}

// A new page without a session. `watch` collects what must never happen.
export async function blank({ scheme = "light", size = WIDE, motion = "reduce", origin = main.origin } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: scheme, reducedMotion: motion });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
  const page = await context.newPage();
  const watch = { foreign: [], violations: [], faults: [], dialogs: [], failed: [] };
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.origin !== origin) watch.foreign.push(request.url());
    if (/[?&](token|session)=/.test(url.search)) watch.foreign.push(request.url());
  });
  page.on(
    "response",
    (response) => response.status() >= 400 && watch.failed.push(`${response.status()} ${response.url()}`),
  );
  page.on("pageerror", (error) => watch.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      watch.faults.push(message.text());
  });
  page.on("dialog", (dialog) => (watch.dialogs.push(dialog.message()), dialog.dismiss().catch(() => {})));
  await page.exposeBinding("toldViolation", (_, text) => watch.violations.push(text));
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) =>
      window.toldViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`),
    ),
  );
  page.setDefaultTimeout(Number(process.env.FORGEFS_BROWSER_TIMEOUT_MS ?? 15000));
  return { page, watch, context, close: () => closed(context) };
}

// A page with the session of the first login, at `hash`.
export async function open(hash, options = {}) {
  const session = "session" in options ? options.session : sessions.main;
  assert.ok(session, "the login must come first");
  const place = options.place ?? main;
  const opened = await blank({ ...options, origin: place.origin });
  await opened.page.addInitScript(
    ([key, value]) => sessionStorage.getItem(key) ?? sessionStorage.setItem(key, value),
    [KEPT, session],
  );
  await opened.page.goto(place.page + hash);
  await settled(opened.page);
  return opened;
}

export const kept = (page) => page.evaluate((key) => sessionStorage.getItem(key), KEPT);

// Waits until a view stands and nothing in it loads.
export async function settled(page) {
  await page.locator("main h1").first().waitFor();
  await page.waitForFunction(() => !document.querySelector(".loading") && !document.querySelector(".boot"));
}

// Repeats `check` until it holds, for a minute.
export async function eventually(check) {
  for (const end = Date.now() + 60_000; ; ) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

// Goes to another view as a link does.
export async function go(page, hash) {
  await page.evaluate((next) => (location.hash = next), hash);
  await settled(page);
}

// Opens everything that is folded, such as arguments and answers of calls.
export async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("main details:not([open])").forEach((one) => (one.open = true)));
  await page.waitForTimeout(50);
  await settled(page);
}

// Nothing happened that must never happen, and the page is of its own making.
export async function clean({ page, watch }, { failed = false } = {}) {
  assert.deepEqual(watch.foreign, [], "requests that leave the origin");
  assert.deepEqual(watch.violations, [], "violations of the content security policy");
  assert.deepEqual(watch.faults, [], "faults of scripts");
  assert.deepEqual(watch.dialogs, [], "dialogs");
  if (!failed) assert.deepEqual(watch.failed, [], "requests that failed");
  const found = await page.evaluate((invisible) => {
    const strange = document.querySelectorAll(
      "img, iframe, object, embed, video, audio, base, style, [srcdoc], [onerror], [onload], [onclick], [style*='url']",
    );
    const scripts = [...document.scripts].filter((one) => one.getAttribute("src") !== "main.js");
    const links = [...document.querySelectorAll("a[href], form[action], link[href]")].filter((one) => {
      const url = new URL(one.getAttribute("href") ?? one.getAttribute("action"), location.href);
      return url.origin !== location.origin && url.protocol !== "data:";
    });
    const pattern = new RegExp(invisible, "u");
    const attributes = [...document.querySelectorAll("[title], [aria-label], [placeholder]")].flatMap((one) => [
      one.title,
      one.ariaLabel,
      one.placeholder,
    ]);
    const hidden = [document.body.textContent, ...attributes]
      .filter((text) => text && pattern.test(text))
      .map((text) => text.match(pattern).index);
    const wide = document.documentElement.scrollWidth - innerWidth;
    const wider =
      wide > 0
        ? [...document.querySelectorAll("body *")]
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
            .slice(0, 3)
            .map((one) => one.outerHTML.slice(0, 120))
        : [];
    return {
      strange: [...strange, ...scripts, ...links].map((one) => one.outerHTML.slice(0, 200)),
      hidden,
      wide,
      wider,
    };
  }, INVISIBLE);
  assert.deepEqual(found.strange, [], "elements that a hostile text made");
  assert.deepEqual(found.hidden, [], "invisible characters in texts");
  assert.ok(
    found.wide <= 0,
    `the page ${page.url()} is ${found.wide} pixels wider than its window: ${found.wider.join("\n")}`,
  );
}

// Reads below /api/ with the session of the first login.
export async function api(where, body) {
  const headers = { Authorization: `Bearer ${JSON.parse(sessions.main).session}`, "Content-Type": "application/json" };
  const answer = await fetch(
    new URL(`../api/${where}`, main.page),
    body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) },
  );
  const told = await answer.json();
  assert.ok(answer.ok, `/api/${where} answered ${answer.status}: ${JSON.stringify(told)}`);
  return told;
}

// The newest run that `matches`, of those that the filter finds.
export async function findRun(filter, matches = () => true) {
  let cursor = "";
  for (let page = 0; page < 5; page += 1) {
    const found = await api(`runs?limit=100&${filter}&cursor=${encodeURIComponent(cursor)}`);
    for (const brief of found.runs) {
      if (!matches(brief)) continue;
      return api(`runs/${encodeURIComponent(brief.id)}`);
    }
    if (!found.next) break;
    cursor = found.next;
  }
  return null;
}

// The newest run whose whole record `matches`; looks at 40 at most.
export async function findWhole(filter, matches) {
  const found = await api(`runs?limit=40&${filter}`);
  for (const brief of found.runs) {
    const run = await api(`runs/${encodeURIComponent(brief.id)}`);
    if (matches(run)) return run;
  }
  return null;
}

// What the tests look at: names of the seeded servers and tools, by variables or by what the catalog has.
export async function seeds() {
  const servers = (await api("ls?path=/")).entries.filter((entry) => entry.kind === "server");
  const ident = (entry) => entry.path.split("/")[1];
  const large =
    process.env.FORGEFS_LARGE_SERVER ?? ident(servers.reduce((most, one) => (one.tools > most.tools ? one : most)));
  const hostile = process.env.FORGEFS_HOSTILE_SERVER ?? "hostile";
  const toolOf = async (server) =>
    (await api(`ls?path=${encodeURIComponent(`/${server}/`)}`)).entries.find((entry) => entry.kind === "tool").path;
  return {
    servers,
    large,
    hostile,
    hostileTool: await toolOf(hostile),
    tool: process.env.FORGEFS_TOOL ?? (await toolOf(ident(servers[0]))),
  };
}

// Every view that there is, as `[name, address]`.
export async function views() {
  const { tool, hostile, hostileTool } = await seeds();
  const catalog = (place) => `#/catalog?path=${encodeURIComponent(place)}`;
  const failed = await findRun("outcome=failed");
  const refused = await findRun("outcome=refused");
  const run = await findRun("outcome=ok", (brief) => brief.kind === "script");
  assert.ok(
    run && failed && refused,
    "a run that ended well, one that failed and one with a refused call must be there",
  );
  return [
    ["now", "#/now"],
    ["runs", "#/runs"],
    ["runs by text", `#/runs?text=${encodeURIComponent("<")}`],
    ["a run", `#/runs/${encodeURIComponent(run.id)}`],
    ["a failed run", `#/runs/${encodeURIComponent(failed.id)}`],
    ["a run with a refused call", `#/runs/${encodeURIComponent(refused.id)}`],
    ["approvals", "#/approvals"],
    ["catalog", "#/catalog"],
    ["a tool", catalog(tool)],
    ["a hostile server", catalog(`/${hostile}/`)],
    ["a hostile tool", catalog(hostileTool)],
    ["search", `#/catalog/search?q=${encodeURIComponent(process.env.FORGEFS_QUERY ?? "get a ticket")}`],
    ["script", "#/catalog/script"],
    ["drift", "#/catalog/drift"],
    ["add a server", "#/catalog/add"],
    ["spending", "#/spending"],
    ["spending by tool", "#/spending?hours=168&by=tool"],
  ];
}
