"""An MCP server (2025-11-25, stdio, standard library only) whose answers are in the file of its first argument: tool → list
of results of `tools/call`, given in turn; a tool without any never answers. No tool has an output schema; the names of
those that write begin with `put`. The file of its second argument, if any, has further fields of the definitions by tool,
and under `*` the number of tools whose names change with each list, which is announced.
"""

import json
import sys


def read(number, default):
    if len(sys.argv) <= number:
        return default
    with open(sys.argv[number], encoding="utf-8") as file:
        return json.load(file)


ANSWERS = read(1, {})
MORE = read(2, {})
TURNS = dict.fromkeys(ANSWERS, 0)
LISTS = 0


def tool(name):
    hints = {"readOnlyHint": not name.startswith("put")}
    schema = {"type": "object", "additionalProperties": False}
    own = {"name": name, "description": f"Answers {name}.", "inputSchema": schema, "annotations": hints}
    return {**own, **MORE.get(name, {})}


def send(**fields):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **fields}) + "\n")
    sys.stdout.flush()


def listed():
    global LISTS
    LISTS += 1
    changing = [tool(f"list{LISTS}_{number}") for number in range(MORE.get("*", 0))]
    return [tool(name) for name in ANSWERS] + changing


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None:
        return
    if method == "initialize":
        info = {"name": "answers", "version": "1"}
        tools = {"listChanged": True} if "*" in MORE else {}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": tools}, "serverInfo": info}
        send(id=identifier, result=result)
    elif method == "tools/list":
        send(id=identifier, result={"tools": listed()})
        if "*" in MORE:
            send(method="notifications/tools/list_changed")
    elif method == "tools/call":
        name = params["name"]
        answers = ANSWERS.get(name, [{"content": [{"type": "text", "text": "{}"}]}])
        turn = TURNS.get(name, 0)
        TURNS[name] = turn + 1
        if answers:
            send(id=identifier, result=answers[turn % len(answers)])
    else:
        send(id=identifier, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    handle(json.loads(line))
