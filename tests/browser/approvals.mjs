// The inbox: what waits is shown with its arguments, and each decision reaches the gateway.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, open } from "./harness.mjs";

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
