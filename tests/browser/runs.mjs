// The list of runs and one run: filters, pages, timeline, answers, replay, save, resume.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, findRun, findWhole, go, NARROW, open, settled } from "./harness.mjs";

const list = (page) => page.getByRole("table", { name: "Runs, newest first" }).locator("tbody tr");

test("the list comes by pages, in time", async (t) => {
  const opened = await open("#/now");
  const { page } = opened;
  const { matched } = await api("runs?limit=1");
  assert.ok(matched >= Number(process.env.FORGEFS_RUNS ?? 1), `${matched} runs are there`);
  const began = performance.now();
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Runs" }).click();
  await list(page).first().waitFor();
  const took = performance.now() - began;
  t.diagnostic(`the first view of ${matched} runs takes ${Math.round(took)} ms`);
  assert.ok(took < Number(process.env.FORGEFS_FIRST_VIEW_MS ?? 3000), `it took ${took} ms`);
  const first = await list(page).count();
  assert.ok(first <= 100);
  if (matched > 100) {
    await page.getByRole("button", { name: /^Show \d+ more/ }).click();
    await page.waitForFunction((many) => document.querySelectorAll("main tbody tr").length > many, first);
    const links = await page.locator("a.code-line").evaluateAll((all) => all.map((one) => one.hash));
    assert.equal(new Set(links).size, links.length, "no run is listed twice");
  }
  await page.getByRole("button", { name: "Refresh" }).click();
  await settled(page);
  await clean(opened);
  await opened.close();
});

test("each filter stands in the address and narrows the list", async () => {
  const opened = await open("#/runs");
  const { page } = opened;
  const { facets, runs } = await api("runs?limit=50");
  const filled = runs.find((run) => run.kind === "script" && run.servers.length) ?? runs[0];
  const wanted = [
    ["Client", "client", facets.clients[0]],
    ["Outcome", "outcome", "failed"],
    ["Server", "server", facets.servers[0]],
    ["Label", "label", facets.labels[0]],
  ];
  for (const [label, name, value] of wanted.filter(([, , value]) => value)) {
    await go(page, "#/runs");
    const choice = page.getByRole("search").getByLabel(label);
    await choice.focus();
    await choice.selectOption(value);
    await page.waitForFunction(
      ([key, text]) => new URLSearchParams(location.hash.split("?")[1]).get(key) === text,
      [name, value],
    );
    await settled(page);
    const { matched } = await api(`runs?limit=1&${name}=${encodeURIComponent(value)}`);
    await page.getByText(new RegExp(`^${matched.toLocaleString("en-US")} of `)).waitFor();
    assert.equal(
      await choice.evaluate((node) => node === document.activeElement),
      true,
      "the focus stays where it was",
    );
    assert.equal(await choice.inputValue(), value);
  }
  await go(page, "#/runs");
  const words = filled.code.trim().split(/\s+/)[0];
  await page.getByLabel("Text of the code").fill(words);
  await page.getByLabel("Tool").fill("");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForFunction((text) => new URLSearchParams(location.hash.split("?")[1]).get("text") === text, words);
  await settled(page);
  await page.getByRole("button", { name: "Clear" }).click();
  await page.waitForFunction(() => location.hash === "#/runs");
  await page.goBack();
  await page.waitForFunction(() => location.hash.includes("text="));
  assert.equal(await page.getByLabel("Text of the code").inputValue(), words);
  await page.getByLabel("Tool").fill("no_tool_has_this_name_at_all");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForFunction(() => location.hash.includes("tool="));
  await clean(opened);
  await opened.close();
});

test("a run shows its script with marks, its calls with arguments and answers, and its timeline", async () => {
  const run = await findWhole("outcome=ok", (one) => one.kind === "script" && one.script && one.operations.length > 1);
  assert.ok(run, "a script with two calls among the newest runs that ended well");
  const opened = await open(`#/runs/${encodeURIComponent(run.id)}`);
  const { page } = opened;
  const code = page.getByRole("region", { name: "Script", exact: true });
  assert.ok((await code.locator(".no").count()) >= Math.min(400, run.script.split("\n").length));
  const calls = run.marks.filter((mark) => mark.kind === "call").length;
  if (calls) assert.ok((await code.locator(".line.call, .line.warning, .line.error").count()) > 0, "marks");
  assert.equal(
    await page
      .locator("details.op")
      .filter({ has: page.locator(".nr") })
      .count(),
    Math.min(100, run.operations.length),
  );
  const timed = run.operations.filter((op) => op.at_ms !== null).length;
  const bars = await page.locator(".bar-of").count();
  // Beyond 40 calls at once, the rest stands in the list alone.
  assert.ok(timed <= 40 ? bars === timed : bars > 0, `${bars} bars for ${timed} calls`);
  const op = run.operations.slice(0, 100).find((one) => one.answer !== null);
  assert.ok(op, "a call whose answer is kept");
  const row = page.locator(`[id="op-${op.op}"]`);
  await row.locator("summary").first().click();
  await row.getByRole("region", { name: "Arguments" }).or(row.getByText("not kept")).first().waitFor();
  await row.getByRole("region", { name: "Answer" }).waitFor();
  if (timed > 1) {
    await page.locator(".bar-of").last().click();
    await page.locator("details.op[open]").nth(1).or(page.locator("details.op[open]")).first().waitFor();
  }
  await clean(opened);
  await opened.close();
});

