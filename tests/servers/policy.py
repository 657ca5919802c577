"""An MCP server (2025-11-25, stdio, standard library only) to test policies.

The first argument is its name; the second a log of the calls it got, as lines NAME TOOL ARGUMENTS; further ones name
tools that it does not have.
"""

import json
import sys
import time

NAME, LOG = sys.argv[1], sys.argv[2]
READS = {"annotations": {"readOnlyHint": True}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
MADE = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
    "required": ["id"],
}
TOOLS = [
    {"name": "look", "inputSchema": TEXT, **READS},
    {"name": "slow", "inputSchema": TEXT, **READS},
    {"name": "fail", "inputSchema": TEXT, **READS},
    {"name": "huge", "inputSchema": TEXT, **READS},
    {"name": "send", "inputSchema": TEXT},
    {"name": "post", "inputSchema": {"type": "object", "additionalProperties": True}},
    {"name": "link", "inputSchema": TEXT, **READS},
    {"name": "make", "inputSchema": TEXT, "outputSchema": MADE},
    {"name": "write", "inputSchema": {"type": "object", "properties": {**TEXT["properties"], "more": {}}}},
    {"name": "hidden", "inputSchema": TEXT, **READS},
]
TOOLS = [tool for tool in TOOLS if tool["name"] not in sys.argv[3:]]
COMPLETION = {"completion": {"values": [NAME]}}


def answer(identifier, **fields):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": identifier, **fields}) + "\n")
    sys.stdout.flush()


def note(what, arguments):
    with open(LOG, "a") as log:
        log.write(f"{NAME} {what} {json.dumps(arguments, sort_keys=True)}\n")


def call(name, arguments):
    note(name, arguments)
    if name == "slow":
        time.sleep(0.3)
    if name == "link":
        return {"content": [{"type": "resource_link", "uri": arguments["text"], "name": "a link"}]}
    if name == "make":
        return {"content": [], "structuredContent": {"id": 7, "note": "made"}}
    if name == "huge":
        return {"content": [{"type": "text", "text": json.dumps([f"data of {NAME}, line {n}" for n in range(2000)])}]}
    return {"content": [{"type": "text", "text": f"data of {NAME}"}], "isError": name == "fail"}


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None:
        return
    if method == "initialize":
        offered = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        info = {"name": NAME, "version": "1"}
        answer(identifier, result={"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": info})
    elif method == "tools/list":
        answer(identifier, result={"tools": TOOLS})
    elif method == "tools/call" and (params.get("arguments") or {}).get("text") == "refuse":
        answer(identifier, error={"code": -32000, "message": f"data of {NAME}"})
    elif method == "tools/call":
        answer(identifier, result=call(params["name"], params.get("arguments") or {}))
    elif method == "resources/list":
        answer(identifier, result={"resources": [{"uri": f"{NAME}://data", "name": "data.txt"}]})
    elif method == "resources/read":
        note("read_resource", params["uri"])
        contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": f"data of {NAME}"}]
        answer(identifier, result={"contents": contents})
    elif method == "prompts/list":
        answer(identifier, result={"prompts": [{"name": "ask", "arguments": [{"name": "uri"}]}]})
    elif method == "prompts/get":
        note("prompt", params["name"])
        content = {"type": "text", "text": f"data of {NAME}"}
        if params.get("arguments", {}).get("uri"):
            content = {"type": "resource_link", "uri": params["arguments"]["uri"], "name": "a link"}
        message = {"role": "user", "content": content}
        answer(identifier, result={"messages": [message]})
    elif method == "completion/complete":
        answer(identifier, result=COMPLETION)
    elif method in ("ping", "logging/setLevel"):
        answer(identifier, result={})
    else:
        answer(identifier, error={"code": -32601, "message": f"no {method}"})


print(f"{NAME} is up", file=sys.stderr, flush=True)
for line in sys.stdin:
    if line.strip():
        handle(json.loads(line))
