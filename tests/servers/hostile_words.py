"""An MCP server (2025-11-25, stdio, standard library only) whose every text would affect a terminal.

The argument is the text. `slow://…` is a resource without an answer.
"""

import json
import sys

WORDS = json.loads(sys.argv[1])
TEXT = {"type": "object", "properties": {"text": {"type": "string", "description": WORDS}}}
TOOLS = [
    {"name": "say", "description": WORDS, "inputSchema": TEXT, "annotations": {"title": WORDS, "readOnlyHint": True}},
    {"name": "fail", "description": "fails", "inputSchema": TEXT},
    {"name": "wo\u001b]0;rds\u0007\n::error::x", "description": WORDS, "inputSchema": TEXT},
]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(identifier, **result):
    send({"id": identifier, "result": result})


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None or method == "resources/read" and params["uri"].startswith("slow://"):
        return
    if method == "initialize":
        info = {"name": "hostile", "version": WORDS}
        offered = {"tools": {}, "resources": {}, "prompts": {}}
        answer(identifier, protocolVersion="2025-11-25", capabilities=offered, serverInfo=info, instructions=WORDS)
    elif method == "tools/list":
        answer(identifier, tools=TOOLS)
    elif method == "tools/call":
        is_error = params["name"] == "fail"
        content = [{"type": "text", "text": json.dumps([WORDS]) if not is_error else WORDS}]
        answer(identifier, content=content, isError=is_error)
    elif method == "resources/list":
        answer(identifier, resources=[{"uri": "x://text", "name": "text.txt", "description": WORDS}])
    elif method == "resources/read":
        answer(identifier, contents=[{"uri": params["uri"], "mimeType": "text/plain", "text": WORDS}])
    elif method == "prompts/list":
        answer(identifier, prompts=[{"name": "ask", "description": WORDS}])
    elif method == "ping":
        answer(identifier)
    else:
        send({"id": identifier, "error": {"code": -32601, "message": WORDS}})


print(WORDS, file=sys.stderr, flush=True)
for line in sys.stdin:
    if line.strip():
        handle(json.loads(line))
