// Every view in both schemes and both widths: accessible, within its window, and clean.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, blank, clean, go, main, NARROW, open, SCHEMES, unfold, views, WIDE } from "./harness.mjs";

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

// Fails with each rule that is broken and the elements that break it.
export async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(
    (tags) => window.axe.run(document, { runOnly: { type: "tag", values: tags } }),
    TAGS,
  );
  const told = violations.map(
    (one) =>
      `${one.id}: ${one.nodes
        .slice(0, 4)
        .map((node) => `${node.html.slice(0, 160)} ${node.any.map((any) => any.message).join("; ")}`)
        .join("\n    ")}`,
  );
  assert.deepEqual(told, [], `${name} breaks rules of accessibility`);
}

for (const scheme of SCHEMES) {
  for (const size of [WIDE, NARROW]) {
    test(`each view is accessible and clean in ${scheme}, ${size.width} pixels wide`, async (t) => {
      const opened = await open("#/now", { scheme, size });
      for (const [name, hash] of await views()) {
        await t.test(name, async () => {
          await go(opened.page, hash);
          await unfold(opened.page);
          assert.equal(await opened.page.locator("main h1").count(), 1);
          await clean(opened);
          await accessible(opened.page, name);
        });
      }
      await opened.close();
    });
  }
}

test("light and dark differ", async () => {
  const grounds = [];
  for (const scheme of SCHEMES) {
    const { page, close } = await open("#/now", { scheme });
    grounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await close();
  }
  assert.notEqual(grounds[0], grounds[1]);
});

test("the sign-in form is accessible", async () => {
  for (const scheme of SCHEMES) {
    const opened = await blank({ scheme, size: NARROW });
    await opened.page.goto(main.page);
    await opened.page.getByLabel("Token").waitFor();
    await accessible(opened.page, "sign-in");
    await clean(opened);
    await opened.close();
  }
});

test("views are links, and the browser's back works", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  for (const name of ["Runs", "Approvals", "Catalog", "Spending"]) {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click();
    await page.locator("main h1", { hasText: name }).waitFor();
    await page.waitForFunction((title) => document.title.startsWith(title), name);
    await page.locator("header nav a[aria-current=page]", { hasText: name }).waitFor();
  }
  await page.goBack();
  await page.locator("main h1", { hasText: "Catalog" }).waitFor();
  await go(page, "#/nothing/of/that/name");
  await page.locator("main h1", { hasText: "Now" }).waitFor();
  await clean(opened);
  await opened.close();
});

test("without a wish for reduced motion things move, with it they do not", async () => {
  for (const [motion, expected] of [
    ["reduce", false],
    ["no-preference", true],
  ]) {
    const { page, close } = await open("#/spending", { motion });
    const moves = await page.evaluate(() =>
      [...document.styleSheets].some((sheet) =>
        [...sheet.cssRules].some(
          (rule) => rule.media && matchMedia(rule.media.mediaText).matches && /transition|animation/.test(rule.cssText),
        ),
      ),
    );
    assert.equal(moves, expected);
    await close();
  }
});
