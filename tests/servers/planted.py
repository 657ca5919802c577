"""An MCP server (2025-11-25, standard library only) with a secret of its own for every kind of message.

Arguments: a JSON file with the secrets by way, and for HTTP a port. Beside each secret stands the word `canary-WAY`, so
that a text with one of them had the other. Configured values stand in every text: `canary-env`, `canary-file`,
`canary-command` and `canary-dotenv` over stdio, and over HTTP `canary-header`, `canary-header-file` and
`canary-header-command`.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PLANTED = json.load(open(sys.argv[1]))
HTTP = len(sys.argv) > 2


WAYS = ["header", "header-file", "header-command"] if HTTP else ["env", "file", "command", "dotenv"]
OWN = {} if HTTP else {way: os.environ.get(f"OWN_{way.upper()}") for way in WAYS}


def configured():
    return " ".join(f"canary-{way} {OWN.get(way)} end" for way in WAYS)


def say(way):
    return f"canary-{way} {PLANTED[way]} end {configured()}"


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools():
    names = ["own", "result", "large", "fail", "refuse", "progress", "grumble", "crash"]
    shape = {"inputSchema": {"type": "object"}}
    return [{"name": name, "description": f"Says {say('description')}", **shape} for name in names]


def call(name, token):
    if name == "own":
        return text(configured())
    if name == "result":
        return text(say("result"), structuredContent={"text": say("result"), "list": [say("result")]})
    if name == "large":
        return text("\n".join([say("result")] + ["lorem ipsum dolor sit amet " * 20] * 100))
    if name == "fail":
        return text(say("tool-error"), isError=True)
    if name == "progress":
        entry = {"level": "error", "logger": say("log"), "data": {"text": say("log")}}
        send({"method": "notifications/message", "params": entry})
        report = {"progressToken": token, "progress": 1, "total": 1, "message": say("progress")}
        send({"method": "notifications/progress", "params": report})
        time.sleep(0.3)
        return text("done")
    if name in ("grumble", "crash"):
        sys.stderr.write(say("stderr") + "\n")
        sys.stderr.flush()
        if name == "crash":
            os._exit(1)
        return text("done")
    raise ValueError(say("protocol-error"))


def result_of(method, params):
    token = (params.get("_meta") or {}).get("progressToken")
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
        info = {"name": "planted", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        return call(params["name"], token)
    if method == "resources/list":
        return {"resources": [{"uri": "x://all", "name": "all"}]}
    if method == "resources/read":
        return {"contents": [{"uri": "x://all", "text": say("resource")}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}, {"name": "refuse"}]}
    if method == "prompts/get" and params["name"] == "refuse":
        raise ValueError(say("protocol-error"))
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": say("prompt")}}]}
    if method == "logging/setLevel":
        return {}
    return None


def reply(message):
    if "id" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = result_of(message["method"], message.get("params") or {})
    except ValueError as error:
        return {**answer, "error": {"code": -32000, "message": str(error), "data": {"seen": str(error)}}}
    if result is None:
        return {**answer, "error": {"code": -32601, "message": "no such method"}}
    return {**answer, "result": result}


class Http(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        broken = message.get("method") == "tools/call" and message["params"]["name"] == "grumble"
        headers = {"header": "Authorization", "header-file": "X-Own-File", "header-command": "X-Own-Command"}
        OWN.update({way: self.headers.get(name) for way, name in headers.items()})
        answer = None if broken else reply(message)
        body = say("response-header").encode() if broken else json.dumps(answer).encode() if answer else b""
        self.send_response(500 if broken else 200 if answer else 202)
        self.send_header("Content-Type", "text/plain" if broken else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Debug", say("response-header"))
        self.send_header("Set-Cookie", "session=" + PLANTED["response-header"])
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if HTTP:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Http).serve_forever()
for line in sys.stdin:
    if line.strip():
        message = reply(json.loads(line))
        if message:
            send(message)
