"""A registry of MCP servers with the API of the official one (standard library only).

usage: registry.py FOLDER

FOLDER/entries.json has the entries, as the API answers them; FOLDER/mode how it behaves: `ok`, `down` (503), `busy` (429),
`slow` (no answer), `drip` (a byte a second), `huge`, `html`, `redirect URL`, `circle` (a cursor that leads to itself),
`endless` (ever new cursors), `other` (another entry than the one asked for) or `bare` (no entity tags). Both are read at each
request. FOLDER/log gets a line for each, with the status. The port is written to FOLDER/port.
"""

import hashlib
import json
import os
import pathlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

FOLDER = pathlib.Path(sys.argv[1])
OFFICIAL = "io.modelcontextprotocol.registry/official"
PATH = "/v0.1/servers"


def entries():
    return json.loads((FOLDER / "entries.json").read_text())


def official(entry):
    meta = entry.get("_meta") if isinstance(entry, dict) else None
    return meta.get(OFFICIAL, {}) if isinstance(meta, dict) else {}


def text(entry, key):
    server = entry.get("server") if isinstance(entry, dict) else None
    return str(server.get(key, "")) if isinstance(server, dict) else ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        mode, _, argument = (FOLDER / "mode").read_text().strip().partition(" ")
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if mode == "slow":
            time.sleep(60)
        if mode in ("down", "busy"):
            return self.send(503 if mode == "down" else 429, b"{}")
        if mode == "redirect":
            return self.send(302, b"", {"location": argument})
        if mode == "html":
            return self.send(200, b"<html>\x1b[2J")
        if mode in ("drip", "huge"):
            return self.stream(mode)
        if url.path == PATH:
            return self.document(self.page(query, mode), mode)
        parts = url.path.removeprefix(PATH + "/").split("/")
        if url.path.startswith(PATH + "/") and len(parts) == 3 and parts[1] == "versions":
            found = self.version(unquote(parts[0]), unquote(parts[2]), query.get("include_deleted") == "true", mode)
            return self.document(found, mode) if found else self.send(404, b'{"error": "Server not found"}')
        self.send(404, b"{}")

    def page(self, query, mode):
        start, limit = int(query.get("cursor", "0")), int(query.get("limit", "30"))
        wanted = query.get("search", "").lower()
        found = [entry for entry in entries() if wanted in text(entry, "name").lower() or not text(entry, "name")]
        if query.get("version") == "latest":
            found = [entry for entry in found if official(entry).get("isLatest", True)]
        cursor = str(start + limit) if start + limit < len(found) else ""
        if mode == "circle":
            cursor = str(start) if start else "1"
        if mode == "endless":
            cursor = str(start + 1)
        page = found[start : start + limit] if mode != "endless" else found[:1]
        return {"servers": page, "metadata": {"nextCursor": cursor, "count": len(page)}}

    def version(self, name, version, with_deleted, mode):
        found = [entry for entry in entries() if text(entry, "name") == name]
        if not with_deleted:
            found = [entry for entry in found if official(entry).get("status") != "deleted"]
        is_wanted = lambda entry: official(entry).get("isLatest", True) if version == "latest" else text(entry, "version") == version
        found = [entry for entry in found if is_wanted(entry)]
        if mode == "other" and found:
            return next(entry for entry in entries() if text(entry, "name") not in ("", name))
        return found[0] if found else None

    def document(self, value, mode):
        body = json.dumps(value).encode()
        if mode == "bare":
            return self.send(200, body)
        tag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
        if self.headers.get("if-none-match") == tag:
            return self.send(304, b"", {"etag": tag})
        self.send(200, body, {"etag": tag})

    def stream(self, mode):
        self.record(200)
        self.send_response(200)
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for _ in range(60 if mode == "drip" else 200):
                self.wfile.write(b" " if mode == "drip" else b" " * (1 << 16))
                self.wfile.flush()
                if mode == "drip":
                    time.sleep(1)
        except OSError:
            pass
        self.close_connection = True

    def send(self, status, body, headers={}):
        self.record(status)
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def record(self, status):
        with open(FOLDER / "log", "a") as log:
            log.write(f"{status} {self.path}\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
new = FOLDER / "port.new"
new.write_text(str(server.server_address[1]))
os.replace(new, FOLDER / "port")
server.serve_forever()
