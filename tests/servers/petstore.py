"""The API of tests/fixtures/openapi/petstore.yaml, of the standard library alone.

Usage: petstore.py PORT [DOCUMENT]. GET /log returns the requests so far, POST /key sets the key that /v1/secret wants.
GET /openapi.yaml returns DOCUMENT as it is then, /elsewhere.yaml redirects to another origin.
"""

import base64
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PORT = int(sys.argv[1])
DOCUMENT = sys.argv[2] if len(sys.argv) > 2 else None
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
LOG, STATE = [], {"key": "key-of-the-start", "busy": 0, "tokens": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/log":
            return self.answer(200, LOG)
        if path == "/key":
            STATE["key"] = body.decode()
            return self.answer(200, {})
        if path == "/openapi.yaml":
            with open(DOCUMENT, "rb") as document:
                return self.answer(200, document.read(), "application/yaml")
        if path == "/elsewhere.yaml":
            return self.answer(307, Location="http://localhost:9/openapi.yaml")
        if path == "/token" and b"client_secret=program-secret" in body:
            STATE["tokens"] += 1
            return self.answer(200, {"access_token": f"token-{STATE['tokens']}-of-a-program", "token_type": "Bearer"})
        headers = {name.lower(): value for name, value in self.headers.items()}
        LOG.append({"method": self.command, "target": self.path, "headers": headers, "body": body.decode("latin-1")})
        match (self.command, path.removeprefix("/v1").split("/")[1:]):
            case ("GET", ["pets"]):
                self.answer(200, [{"id": 1, "name": "Rex", "tag": None}])
            case ("POST", ["pets"]):
                self.answer(201, {"id": 2, **json.loads(body)})
            case ("GET", ["pets", "7"]):
                self.answer(404, {"message": "no pet has the number 7"})
            case ("GET", ["pets", "8"]):
                time.sleep(60)
            case ("GET", ["pets", number]):
                self.answer(200, {"id": 1, "name": number})
            case ("PUT", ["pets", _]):
                self.answer(200)
            case ("DELETE", ["pets", _]):
                self.answer(204)
            case ("GET", ["pets", _, "photo"]):
                self.answer(200, PNG, "image/png")
            case ("POST", ["pets", _, "photo"]):
                self.answer(200, {"has_photo": PNG in body, "bytes": len(body)})
            case ("POST", ["orders"]):
                self.answer(202, b"accepted", "text/plain; charset=utf-8")
            case ("GET", ["files", *_]):
                self.answer(200, b"\x00\x01\x02", "application/octet-stream")
            case ("GET", ["busy"]):
                STATE["busy"] += 1
                self.answer(429, Retry_After="0") if STATE["busy"] % 2 else self.answer(200, {"tries": STATE["busy"]})
            case ("GET", ["down"]):
                self.answer(503, b"no backend", "text/plain")
            case ("GET", ["moved"]):
                self.answer(302, Location="http://localhost:9/steal")
            case ("GET", ["secret"]):
                given = [query.get("api_key", [""])[0], headers.get("x-api-key", ""), headers.get("authorization", "")]
                known = any(STATE["key"] and STATE["key"] in one for one in given)
                self.answer(200, {"ok": True}) if known else self.answer(401, {"message": "another key, please"})
            case _:
                self.answer(404, {"message": "no such path"})

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_any


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
