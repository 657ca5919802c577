"""An MCP server (2025-11-25, stdio, standard library only) with pages (MCP Apps).

The first argument is its name, the second a log of the calls it got, as lines NAME TOOL. The third is a JSON object that is
merged into its tools, by name; an unknown name adds a tool. Each tool answers with what its argument `raw` says, or with a
result that has everything: texts, an image, structured content and metadata.
"""

import json
import os
import sys
import time

NAME, LOG = sys.argv[1], sys.argv[2]
RAW = {"type": "object", "properties": {"raw": {"type": "string"}}}
PAGE = f"ui://{NAME}/page.html"
TOOLS = {
    "chart": {"_meta": {"ui": {"resourceUri": PAGE}, "vendor/order": [3, 1.0, {"at": PAGE}]}},
    "poll": {"_meta": {"ui": {"visibility": ["app"]}}},
    "plan": {"_meta": {"ui": {"visibility": ["model"]}}},
    "plain": {},
}
for name, more in json.loads(sys.argv[3] if len(sys.argv) > 3 else "{}").items():
    TOOLS.setdefault(name, {}).update(more)
# Written as text, so that tests can compare bytes.
FULL = (
    '{"content":[{"type":"text","text":"as text of %s"},{"type":"image","mimeType":"image/png","data":"AAAA"},'
    '{"type":"text","text":"more"}],"structuredContent":{"z":1.0,"a":[1e2,"\\u00e9\\u202e"],"from":"%s"},'
    '"_meta":{"seen":12345678901234567890,"view":"ui://%s/other","io.modelcontextprotocol/own":1}}' % (NAME, NAME, NAME)
)


def result(message):
    """The result of a request as text."""
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        time.sleep(float(os.environ.get("SLOW", "0")))
        offered = params["capabilities"].get("extensions", {})
        note("offered " + json.dumps(offered, sort_keys=True))
        capabilities = {"tools": {}, "resources": {}}
        return json.dumps({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": NAME, "version": "1"}})
    if method == "tools/list":
        tools = [{"name": name, "description": f"{name} of {NAME}", "inputSchema": RAW, **more} for name, more in TOOLS.items()]
        return json.dumps({"tools": tools})
    if method == "tools/call":
        note(params["name"])
        return params.get("arguments", {}).get("raw", FULL)
    if method == "resources/read":
        note("read " + params["uri"])
        meta = {"ui": {"csp": {"connectDomains": [f"https://{NAME}.test"]}, "prefersBorder": True}}
        page = {"uri": params["uri"], "mimeType": "text/html;profile=mcp-app", "text": f"<p>page of {NAME}</p>", "_meta": meta}
        return json.dumps({"contents": [page]})
    if method == "resources/list":
        return '{"resources":[]}'
    if method == "resources/templates/list":
        return '{"resourceTemplates":[]}'
    return "{}"


def note(what):
    with open(LOG, "a") as log:
        log.write(f"{NAME} {what}\n")


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (json.dumps(message["id"]), result(message)))
        sys.stdout.flush()
