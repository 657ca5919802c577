"""An MCP server (standard library only) that is odd in one way, as servers and proxies are.

`odd.py stdio ERA KIND` speaks over stdio. `odd.py http LOG` prints its port; the path /ERA/KIND is a server over Streamable
HTTP, /sse/ERA/KIND one over HTTP+SSE, and each call that was carried out is a line of LOG. ERA is the revision that it
speaks: those before 2026-07-28 open a session if the era ends with `+session`.
"""

import http.server
import itertools
import json
import queue
import sys
import threading
import time

TOOL = {"name": "hello", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
READ_ONLY = {**TOOL, "name": "peek", "annotations": {"readOnlyHint": True}}
NEWEST = "2026-07-28"


def fault(code, message, **data):
    return {"error": {"code": code, "message": message, **({"data": data} if data else {})}}


def without(result, *keys):
    return {key: value for key, value in result.items() if key not in keys}


# What an answer to `initialize` is, by kind: of the usual result and the offered revision.
HANDSHAKES = {
    "old revision": lambda r, v: {"result": {**r, "protocolVersion": "2024-10-07"}},
    "future revision": lambda r, v: {"result": {**r, "protocolVersion": "2099-01-01"}},
    "odd revision": lambda r, v: {"result": {**r, "protocolVersion": "DRAFT-v2"}},
    "revision is null": lambda r, v: {"result": {**r, "protocolVersion": None}},
    "revision is a number": lambda r, v: {"result": {**r, "protocolVersion": 20250618}},
    "no revision": lambda r, v: {"result": without(r, "protocolVersion")},
    "no serverInfo": lambda r, v: {"result": without(r, "serverInfo")},
    "serverInfo is null": lambda r, v: {"result": {**r, "serverInfo": None}},
    "serverInfo is a text": lambda r, v: {"result": {**r, "serverInfo": "me"}},
    "no version in serverInfo": lambda r, v: {"result": {**r, "serverInfo": {"name": "me"}}},
    "version is a number": lambda r, v: {"result": {**r, "serverInfo": {"name": "me", "version": 1.5}}},
    "no capabilities": lambda r, v: {"result": without(r, "capabilities")},
    "capabilities are null": lambda r, v: {"result": {**r, "capabilities": None}},
    "capabilities are a list": lambda r, v: {"result": {**r, "capabilities": ["tools"]}},
    "capabilities are empty": lambda r, v: {"result": {**r, "capabilities": {}}},
    "tools are true": lambda r, v: {"result": {**r, "capabilities": {"tools": True, "prompts": False, "resources": None}}},
    "listChanged is a text": lambda r, v: {"result": {**r, "capabilities": {"tools": {"listChanged": "yes"}}}},
    "experimental is a list": lambda r, v: {"result": {**r, "capabilities": {"tools": {}, "experimental": [1]}}},
    "instructions are a list": lambda r, v: {"result": {**r, "instructions": ["a"]}},
    "an empty result": lambda r, v: {"result": {}},
    "only 2025-06-18, listed": lambda r, v: only(r, v, ["2025-06-18"], fault(-32602, "Unsupported protocol version", supported=["2025-06-18"], requested=v)),
    "only 2025-06-18, expected": lambda r, v: only(r, v, ["2025-06-18"], fault(-32602, "Unsupported protocol version", expected="2025-06-18")),
    "only 2025-03-26, in words": lambda r, v: only(r, v, ["2025-03-26"], fault(-32000, "this server speaks 2025-03-26 only")),
    "only 2024-11-05, -32600": lambda r, v: only(r, v, ["2024-11-05"], fault(-32600, "Invalid Request")),
    "only 2024-11-05, -32601": lambda r, v: only(r, v, ["2024-11-05"], fault(-32601, "Method not found")),
    "only 2024-10-07, named": lambda r, v: only(r, v, ["2024-10-07"], fault(-32602, "use 2024-10-07, built 2026-11-26")),
    "none at all": lambda r, v: fault(-32602, "no version will do"),
}
# Fields of a client's capabilities that a server knows, by kind.
STRICT = {"capabilities of 2024": ["experimental", "roots", "sampling"], "elicitation without forms": None}
# The same for `server/discover`.
DISCOVERIES = {
    "no capabilities": lambda r: without(r, "capabilities"),
    "capabilities are null": lambda r: {**r, "capabilities": None},
    "capabilities are empty": lambda r: {**r, "capabilities": {}},
    "tools are true": lambda r: {**r, "capabilities": {"tools": True}},
    "no ttlMs": lambda r: without(r, "ttlMs", "cacheScope", "resultType"),
    "supportedVersions is a text": lambda r: {**r, "supportedVersions": NEWEST},
}
# What stands before an answer in an event stream.
BEFORE = {
    "ping event": "event: ping\ndata: {}\n\n",
    "ping event with text": "event: ping\ndata: 2026-01-01T00:00:00\n\n",
    "keepalive event": "event: keepalive\ndata: {}\n\n",
    "another event": "event: endpoint-changed\ndata: /elsewhere\n\n",
    "an answer in another event": 'event: debug\ndata: {"jsonrpc":"2.0","id":0,"result":{}}\n\n',
    "heartbeat object": 'data: {"type":"heartbeat"}\n\n',
    "heartbeat text": "data: heartbeat\n\n",
    "empty object": "data: {}\n\n",
    "list": "data: []\n\n",
    "number": "data: 7\n\n",
    "broken JSON": "data: {%%%\n\n",
    "empty data": "data:\n\ndata: \n\n",
    "priming": "id: 1\nretry: 3000\ndata:\n\n",
    "comments": ": ping\n\n:\n\n",
    "another notification": 'data: {"jsonrpc":"2.0","method":"notifications/whatever"}\n\n',
    "unknown fields": "x-trace: 1\nheartbeat\n data: x\nDATA: x\n\n",
    "malformed fields": "retry: soon\nid: 1\nid: 2\nevent: a\nevent: message\ndata\n\n",
    "many": "event: ping\ndata: {}\n\ndata: heartbeat\n\n" * 300,
}
# Other forms of an event.
FORMS = {
    "CRLF": lambda text: ("event: message\r\ndata: %s\r\n\r\n" % text).encode(),
    "CR": lambda text: ("event: message\rdata: %s\r\r" % text).encode(),
    "mark of byte order": lambda text: b"\xef\xbb\xbf" + ("data: %s\n\n" % text).encode(),
    "several lines": lambda text: ("data: " + json.dumps(json.loads(text), indent=1).replace("\n", "\ndata: ") + "\n\n").encode(),
    "no space": lambda text: ("data:%s\n\n" % text).encode(),
    "another encoding": lambda text: b"data: caf\xe9\n\n" + ("data: %s\n\n" % text).encode(),
    "batch": lambda text: ('data: [{"jsonrpc":"2.0","method":"notifications/whatever"},%s]\n\n' % text).encode(),
}
KINDS = {
    "json in capitals": "Application/JSON; Charset=UTF-8",
    "json without type": None,
    "json as text": "text/plain",
    "json as a page": "text/html; charset=utf-8",
    "json of a vendor": "application/vnd.me+json",
    "json as bytes": "application/octet-stream",
}
# How a server says that it does not know a session: status, body, type.
LOST = {
    "404 text": (404, "Session not found", "text/plain"),
    "404 empty": (404, "", None),
    "404 object": (404, {"error": "Session not found"}, "application/json"),
    "404 answer": (404, fault(-32001, "Session not found"), "application/json"),
    "400 without id": (400, {"jsonrpc": "2.0", "id": None, **fault(-32000, "Bad Request: No valid session ID provided")}, "application/json"),
    "400 text": (400, "Invalid or expired session", "text/plain"),
    "400 page": (400, "<h1>unknown Session</h1>", "text/html"),
    "401 text": (401, "Unauthorized: Session not found", "text/plain"),
    "401 object": (401, {"error": "invalid_session"}, "application/json"),
    "410 text": (410, "the session is gone", "text/plain"),
    "200 answer": (200, fault(-32001, "Session not found"), "application/json"),
    "200 event": (200, fault(-32001, "Session expired"), "text/event-stream"),
    "400 not initialized": (400, {"jsonrpc": "2.0", "id": None, **fault(-32000, "Bad Request: Server not initialized")}, "application/json"),
    "200 not initialized": (200, fault(-32600, "Server not initialized"), "application/json"),
    "200 terminated": (200, fault(-32600, "Session terminated"), "application/json"),
    "422 object": (422, {"detail": "Unknown session"}, "application/json"),
    "500 answer": (500, fault(-32603, "session not found"), "application/json"),
    "500 of another": (500, {"error": "HTTP 400: Bad Request: No valid session ID provided"}, "application/json"),
}
# What some answer to a notification, which has no answer.
STRAY = {
    "notices answered, error": {"jsonrpc": "2.0", "id": None, **fault(-32601, "Method not found: notifications/initialized")},
    "notices answered, error without id": {"jsonrpc": "2.0", **fault(-32601, "Method not found")},
    "notices answered, result": {"jsonrpc": "2.0", "id": None, "result": {}},
    "notices answered, null": {"jsonrpc": "2.0", "id": None, "result": None},
    "notices answered, result without id": {"jsonrpc": "2.0", "result": {}},
}
# Pages of a list of tools, by kind: of a cursor.
PAGES = {
    "cursor is a number": lambda cursor: {"tools": [TOOL]} if cursor == 2 else {"tools": [READ_ONLY], "nextCursor": 2},
    "cursor is empty": lambda cursor: {"tools": [TOOL]} if cursor == "" else {"tools": [READ_ONLY], "nextCursor": ""},
    "cursor is always empty": lambda cursor: {"tools": [TOOL, READ_ONLY][:: 1 if cursor is None else -1], "nextCursor": ""},
    "cursor is empty at the end": lambda cursor: {"tools": [TOOL], "nextCursor": ""} if cursor else {"tools": [READ_ONLY], "nextCursor": "2"},
    "empty cursor is refused": lambda cursor: {"tools": [TOOL], "nextCursor": ""} if cursor is None else None,
    "page refused": lambda cursor: {"tools": [TOOL], "nextCursor": "2"} if cursor is None else None,
}
# Parameters of questions that a server asks before it answers a handshake.
QUESTIONS = {
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}},
}
# What means nothing in the answer to a notification.
NOTICES = {
    "200 text": (200, "OK", "text/plain"),
    "200 page": (200, "<p>OK", "text/html"),
    "200 empty": (200, "", None),
    "200 object": (200, "{}", "application/json"),
    "200 null": (200, "null", "application/json"),
    "200 broken": (200, "{%%%", "application/json"),
    "200 event": (200, "data: ok\n\n", "text/event-stream"),
    "204": (204, "", None),
    "202 text": (202, "Accepted", "text/plain"),
}
# Refusals of a notification.
NO_NOTICES = {
    "no notices, 400": (400, "Bad Request", "text/plain"),
    "no notices, 404": (404, "Not Found", "text/plain"),
    "no notices, 405": (405, "", None),
    "no notices, 500": (500, "no handler", "text/plain"),
}
# Refusals of a call: status, body, further headers.
REFUSED = {
    "401": (401, "the key is out of date", {}),
    "403": (403, '{"message":"your plan has no such tool"}', {}),
    "409": (409, "another call runs", {}),
    "429": (429, "ten calls a day", {"Retry-After": "3600"}),
    "500": (500, "Traceback: the disk is full", {}),
    "502": (502, "<html><title>502 Bad Gateway</title></html>", {}),
    "503": (503, "in maintenance", {"Retry-After": "7"}),
    "501": (501, "no such thing", {}),
    "long": (500, "x" * 100000, {}),
    "302": (302, "", {"Location": "https://person:pass-word-1@login.example/start?token=abc#top"}),
    "301 within": (301, "", {"Location": "/elsewhere"}),
}