test("calls that overlap stand in lanes of their own", async () => {
  const overlap = (run) =>
    run.operations.some((a) =>
      run.operations.some(
        (b) => a !== b && a.at_ms && b.at_ms && a.ms && b.at_ms >= a.at_ms && b.at_ms < a.at_ms + a.ms,
      ),
    );
  const run = await findWhole("outcome=ok", overlap);
  assert.ok(run, "a run with parallel calls among the newest");
  const opened = await open(`#/runs/${encodeURIComponent(run.id)}`);
  const boxes = await opened.page
    .locator(".bar-of")
    .evaluateAll((all) =>
      all
        .map((one) => one.getBoundingClientRect())
        .map(({ left, right, top }) => ({ left, right, top: Math.round(top) })),
    );
  const lanes = new Set(boxes.map((box) => box.top));
  assert.ok(lanes.size > 1, "one lane only");
  await clean(opened);
  await opened.close();
});

test("a refused call shows its rule, and labels show where data went", async () => {
  const brief = await findRun("outcome=refused");
  const opened = await open(`#/runs/${encodeURIComponent(brief.id)}`);
  const { page } = opened;
  const refused = brief.operations.filter((op) => op.refused);
  assert.ok(refused.length > 0);
  assert.equal(await page.locator(".refusal").count(), Math.min(20, refused.length));
  assert.ok(
    (await page.locator(".refusal").first().textContent()).includes(refused[0].error?.code ?? refused[0].label),
  );
  const flows = brief.operations.some((op) => op.server && op.labels.some((label) => label !== op.server));
  assert.equal(await page.locator("svg.flow").count(), flows ? 1 : 0);
  if (flows) {
    await page.getByText("As a table").click();
    assert.ok((await page.locator("table.plain tbody tr").count()) > 0);
  }
  await clean(opened);
  await opened.close();
});

test("what the agent had read is there, as it was", async () => {
  const run = await findWhole("outcome=ok", (one) => one.read?.length > 0);
  assert.ok(run, "a run before which its agent had read a file, among the newest");
  const opened = await open(`#/runs/${encodeURIComponent(run.id)}`);
  const { page } = opened;
  const section = page.getByRole("region", { name: "What the agent had read before" });
  await section.locator("summary").first().click();
  await section.locator("pre").first().waitFor();
  const { text } = await api(`runs/${encodeURIComponent(run.id)}/read?path=${encodeURIComponent(run.read[0].path)}`);
  assert.ok(
    (await section.locator("pre").first().textContent()).includes(text.replace(/[^\x20-\x7e]+[^]*/, "").slice(0, 30)),
  );
  await clean(opened);
  await opened.close();
});

