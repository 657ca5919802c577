"""An MCP server (2025-11-25, standard library only) that has a secret, and tells it in many forms.

Arguments: a log of calls, and for HTTP a port and a file with the `Authorization` that it wants; others get 401. Over stdio
the secret is `OWN_VALUE`.
"""

import base64
import hashlib
import json
import os
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG, HTTP = sys.argv[1], len(sys.argv) > 2


def log(line):
    with open(LOG, "a") as file:
        file.write(line + "\n")


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name, arguments, own):
    log(f"call {arguments.get('id', '-')} {os.getpid()}")
    time.sleep(arguments.get("seconds", 0))
    if name == "digest":
        return text(hashlib.sha256(own.encode()).hexdigest()[:12])
    if name == "tell":
        forms = [own, urllib.parse.quote(own, safe=""), base64.b64encode(own.encode()).decode(), json.dumps(own)]
        sys.stderr.write(f"it is {own}\n")
        sys.stderr.flush()
        return text(" ".join(["it is"] + forms + ["end"]))
    raise ValueError(f"it was {own}")


def result_of(method, params, own):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["digest", "tell", "fail"]]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {}, own)
    return None


def reply(message, own):
    if "id" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = result_of(message["method"], message.get("params") or {}, own)
    except ValueError as error:
        return {**answer, "error": {"code": -32000, "message": str(error)}}
    if result is None:
        return {**answer, "error": {"code": -32601, "message": "no such method"}}
    return {**answer, "result": result}


class Http(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        own = self.headers.get("Authorization") or ""
        if own != open(sys.argv[3]).read().strip():
            log("refused")
            return self.answer(401, b"who are you")
        answer = reply(message, own)
        self.answer(200 if answer else 202, json.dumps(answer).encode() if answer else b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(405, b"")

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


WRITING = threading.Lock()


def serve(line):
    message = reply(json.loads(line), os.environ.get("OWN_VALUE", ""))
    if message:
        with WRITING:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


if HTTP:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Http).serve_forever()
for line in sys.stdin:
    if line.strip():
        threading.Thread(target=serve, args=(line,)).start()
