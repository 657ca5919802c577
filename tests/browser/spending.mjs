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
      assert.equal(await page.locator("canvas").count(), 5);
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

// What each plot draws: its data, the times between which it draws, and whether its newest step has pixels of a colour.
const drawn = (page) =>
  page.locator("main .canvas").evaluateAll((nodes) =>
    nodes.map((node) => {
      const { plot } = node;
      const [times, ...rows] = plot.data;
      const canvas = node.querySelector("canvas");
      const last = times.at(-1);
      const from = Math.round(plot.valToPos(last, "x", true)) + 1;
      const wide = Math.max(2, Math.round(plot.bbox.left + plot.bbox.width) - from);
      const { data } = canvas.getContext("2d").getImageData(from, 0, wide, Math.round(plot.bbox.top + plot.bbox.height));
      let coloured = 0;
      for (let at = 0; at < data.length; at += 4) {
        const parts = [data[at], data[at + 1], data[at + 2]];
        if (data[at + 3] > 200 && Math.max(...parts) - Math.min(...parts) > 40) coloured += 1;
      }
      return {
        title: node.closest("section").getAttribute("aria-label"),
        rows: rows.map((row) => [...row]),
        begin: times[0],
        end: last + (last - times.at(-2)),
        shows: [plot.scales.x.min, plot.scales.x.max],
        coloured,
      };
    }),
  );

test("what is drawn adds up to the figures beside it, and the newest step is drawn", async () => {
  for (const hours of ["1", "24"]) {
    const opened = await open(`#/spending?hours=${hours}&by=tool`);
    const { page } = opened;
    await page.locator("canvas").first().waitFor();
    const plots = Object.fromEntries((await drawn(page)).map((plot) => [plot.title, plot]));
    for (const { title, begin, end, shows, rows } of Object.values(plots)) {
      assert.ok(shows[0] <= begin && end <= shows[1] + 0.001, `${title}: ${begin} to ${end} in ${shows}`);
      for (const row of rows) {
        assert.equal(row.length, 60, title);
        if (!title.startsWith("Latency")) assert.ok(!row.includes(null), `${title}: a step without a value`);
      }
    }
    const sum = (row) => row.reduce((all, one) => all + one, 0);
    // The highest part of a stack is the sum of all.
    const whole = (title) => sum(plots[title].rows[0]);
    const apart = plots["Runs and refused calls"].rows.map(sum);
    const shown = await page.locator("dl.totals > div").evaluateAll((all) =>
      Object.fromEntries(
        all.map((one) => [
          one.querySelector("dt").textContent,
          Number(one.querySelector("dd").textContent.replace(/[^\d.]/g, "")),
        ]),
      ),
    );
    const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is drawn, ${b} is shown`);
    close(whole("Calls"), shown.calls);
    close(whole("Failed calls"), shown["failed calls"]);
    close(whole("Spending"), shown.spent);
    close(apart[0], shown.runs);
    close(apart[1], shown["refused calls"]);
    assert.ok(shown["tokens saved"] > 0, "agents ran scripts");
    assert.ok(plots.Calls.rows[0].at(-1) > 0, "a script calls meanwhile");
    assert.ok(plots.Calls.coloured > 20, `the newest step has ${plots.Calls.coloured} pixels`);
    const [p50, p95] = plots["Latency over time, in ms"].rows;
    assert.ok(p50.some((ms) => ms > 0) && p50.every((ms, at) => ms <= p95[at]), "p50 is above p95");
    await clean(opened);
    await opened.close();
  }
});
