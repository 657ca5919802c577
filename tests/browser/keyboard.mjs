// Everything by keyboard alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { clean, open, seeds } from "./harness.mjs";

const STOPS = "a[href], button, input, select, textarea, summary, [tabindex='0']";

// Presses Tab until the focus has left the page; each stop must show that it has the focus.
async function walk(page) {
  await page.evaluate(() => (document.activeElement?.blur(), getSelection().removeAllRanges()));
  const all = await page.evaluate((stops) => {
    let at = 0;
    for (const one of document.querySelectorAll(stops))
      if (one.checkVisibility({ visibilityProperty: true }) && !one.disabled) one.dataset.stop = String(++at);
    return at;
  }, STOPS);
  const seen = new Set();
  for (let press = 0; press < all * 2 + 20; press += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const one = document.activeElement;
      if (!one || one === document.body) return null;
      const shows = [one, one.closest(".editor")].some(
        (node) =>
          node && getComputedStyle(node).outlineStyle !== "none" && parseFloat(getComputedStyle(node).outlineWidth) > 0,
      );
      return { at: one.dataset.stop, shows, html: one.outerHTML.slice(0, 120) };
    });
    if (!stop) break;
    assert.ok(stop.shows, `the focus does not show on ${stop.html}`);
    if (stop.at) seen.add(stop.at);
    if (seen.size === all) break;
  }
  const missed = await page.evaluate(
    (found) =>
      [...document.querySelectorAll("[data-stop]")]
        .filter((one) => !found.includes(one.dataset.stop))
        .map((one) => one.outerHTML.slice(0, 120)),
    [...seen],
  );
  assert.deepEqual(missed.slice(0, 5), [], "controls that Tab does not reach");
  return all;
}

test("Tab reaches every control of each view, and the focus shows", async () => {
  const { tool } = await seeds();
  for (const hash of [
    "#/now",
    "#/runs",
    "#/approvals",
    `#/catalog?path=${encodeURIComponent(tool)}`,
    "#/catalog/script",
    "#/catalog/drift",
    "#/catalog/add",
    "#/spending",
  ]) {
    const opened = await open(hash);
    assert.ok((await walk(opened.page)) > 5, hash);
    await opened.close();
  }
});

test("from the first key to a call of a run, by keyboard alone", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  const press = async (until, most = 40, key = "Tab") => {
    for (let at = 0; at < most; at += 1) {
      if (await page.evaluate(until)) return;
      await page.keyboard.press(key);
    }
    assert.fail(`${most} presses of ${key} do not lead to ${until}`);
  };
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /Skip to the content/);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await press(() => document.activeElement.matches("header nav a[href='#/runs']"), 40, "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.locator("main h1", { hasText: "Runs" }).waitFor();
  await page.waitForFunction(() => document.activeElement.matches("main h1"));
  await page.locator("a.code-line").first().waitFor();
  await press(() => document.activeElement.matches("a.code-line"));
  await page.keyboard.press("Enter");
  await page.locator("details.op, h2").first().waitFor();
  if (await page.locator("details.op").count()) {
    await press(() => document.activeElement.matches("details.op > summary"), 80);
    await page.keyboard.press("Enter");
    await page.locator("details.op[open]").first().waitFor();
  }
  await clean(opened);
  await opened.close();
});

test("a question before an action holds the focus, and Escape takes it back", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  const stop = page.getByRole("button", { name: /^Stop the script/ }).first();
  await stop.waitFor();
  await stop.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.closest("dialog") !== null), true);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.match(await page.evaluate(() => document.activeElement.ariaLabel ?? ""), /^Stop the script/);
  await clean(opened);
  await opened.close();
});
