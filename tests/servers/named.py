"""An MCP server on stdio whose tools have names that languages use themselves; standard library only.

Each answers its name and its arguments.
"""

import json
import sys

NAMES = ["echo", "then", "constructor", "toString", "valueOf", "toJSON", "__proto__", "hasOwnProperty"]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            server = {"name": "named", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
        case "tools/call":
            text = json.dumps({"tool": params["name"], "args": params.get("arguments", {})})
            result = {"content": [{"type": "text", "text": text}]}
        case _:
            print(json.dumps(answer | {"error": {"code": -32601, "message": "no such method"}}), flush=True)
            continue
    print(json.dumps(answer | {"result": result}), flush=True)
