// Passes HTTP requests on to a gateway as they are, but for one thing: the suite calls tools of its own, and behind a
// code-mode gateway scripts call tools. So the call of a tool `test_…` becomes the script that an agent would write for
// it: one call of that tool of the server `fixture`, in the background for those that become tasks. Answers are passed back
// untouched.
//   node rewriter.mjs PORT GATEWAY_PORT
import http from "node:http";

const [port, gateway] = process.argv.slice(2).map(Number);

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
  const isTask = TASKS.has(name);
  if (message?.method !== "tools/call" || !(isTask || name === "greet" || name?.startsWith?.("test_"))) return undefined;
  const code = `return await forge.callTool("fixture", ${JSON.stringify(name)}, ${JSON.stringify(given)})`;
  const params = { ...message.params, name: "execute", arguments: { language: "javascript", code, ...(isTask && { background: true }) } };
  return { name, body: Buffer.from(JSON.stringify({ ...message, params })) };
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
        if (headers["mcp-name"] === script.name) headers["mcp-name"] = "execute";
      }
      const { method, url: path } = request;
      const passed = http.request({ host: "127.0.0.1", port: gateway, method, path, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        response.flushHeaders();
        answer.pipe(response);
      });
      passed.on("error", () => response.destroy());
      response.on("close", () => passed.destroy());
      passed.end(body);
    });
  })
  .listen(port, "127.0.0.1", () => console.error(`listening on ${port}`));
