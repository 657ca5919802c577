// Plots, their tables, and what they are grouped by.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, eventually, open, SCHEMES, settled } from "./harness.mjs";

test("plots are drawn for each span and group, and their values stand in tables", async () => {
  const opened = await open("#/spending");
  const { page } = opened;
  for (const by of ["server", "tool", "client"]) {
    // A script runs meanwhile, so what is shown is between what was before and what is after.
    const counted = async () => {
      const series = await api(`series?hours=24&by=${by}`);
      const calls = Object.values(series.calls).flat();
      return { series, calls: calls.reduce((all, one) => all + one, 0) };
    };
    const before = await counted();
    await page.getByLabel("Group").selectOption(by);
    await page.waitForFunction((key) => location.hash.includes(`by=${key}`), by);
    // The old figures stay until the new ones are there, so what is shown is right at last, not at once.
    await eventually(async () => {
      await page.getByRole("button", { name: "Refresh" }).click();
      await settled(page);
      const texts = await page.locator("dl.totals > div").allTextContents();
      const total = texts.map((text) => text.trim()).find((text) => /^[\d,]+\s*calls$|^calls\s*[\d,]+$/.test(text));
      const shown = Number(total.replace(/\D/g, ""));
      const rows = await page.getByRole("table", { name: "Latency" }).locator("tbody tr").count();
      const { series, calls } = await counted();
      assert.ok(calls > 0, "calls in the last 24 hours must be there");
      assert.ok(before.calls <= shown && shown <= calls, `${before.calls} <= ${shown} <= ${calls}`);
      assert.equal(rows, Math.min(40, series.latency.length));
      assert.equal(await page.locator("canvas").count(), 4);
    });
  }
  for (const hours of ["1", "6", "168", "720"]) {
    await page.getByLabel("Span of time").selectOption(hours);
    await page.waitForFunction((key) => location.hash.includes(`hours=${key}`), hours);
    await settled(page);
  }
  await page.getByText("As a table").first().click();
  assert.ok((await page.getByRole("table", { name: "Values" }).first().locator("tbody tr").count()) > 0);
  await page.getByRole("button", { name: "Refresh" }).click();
  await settled(page);
  await clean(opened);
  await opened.close();
});

test("a plot has the colours of its legend, in both schemes", async () => {
  const opened = await open("#/spending");
  const { page } = opened;
  const drawn = [];
  for (const scheme of SCHEMES) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForTimeout(200);
    drawn.push(
      await page.evaluate(() => {
        const canvas = document.querySelector("canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const colour = getComputedStyle(document.querySelector(".key.c0"), "::before")
          .backgroundColor.match(/\d+/g)
          .map(Number);
        let pixels = 0;
        for (let at = 0; at < data.length; at += 4)
          if (colour.every((part, place) => Math.abs(data[at + place] - part) < 4) && data[at + 3] > 250) pixels += 1;
        return pixels;
      }),
    );
  }
  assert.ok(
    drawn.every((pixels) => pixels > 50),
    `pixels of the first colour: ${drawn}`,
  );
  await clean(opened);
  await opened.close();
});

test("an error's code leads to the runs that ended with it", async () => {
  const { errors } = await api("series?hours=24&by=client");
  assert.ok(Object.keys(errors).length > 0, "an error in the last 24 hours must be there");
  const opened = await open("#/spending");
  await opened.page.getByRole("table", { name: "Errors by code" }).getByRole("link").first().click();
  await settled(opened.page);
  assert.match(opened.page.url(), /#\/runs\?outcome=/);
  await clean(opened);
  await opened.close();
});
