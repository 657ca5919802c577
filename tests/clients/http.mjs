// The official TypeScript client over Streamable HTTP: lists the tools, a folder, and runs a script.
//   SDK=…/@modelcontextprotocol/sdk node http.mjs URL
import { pathToFileURL } from "node:url";
import path from "node:path";

const load = (file) => import(pathToFileURL(path.join(process.env.SDK, "dist/esm", file)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const { tools } = await client.listTools();
const ls = await client.callTool({ name: "ls", arguments: {} });
const code = { language: "javascript", code: "await people.list_teams(); return 42" };
const run = await client.callTool({ name: "execute", arguments: code });
const folder = ls.content[0].text.includes("people/") ? "people" : ls.content[0].text;
console.log(`${tools.length} tools; ${folder}; ${run.content[0].text.split(/\s/)[0]}`);
await client.close();
