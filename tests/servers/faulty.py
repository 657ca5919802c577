"""An MCP server (2025-11-25, stdio, standard library only) that misbehaves on request.

The real servers of the test set cannot give these faults: a death in the middle of a call, answers of any size,
a paginated tool list with odd entries in it, junk on stdout.
"""

import json
import os
import sys
import threading
import time

LOCK = threading.Lock()


def tool(name, properties=None, required=(), **more):
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


PAGES = [
    [tool("slow", {"ms": {"type": "integer"}}, ["ms"]), tool("crash"), tool("hang")],
    [
        tool("big", {"bytes": {"type": "integer"}}, ["bytes"]),
        tool("fail", {"message": {"type": "string"}}, ["message"]),
        tool("leak"),
        tool("image"),
        tool("create-issue", {"title": {"type": "string"}, "from": {"type": "string"}, "state": {"enum": ["open", "closed"]}}, ["title"]),
        {"name": "no_type", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#"}},
    ],
    [{"name": "broken", "inputSchema": 7}, {"description": "no name"}, tool("last")],
]


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def answer(identifier, result):
    send({"jsonrpc": "2.0", "id": identifier, "result": result})


def text(identifier, words, **more):
    answer(identifier, {"content": [{"type": "text", "text": words}], **more})


def call(identifier, name, arguments):
    if name == "slow":
        time.sleep(arguments["ms"] / 1000)
        text(identifier, "done")
    elif name == "crash":
        sys.stderr.write("about to crash\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "hang":
        return
    elif name == "big":
        text(identifier, "x" * arguments["bytes"])
    elif name == "fail":
        text(identifier, arguments["message"], isError=True)
    elif name == "leak":
        text(identifier, json.dumps(dict(os.environ)))
    elif name == "image":
        answer(identifier, {"content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]})
    elif name == "create-issue":
        text(identifier, json.dumps(arguments))
    else:
        text(identifier, "ok")


def handle(message):
    method, identifier = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "faulty", "version": "1"}
        answer(identifier, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        page = int((message.get("params") or {}).get("cursor") or 0)
        following = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
        answer(identifier, {"tools": PAGES[page], **following})
    elif method == "tools/call":
        params = message["params"]
        arguments = (identifier, params["name"], params.get("arguments") or {})
        threading.Thread(target=call, args=arguments, daemon=True).start()
    elif identifier is not None:
        send({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32601, "message": "method not found"}})


def main():
    if "die" in sys.argv:
        sys.exit("no credentials: set FAULTY_TOKEN")
    if "never" in sys.argv:
        time.sleep(3600)
    if "junk" in sys.argv:
        print("Welcome to faulty!", flush=True)
        print('{"level": "info", "message": "json, but not JSON-RPC"}', flush=True)
    for line in sys.stdin:
        if line.strip():
            handle(json.loads(line))


main()