test("replay says whether it went the same way, save gives a file", async () => {
  const run = await findWhole("outcome=ok", (one) => one.can_replay && one.can_save);
  assert.ok(run, "a run that can be replayed and saved among the newest");
  const opened = await open(`#/runs/${encodeURIComponent(run.id)}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page
    .locator(".told")
    .getByText(/^The replay (went the same way|differs)\./)
    .waitFor();
  await page.getByRole("button", { name: "Save as script" }).click();
  await page.getByLabel("Name of the script").fill(`saved_${Date.now().toString(36)}`);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText(/^Saved as /).waitFor();
  await page.getByRole("region", { name: "Saved script" }).waitFor();
  await clean(opened);
  await opened.close();
});

test("the resume line is copied", async () => {
  const run = await findWhole("outcome=failed", (one) => one.resume || one.resume_cli);
  assert.ok(run, "a run that can be resumed among the newest that failed");
  const opened = await open(`#/runs/${encodeURIComponent(run.id)}`);
  const { page } = opened;
  for (const [name, text] of [
    ["Copy resume line", run.resume],
    ["Copy resume command", run.resume_cli],
  ]) {
    if (!text) continue;
    await page.getByRole("button", { name }).click();
    await page.getByRole("button", { name: "Copied" }).first().waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  }
  await clean(opened);
  await opened.close();
});

test("a run that is not there, and a gateway that fails, say what is wrong and what to do", async () => {
  const opened = await open("#/runs/there-is-no-such-run");
  const { page } = opened;
  await page.getByRole("alert").waitFor();
  const fail = (route) =>
    route.fulfill({
      status: 500,
      json: { error: { message: "the journal <b>cannot</b> be read", hint: "Free some space." } },
    });
  await page.route("**/api/runs?**", fail);
  await go(page, "#/runs");
  await page.getByRole("alert").getByText("the journal <b>cannot</b> be read").waitFor();
  await page.getByRole("alert").getByText("Free some space.").waitFor();
  await page.unroute("**/api/runs?**", fail);
  await page.getByRole("button", { name: "Try again" }).click();
  await list(page).first().waitFor();
  await page.route("**/api/runs?**", (route) => route.abort());
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("alert").getByText("The gateway does not answer.").waitFor();
  await clean(opened, { failed: true });
  await opened.close();
});

test("an answer of another shape spoils its own view alone", async () => {
  const opened = await open("#/now");
  const { page, watch } = opened;
  await page.route("**/api/runs?**", (route) => route.fulfill({ json: { runs: 7, facets: 7 } }));
  await page.evaluate(() => (location.hash = "#/runs"));
  await page.getByText("This view cannot show what the gateway sent.").waitFor();
  assert.ok(watch.faults.length > 0, "the fault stands in the console of the browser");
  watch.faults.length = 0;
  await go(page, "#/spending");
  await page.locator("dl.totals").waitFor();
  await clean(opened);
  await opened.close();
});

test("nothing to show says what to do", async () => {
  const opened = await open("#/now");
  const { page } = opened;
  const answers = {
    runs: {
      runs: [],
      next: null,
      matched: 0,
      indexed: 0,
      facets: { clients: [], outcomes: [], servers: [], labels: [] },
      note: null,
    },
    approvals: { waiting: [], decided: [], waits: false },
    drift: { pinned: false, items: [] },
  };
  for (const [name, json] of Object.entries(answers))
    await page.route(new RegExp(`/api/${name}(\\?|$)`), (route) => route.fulfill({ json }));
  for (const hash of ["#/runs", "#/runs?text=x", "#/approvals", "#/catalog/drift"]) {
    await go(page, hash);
    assert.ok((await page.locator(".empty p").count()) >= 2, `${hash} says what to do`);
  }
  await clean(opened);
  await opened.close();
});

test("runs are chosen by days, and a narrow window has pages of 20", async () => {
  const opened = await open("#/runs", { size: NARROW });
  const { page } = opened;
  assert.equal(await list(page).count(), 20);
  await page.getByRole("button", { name: /^Show 20 more of / }).click();
  await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 40);
  // Days as the browser counts them.
  const day = (days) =>
    page.evaluate((later) => {
      const at = new Date();
      at.setDate(at.getDate() + later);
      return [at.toLocaleDateString("en-CA"), new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime()];
    }, days);
  const [today, midnight] = await day(0);
  const [tomorrow, next] = await day(1);
  await page.getByLabel("From", { exact: true }).fill(today);
  await page.waitForFunction((ms) => location.hash.includes(`from_ms=${ms}`), midnight);
  await settled(page);
  const { matched, indexed } = await api(`runs?limit=1&from_ms=${midnight}`);
  await page.getByText(`${matched.toLocaleString("en-US")} of ${indexed.toLocaleString("en-US")} runs`).waitFor();
  await page.getByLabel("To", { exact: true }).fill(today);
  await page.waitForFunction((ms) => location.hash.includes(`to_ms=${ms}`), next - 1);
  await settled(page);
  assert.equal(await page.getByLabel("To", { exact: true }).inputValue(), today, "the last day is in it whole");
  assert.equal(await list(page).count(), Math.min(20, matched));
  await page.getByLabel("To", { exact: true }).fill("");
  await page.getByLabel("From", { exact: true }).fill(tomorrow);
  await page.getByText("No run matches.").waitFor();
  await clean(opened);
  await opened.close();
});

test("a run is named by its comment, and data may have gone, with the list of its time", async () => {
  const run = await findWhole("outcome=refused", (one) => one.tokens && one.operations.some((op) => op.labels.length));
  assert.ok(run, "a script with labels among the newest with a refused call");
  const opened = await open(`#/runs/${run.id}`);
  const { page } = opened;
  const title = (await page.locator("main h1").textContent()).trim();
  assert.ok(run.title.startsWith(title.replace(/…$/, "").slice(0, 20)), `${title}: ${run.title}`);
  await page.getByRole("heading", { name: "Where data may have gone" }).waitFor();
  const shown = await page.locator(".meters.tall .amount").first().textContent();
  assert.equal(Number(shown.replace(/\D/g, "")), run.tokens.plain_list);
  await clean(opened);
  await opened.close();
});
