"""An MCP server (2025-11-25, standard library only) that leaks every secret it knows in every possible message.

Arguments: a JSON file of planted secrets (`token`, `password`, `pem`, `host`), and for HTTP a port. Over stdio it also
knows the variable LEAKY_VALUE, over HTTP the header Authorization. The tool `page` returns the file at the
JSON file's path plus `.page`.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PLANTED = json.load(open(sys.argv[1]))
INFO = {"name": "leaky", "version": "1"}


def everything(own):
    return f"own {own} token {PLANTED['token']} password={PLANTED['password']} pem {PLANTED['pem']} end"


def tool(name, own):
    return {"name": name, "description": f"Uses {own} and {PLANTED['token']} as it is", "inputSchema": {"type": "object"}}


def call(name, arguments, own):
    text = everything(own)
    if name == "answer":
        fields = {"token": PLANTED["token"], "password": PLANTED["password"], PLANTED["token"]: own, "text": text}
        return {"content": [{"type": "text", "text": text}], "structuredContent": fields}
    if name == "text":
        return {"content": [{"type": "text", "text": text}]}
    if name == "large":
        return {"content": [{"type": "text", "text": (text + "\n" + "lorem ipsum " * 40 + "\n") * 100}]}
    if name == "content":
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        resource = {"uri": "x://all", "mimeType": "text/plain", "text": text}
        return {"content": [{"type": "text", "text": text}, image, {"type": "resource", "resource": resource}]}
    if name == "page":
        return {"content": [{"type": "text", "text": open(sys.argv[1] + ".page").read()}]}
    if name == "check":
        return {"content": [{"type": "text", "text": "same" if arguments["token"] == PLANTED["token"] else "another"}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": f"limit: must be at most 100, not 500 ({text})"}], "isError": True}
    if name == "say":
        sys.stderr.write(f"connecting: {text}\n")
        sys.stderr.flush()
        return {"content": []}
    if name == "crash":
        sys.stderr.write(f"fatal: {text} at {PLANTED['host']}\n")
        sys.stderr.flush()
        os._exit(1)
    raise ValueError(f"cannot reach {PLANTED['host']}: {text}")


NAMES = ["answer", "text", "large", "content", "page", "check", "fail", "say", "crash", "refuse"]


def named(own):
    return {"name": f"n {PLANTED['token']}", "title": f"t {PLANTED['token']}", "description": everything(own)}


def resources(own):
    token, password = PLANTED["token"], PLANTED["password"]
    uris = [f"x://{token}/report.txt", f"x://files/{token}", f"postgres://app:{password}@db.acme.dev/main"]
    uris += [f"https://acme.dev/f?access_token={token}&x=1", f"x://f?password={password}"]
    if own:
        uris.append("x://own/" + own.replace(" ", "+"))
    return [{"uri": uri, **(named(own) if number % 2 else {"name": ""})} for number, uri in enumerate(uris)]


def reply(message, own):
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}}, "serverInfo": INFO}
    elif method == "tools/list":
        result = {"tools": [tool(name, own) for name in NAMES]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "x://all", "name": "all"}, *resources(own)]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": [{"uriTemplate": f"x://t?key={PLANTED['token']}{{&of}}", **named(own)}]}
    elif method == "resources/read":
        is_listed = params["uri"] in [listed["uri"] for listed in resources(own)]
        if params["uri"].startswith("x://files/") and not is_listed:
            return {**answer, "error": {"code": -32002, "message": "there is no such file"}}
        result = {"contents": [{"uri": params["uri"], "text": everything(own)}]}
    elif method == "prompts/list":
        arguments = [{"name": "x", "description": everything(own)}]
        result = {"prompts": [{"name": name, "title": name, "description": name, "arguments": arguments} for name in ["ask", f"ask {PLANTED['token']}"]]}
    elif method == "prompts/get":
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": "prompt " + everything(own)}}]}
    elif method == "tools/call":
        try:
            result = call(params["name"], params.get("arguments") or {}, own)
        except ValueError as error:
            return {**answer, "error": {"code": -32000, "message": str(error), "data": {"seen": everything(own)}}}
    else:
        return {**answer, "error": {"code": -32601, "message": f"no {method}"}}
    return {**answer, "result": result}


class Http(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = reply(json.loads(body), self.headers.get("Authorization"))
        text = json.dumps(message).encode() if message else b""
        self.send_response(200 if message else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if len(sys.argv) > 2:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Http).serve_forever()
for line in sys.stdin:
    if line.strip():
        message = reply(json.loads(line), os.environ.get("LEAKY_VALUE"))
        if message:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
