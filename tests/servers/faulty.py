"""An MCP server (2025-11-25, stdio, standard library only) that misbehaves on request.

The real servers of the test set do not have these faults: a death in the middle of a call, answers of any size,
a paginated tool list with odd entries in it, junk on stdout.

The tools `act` and `act_safely` (annotated as idempotent) answer with their nonce; at its first use they misbehave as
`fault` says. FAULTY_LOG names a file that gets a line for every executed call (`call NONCE`), every cancelled request
(`cancelled`), every start (`start PID`) and every request within a trace (`trace TRACEPARENT TRACESTATE`).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()
MAX_MESSAGE = 16 << 20


def tool(name, properties=None, required=(), **more):
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


PAGES = [
    [tool("slow", {"ms": {"type": "integer"}}, ["ms"]), tool("crash"), tool("hang")],
    [
        tool("act", {"nonce": {"type": "string"}, "fault": {"type": "string"}}, ["nonce"]),
        tool("act_safely", {"nonce": {"type": "string"}, "fault": {"type": "string"}}, ["nonce"], annotations={"idempotentHint": True}),
        tool("progress", {"steps": {"type": "integer"}, "ms": {"type": "integer"}}, ["steps", "ms"]),
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


LOGGED = {}


def log(line):
    """Appends a line and returns its number of occurrences."""
    path = os.environ.get("FAULTY_LOG")
    if path is None:
        return 1
    with LOCK, open(path, "a+") as file:
        if not LOGGED:
            file.seek(0)
            for old in file:
                LOGGED[old.rstrip("\n")] = LOGGED.get(old.rstrip("\n"), 0) + 1
        file.write(line + "\n")
        LOGGED[line] = LOGGED.get(line, 0) + 1
        return LOGGED[line]


def raw(words):
    with LOCK:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()


def act(identifier, nonce, fault):
    if log(f"call {nonce}") > 1:
        fault = None
    good = {"jsonrpc": "2.0", "id": identifier, "result": {"content": [{"type": "text", "text": nonce}]}}
    if fault == "crash":
        sys.stderr.write("about to crash\n")
        sys.stderr.flush()
        os._exit(7)
    elif fault == "hang":
        return
    elif fault == "drip":
        with LOCK:
            for letter in json.dumps(good) + "\n":
                sys.stdout.write(letter)
                sys.stdout.flush()
                time.sleep(0.2)
    elif fault == "cut":
        with LOCK:
            sys.stdout.write(json.dumps(good)[:30])
            sys.stdout.flush()
            os._exit(7)
    elif fault == "close":
        os.close(1)
        time.sleep(3600)
    elif fault == "garbage":
        raw(json.dumps(good)[:-20] + "%%%")
    elif fault == "noise":
        raw("%%% not JSON")
        raw('{"json": "but not JSON-RPC"}')
        raw("[]")
        send(good)
    elif fault == "wrong_id":
        send({**good, "id": 987654})
    elif fault == "duplicate":
        send(good)
        send(good)
        send({**good, "result": {"content": [{"type": "text", "text": "a second answer"}]}})
    elif fault == "late":
        time.sleep(5)
        send(good)
    elif fault == "oversized":
        send({**good, "result": {"content": [{"type": "text", "text": "x" * MAX_MESSAGE}]}})
    elif fault == "oversized_id_last":
        raw(json.dumps({"result": {"content": [{"type": "text", "text": "x" * MAX_MESSAGE}]}, "jsonrpc": "2.0", "id": identifier}))
    elif fault == "oversized_notice":
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * MAX_MESSAGE}})
        send(good)
    elif fault == "refused":
        send({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32603, "message": "no database"}})
    elif fault == "bad_arguments":
        send({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32602, "message": "nonce is too odd"}})
    else:
        send(good)


def progress(identifier, token, steps, ms):
    for step in range(steps):
        time.sleep(ms / 1000)
        report = {"progressToken": token, "progress": step + 1, "total": steps}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": report})
    text(identifier, "done")


def call(identifier, name, arguments, token=None):
    if name in ("slow", "hang"):
        log(name)
    if name in ("act", "act_safely"):
        act(identifier, arguments["nonce"], arguments.get("fault"))
    elif name == "progress":
        progress(identifier, token, arguments["steps"], arguments["ms"])
    elif name == "slow":
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
        meta = params.get("_meta") or {}
        token = meta.get("progressToken")
        if "traceparent" in meta:
            log(f"trace {meta['traceparent']} {meta.get('tracestate')}")
        arguments = (identifier, params["name"], params.get("arguments") or {}, token)
        threading.Thread(target=call, args=arguments, daemon=True).start()
    elif method == "notifications/cancelled":
        log("cancelled")
    elif method == "ping":
        answer(identifier, {})
    elif identifier is not None:
        send({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32601, "message": "method not found"}})


def main():
    log(f"start {os.getpid()}")
    if "launch" in sys.argv:
        # A launcher that stays, as npx does.
        sys.argv.remove("launch")
        sys.exit(subprocess.call([sys.executable, *sys.argv]))
    if "die" in sys.argv:
        sys.exit("no credentials: set FAULTY_TOKEN")
    if "never" in sys.argv:
        print("waiting for a login in the browser", file=sys.stderr, flush=True)
        time.sleep(3600)
    for argument in sys.argv[1:]:
        if argument.startswith("slow="):
            with open(argument[len("slow="):], "a") as starts:
                starts.write("started\n")
            time.sleep(12)
    if "junk" in sys.argv:
        print("Welcome to faulty!", flush=True)
        print('{"level": "info", "message": "json, but not JSON-RPC"}', flush=True)
    for line in sys.stdin:
        if line.strip():
            handle(json.loads(line))
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)


main()
