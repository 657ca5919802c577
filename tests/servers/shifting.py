"""An MCP server (standard library only) that lists the contents of a file, so that it can change with each start.

usage: shifting.py FILE LOG [--modern] [--tells] [--ttl MS] [--http MODE PORTFILE]

FILE holds a JSON array of tools, or an object with the lists `tools`, `prompts`, `resources` and `resourceTemplates`,
and `instructions`.
Over stdio it is read at the start, over HTTP at the start of each session, and with
MODE `stateless` for each list. LOG gets a line for each start, list and call. Over HTTP, MODE is `session`, `stateless`
or `sse`; sessions and streams end when FILE changes, and the port is written to PORTFILE. FILE.delay has the seconds to
wait before the first list is answered.

Every listed tool answers `NAME done`; one with `echo` in its `_meta` answers with its name and its arguments. The argument `fault` makes it `crash` the first time that it comes, `reload` FILE,
which --tells tells of, or take two `rounds`, between which FILE.next becomes FILE. Prompts and resources answer whatever
is asked for.
"""

import json
import os
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILE, LOG, FLAGS = sys.argv[1], sys.argv[2], sys.argv[3:]
MODERN, TELLS = "--modern" in FLAGS, "--tells" in FLAGS
TTL = int(FLAGS[FLAGS.index("--ttl") + 1]) if "--ttl" in FLAGS else None


def log(line):
    with open(LOG, "a") as file:
        file.write(line + "\n")


def load():
    with open(FILE) as file:
        lists = json.load(file)
    return lists if isinstance(lists, dict) else {"tools": lists}


def epoch():
    return os.stat(FILE).st_mtime_ns


def result(method, params, lists):
    """The result of a request; `None` for an unknown method."""
    capabilities = {name: {"listChanged": TELLS} for name in ("tools", "prompts", "resources") if name in lists}
    about = {"capabilities": capabilities, "serverInfo": {"name": "shifting", "version": "1"}}
    about.update({"instructions": lists["instructions"]} if "instructions" in lists else {})
    more = {"resultType": "complete"} if MODERN else {}
    if method == "server/discover" and MODERN:
        return {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", **about, **more}
    if method == "initialize" and not MODERN:
        return {"protocolVersion": "2025-11-25", **about}
    if method == "tools/list":
        if os.path.exists(FILE + ".delay"):
            with open(FILE + ".delay") as file:
                time.sleep(float(file.read()))
        log("list")
        aging = {"ttlMs": TTL or 0, "cacheScope": "private"} if MODERN or TTL is not None else {}
        return {"tools": lists["tools"], **aging, **more}
    other = {"prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}
    if method in other:
        return {other[method]: lists.get(other[method], []), **more}
    if method == "prompts/get":
        log("get " + params["name"])
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "prompt done"}}], **more}
    if method == "resources/read":
        log("read " + params["uri"])
        return {"contents": [{"uri": params["uri"], "text": "resource done"}], **more}
    if method == "tools/call":
        log("call " + params["name"])
        if (params.get("arguments") or {}).get("fault") == "rounds" and "requestState" not in params:
            os.rename(FILE + ".next", FILE)
            return {"resultType": "input_required", "requestState": "the first round"}
        echo = {tool["name"] for tool in lists["tools"] if "echo" in tool.get("_meta", {})}
        if params["name"] in echo:
            got = {"got": {"tool": params["name"], "arguments": params.get("arguments")}}
            return {"content": [{"type": "text", "text": json.dumps(got)}], "structuredContent": got, **more}
        return {"content": [{"type": "text", "text": params["name"] + " done"}], **more}
    if method == "ping":
        return {}
    return None


def answer(message, lists):
    identifier, made = message["id"], result(message["method"], message.get("params") or {}, lists)
    if made is None:
        return {"jsonrpc": "2.0", "id": identifier, "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": identifier, "result": made}


def stdio():
    tools, crashed = load(), LOG + ".crashed"
    log("start")
    log(f"pid {os.getpid()}")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        fault = ((message.get("params") or {}).get("arguments") or {}).get("fault")
        reply = answer(message, tools)
        if fault == "crash" and not os.path.exists(crashed):
            open(crashed, "w").close()
            os._exit(7)
        if fault == "reload":
            tools = load()
        sys.stdout.write(json.dumps(reply) + "\n")
        if fault == "reload" and TELLS:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n")
        sys.stdout.flush()


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = ""
    sessions = {}
    streams = {}

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.mode != "sse":
            return self.reply(405)
        number, messages = str(len(self.streams)), queue.Queue()
        self.streams[number] = (messages, load())
        log("start")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"event: endpoint\ndata: /sse?{number}\n\n".encode())
        self.wfile.flush()
        began = epoch()
        while epoch() == began:
            try:
                text = messages.get(timeout=0.05)
            except queue.Empty:
                continue
            self.wfile.write(f"event: message\ndata: {text}\n\n".encode())
            self.wfile.flush()
        del self.streams[number]
        self.close_connection = True

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.mode == "sse":
            stream = self.streams.get(self.path.partition("?")[2])
            if stream is None:
                return self.reply(405)
            messages, tools = stream
            if "id" in message:
                messages.put(json.dumps(answer(message, tools)))
            return self.reply(202)
        tools, headers = load(), ()
        if self.mode == "session":
            if message["method"] == "initialize":
                log("start")
                session = f"s{len(self.sessions)}"
                self.sessions[session] = (epoch(), tools)
                headers = (("Mcp-Session-Id", session),)
            elif message["method"] != "server/discover":
                began, tools = self.sessions.get(self.headers.get("Mcp-Session-Id"), (0, None))
                if began != epoch():
                    return self.reply(404)
        if "id" not in message:
            return self.reply(202)
        return self.reply(200, json.dumps(answer(message, tools)).encode(), headers)


if "--http" in FLAGS:
    Http.mode, port = FLAGS[FLAGS.index("--http") + 1 :][:2]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    with open(port + ".new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename(port + ".new", port)
    # It ends with the test that started it.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()
else:
    stdio()
