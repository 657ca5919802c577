// The catalog: tree, tool, form, search, drift, and the script editor.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, clean, go, open, seeds, settled } from "./harness.mjs";
import { accessible } from "./look.mjs";

const link = (place) => `#/catalog?path=${encodeURIComponent(place)}`;

test("a server with thousands of tools opens at once, and shows a part", async (t) => {
  const { large } = await seeds();
  const { entries } = await api(`ls?path=${encodeURIComponent(`/${large}/`)}`);
  const opened = await open("#/catalog");
  const { page } = opened;
  const began = performance.now();
  await page.evaluate((hash) => (location.hash = hash), link(`/${large}/`));
  const tree = page.getByRole("navigation", { name: "Servers and tools" });
  await tree.getByRole("link", { name: "About this server" }).first().waitFor();
  const took = performance.now() - began;
  t.diagnostic(`${entries.length} tools open in ${Math.round(took)} ms`);
  assert.ok(took < 3000, `it took ${took} ms`);
  for (const folder of await tree.locator(".inside button.folder").all()) await folder.click();
  const shown = await tree.locator("a.leaf").count();
  assert.ok(shown < 1500, `${shown} links at once`);
  if (entries.length > 100) {
    const last = entries.filter((one) => one.kind === "tool").at(-1);
    await tree.getByRole("searchbox").first().fill(last.name);
    await tree.getByRole("link", { name: last.name, exact: true }).first().click();
    await page.locator(".chosen h2").waitFor();
    await page.waitForFunction((place) => decodeURIComponent(location.hash).endsWith(place), last.path);
    await tree.getByRole("searchbox").first().fill("");
    const more = tree.getByRole("button", { name: /^Show [\d,]+ more/ }).first();
    if (await more.count()) {
      const before = await tree.locator("a.leaf").count();
      await more.click();
      assert.ok((await tree.locator("a.leaf").count()) > before);
    }
  }
  await clean(opened);
  await opened.close();
});

test("a folder opens and closes", async () => {
  const { servers } = await seeds();
  const opened = await open("#/catalog");
  const folder = opened.page.locator(".tree button.folder").nth(servers.findIndex((one) => one.tools > 0));
  assert.equal(await folder.getAttribute("aria-expanded"), "false");
  await folder.click();
  assert.equal(await folder.getAttribute("aria-expanded"), "true");
  await opened.page.locator(".tree a.leaf").first().waitFor();
  await folder.click();
  assert.equal(await opened.page.locator(".tree a.leaf").count(), 0);
  await clean(opened);
  await opened.close();
});

test("a tool has both stubs side by side, its definition and its documentation", async () => {
  const { tool } = await seeds();
  const opened = await open(link(tool));
  const { page } = opened;
  const [python, types] = await Promise.all(
    ["Python stub", "TypeScript stub"].map((name) => page.getByRole("region", { name }).boundingBox()),
  );
  assert.ok(types.x >= python.x + python.width && Math.abs(types.y - python.y) < 2, "side by side");
  assert.match(await page.getByRole("region", { name: "Python stub" }).textContent(), /def /);
  await page.getByText("Definition by the server").click();
  assert.match(await page.getByRole("region", { name: "Definition" }).textContent(), /"name"/);
  await page.getByText("Documentation", { exact: true }).click();
  await clean(opened);
  await opened.close();
});

test("findings of a hostile server's tools are listed", async () => {
  const { hostile } = await seeds();
  const { entries } = await api(`ls?path=${encodeURIComponent(`/${hostile}/`)}`);
  for (const entry of entries.filter((one) => one.kind === "tool")) {
    const tool = await api(
      `tool?server=${encodeURIComponent(hostile)}&tool=${encodeURIComponent(
        entry.path
          .split("/")
          .at(-1)
          .replace(/\.pyi$/, ""),
      )}`,
    );
    if (!tool.findings.length) continue;
    const opened = await open(link(entry.path));
    assert.equal(await opened.page.locator(".findings li").count(), Math.min(20, tool.findings.length));
    await clean(opened);
    return opened.close();
  }
  return assert.fail(`no tool of ${hostile} has a finding`);
});

