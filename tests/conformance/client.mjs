// Drives the client side of a gateway against one server of the conformance suite, as an agent and its user would.
//   node client.mjs FORGEFS URL
// The suite starts this for each scenario. It configures URL as the only server of `forgefs serve`, calls each tool
// that the gateway shows in a script of one call, and reads the prompts and resources. As the user it answers questions
// with their defaults, and follows the address of a login like a browser. ForgeFS does all the rest, which is what the
// suite checks.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";

const [forgefs, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
/** Logins that one scenario may ask a person for; the suite wants an end to it. */
const LOGINS = 2;
/** Milliseconds that the gateway gets to connect. */
const PATIENCE = 8000;
/** The document that the suite knows as a client's, and that a user of ForgeFS would configure. */
const DOCUMENT = "https://conformance-test.local/client-metadata.json";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "forgefs-conformance-"));
const config = path.join(folder, "forge.toml");
const env = { ...process.env, XDG_DATA_HOME: folder, XDG_STATE_HOME: folder, XDG_CACHE_HOME: folder };
const auth = [];
if (scenario.startsWith("auth/client-credentials")) auth.push('type = "client_credentials"');
if (context.idp_issuer) auth.push('type = "enterprise"');
const client = scenario === "auth/basic-cimd" ? DOCUMENT : context.client_id;
if (client) auth.push(`client_id = ${JSON.stringify(client)}`);
const file = (name, text) => {
  fs.writeFileSync(path.join(folder, name), text, { mode: 0o600 });
  return `{ file = ${JSON.stringify(name)} }`;
};
if (context.client_secret || context.private_key_pem) {
  // A secret goes only to an issuer that the operator names: the one that the server names is right here.
  const document = new URL(`/.well-known/oauth-protected-resource${new URL(url).pathname}`, url);
  const named = await fetch(document).then((answer) => (answer.ok ? answer.json() : {}), () => ({}));
  const issuer = named.authorization_servers?.[0];
  if (context.client_secret) auth.push(`client_secret = ${JSON.stringify(context.client_secret)}`);
  if (context.private_key_pem) auth.push(`private_key = ${file("client.pem", context.private_key_pem)}`);
  if (issuer) auth.push(`issuer = ${JSON.stringify(issuer)}`);
}
const section = auth.length > 0 ? `[servers.suite.auth]\n${auth.join("\n")}\n` : "";
const identity = context.idp_issuer
  ? `[identity]\nissuer = ${JSON.stringify(context.idp_issuer)}\nclient_id = ${JSON.stringify(context.idp_client_id)}\n` +
    `id_token = ${file("id-token", context.idp_id_token)}\n`
  : "";
fs.writeFileSync(config, `[servers.suite]\nurl = ${JSON.stringify(url)}\n${section}${identity}`);

