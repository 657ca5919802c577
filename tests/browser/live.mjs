// What runs now: the stream, its loss and return, stop.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, go, main, open, sessions } from "./harness.mjs";

// The first state of the stream, as JSON text.
async function snapshot() {
  const answer = await fetch(new URL("../api/live", main.page), {
    headers: { Authorization: `Bearer ${JSON.parse(sessions.main).session}` },
  });
  assert.match(answer.headers.get("content-type"), /^text\/event-stream/);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    assert.ok(!done, "the stream ended without a state");
    text += value;
    const event = text
      .split(/\r?\n\r?\n/)
      .slice(0, -1)
      .find((one) => /^event: ?state$/m.test(one));
    if (!event) continue;
    await reader.cancel();
    return event.match(/^data: ?(.*)$/m)[1];
  }
}

test("Now shows each running script with its calls, and each server with its state", async () => {
  const state = JSON.parse(await snapshot());
  assert.ok(state.runs.length > 0, "a running script must be there");
  const opened = await open("#/now");
  const { page } = opened;
  await page.locator("header").getByText("live", { exact: true }).waitFor();
  assert.ok((await page.locator("article.running").count()) > 0);
  assert.ok((await page.locator("article.running .meter").count()) >= 2);
  assert.equal(await page.getByRole("table", { name: "Servers" }).locator("tbody tr").count(), state.servers.length);
  const clock = page.locator("article.running .amount").first();
  const before = await clock.textContent();
  await page.waitForFunction(([node, text]) => node.textContent !== text, [await clock.elementHandle(), before]);
  await page.locator("article.running summary").first().click();
  await page.getByRole("region", { name: "Code of the script" }).waitFor();
  await clean(opened);
  await opened.close();
});

test("a stream that cannot be opened is tried again, until it is live", async () => {
  const opened = await open("#/spending");
  const { page } = opened;
  const refuse = (route) => route.abort();
  await page.route("**/api/live", refuse);
  await page.reload();
  await page.locator("header").getByText("lost; trying again").waitFor();
  await go(page, "#/now");
  await page.getByText("The gateway does not answer.").waitFor();
  await page.unroute("**/api/live", refuse);
  await page.locator("header").getByText("live", { exact: true }).waitFor();
  await page.locator("dl.totals").waitFor();
  await clean(opened, { failed: true });
  await opened.close();
});

test("a stream that ends keeps the last state on the page, and comes back", async () => {
  const data = await snapshot();
  const opened = await open("#/spending");
  const { page } = opened;
  const once = (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `: comment\r\n\r\nevent: state\r\ndata:${data}\r\n\r\n` });
  await page.route("**/api/live", once);
  await page.goto(`${main.page}#/now`);
  await page.reload();
  await page.locator("header").getByText("lost; trying again").waitFor();
  await page.locator("dl.totals").waitFor();
  await page.unroute("**/api/live", once);
  await page.locator("header").getByText("live", { exact: true }).waitFor();
  await clean(opened);
  await opened.close();
});

test("the end of a session in the stream leads to the form", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  await page.route("**/api/live", (route) =>
    route.fulfill({ contentType: "text/event-stream", body: "event: over\ndata: {}\n\n" }),
  );
  await page.reload();
  await page.getByLabel("Token").waitFor();
  await page.getByText("The session ended.").waitFor();
  await clean(opened);
  await opened.close();
});

test("stop asks first, and then the script is gone", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  // A script with a call that waits for its approval is left to the tests of approvals.
  const asking = (await api("approvals")).waiting.map((one) => one.run);
  const run = JSON.parse(await snapshot()).runs.findLast((one) => !asking.includes(one.id));
  assert.ok(run, "a running script without a waiting call");
  const link = `#/runs/${encodeURIComponent(run.id)}`;
  const card = page.locator("article.running").filter({ has: page.locator(`a[href="${link}"]`) });
  const stop = card.getByRole("button", { name: /^Stop the script/ });
  await stop.click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.locator(`article.running a[href="${link}"]`).count(), 1, "cancel leaves the script running");
  await stop.click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop it" }).click();
  await page.locator(`article.running a[href="${link}"]`).waitFor({ state: "detached" });
  await clean(opened);
  await opened.close();
});

test("the page asks for nothing but its own files and its API", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url())));
  await page.reload();
  await page.locator("header").getByText("live", { exact: true }).waitFor();
  const folder = new URL(main.page).pathname;
  const strange = asked.filter(
    (url) =>
      url.protocol !== "data:" &&
      (url.origin !== main.origin || !(url.pathname.startsWith(folder) || url.pathname.includes("/api/"))),
  );
  assert.deepEqual(strange.map(String), []);
  assert.ok((await api("about")).version);
  await opened.close();
});

test("a script of another gateway says which one, and is stopped there", async () => {
  const state = JSON.parse(await snapshot());
  const hostile = "<img src=x onerror=alert(1)>\u202e\u200b";
  state.elsewhere = [
    { id: "0123456789ab", client: "local", client_name: hostile, language: "starlark", title: hostile, began_ms: state.at_ms, calls: 3, last: `a.${hostile}`, pid: 4711, config: `/home/x/${hostile}` },
    { id: "0123456789ac", client: "local", client_name: null, language: "javascript", title: "", began_ms: state.at_ms, calls: null, last: null, pid: null, config: null },
  ];
  const opened = await open("#/spending");
  const { page } = opened;
  await page.route("**/api/live", (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify(state)}\n\n` }),
  );
  await page.goto(`${main.page}#/now`);
  await page.reload();
  const cards = page.locator("article.running").filter({ hasText: "it can be stopped there" });
  await cards.first().waitFor();
  assert.equal(await cards.count(), 2);
  assert.equal(await cards.getByRole("button").count(), 0);
  assert.match(await cards.first().textContent(), /gateway 4711 of\s+\/home\/x\/<img/);
  const running = state.runs.length + state.runs_left_out + 2;
  assert.ok((await page.locator("dl.totals > div").first().textContent()).includes(String(running)));
  await clean(opened);
  await opened.close();
});