test("a tool is tried by its form and by JSON, and the answer leads to its run", async () => {
  const { tool } = await seeds();
  const [server, name] = (process.env.FORGEFS_TRY ?? tool.replace(/^\/([^/]+)\/(?:.*\/)?([^/]+)\.pyi$/, "$1/$2")).split(
    "/",
  );
  const given = JSON.parse(process.env.FORGEFS_TRY_ARGUMENTS ?? "{}");
  const { entries } = await api(`ls?path=${encodeURIComponent(`/${server}/`)}`);
  const { path } = entries.find((one) => one.path.endsWith(`/${name}.pyi`));
  const opened = await open(link(path));
  const { page } = opened;
  const form = page.locator("form.try");
  await page.getByRole("button", { name: "Write JSON" }).click();
  await page.getByLabel("Arguments as JSON").fill("[1");
  await page.getByRole("button", { name: "Call the tool" }).click();
  await form.getByRole("alert").waitFor();
  await page.getByLabel("Arguments as JSON").fill(JSON.stringify(given));
  await page.getByRole("button", { name: "Use the form" }).click();
  await page.getByRole("button", { name: "Write JSON" }).click();
  assert.deepEqual(
    JSON.parse(await page.getByLabel("Arguments as JSON").inputValue()),
    given,
    "the form keeps what JSON said",
  );
  await page.getByRole("button", { name: "Use the form" }).click();
  const sent = page.waitForRequest("**/api/call");
  await page.getByRole("button", { name: "Call the tool" }).click();
  assert.deepEqual((await sent).postDataJSON().arguments, given);
  await page.getByText("It answered.").waitFor();
  await page.getByRole("link", { name: "See the run" }).click();
  await settled(page);
  assert.match(page.url(), /#\/runs\/./);
  await clean(opened);
  await opened.close();
});

test("a form has a field for each kind of argument, and sends what was typed", async () => {
  const { tool } = await seeds();
  const opened = await open("#/catalog");
  const { page } = opened;
  const schema = {
    type: "object",
    required: ["text"],
    properties: {
      text: { type: "string" },
      whole: { type: "integer" },
      part: { type: ["number", "null"] },
      flag: { type: "boolean" },
      one: { enum: ["a", "b", 3] },
      many: { type: "array", items: { type: "string" } },
      deep: { $ref: "#/$defs/deep" },
      any: {},
      constructor: { type: "string" },
      toString: { type: "object", properties: { valueOf: { type: "integer" } } },
      ["__proto__"]: { type: "string" },
    },
    $defs: { deep: { type: "object", properties: { inner: { type: "string" }, again: { $ref: "#/$defs/deep" } } } },
  };
  await page.route("**/api/tool?**", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), schema } });
  });
  await page.route("**/api/call", (route) =>
    route.fulfill({
      json: {
        run: null,
        ok: false,
        value: null,
        error: { code: "SERVER_ERROR", message: "no", suggested_fix: "Say yes." },
      },
    }),
  );
  await go(page, link(tool));
  const form = page.locator("form.try");
  await page.getByRole("button", { name: "Call the tool" }).click();
  await form.getByText("text: is required").waitFor();
  await form.getByLabel("text string, required").fill("words");
  await form.getByLabel("whole integer").fill("1.5");
  await page.getByRole("button", { name: "Call the tool" }).click();
  await form.getByText("is not an integer").waitFor();
  await form.getByLabel("whole integer").fill("7");
  await form.getByLabel("part number").fill("0.5");
  await form.getByLabel("flag boolean").selectOption("false");
  await form.getByLabel("one choice").selectOption("3");
  await form.getByLabel("many strings, one a line").fill("x\n\ny");
  await form.getByLabel("inner string").first().fill("in");
  await form.getByLabel("any JSON").fill('{"a": [1]}');
  assert.equal(await form.getByLabel("constructor string").inputValue(), "", "no name is that of a built-in");
  await form.getByLabel("__proto__ string").fill("own");
  const sent = page.waitForRequest("**/api/call");
  await page.getByRole("button", { name: "Call the tool" }).click();
  const { ["__proto__"]: proto, ...others } = (await sent).postDataJSON().arguments;
  assert.equal(proto, "own");
  assert.deepEqual(others, {
    text: "words",
    whole: 7,
    part: 0.5,
    flag: false,
    one: 3,
    many: ["x", "y"],
    deep: { inner: "in" },
    any: { a: [1] },
  });
  await page.getByText("It failed.").waitFor();
  await page.getByText("Say yes.").waitFor();
  await clean(opened);
  await opened.close();
});

