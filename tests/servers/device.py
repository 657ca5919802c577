"""An authorization server for logins by a code (RFC 8628), and an MCP server that wants its tokens; standard library only.

Arguments: a port, a log of requests, and a file with what the token endpoint answers in turn, a word a line; `ok` gives
tokens. After `odd` as the first word, answers have the form that some providers give them.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

PORT, LOG, ANSWERS = int(sys.argv[1]), sys.argv[2], open(sys.argv[3]).read().split()
ODD = ANSWERS[0] == "odd" and bool(ANSWERS.pop(0))
BASE = f"http://127.0.0.1:{PORT}"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def log(entry):
    with open(LOG, "a") as file:
        file.write(json.dumps({"at": time.time(), **entry}) + "\n")


def tokens(number, lifetime):
    access = f"access-words-{number}"
    return {"access_token": access, "refresh_token": f"refresh-words-{number}", "token_type": "Bearer", "expires_in": lifetime}


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/.well-known/oauth-protected-resource"):
            return self.answer(200, {"resource": f"{BASE}/mcp", "authorization_servers": [BASE], "scopes_supported": ["mcp"]})
        if self.path == "/.well-known/oauth-authorization-server":
            return self.answer(200, {
                "issuer": BASE,
                "authorization_endpoint": f"{BASE}/authorize",
                "token_endpoint": f"{BASE}/token",
                "registration_endpoint": f"{BASE}/register",
                "device_authorization_endpoint": f"{BASE}/device",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            })
        self.answer(405 if self.path == "/mcp" else 404, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/mcp":
            return self.mcp(json.loads(body))
        form = {key: values[0] for key, values in parse_qs(body).items()}
        if self.path == "/register":
            log({"register": json.loads(body)})
            return self.answer(201, {"client_id": "the-client"})
        log({self.path[1:]: form})
        if self.path == "/device" and ODD:
            return self.answer(200, {
                "device_code": "device-words",
                "user_code": 12345678,
                "verification_url": f"{BASE}/enter",
                "verification_uri": f"{BASE}/enter",
                "expires_in": "600.0",
                "interval": "1",
                "message": None,
            })
        if self.path == "/device":
            return self.answer(200, {
                "device_code": "device-words",
                "user_code": "WDJB-\x1b[31mMJHT",
                "verification_uri": f"{BASE}/enter",
                "expires_in": 600,
                "interval": 0,
            })
        if self.path == "/token" and form["grant_type"] == "refresh_token":
            return self.answer(200, tokens(2, 3600))
        if self.path == "/token" and (form["grant_type"], form["device_code"], form["client_id"]) == (GRANT, "device-words", "the-client"):
            word = ANSWERS.pop(0)
            if ODD:
                odd = {"error": word} if word != "ok" else {"access_token": "access-words-1", "scope": "mcp,x", "expires_in": "3600"}
                return self.answer(200, odd, {"Content-Type": "application/x-www-form-urlencoded"})
            return self.answer(200, tokens(1, 1)) if word == "ok" else self.answer(400, {"error": word})
        self.answer(400, {"error": "invalid_request"})

    def mcp(self, message):
        if not self.headers.get("Authorization", "").startswith("Bearer access-words-"):
            where = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
            return self.answer(401, {}, {"WWW-Authenticate": where})
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "d", "version": "1"}},
            "tools/list": {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": self.headers["Authorization"]}]},
        }
        if "id" not in message:
            return self.answer(202, None)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        result = results.get(message["method"])
        self.answer(200, {**answer, "result": result} if result else {**answer, "error": {"code": -32601, "message": "none"}})

    def answer(self, status, document, headers={}):
        body = b"" if document is None else json.dumps(document).encode()
        if "urlencoded" in headers.get("Content-Type", ""):
            body = urlencode(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Server).serve_forever()
