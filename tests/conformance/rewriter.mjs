// Passes HTTP requests on to a gateway as they are, but for one thing: the suite calls tools of its own, and behind a
// code-mode gateway scripts call tools. So the call of a tool `test_…` becomes the script that an agent would write for
// it: one call of that tool of the server `fixture`, in the background for those that become tasks. Answers are passed back
// untouched.
//
// In direct mode the gateway lists the tools itself, as `fixture__…`: only that beginning is taken off and put back.
//   node rewriter.mjs PORT GATEWAY_PORT [direct]
import http from "node:http";

const [port, gateway] = process.argv.slice(2, 4).map(Number);
const isDirect = process.argv[4] === "direct";
/** Beginning of the names of its tools in direct mode. */
const PREFIX = "fixture__";

/** Tools that the suite expects to become tasks: their scripts go on in the background. */
const TASKS = new Set(["slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"]);

/** The body with the call of a tool as a script, and the tool's name; undefined for any other body. */
const scripted = (body) => {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return undefined;
  }
  const { name, arguments: given = {} } = message?.params ?? {};
  if (isDirect) {
    if (message?.method !== "tools/call" || typeof name !== "string") return undefined;
    const params = { ...message.params, name: PREFIX + name };
    return { name, called: PREFIX + name, body: Buffer.from(JSON.stringify({ ...message, params })) };
  }
  const isTask = TASKS.has(name);
  if (message?.method !== "tools/call" || !(isTask || name === "greet" || name?.startsWith?.("test_"))) return undefined;
  const code = `return await forge.callTool("fixture", ${JSON.stringify(name)}, ${JSON.stringify(given)})`;
  const params = { ...message.params, name: "execute", arguments: { language: "javascript", code, ...(isTask && { background: true }) } };
  return { name, called: "execute", body: Buffer.from(JSON.stringify({ ...message, params })) };
};

http
  .createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      let body = Buffer.concat(parts);
      const headers = { ...request.headers };
      const script = request.method === "POST" && scripted(body.toString());
      if (script) {
        body = script.body;
        headers["content-length"] = body.length;
        delete headers["transfer-encoding"];
        // A header that differs from the body goes on to differ.
        if (headers["mcp-name"] === script.name) headers["mcp-name"] = script.called;
      }
      const { method, url: path } = request;
      const passed = http.request({ host: "127.0.0.1", port: gateway, method, path, headers }, (answer) => {
        if (isDirect) delete answer.headers["content-length"];
        response.writeHead(answer.statusCode, answer.headers);
        response.flushHeaders();
        if (!isDirect) return answer.pipe(response);
        // Compact JSON, whole or in events: a name is within one line, and an answer to a list within one part or several.
        let rest = "";
        answer.setEncoding("utf8");
        answer.on("data", (part) => {
          const text = (rest + part).replaceAll(`"name":"${PREFIX}`, '"name":"');
          const keep = [...Array(PREFIX.length + 7).keys()].reverse().find((n) => n > 0 && `"name":"${PREFIX}`.startsWith(text.slice(-n)));
          rest = keep ? text.slice(-keep) : "";
          response.write(keep ? text.slice(0, -keep) : text);
        });
        answer.on("end", () => response.end(rest));
      });
      passed.on("error", () => response.destroy());
      response.on("close", () => passed.destroy());
      passed.end(body);
    });
  })
  .listen(port, "127.0.0.1", () => console.error(`listening on ${port}`));
