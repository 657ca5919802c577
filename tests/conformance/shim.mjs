// Puts an MCP server that speaks stdio behind Streamable HTTP, for a suite that speaks HTTP only.
//   node shim.mjs PORT 2025-11-25|2026-07-28 COMMAND ARGUMENTS...
// It only adds the HTTP binding: headers, status codes, sessions, streams. In 2025-11-25 each session has a
// process of its own; in 2026-07-28, which has no sessions, one process serves all requests.
//
// The suite calls tools of its own. Behind a code-mode gateway scripts call tools, so the call of a tool
// `test_…` becomes the script that an agent would write for it: one call of that tool of the server `fixture`.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import http from "node:http";
import readline from "node:readline";

const [port, revision, command, ...args] = process.argv.slice(2);
const MODERN = revision === "2026-07-28";
const META = "io.modelcontextprotocol/";
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];

const json = (response, status, message, headers = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(message));
};
const refuse = (response, status, id, code, message) =>
  json(response, status, { jsonrpc: "2.0", id: id ?? null, error: { code, message } });

const scripted = (message) => {
  const { name, arguments: given = {} } = message.params ?? {};
  if (message.method !== "tools/call" || !name?.startsWith("test_")) return message;
  const code = `return await forge.callTool("fixture", ${JSON.stringify(name)}, ${JSON.stringify(given)})`;
  return { ...message, params: { ...message.params, name: "execute", arguments: { language: "javascript", code } } };
};

/** A process, and the HTTP requests that wait for it. */
class Server {
  constructor() {
    this.waiting = new Map();
    this.count = 0;
    this.stream = undefined;
    this.child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    readline.createInterface({ input: this.child.stdout }).on("line", (line) => this.take(JSON.parse(line)));
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** A message of the server: an answer, or something for the stream of the request that it belongs to. */
  take(message) {
    const isAnswer = message.id !== undefined && message.method === undefined;
    if (isAnswer) {
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      waiting?.end({ ...message, id: waiting.id });
      return;
    }
    const token = message.params?.progressToken;
    const subscription = message.params?._meta?.[`${META}subscriptionId`];
    for (const [own, waiting] of this.waiting) {
      if (subscription !== undefined && subscription !== own) continue;
      if (token !== undefined && waiting.token !== token) continue;
      if (subscription !== undefined) message.params._meta[`${META}subscriptionId`] = waiting.id;
      waiting.event(message);
      return;
    }
    this.stream?.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }

  /** Sends a request under a number of ours, since those of several connections may be the same. */
  ask(message, response, headers = {}) {
    const own = `http-${++this.count}`;
    let open = false;
    const event = (message) => {
      if (!open) response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...headers });
      open = true;
      response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    };
    const end = (answer) => {
      if (!open) return json(response, status(message, answer), answer, headers);
      event(answer);
      response.end();
    };
    this.waiting.set(own, { id: message.id, token: message.params?._meta?.progressToken, event, end });
    response.on("close", () => {
      if (this.waiting.delete(own)) {
        this.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: own } });
      }
    });
    this.send({ ...scripted(message), id: own });
  }
}

const status = (request, answer) => {
  const code = answer.error?.code;
  if (!MODERN || code === undefined) return 200;
  if (code === -32601) return 404;
  const meta = request.params?._meta ?? {};
  const isWhole = ["protocolVersion", "clientCapabilities", "clientInfo"].every((key) => typeof meta[META + key] !== "undefined");
  const withoutMeta = code === -32602 && !isWhole;
  return withoutMeta || [-32020, -32021, -32022, -32700, -32600].includes(code) ? 400 : 200;
};

/** What 2026-07-28 demands of the headers; undefined if they are right. */
const wrongHeaders = (request, message) => {
  const named = message.params?._meta?.[`${META}protocolVersion`];
  const header = request.headers["mcp-protocol-version"];
  if (named === undefined && header !== revision) return undefined;
  if (header === undefined) return "the header MCP-Protocol-Version is missing";
  if (named !== undefined && header !== named) return "MCP-Protocol-Version is not what the request says";
  if (request.headers["mcp-method"] !== message.method) return "Mcp-Method is not what the request says";
  const subject = message.params?.name ?? message.params?.uri;
  const isNamed = ["tools/call", "prompts/get", "resources/read"].includes(message.method);
  if (isNamed && request.headers["mcp-name"] !== subject) return "Mcp-Name is not what the request says";
  return undefined;
};

const sessions = new Map();
let modern;
if (MODERN) {
  // A server of both eras speaks the one of its first message.
  modern = new Server();
  const _meta = {
    [`${META}protocolVersion`]: revision,
    [`${META}clientCapabilities`]: {},
    [`${META}clientInfo`]: { name: "shim", version: "1" },
  };
  modern.send({ jsonrpc: "2.0", id: "first", method: "server/discover", params: { _meta } });
}

const handle = (request, response, message) => {
  if (MODERN) {
    if (message.id === undefined) {
      modern.send(message);
      return response.writeHead(202).end();
    }
    const wrong = wrongHeaders(request, message);
    return wrong ? refuse(response, 400, message.id, -32020, wrong) : modern.ask(message, response);
  }
  if (message.method === "initialize") {
    const session = randomUUID();
    const server = new Server();
    sessions.set(session, server);
    return server.ask(message, response, { "mcp-session-id": session });
  }
  const id = request.headers["mcp-session-id"];
  const server = sessions.get(id);
  if (server === undefined) return refuse(response, id ? 404 : 400, message.id, -32600, "there is no such session");
  if (message.id !== undefined && message.method !== undefined) return server.ask(message, response);
  server.send(message);
  return response.writeHead(202).end();
};

http
  .createServer((request, response) => {
    const host = (request.headers.host ?? "").replace(/:\d+$/, "");
    const origin = request.headers.origin;
    const isLocal = LOCAL.includes(host) && (!origin || LOCAL.includes(new URL(origin).hostname));
    if (!isLocal) return refuse(response, 403, null, -32000, "not from here");
    const session = request.headers["mcp-session-id"];
    if (request.method === "DELETE" && sessions.has(session)) {
      sessions.get(session).child.stdin.end();
      sessions.delete(session);
      return response.writeHead(200).end();
    }
    if (request.method === "GET" && sessions.has(session)) {
      response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
      sessions.get(session).stream = response;
      return response.flushHeaders();
    }
    if (request.method !== "POST") return response.writeHead(405, { allow: "POST" }).end();
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      let message;
      try {
        message = JSON.parse(body);
      } catch {
        return refuse(response, 400, null, -32700, "this is not JSON");
      }
      return handle(request, response, message);
    });
  })
  .listen(Number(port), "127.0.0.1", () => console.error(`listening on ${port}`));
