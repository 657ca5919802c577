// Hostile texts stay texts: markup, scripts, bidi characters, long words, a megabyte.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, go, main, NARROW, open, seeds, unfold, views, WIDE } from "./harness.mjs";

const EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202Egnp\u202C\u200B<svg onload=alert(3)>";
const LONG = "w".repeat(5000);

test("names and descriptions of a hostile server are shown as text", async () => {
  const { hostile } = await seeds();
  for (const size of [WIDE, NARROW]) {
    const opened = await open("#/catalog", { size });
    const { page } = opened;
    const { entries } = await api(`ls?path=${encodeURIComponent(`/${hostile}/`)}`);
    assert.ok(entries.length > 0);
    for (const entry of entries.slice(0, 12)) {
      await go(page, `#/catalog?path=${encodeURIComponent(entry.path)}`);
      await unfold(page);
      await clean(opened);
    }
    await opened.close();
  }
});

test("some hostile text is there, and its invisible characters are visible", async () => {
  const { hostile, hostileTool } = await seeds();
  const opened = await open(`#/catalog?path=${encodeURIComponent(hostileTool)}`);
  let text = "";
  for (const hash of [
    `#/catalog?path=${encodeURIComponent(`/${hostile}/`)}`,
    "#/runs?text=%3C",
    `#/catalog?path=${encodeURIComponent(hostileTool)}`,
  ]) {
    await go(opened.page, hash);
    await unfold(opened.page);
    text += await opened.page.textContent("main");
  }
  assert.match(text, /<(script|img|svg|b|iframe)\b/i, "markup among the seeded texts");
  assert.match(text, /⟨U\+[0-9A-F]{4,6}( ×\d+)?⟩/, "invisible characters among the seeded texts");
  await clean(opened);
  await opened.close();
});

test("a hostile address makes no elements", async () => {
  const opened = await open("#/now");
  const bad = encodeURIComponent(EVIL);
  for (const hash of [
    `#/runs?client=${bad}&text=${bad}&label=${bad}`,
    `#/catalog/search?q=${bad}`,
    `#/spending?by=${bad}&hours=${bad}`,
    "#/runs?%E0%A4%A=1",
    "#/%E0%A4%A",
  ]) {
    await go(opened.page, hash);
    await clean(opened, { failed: true });
  }
  for (const hash of [`#/runs/${bad}`, `#/catalog?path=${bad}`]) {
    await go(opened.page, hash);
    await opened.page.getByRole("alert").or(opened.page.locator(".empty")).first().waitFor();
    await clean(opened, { failed: true });
  }
  await opened.close();
});

// Each answer of the API with every text replaced: what no server here says, another one will.
test("every text of every answer may be hostile", async () => {
  const poison = (value, key = "") => {
    if (typeof value === "string") return /^(id|cursor|session|kind|path|ident)$|_ms$/.test(key) ? value : EVIL + LONG;
    if (Array.isArray(value)) return value.slice(0, 50).map((one) => poison(one, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, poison(one, name)]));
    return value;
  };
  for (const size of [WIDE, NARROW]) {
    const opened = await open("#/now", { size });
    await opened.page.route(/\/api\/(?!live|login)/, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: poison(await answer.json()) });
    });
    for (const [name, hash] of await views()) {
      await go(opened.page, hash);
      await unfold(opened.page);
      assert.equal(await opened.page.getByText("This view cannot show").count(), 0, `${name} with hostile texts`);
      await clean(opened);
    }
    await opened.close();
  }
});

test("a live snapshot may be hostile", async () => {
  const opened = await open("#/spending");
  const call = {
    call: 1,
    server: EVIL,
    tool: LONG,
    args: EVIL,
    began_ms: Date.now(),
    ms: 3,
    outcome: EVIL,
    verdict: EVIL,
    error: LONG,
  };
  const run = {
    id: EVIL,
    client: EVIL,
    client_name: LONG,
    session: EVIL,
    language: LONG,
    began_ms: Date.now(),
    code: EVIL + LONG,
    dry_run: true,
    background: true,
    calls: 5,
    max_calls: 9,
    wall_ms: 1000,
    title: LONG,
    progress: LONG,
    labels: [EVIL, LONG],
    recent: [call],
  };
  const server = {
    name: LONG,
    ident: EVIL,
    state: EVIL,
    detail: LONG,
    breaker: LONG,
    tools: 5,
    instances: 3,
    in_flight: 1,
    calls: 3,
    failed: 2,
    p50_ms: 1,
    p95_ms: 2,
  };
  const state = {
    at_ms: Date.now(),
    runs: [run],
    runs_left_out: 0,
    elsewhere: [
      { ...run, id: LONG, title: EVIL, last: LONG, pid: 4711, config: LONG },
      { ...run, id: "0123456789ab", client_name: null, title: "", calls: null, last: null, pid: null, config: null },
    ],
    servers: [server],
    workers: { idle: 1, busy: 1, max: 2, queued: 0, queue_max: 4 },
    approvals: 3,
    clients: 1,
    today: { spent: EVIL, limit: LONG },
  };
  await opened.page.route("**/api/live", (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify(state)}\n\n` }),
  );
  await opened.page.goto(`${main.page}#/now`);
  await opened.page.reload();
  await opened.page.locator("article.running").nth(2).waitFor();
  for (const size of [WIDE, NARROW]) {
    await opened.page.setViewportSize(size);
    await clean(opened);
  }
  await opened.close();
});

test("a megabyte is cut, and shown whole when asked, while the page answers", async (t) => {
  const [server, tool] = (process.env.FORGEFS_MEGABYTE_TOOL ?? "hostile/megabyte").split("/");
  const opened = await open(`#/catalog?path=${encodeURIComponent(`/${server}/${tool}.pyi`)}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Write JSON" }).click();
  await page.getByLabel("Arguments as JSON").fill(process.env.FORGEFS_MEGABYTE_ARGUMENTS ?? "{}");
  await page.getByRole("button", { name: "Call the tool" }).click();
  const answer = page.getByRole("region", { name: "Answer", exact: true });
  await answer.waitFor();
  assert.ok((await answer.textContent()).length < 20000, "the answer is cut at first");
  await page.evaluate(() => {
    window.slowest = 0;
    let last = performance.now();
    const frame = (now) => (
      (window.slowest = Math.max(window.slowest, now - last)),
      (last = now),
      requestAnimationFrame(frame)
    );
    requestAnimationFrame(frame);
  });
  const began = performance.now();
  await page
    .locator(".told")
    .getByRole("button", { name: /^Show all/ })
    .first()
    .click();
  await page.waitForFunction((node) => node.textContent.length > 900000, await answer.elementHandle());
  const slowest = await page.evaluate(() => window.slowest);
  t.diagnostic(
    `a megabyte is shown in ${Math.round(performance.now() - began)} ms; the longest frame took ${Math.round(slowest)} ms`,
  );
  assert.ok(slowest < 1000, `a frame took ${slowest} ms`);
  await clean(opened);
  await opened.close();
});