test("a search says why each hit ranks where it does", async () => {
  const opened = await open("#/catalog/search");
  const { page } = opened;
  const query = process.env.FORGEFS_QUERY ?? "get a ticket";
  await page.getByLabel("What should the tool do?").fill(query);
  await page.getByRole("button", { name: "Search" }).click();
  await page.locator(".hit").first().waitFor();
  const { hits } = await api(`search?limit=20&q=${encodeURIComponent(query)}`);
  assert.equal(await page.locator(".hit").count(), hits.length);
  assert.equal(await page.locator(".hit").first().locator("tbody tr").count(), hits[0].why.length);
  await page.locator(".hit h2 a").first().click();
  await page.locator(".chosen h2").waitFor();
  await clean(opened);
  await opened.close();
});

test("a difference says its findings and its class first", async () => {
  const { items } = await api("drift");
  const worst = items[0];
  assert.ok(worst?.findings.length > 0 && worst.class, "a change with a finding is seeded");
  const opened = await open("#/catalog/drift");
  const card = opened.page.locator("article.drift").first();
  assert.ok((await card.locator(".head").textContent()).includes(worst.class.replaceAll("_", " ")));
  const found = card.locator(".findings li");
  assert.equal(await found.count(), Math.min(20, worst.findings.length));
  const first = await found.first().textContent();
  assert.ok(first.includes(worst.findings[0].severity) && first.includes(worst.findings[0].rule), first);
  const places = await card.evaluate((node) =>
    [".findings", ".plain", ".diff, .long"].map((one) => node.querySelector(one).getBoundingClientRect().top),
  );
  assert.deepEqual(places, places.toSorted((a, b) => a - b), "findings, changes, then the text");
  await clean(opened);
  await opened.close();
});

