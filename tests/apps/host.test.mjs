// Pages of real servers (MCP Apps) behind ForgeFS, in a host made of the reference client: its bridge answers the page, its
// client talks to `forgefs serve`, and Chromium shows the page.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const { FORGEFS_APPS_MODULES, FORGEFS_APPS_COMMAND, FORGEFS_APPS_SHOTS, CHROMIUM } = process.env;
const require = createRequire(path.resolve(FORGEFS_APPS_MODULES, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { chromium } = require("playwright-core");
const { Client } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
const { AppBridge, getToolUiResourceUri, isToolVisibilityAppOnly } = await load("@modelcontextprotocol/ext-apps/app-bridge");

const UI = "io.modelcontextprotocol/ui";
const PAGE = "text/html;profile=mcp-app";
const host = { name: "host", version: "1" };
let browser, client, tools;

// A client of the gateway that shows pages, or none.
async function connect(extensions) {
  const made = new Client(host, { capabilities: extensions ? { extensions } : {} });
  const [command, ...args] = JSON.parse(FORGEFS_APPS_COMMAND);
  await made.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
  for (const end = Date.now() + 60_000; ; await new Promise((done) => setTimeout(done, 100))) {
    ({ tools } = await made.listTools());
    const names = tools.map((tool) => tool.name);
    if (names.includes("monitor__get_system_info") && names.includes("budget__get_budget_data")) return made;
    assert.ok(Date.now() < end, `both servers must be up: ${names}`);
  }
}

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
  client = await connect({ [UI]: { mimeTypes: [PAGE] } });
});
after(async () => {
  await client?.close();
  await browser?.close();
});

// Shows the page of `result` in a frame of its own origin, as hosts do, with the gateway behind its calls.
async function show(uri, args, result) {
  const { contents } = await client.readResource({ uri });
  assert.deepEqual([contents[0].uri, contents[0].mimeType], [uri, PAGE]);
  const page = await browser.newPage({ viewport: { width: 900, height: 620 } });
  const faults = [];
  const asked = new Map();
  const answered = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  const transport = {
    start: async () => {
      await page.exposeBinding("told", (_, message) => {
        if (message.method === "tools/call") asked.set(message.id, message.params.name);
        transport.onmessage?.(message);
      });
      await page.setContent("<style>body{margin:0}</style>");
    },
    send: (message) => {
      if (asked.has(message.id)) answered.push([asked.get(message.id), message.result?.isError ?? true]);
      return page.evaluate((sent) => document.querySelector("iframe").contentWindow.postMessage(sent, "*"), message);
    },
    close: () => page.close(),
  };
  const bridge = new AppBridge(client, host, { serverTools: {}, serverResources: {}, openLinks: {}, logging: {} });
  const initialized = new Promise((done) => (bridge.oninitialized = done));
  await bridge.connect(transport);
  await page.evaluate((html) => {
    addEventListener("message", (event) => window.told(event.data));
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.style = "border:0;width:100%;height:600px";
    frame.srcdoc = html;
    document.body.append(frame);
  }, contents[0].text);
  await initialized;
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(result);
  const frame = page.frames()[1];
  const close = async (name) => {
    if (FORGEFS_APPS_SHOTS) {
      // Until its animation has ended.
      await page.waitForTimeout(2000);
      await page.screenshot({ path: path.join(FORGEFS_APPS_SHOTS, `${name}.png`) });
    }
    await page.close();
    assert.deepEqual(faults, []);
  };
  return { frame, answered, close };
}

test("a page shows the answer of a tool that is called without a script", async () => {
  const tool = tools.find((one) => one.name === "budget__get_budget_data");
  const uri = getToolUiResourceUri(tool);
  assert.equal(uri, "ui://budget/budget-allocator/mcp-app.html");
  const result = await client.callTool({ name: tool.name, arguments: {} });
  assert.ok(result.structuredContent.config.categories.length > 0 && result.content[0].text.includes("Presets"));
  const { frame, close } = await show(uri, {}, result);
  for (const { name } of result.structuredContent.config.categories) await frame.getByText(name).first().waitFor();
  await close("budget");
});

test("a page calls the tools of its server by their names, also one that the model does not have", async () => {
  const hidden = tools.find((one) => one.name === "monitor__poll_system_stats");
  assert.ok(isToolVisibilityAppOnly(hidden));
  const tool = tools.find((one) => one.name === "monitor__get_system_info");
  const result = await client.callTool({ name: tool.name, arguments: {} });
  const { frame, answered, close } = await show(getToolUiResourceUri(tool), {}, result);
  await frame.getByText(result.structuredContent.hostname).first().waitFor();
  for (const end = Date.now() + 60_000; answered.length < 2; await new Promise((done) => setTimeout(done, 50)))
    assert.ok(Date.now() < end, "the page polls");
  for (const answer of answered) assert.deepEqual(answer, ["poll-system-stats", false]);
  await close("monitor");
});

test("a script that ends with the answer of such a tool hands the page on", async () => {
  const code = "const found = await budget.get_budget_data({});\nreturn found";
  const result = await client.callTool({ name: "execute", arguments: { language: "javascript", code } });
  const { resourceUri } = result._meta.ui;
  assert.ok(result.content.some((block) => block.type === "resource_link" && block.uri === resourceUri));
  const { frame, close } = await show(resourceUri, {}, result);
  await frame.getByText(result.structuredContent.config.categories[0].name).first().waitFor();
  await close("handed-on");
  for (const other of [code.replace("return found", "return [found]"), "return 1"]) {
    const answer = await client.callTool({ name: "execute", arguments: { language: "javascript", code: other } });
    assert.equal(answer._meta?.ui, undefined);
  }
});

test("a script has no tool that is for pages alone", async () => {
  const code = "return await monitor.poll_system_stats({})";
  const answer = await client.callTool({ name: "execute", arguments: { language: "javascript", code } });
  assert.match(answer.content[0].text, /^TOOL_NOT_FOUND/);
  const listed = await client.callTool({ name: "ls", arguments: { path: "/monitor" } });
  const found = await client.callTool({ name: "search", arguments: { query: "poll system stats" } });
  for (const { content } of [listed, found]) assert.doesNotMatch(content[0].text, /poll_system/);
});

test("a client that shows no pages has tools without them", async () => {
  const own = tools;
  const plain = await connect();
  assert.equal(tools.length, own.length - 1);
  assert.deepEqual(tools.filter((tool) => tool._meta), []);
  for (const name of ["monitor__poll_system_stats", "poll-system-stats"]) {
    const answer = await plain.callTool({ name, arguments: {} });
    assert.match(answer.content[0].text, /^TOOL_NOT_FOUND/);
  }
  tools = own;
  await plain.close();
});
