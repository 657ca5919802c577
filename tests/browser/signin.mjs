// Sign-in, sessions, and what the address and the history keep of a token: nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { blank, clean, kept, main, open, readOnly, sessions, settled } from "./harness.mjs";

async function login(place, name) {
  const opened = await blank({ origin: place.origin });
  const { page, context } = opened;
  const began = performance.now();
  await page.goto(`${place.page}#${encodeURIComponent(place.token)}`);
  await page.locator("header nav").waitFor();
  await settled(page);
  const took = performance.now() - began;
  sessions[name] = await kept(page);
  assert.ok(!page.url().includes(place.token), "the address still has the token");
  const protocol = await context.newCDPSession(page);
  const { entries } = await protocol.send("Page.getNavigationHistory");
  assert.ok(
    entries.every((entry) => !entry.url.includes(place.token)),
    "the history still has the token",
  );
  assert.ok(!sessions[name].includes(place.token), "the page keeps the token");
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await clean(opened);
  await opened.close();
  return took;
}

test("the first load takes the token out of the address and signs in", async (t) => {
  t.diagnostic(`time to the first view: ${Math.round(await login(main, "main"))} ms`);
  assert.equal(JSON.parse(sessions.main).can_act, true);
  await login(readOnly, "readOnly");
  assert.equal(JSON.parse(sessions.readOnly).can_act, false);
});

test("a token that was used already, or is none, leads to the form, which says why", async () => {
  const opened = await blank();
  await opened.page.goto(`${main.page}#${encodeURIComponent(main.token)}`);
  await opened.page.getByRole("alert").waitFor();
  assert.ok(!opened.page.url().includes(main.token));
  await opened.page.getByLabel("Token").fill("not-a-token-either");
  await opened.page.getByRole("button", { name: "Sign in" }).click();
  await opened.page.getByRole("alert").waitFor();
  assert.ok(!opened.page.url().includes("not-a-token"));
  assert.equal(await kept(opened.page), null);
  await clean(opened, { failed: true });
  await opened.close();
});

test("without a token there is a form, and no data", async () => {
  const opened = await blank();
  await opened.page.goto(main.page);
  await opened.page.getByLabel("Token").waitFor();
  assert.match(await opened.page.textContent("main"), /forgefs console/);
  await clean(opened);
  await opened.close();
});

test("a session that ended leads to the form", async () => {
  const wrong = JSON.stringify({ ...JSON.parse(sessions.main), session: "ended" });
  const opened = await blank();
  await opened.page.addInitScript((value) => sessionStorage.setItem("forgefs.console.session", value), wrong);
  await opened.page.goto(main.page);
  await opened.page.getByLabel("Token").waitFor();
  await clean(opened, { failed: true });
  await opened.close();
});

test("a read-only session sees everything and its buttons that act are off, with a reason", async () => {
  for (const hash of ["#/now", "#/approvals", "#/catalog/script", "#/catalog/drift", "#/catalog/add"]) {
    const opened = await open(hash, { session: sessions.readOnly, place: readOnly });
    const { page } = opened;
    await page.getByText("This session is read-only", { exact: false }).first().waitFor();
    const acting = page.locator("main button[aria-describedby='read-only']");
    const posts = [];
    page.on(
      "request",
      (request) =>
        request.method() === "POST" && !/\/(check|login|logout)$/.test(request.url()) && posts.push(request.url()),
    );
    if (hash === "#/catalog/script") assert.ok((await acting.count()) >= 2, "the buttons that run a script are off");
    for (const button of await acting.all()) {
      assert.equal(await button.getAttribute("aria-disabled"), "true");
      await button.focus();
      await page.keyboard.press("Enter");
    }
    assert.equal(await page.locator("dialog").count(), 0);
    assert.deepEqual(posts, [], "requests that act");
    await clean(opened);
    await opened.close();
  }
  const { session } = JSON.parse(sessions.readOnly);
  const answer = await fetch(new URL("../api/execute", readOnly.page), {
    method: "POST",
    headers: { Authorization: `Bearer ${session}`, "Content-Type": "application/json" },
    body: JSON.stringify({ language: "javascript", code: "return 1;", dry_run: false }),
  });
  assert.equal(answer.status, 403, "the gateway refuses what the page would not send");
});

test("no page of another site can frame the console, and its API asks for a session", async () => {
  const page = await fetch(main.page);
  const policy = page.headers.get("content-security-policy");
  for (const rule of [
    "default-src 'none'",
    "script-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ])
    assert.ok(policy?.includes(rule), `${rule} in ${policy}`);
  for (const where of ["about", "live", "runs", "approvals", "ls?path=/", "series?hours=1&by=client"]) {
    const answer = await fetch(new URL(`../api/${where}`, main.page));
    assert.equal(answer.status, 401, where);
    assert.ok((await answer.json()).error.message);
  }
});

// The last test: it ends the read-only session.
export const signOut = () =>
  test("sign out ends the session at the gateway too", async () => {
    const { session } = JSON.parse(sessions.readOnly);
    const about = () =>
      fetch(new URL("../api/about", readOnly.page), { headers: { Authorization: `Bearer ${session}` } });
    for (const [heard, said, status] of [
      [false, /You signed out here\. The gateway did not answer/, 200],
      [true, /You signed out\.$/, 401],
    ]) {
      const opened = await open("#/now", { session: sessions.readOnly, place: readOnly });
      if (!heard) await opened.page.route("**/api/logout", (request) => request.abort());
      await opened.page.getByRole("button", { name: "Sign out" }).click();
      await opened.page.getByText(said).waitFor();
      await opened.page.getByLabel("Token").waitFor();
      assert.equal(await kept(opened.page), null);
      assert.equal((await about()).status, status, String(said));
      await opened.close();
    }
  });
