"""An MCP server (2025-11-25, stdio, standard library only) that lists the tools of a JSON file, its only argument.

Each call returns the names of its arguments.
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    TOOLS = json.load(file)


def result(method, params):
    if method == "initialize":
        info = {"name": "schemas", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        names = json.dumps(sorted(params.get("arguments", {})))
        return {"content": [{"type": "text", "text": names}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message["method"], message.get("params", {}))}
        print(json.dumps(answer), flush=True)