test("a server is switched off and on and started again, each after a question", async () => {
  const opened = await open(`#/catalog?path=${encodeURIComponent("/calendar/")}`);
  const { page } = opened;
  const state = page.locator(".chosen .facts .badge").first();
  const act = async (name) => {
    await page.locator(".chosen").getByRole("button", { name, exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await page.locator(".chosen").getByRole("button", { name: "Disable", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal((await api("server?server=calendar")).enabled, true, "cancel leaves it on");
  await act("Disable");
  await state.getByText("disabled").waitFor();
  assert.equal((await api("server?server=calendar")).enabled, false);
  await act("Enable");
  await state.getByText("ready").waitFor();
  const sent = page.waitForResponse((answer) => answer.url().endsWith("/api/server"));
  await act("Restart");
  assert.deepEqual(await (await sent).json(), { server: "calendar", changed: true });
  await clean(opened);
  await opened.close();
});

test("a server is added after a question that shows all of it", async () => {
  const { starts } = await api("server?server=calendar");
  const [program, ...args] = JSON.parse(starts.split("\n")[0]);
  const opened = await open("#/catalog/add");
  const { page } = opened;
  await page.getByLabel("Name", { exact: true }).fill("two words");
  await page.getByLabel("Command or URL").fill(program);
  await page.getByLabel("Arguments, one a line").fill(args.join("\n"));
  const look = page.getByRole("button", { name: "Show what would be written" });
  await look.click();
  await page.getByRole("alert").getByText("not usable as the name").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("planner");
  // By keyboard, from the field.
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  const text = await dialog.getByRole("region", { name: "What is written" }).textContent();
  for (const part of ["[servers.planner]", program, ...args]) assert.ok(text.includes(part), text);
  assert.ok((await dialog.getByRole("region", { name: "What is started or reached" }).textContent()).includes(program));
  await accessible(page, "the question");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.ok(!(await api("ls?path=/")).entries.some((one) => one.name === "planner"), "cancel adds nothing");
  assert.equal(await page.getByLabel("Command or URL").inputValue(), program, "cancel keeps what was typed");
  await look.click();
  await dialog.getByRole("button", { name: "Add and start" }).click();
  const there = page.waitForFunction(() => decodeURIComponent(location.hash) === "#/catalog?path=/planner/");
  await there.catch(async (error) => {
    throw new Error(`${error.message}: ${await page.locator("main").innerText()}`);
  });
  await page.locator(".chosen .facts .badge").first().getByText("ready").waitFor();
  await clean(opened, { failed: true });
  await opened.close();
});

test("drift is shown, and accepted after a question", async (t) => {
  const { items } = await api("drift");
  const opened = await open("#/catalog/drift");
  const { page } = opened;
  assert.equal(await page.locator("article.drift").count(), Math.min(50, items.length));
  const at = items.findIndex((item) => item.accept);
  if (at < 0) {
    t.diagnostic("nothing to accept is seeded");
  } else {
    await page
      .locator("article.drift")
      .nth(at)
      .getByRole("button", { name: /^Accept/ })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Accept" }).click();
    const many = Math.min(50, items.length);
    const fewer = page.waitForFunction((all) => document.querySelectorAll("article.drift").length < all, many);
    await fewer.catch(async (error) => {
      throw new Error(`${error.message}: ${await page.locator("main").innerText()}`);
    });
    assert.ok((await api("drift")).items.length < items.length);
  }
  await clean(opened);
  await opened.close();
});

test("the editor shows findings at their places, and runs", async () => {
  const opened = await open("#/catalog/script");
  const { page } = opened;
  await page.getByLabel("Language").selectOption("javascript");
  const editor = page.getByLabel("Script", { exact: true });
  await editor.fill("const fine = 1;\nreturn oops.that_is_no_server();\n");
  const finding = page.getByRole("button", { name: /^line 2/ }).first();
  await finding.waitFor();
  await page.locator(".gutter .error, .gutter .warning").first().waitFor();
  assert.ok((await page.locator(".behind u").count()) > 0);
  await finding.click();
  const caret = await page.evaluate(() => [document.activeElement.id, document.activeElement.selectionStart]);
  assert.equal(caret[0], "script");
  assert.ok(caret[1] >= 16, "the caret stands on line 2");
  await editor.fill(process.env.FORGEFS_SCRIPT ?? "return 6 * 7;");
  await page.getByText("no mistakes").waitFor();
  for (const name of ["Dry run", "Run"]) {
    await page.getByRole("button", { name, exact: true }).click();
    const dialog = page.getByRole("dialog");
    const told = page.locator(".told").getByText("It answered.");
    await dialog.or(told).first().waitFor();
    if (await dialog.count()) await dialog.getByRole("button", { name: "Run it" }).click();
    await told.waitFor();
  }
  await page.reload();
  await settled(page);
  assert.equal(await editor.inputValue(), process.env.FORGEFS_SCRIPT ?? "return 6 * 7;", "the draft outlives a reload");
  await page.getByLabel("Language").selectOption("starlark");
  assert.notEqual(await editor.inputValue(), process.env.FORGEFS_SCRIPT ?? "return 6 * 7;");
  await clean(opened);
  await opened.close();
});
