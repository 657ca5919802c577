"""An MCP server (stdio, standard library only) that asks its client back, reports progress and logs.

The argument is the era: `legacy` (2025-11-25) sends requests of its own, `modern` (2026-07-28) answers with
`input_required` and goes on when the request is repeated. `both` and `both-in-words` speak either, and can ask nothing in
2026-07-28: that is a JSON-RPC error, or the tool's. The tools are the same. `book` appends its number to the file
of the second argument when its question is answered.
"""

import json
import sys
import threading
import time

MODERN = sys.argv[1] == "modern"
BOTH = sys.argv[1].startswith("both")
LOCK = threading.Lock()
ANSWERS = {}
CANCELLED = []
LEVEL = ["none"]
NEXT = [1000]
VERSION = "2026-07-28" if MODERN else "2025-11-25"


def tool(name, **properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


TOOLS = [
    tool("confirm", text={"type": "string"}),
    tool("book", n={"type": "integer"}),
    tool("two"),
    tool("again", rounds={"type": "integer"}),
    tool("sample"),
    tool("roots"),
    tool("url"),
    tool("never"),
    tool("put", method={"type": "string"}, params={"type": "object"}),
    tool("flood", count={"type": "integer"}),
    tool("work", steps={"type": "integer"}, pause={"type": "number"}),
    tool("seen"),
]
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def questions(name, arguments):
    def form(words):
        return {"method": "elicitation/create", "params": {"mode": "form", "message": words, "requestedSchema": FORM}}

    if name == "confirm":
        return {"a": form(arguments.get("text", "sure?"))}
    if name == "book":
        return {"a": form(f"book {arguments['n']}?")}
    if name == "two":
        return {"a": form("first?"), "b": form("second?")}
    if name == "again":
        return {"a": form(f"again, {arguments['rounds']} to go?")}
    if name == "never":
        return {"a": form("is anybody there?")}
    if name == "put":
        return {"a": {"method": arguments["method"], "params": arguments["params"]}}
    if name == "flood":
        return {str(number): form(f"number {number}?") for number in range(arguments["count"])}
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "say hi"}}
        return {"a": {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 5}}}
    if name == "roots":
        return {"a": {"method": "roots/list"}}
    if name == "url":
        params = {"mode": "url", "message": "log in", "url": "https://example.com/login"}
        if not MODERN:
            params["elicitationId"] = "1"
        return {"a": {"method": "elicitation/create", "params": params}}
    return {}


def ask(question):
    """Legacy: one request of ours, and the client's answer."""
    with LOCK:
        NEXT[0] += 1
        identifier = NEXT[0]
        ANSWERS[identifier] = [threading.Event(), None]
    send({"id": identifier, **question})
    event, _ = ANSWERS[identifier]
    event.wait()
    return ANSWERS[identifier][1]


def text(identifier, value, **more):
    complete = {"resultType": "complete"} if MODERN else {}
    send({"id": identifier, "result": {"content": [{"type": "text", "text": json.dumps(value)}], **complete, **more}})


def log(level, words):
    logger = "worker ghp_" + "a1B2c3D4e5F6" * 3
    send({"method": "notifications/message", "params": {"level": level, "logger": logger, "data": words}})


def call(identifier, params):
    name, arguments, meta = params["name"], params.get("arguments") or {}, params.get("_meta") or {}
    if name == "seen":
        level = meta.get("io.modelcontextprotocol/logLevel", LEVEL[0])
        abilities = meta.get("io.modelcontextprotocol/clientCapabilities")
        text(identifier, {"cancelled": CANCELLED, "level": level, "abilities": abilities})
    elif name == "work":
        for step in range(arguments["steps"]):
            time.sleep(arguments["pause"])
            progress = {"progress": step + 1, "total": arguments["steps"], "message": f"step {step + 1}"}
            send({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], **progress}})
            log("debug", "a detail")
            log("error", f"trouble {step + 1}")
        text(identifier, "worked")
    elif MODERN:
        modern(identifier, params, name, arguments)
    else:
        threading.Thread(target=legacy, args=(identifier, name, arguments), daemon=True).start()


def modern(identifier, params, name, arguments):
    if BOTH:
        words = "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests."
        if sys.argv[1] == "both":
            return send({"id": identifier, "error": {"code": -32600, "message": words}})
        return text(identifier, words, isError=True)
    left = int(params["requestState"]) if params.get("requestState") else arguments.get("rounds", 1)
    answers = params.get("inputResponses")
    if answers is not None:
        left -= 1
        if left == 0:
            book(name, arguments)
            text(identifier, answers)
            return
    asked = questions(name, {**arguments, "rounds": left})
    result = {"resultType": "input_required", "inputRequests": asked, "requestState": str(left)}
    send({"id": identifier, "result": result})


def legacy(identifier, name, arguments):
    answers = {}
    for left in range(arguments.get("rounds", 1), 0, -1):
        for key, question in questions(name, {**arguments, "rounds": left}).items():
            answer = ask(question)
            if "error" in answer:
                text(identifier, {"refused": answer["error"]["message"]}, isError=True)
                return
            answers[key] = answer["result"]
    book(name, arguments)
    text(identifier, answers)


def book(name, arguments):
    if name == "book":
        with LOCK, open(sys.argv[2], "a") as ledger:
            ledger.write(f"{arguments['n']}\n")


def handle(message):
    global MODERN, VERSION
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if BOTH and method == "server/discover":
        MODERN, VERSION = True, "2026-07-28"
    if method is None:
        if identifier in ANSWERS:
            ANSWERS[identifier][1] = message
            ANSWERS[identifier][0].set()
        return
    info = {"name": "asking", "version": "1"}
    capabilities = {"tools": {}, "logging": {}}
    if method == "server/discover" and MODERN:
        result = {"supportedVersions": [VERSION], "capabilities": capabilities, "serverInfo": info}
        send({"id": identifier, "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}})
    elif method == "initialize" and not MODERN:
        send({"id": identifier, "result": {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if MODERN else {}
        send({"id": identifier, "result": {"tools": TOOLS, **complete}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(identifier, params), daemon=True).start()
    elif method == "logging/setLevel":
        LEVEL[0] = params["level"]
        send({"id": identifier, "result": {}})
    elif method == "notifications/cancelled":
        CANCELLED.append(params.get("requestId"))
    elif identifier is not None:
        send({"id": identifier, "error": {"code": -32601, "message": f"no {method}"}})


for line in sys.stdin:
    if line.strip():
        handle(json.loads(line))
