// The inbox: what waits is shown with its arguments, and each decision reaches the gateway.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, go, open } from "./harness.mjs";

// What fewer calls offer comes first.
const DECISIONS = [
  { button: "Allow the plan", allow: true, scope: "plan" },
  { button: "Allow for the run", allow: true, scope: "run" },
  { button: "Deny…", allow: false, scope: "once", reason: "Not <b>today</b>: ask me tomorrow." },
  { button: "Allow once", allow: true, scope: "once" },
];

test("each decision is made with its button, as far as calls wait", async (t) => {
  const { waiting } = await api("approvals");
  assert.ok(waiting.length > 0, "a call must wait for its approval");
  const opened = await open("#/approvals");
  const { page } = opened;
  const cards = page.locator("article.approval");
  assert.equal(await cards.count(), waiting.length);
  assert.equal(await cards.getByRole("region", { name: /^Arguments of/ }).count(), waiting.length);
  for (const { button, allow, scope, reason } of DECISIONS) {
    const card = cards.filter({ has: page.getByRole("button", { name: button, exact: true }) }).first();
    if (!(await card.count())) {
      t.diagnostic(`no waiting call was left for “${button}”`);
      continue;
    }
    const place = await card.getAttribute("id");
    const sent = page.waitForRequest(
      (request) => request.method() === "POST" && request.url().includes("/api/approvals/"),
    );
    await card.getByRole("button", { name: button, exact: true }).click();
    if (reason) {
      await card.getByLabel("Reason, which the agent reads").fill(reason);
      await card.getByRole("button", { name: "Deny", exact: true }).click();
    }
    const request = await sent;
    const { plan, ...decision } = request.postDataJSON();
    assert.deepEqual(decision, { allow, scope, reason: reason ?? null });
    assert.equal(plan !== null, scope === "plan", "a plan is decided as it was shown");
    await page.locator(`[id="${place}"]`).waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", "the focus goes to the heading");
    const id = decodeURIComponent(new URL(request.url()).pathname.split("/").at(-1));
    assert.equal(place, `approval-${id}`);
    const { decided } = await api("approvals");
    const found = decided.find((one) => one.id === id);
    assert.equal(found.decision.allowed, allow);
    assert.equal(found.decision.scope, scope);
    if (reason)
      await page
        .getByRole("table", { name: /^Decided/ })
        .getByText(reason)
        .waitFor();
  }
  await clean(opened);
  await opened.close();
});

test("an approval that someone else decided says so", async () => {
  const opened = await open("#/approvals");
  const { page } = opened;
  const one = {
    id: "gone",
    state: "waits",
    client: "c",
    client_name: null,
    session: "s",
    run: null,
    server: "a",
    tool: "b",
    call: "a.b",
    reasons: [],
    labels: [],
    arguments: {},
    question: "May it?",
    asked_ms: Date.now(),
    until_ms: Date.now() + 60000,
    plan: null,
    decision: null,
    used: null,
  };
  await page.route("**/api/approvals", (route) =>
    route.fulfill({ json: { waiting: [one], decided: [], waits: true } }),
  );
  await page.getByRole("button", { name: "Refresh" }).click();
  const card = page.locator("article.approval").filter({ hasText: "May it?" });
  await card.waitFor();
  assert.equal(
    await card.getByRole("button", { name: "Allow the plan" }).count(),
    0,
    "without a plan there is none to allow",
  );
  await card.getByRole("button", { name: "Allow once" }).click();
  await card.getByRole("alert").waitFor();
  await clean(opened, { failed: true });
  await opened.close();
});

