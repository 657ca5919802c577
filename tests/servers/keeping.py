"""An MCP server (2025-11-25, stdio, standard library only) that keeps a session in its process, as a browser does.

Its tools count calls of the process, tell the value of KEPT_VALUE, and ask or tell the client something without naming a
call. `KEPT_NOTE` is part of a definition.
"""

import json
import os
import sys
import threading
import time

LOCK = threading.Lock()
COUNT = [0]
ANSWERS = {}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
WAIT = {"type": "object", "properties": {"text": {"type": "string"}, "seconds": {"type": "number"}}}
TOOLS = [
    {"name": "count", "description": "Counts. " + os.environ.get("KEPT_NOTE", ""), "inputSchema": TEXT},
    {"name": "value", "inputSchema": TEXT},
    {"name": "wait", "inputSchema": WAIT},
    {"name": "ask", "inputSchema": WAIT},
    {"name": "tell", "inputSchema": WAIT},
]
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def call(name, arguments, token):
    text, pid = arguments.get("text", ""), os.getpid()
    time.sleep(arguments.get("seconds", 0))
    if name == "count":
        with LOCK:
            COUNT[0] += 1
        return {"pid": pid, "count": COUNT[0]}
    if name == "value":
        # Half of it is not redacted.
        value = os.environ.get("KEPT_VALUE", "")
        answers = {question: answer for question, answer in ANSWERS.items() if isinstance(answer, str)}
        return {"pid": pid, "value": value, "half": value[:4], "answers": answers}
    if name == "ask":
        question = f"question-{text}"
        ANSWERS[question] = threading.Event()
        params = {"message": text, "requestedSchema": FORM}
        send({"id": question, "method": "elicitation/create", "params": params})
        ANSWERS[question].wait(20)
        return {"answer": ANSWERS.get(question + "!")}
    if name == "tell":
        send({"method": "notifications/message", "params": {"level": "warning", "data": text}})
        if token is not None:
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": text}})
        time.sleep(0.3)
    return {"pid": pid}


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        ANSWERS[str(identifier) + "!"] = "result" if "result" in message else message["error"]["message"]
        ANSWERS[identifier].set()
        return
    if identifier is None:
        return
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "logging": {}, "resources": {}, "prompts": {}, "completions": {}},
            "serverInfo": {"name": "keeping", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "resources/list":
        result = {"resources": [{"uri": "kept://pid", "name": "pid", "mimeType": "text/plain"}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": []}
    elif method == "prompts/list":
        result = {"prompts": [{"name": "pid", "arguments": [{"name": "of"}]}]}
    elif method == "resources/read":
        result = {"contents": [{"uri": "kept://pid", "mimeType": "text/plain", "text": f"pid {os.getpid()}"}]}
    elif method == "prompts/get":
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": f"pid {os.getpid()}"}}]}
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        value = call(params["name"], params.get("arguments") or {}, token)
        result = {"content": [{"type": "text", "text": json.dumps(value)}]}
    elif method in ("ping", "logging/setLevel"):
        result = {}
    else:
        send({"id": identifier, "error": {"code": -32601, "message": f"no method {method}"}})
        return
    send({"id": identifier, "result": result})


for line in sys.stdin:
    threading.Thread(target=handle, args=(json.loads(line),), daemon=True).start()
