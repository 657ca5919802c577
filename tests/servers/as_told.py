"""An MCP server (2025-11-25, standard library only) that answers as it is told.

Arguments: the transport, `stdio`, `json` or `events` (Streamable HTTP, answering with JSON or with events) or `sse` (HTTP+SSE).
Over HTTP it prints its port. The answer to `tools/call` of `act` or `look` and to `prompts/get` is the argument `raw`, that to
`resources/read` of `odd:HEX` the text behind the hexadecimal digits: `$ID` in it is the id of the request, and each line is one
message. `hangs` answers nothing at all, `silent` no list beside its tools, and `late` those lists after its first call.
"""

import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = sys.argv[1]
RAW = {"type": "object", "properties": {"raw": {"type": "string"}}, "required": ["raw"]}
TOOLS = [
    {"name": "act", "inputSchema": RAW},
    {"name": "look", "inputSchema": RAW, "annotations": {"readOnlyHint": True}},
]
WAITING = []
RESULT = '{"jsonrpc":"2.0","id":$ID,"result":{"contents":[{"uri":"x:","text":"late"}]}}'
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}}


def answers(message):
    """Texts of messages that answer a message."""
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None or identifier is None or MODE == "hangs":
        return []
    if MODE == "silent" and method.split("/")[0] in ("resources", "prompts"):
        return []
    if MODE == "late" and method.split("/")[0] in ("resources", "prompts") and method.endswith("/list"):
        WAITING.append(message)
        return []
    raw = None
    if method in ("tools/call", "prompts/get"):
        raw = params["arguments"]["raw"]
    elif method == "resources/read":
        raw = bytes.fromhex(params["uri"].removeprefix("odd:")).decode()
    if raw is not None:
        texts = raw.replace("$ID", str(identifier)).split("\n")
        globals().update(MODE="stdio" if MODE == "late" else MODE)
        return texts + [text for waiting in WAITING for text in answers(waiting)]
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "odd", "version": "1"}},
        "tools/list": {"tools": TOOLS},
        "resources/list": {"resources": [{"uri": f"odd:{RESULT.encode().hex()}", "name": "a"}]},
        "resources/templates/list": {"resourceTemplates": None},
        "prompts/list": {"prompts": [{"name": "ask", "arguments": [{"name": "raw"}]}]},
        "ping": {},
    }
    answer = {"jsonrpc": "2.0", "id": identifier}
    if method in results:
        answer["result"] = results[method]
    else:
        answer["error"] = {"code": -32601, "message": f"no {method}"}
    return [json.dumps(answer)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    streams = queue.Queue()

    def log_message(self, *_):
        pass

    def reply(self, status, kind=None, body=b""):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if MODE != "sse":
            return self.reply(405)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /post\n\n")
        while True:
            self.wfile.write(f"event: message\ndata: {self.streams.get()}\n\n".encode())
            self.wfile.flush()

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        texts = answers(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if MODE == "sse":
            for text in texts:
                self.streams.put(text)
            return self.reply(202)
        if not texts:
            return self.reply(202)
        if MODE == "json":
            return self.reply(200, "application/json", texts[0].encode())
        self.reply(200, "text/event-stream", "".join(f"data: {text}\n\n" for text in texts).encode())


if MODE in ("json", "events", "sse"):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()
else:
    for line in sys.stdin:
        for text in answers(json.loads(line)):
            print(text, flush=True)
