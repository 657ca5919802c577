"""An MCP server (2025-11-25, stdio, standard library only) whose answers are in the file of its argument: tool → list of
results of `tools/call`, given in turn. No tool has an output schema; the names of those that write begin with `put`.
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    ANSWERS = json.load(file)
TURNS = dict.fromkeys(ANSWERS, 0)


def tool(name):
    hints = {"readOnlyHint": not name.startswith("put")}
    schema = {"type": "object", "additionalProperties": False}
    return {"name": name, "description": f"Answers {name}.", "inputSchema": schema, "annotations": hints}


def answer(identifier, **fields):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": identifier, **fields}) + "\n")
    sys.stdout.flush()


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None:
        return
    if method == "initialize":
        info = {"name": "answers", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        answer(identifier, result=result)
    elif method == "tools/list":
        answer(identifier, result={"tools": [tool(name) for name in ANSWERS]})
    elif method == "tools/call":
        name = params["name"]
        turn = TURNS[name]
        TURNS[name] += 1
        answer(identifier, result=ANSWERS[name][turn % len(ANSWERS[name])])
    else:
        answer(identifier, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    handle(json.loads(line))