test("what is allowed is made by its run, which the page resumes after a question", async () => {
  const { decided } = await api("approvals");
  const one = decided.find((one) => one.state === "allowed" && one.client === "local");
  assert.ok(one, "a call that is allowed and not made");
  const opened = await open("#/approvals");
  const { page } = opened;
  // As after a decision: what was allowed, and how it goes on.
  const waits = { ...one, state: "waits", decision: null, plan: null };
  const first = { waiting: [waits], decided: [], waits: true };
  await page.route("**/api/approvals", (route) => route.fulfill({ json: first }));
  await page.route("**/api/approvals/*", (route) => route.fulfill({ json: one }));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  const next = page.getByRole("region", { name: "What comes next" });
  await next.getByRole("button", { name: "Copy command" }).click();
  await next.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `forgefs run --resume ${one.run}`);
  await page.unrouteAll({ behavior: "wait" });
  await next.getByRole("button", { name: "Resume the run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal((await api(`runs/${one.run}`)).resumed_by, null, "cancel resumes nothing");
  await next.getByRole("button", { name: "Resume the run" }).click();
  const sent = page.waitForResponse((answer) => answer.url().endsWith(`/runs/${one.run}/resume`));
  await page.getByRole("dialog").getByRole("button", { name: "Resume", exact: true }).click();
  const told = await (await sent).json();
  assert.equal(told.ok, true, JSON.stringify(told));
  await next.getByText("It answered.").waitFor();
  // Both runs have one history.
  for (const run of [one.run, told.run]) {
    await go(page, `#/runs/${run}`);
    const rows = page.getByRole("table", { name: /^Runs of the chain/ }).locator("tbody tr");
    assert.equal(await rows.count(), 2);
    assert.ok((await rows.nth(run === told.run ? 1 : 0).textContent()).includes("this one"));
  }
  await clean(opened);
  await opened.close();
});

test("a run is resumed from its page, which goes on at the new one", async () => {
  const { decided } = await api("approvals");
  const one = decided.find((one) => one.state === "allowed" && one.client === "local");
  assert.ok(one, "a further call that is allowed and not made");
  const opened = await open(`#/runs/${one.run}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Resume the run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume", exact: true }).click();
  await page.waitForFunction((run) => !location.hash.endsWith(run), one.run);
  await page.getByRole("region", { name: "Value of the script" }).waitFor();
  const { resumed_by: next } = await api(`runs/${one.run}`);
  assert.equal(new URL(page.url()).hash, `#/runs/${next}`);
  await clean(opened);
  await opened.close();
});

test("a destructive call says so, and decided rows have no null", async () => {
  const opened = await open("#/approvals");
  const { page } = opened;
  const hostile = "<b>Delete</b> \u202eall";
  const one = {
    id: "gone",
    client: "c",
    client_name: hostile,
    session: "s",
    run: "0123456789ab",
    server: "a",
    tool: "b",
    effect: "destructive",
    reasons: ["a rule", hostile],
    labels: [],
    arguments: { what: hostile },
    question: `ForgeFS asks: may a.b be called?\n▌ Because: ${hostile}\n▌ With:\n▌   what: x`,
    asked_ms: Date.now(),
    until_ms: Date.now() + 60000,
    plan: [
      { server: "a", tool: "b", writes: true, effect: "destructive", places: 1, repeats: false },
      { server: "a", tool: "c", writes: true, effect: null, places: 1, repeats: false },
      { server: "a", tool: "d", writes: false, effect: "read-only", places: 1, repeats: false },
    ],
    decision: null,
    used: null,
  };
  const old = { ...one, id: "old", state: "denied", arguments: null };
  await page.route("**/api/approvals", (route) =>
    route.fulfill({ json: { waiting: [one], decided: [old], waits: true } }),
  );
  await page.getByRole("button", { name: "Refresh" }).click();
  const card = page.locator("article.approval");
  await card.getByText("May a.b be called?").waitFor();
  assert.equal(await card.getByText("a rule").count(), 1, "each reason once");
  assert.equal(await card.locator(".head .badge").textContent(), "destructive");
  const effects = await card.getByRole("table", { name: "Plan" }).locator(".badge").allTextContents();
  assert.deepEqual(effects.map((text) => text.trim()), ["destructive", "writes", "reads"]);
  assert.ok(!(await page.getByRole("table", { name: /^Decided/ }).textContent()).includes("null"));
  await clean(opened);
  await opened.close();
});