/** `forgefs serve`, spoken to as a client that can ask a person. */
class Gateway {
  constructor() {
    this.waiting = new Map();
    this.child = spawn(forgefs, ["--config", config, "serve"], { env, stdio: ["pipe", "pipe", "inherit"] });
    readline.createInterface({ input: this.child.stdout }).on("line", (line) => this.take(JSON.parse(line)));
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  take({ id, method, params, result, error }) {
    if (method === "elicitation/create") {
      const content = fromSchema(params.requestedSchema, false);
      return this.send({ id, result: { action: "accept", content } });
    }
    if (method !== undefined) return id === undefined ? undefined : this.send({ id, result: {} });
    this.waiting.get(id)?.(error ? { isError: true, content: [{ text: JSON.stringify(error) }] } : result);
    return this.waiting.delete(id);
  }

  ask(method, params = {}) {
    const id = this.count = (this.count ?? 0) + 1;
    this.send({ id, method, params });
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  async tool(name, given) {
    const { content = [], isError = false } = await this.ask("tools/call", { name, arguments: given });
    return { text: content.map(({ text }) => text ?? "").join("\n"), isError };
  }
}

/** A value of a schema: its default, else one that says nothing. */
const fromSchema = (schema, isInput = true) => {
  if (schema?.default !== undefined) return schema.default;
  if (schema?.enum) return schema.enum[0];
  if (schema?.type === "object") {
    const wanted = Object.entries(schema.properties ?? {}).filter(([key]) => !isInput || schema.required?.includes(key));
    return Object.fromEntries(wanted.map(([key, inner]) => [key, fromSchema(inner, isInput)]));
  }
  return { string: "text", integer: 2, number: 3, boolean: true, array: [], null: null }[schema?.type] ?? {};
};

/** What the gateway says of the server once that is no longer in `state`. */
const settled = async (gateway, state) => {
  const until = Date.now() + PATIENCE;
  for (;;) {
    const { text } = await gateway.tool("ls", { path: "/suite" });
    if (!state.test(text) || Date.now() > until) return text;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};

/** The definitions of the tools that the gateway shows, as their files say. */
const definitions = async (gateway) => {
  const { text, isError } = await gateway.tool("cat", { path: "/suite/**/*.json" });
  if (isError) return [];
  const files = text.split(/^# \/suite\/\S+\.json$/m).map((file) => file.trim());
  return files.filter((file) => file.startsWith("{")).map((file) => JSON.parse(file));
};

/** What to call: what the scenario says, else each tool once. */
const calls = (tools) => {
  if (context.toolCalls) return context.toolCalls;
  const focal = tools.find(({ name }) => name === "json_schema_2020_12_tool");
  return tools.map(({ name, inputSchema }) => {
    const given = name === "json_schema_echo" ? { schema: focal?.inputSchema } : fromSchema(inputSchema);
    return { name, arguments: given };
  });
};

/** Follows the address of a login to its end, which is the listener of `forgefs auth login`. */
const login = (more) =>
  new Promise((resolve) => {
    const command = ["--config", config, "auth", "login", "suite", "--no-browser", ...more];
    const child = spawn(forgefs, command, { env, stdio: ["ignore", "inherit", "pipe"] });
    const follow = async (line) => {
      process.stderr.write(`${line}\n`);
      const address = /^\s+(http\S+)$/.exec(line)?.[1];
      if (address) await fetch(address).catch((error) => console.error(`the login led nowhere: ${error}`));
    };
    readline.createInterface({ input: child.stderr }).on("line", follow);
    child.on("close", (code) => resolve(code === 0));
  });

/** Calls everything; what failed, in the words of the gateway. */
const use = async (gateway) => {
  let failed = "";
  for (const { name, arguments: input } of calls(await definitions(gateway))) {
    const code = `return await forge.callTool("suite", ${JSON.stringify(name)}, ${JSON.stringify(input)})`;
    const { text, isError } = await gateway.tool("execute", { language: "javascript", code });
    console.log(`${name}: ${text}`);
    if (isError) failed += `${text}\n`;
  }
  const { prompts = [] } = await gateway.ask("prompts/list");
  for (const { name } of prompts) await gateway.ask("prompts/get", { name, arguments: {} });
  const { resources = [] } = await gateway.ask("resources/list");
  for (const { uri } of resources) await gateway.ask("resources/read", { uri });
  return failed;
};

const gateway = new Gateway();
await gateway.ask("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: { elicitation: {} },
  clientInfo: { name: "conformance", version: "1" },
});
gateway.send({ method: "notifications/initialized" });
let state = await settled(gateway, /connecting/);
let failed = await use(gateway);
for (let logins = 0; logins < LOGINS; logins++) {
  // Folder or error name the login that helps, as for a person.
  const command = /forgefs auth login suite((?: --scope [\w:./-]+)*)/.exec(failed || state);
  if (!command || !(await login(command[1].split(" ").filter(Boolean)))) break;
  state = await settled(gateway, logins > 0 ? /connecting/ : /connecting|login suite$/m);
  failed = await use(gateway);
}
// The suite decides whether that was right: a reported error is a valid end too.
console.error(`${state}\n${failed}`);
gateway.child.stdin.end();
await new Promise((resolve) => gateway.child.on("close", resolve));
fs.rmSync(folder, { recursive: true, force: true });