def unknown(kind, capabilities):
    """The field that a strict parser refuses."""
    known = next((known for name, known in STRICT.items() if kind.endswith(name)), ())
    fields = [field for field in capabilities if known not in ((), None) and field not in known]
    forms = capabilities.get("elicitation") or {} if known is None else {}
    return next(iter([*fields, *forms]), None)


def only(result, offered, known, refusal):
    return {"result": {**result, "protocolVersion": offered}} if offered in known else refusal


def event(kind, text):
    return FORMS.get(kind, lambda text: ("data: %s\n\n" % text).encode())(text)


def answer(message, era, kind):
    """The JSON-RPC answer, or None for a notification."""
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        return STRAY.get(kind) if method else None
    revision, extra = era.split("+")[0], {}
    if revision == NEWEST:
        extra = {"resultType": "complete"}
    if method == "initialize" and revision != NEWEST:
        usual = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        if kind.startswith("header "):
            usual["protocolVersion"] = params.get("protocolVersion")
        made = HANDSHAKES.get(kind, lambda r, v: {"result": r})(usual, params.get("protocolVersion"))
        if field := unknown(kind, params["capabilities"]):
            made = fault(-32603, 'Unrecognized field "%s" (class ClientCapabilities), not marked as ignorable' % field)
    elif method == "server/discover" and revision == NEWEST:
        usual = {**extra, "supportedVersions": [NEWEST], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
        made = {"result": DISCOVERIES.get(kind, lambda r: r)(usual)}
    elif method == "tools/list":
        cut = {**TOOL, "description": "cut within a character: \ud83d"}
        lists = {"no tools": [], "tools refused": None, "half a character": [cut]}
        tools = lists.get(kind, [TOOL, READ_ONLY])
        page = PAGES.get(kind, lambda cursor: tools is not None and {"tools": tools})(params.get("cursor"))
        refusal = fault(-32602, "Invalid cursor") if kind in PAGES else fault(-32601, "Method not found")
        made = {"result": {**extra, **page, "ttlMs": 600000, "cacheScope": "private"}} if page else refusal
    elif method == "tools/call":
        made = {"result": {**extra, "content": [{"type": "text", "text": "hello %s" % params["arguments"].get("n")}]}}
    elif method == "ping":
        made = {"result": {}}
    else:
        made = fault(-32601, "Method not found")
    return {"jsonrpc": "2.0", "id": message["id"], **made}


def stdio(era, kind):
    for line in sys.stdin:
        message = json.loads(line)
        if kind == "questions first" and message.get("method") == "initialize":
            for method in ("ping", "roots/list", "sampling/createMessage", "elicitation/create"):
                print(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": QUESTIONS.get(method, {})}), flush=True)
                while json.loads(sys.stdin.readline()).get("id") != method:
                    pass
        if kind == "many questions first" and message.get("method") == "initialize":
            # More than both pipes hold.
            for number in range(20000):
                print(json.dumps({"jsonrpc": "2.0", "id": "q%d" % number, "method": "roots/list"}))
        if kind.startswith("dies") and (field := unknown(kind, (message.get("params") or {}).get("capabilities") or {})):
            sys.exit('Unrecognized field "%s"' % field if "in words" in kind else 1)
        made = answer(message, era, kind)
        if made is not None:
            print(json.dumps(made), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions, numbers, streams, seen, refused = {}, itertools.count(1), {}, {}, threading.Event()
    answers, asked = queue.Queue(), threading.Event()

    def log_message(self, *args):
        pass

    def reply(self, status, body, kind=None, **headers):
        body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def parts(self):
        parts = self.path.split("?")[0].strip("/").replace("_", " ").split("/")
        return (True, *parts[1:3]) if parts[0] == "sse" else (False, *parts)

    def log(self, line):
        with open(sys.argv[2], "a") as log:
            log.write(line + "\n")

    def do_DELETE(self):
        self.reply(405, "")

    def do_GET(self):
        is_old, era, kind = self.parts()
        last = self.headers.get("Last-Event-ID")
        if last is not None and kind == "cut":
            return self.events(self.seen.pop(last, b""))
        if kind == "answers on a stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            while True:
                self.wfile.write(self.answers.get())
                self.wfile.flush()
        if not is_old:
            return self.reply(405, "")
        number = str(next(self.numbers))
        self.streams[number] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "Text/Event-Stream; Charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        while kind.endswith(" silent"):
            self.wfile.write(b": nothing\n\n")
            time.sleep(1)
        prelude = BEFORE.get(kind, "")
        self.wfile.write((prelude + "event: endpoint\ndata: /sse/%s/%s?session=%s\n\n" % (era, kind.replace(" ", "_"), number)).encode())
        while True:
            self.wfile.write(self.streams[number].get())
            self.wfile.flush()

    def events(self, body):
        self.reply(200, body, "text/event-stream")

    def do_POST(self):
        is_old, era, kind = self.parts()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if is_old and "=" not in self.path:
            return self.reply(int(kind.split()[1]), "no", "text/plain")
        message = json.loads(body)
        method, number = message.get("method"), message.get("id")
        made = answer(message, era, kind)
        if kind == "refusal refused" and is_old:
            if method is None:
                self.refused.set()
                return self.reply(400, "not awaited", "text/plain")
            if method == "initialize":
                asked = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
                stream = self.streams[self.path.rsplit("=", 1)[1]]
                stream.put(event(kind, json.dumps(asked)))
                self.reply(202, "Accepted", "text/plain", Connection="close")
                self.refused.wait(60)
                return stream.put(event(kind, json.dumps(made)))
        session, later = self.headers.get("Mcp-Session-Id"), method not in ("initialize", "server/discover")
        if kind == "session comes late" and later and session != "late":
            is_notice = method is None or method.startswith("notifications/")
            return self.reply(202, "", None, Mcp_Session_Id="late") if is_notice else self.reply(400, "no session", "text/plain")
        if method is None and kind == "asks before the handshake":
            self.asked.set()
        if made is None:
            notices = {**NOTICES, **NO_NOTICES}.get(kind, (202, "", None))
            return self.reply(*notices)
        if method == "server/discover" and kind in ("silent discovery", "endless discovery"):
            self.log("%s discover" % kind)
            if kind == "endless discovery":
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
            return time.sleep(60)
        headers = {}
        if kind.startswith("header ") and method != "initialize":
            wanted = kind.split()[1]
            if self.headers.get("Mcp-Protocol-Version") not in (None, wanted):
                return self.reply(400, "Bad Request: Unsupported protocol version (supported versions: %s)" % wanted, "text/plain")
        if method == "initialize":
            self.log("%s initialize %s" % (kind, message["params"]["protocolVersion"]))
            if kind.startswith("HTTP 400 to") and "error" in made:
                return self.reply(400, made["error"]["message"], "text/plain")
            if kind.startswith("header ") and message["params"]["protocolVersion"] != kind.split()[1]:
                return self.reply(400, "Bad Request: Unsupported protocol version (supported versions: %s)" % kind.split()[1], "text/plain")
            if era.endswith("+session"):
                session = str(next(self.numbers))
                self.sessions[session] = True
                headers = {"Mcp_Session_Id": session}
        elif era.endswith("+session") and method != "server/discover" and session not in self.sessions:
            status, body, form = LOST.get(kind, (404, "", None))
            if isinstance(body, dict) and "error" in body and isinstance(body["error"], dict):
                body = {"jsonrpc": "2.0", "id": number, **body}
            if form == "text/event-stream":
                body = "data: %s\n\n" % json.dumps(body)
            return self.reply(status, body, form)
        elif kind == "session changes" and later:
            self.sessions.pop(session)
            headers = {"Mcp_Session_Id": str(next(self.numbers))}
            self.sessions[headers["Mcp_Session_Id"]] = True
        if method == "tools/call":
            if kind in REFUSED:
                self.log("%s %s refused" % (kind, message["params"]["name"]))
                status, said, more = REFUSED[kind]
                return self.reply(status, said, "text/plain", **{key.replace("-", "_"): value for key, value in more.items()})
            self.log("%s %s %s" % (kind, message["params"]["name"], message["params"]["arguments"].get("n")))
            if kind in LOST:
                self.sessions.pop(session, None)
        text = json.dumps(made)
        if kind == "answers on a stream" and later:
            self.answers.put(event(kind, text))
            return self.reply(202, "")
        if kind == "asks before the handshake" and method == "initialize":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(event(kind, json.dumps({"jsonrpc": "2.0", "id": "q", "method": "ping"})))
            self.asked.wait(60)
            return self.wfile.write(event(kind, text))
        if is_old:
            stream = self.streams[self.path.rsplit("=", 1)[1]]
            stream.put(BEFORE.get(kind, "").encode() + event(kind, text))
            return self.reply(*NOTICES.get(kind, (202, "Accepted", "text/plain")))
        if kind in KINDS:
            return self.reply(200, text, KINDS[kind], **headers)
        if kind == "json batch":
            return self.reply(200, '[{"jsonrpc":"2.0","method":"notifications/whatever"},%s]' % text, "application/json", **headers)
        if kind == "json with 202":
            return self.reply(202, text, "application/json", **headers)
        is_stream = kind in BEFORE or kind in FORMS or (method == "tools/call" and kind in ("cut", "ends"))
        if not is_stream:
            return self.reply(200, text, "application/json", **headers)
        if method == "tools/call" and kind == "cut":
            self.seen["e%s" % number] = ("id: f\ndata: %s\n\n" % text).encode()
            return self.events(b"id: e%d\nretry: 10\ndata:\n\n" % number)
        if method == "tools/call" and kind == "ends":
            return self.events(b"event: ping\ndata: {}\n\n: nothing\n\n")
        before = BEFORE.get(kind, "")
        return self.reply(200, before.encode() + event(kind, text) + before.encode(), "Text/Event-Stream;charset=UTF-8", **headers)


if sys.argv[1] == "stdio":
    stdio(sys.argv[2], sys.argv[3])
else:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
