"""An MCP server (2025-11-25, stdio, standard library only) with the number of tools in its argument.

Each tool has a name and a pattern of its own, and repeats its text `times` times.
"""

import json
import sys

COUNT = int(sys.argv[1])


def tool(number):
    text = {"type": "string", "pattern": f"^[a-z]{{0,{number + 1}}}$"}
    schema = {"type": "object", "properties": {"text": text, "times": {"type": "integer"}}}
    return {"name": f"tool{number:05}", "description": f"Repeats words, the way {number}.", "inputSchema": schema}


def answer(identifier, **fields):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": identifier, **fields}) + "\n")
    sys.stdout.flush()


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None:
        return
    if method == "initialize":
        info = {"name": "many", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        answer(identifier, result=result)
    elif method == "tools/list":
        answer(identifier, result={"tools": [tool(number) for number in range(COUNT)]})
    elif method == "tools/call":
        arguments = params.get("arguments") or {}
        text = arguments.get("text", "") * arguments.get("times", 1)
        answer(identifier, result={"content": [{"type": "text", "text": text}]})
    else:
        answer(identifier, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    handle(json.loads(line))
