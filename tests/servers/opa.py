"""A service in the shape of Open Policy Agent's REST API, with a real Rego interpreter (regopy, from PyPI).

opa.py POLICY PORT: evaluates data.PATH of the file POLICY for POST /v0/data/PATH, whose body is the input and whose answer
is the value, and for POST /v1/data/PATH, whose body and answer wrap them: {"input": …}, {"result": …}. Writes its port
into the file PORT.
"""

import http.server
import json
import os
import sys

from regopy import Interpreter

with open(sys.argv[1]) as policy:
    POLICY = policy.read()


class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        version, _, path = self.path.strip("/").split("/", 2)
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        rego = Interpreter()
        rego.add_module("policy", POLICY)
        rego.set_input(question if version == "v0" else question["input"])
        value = json.loads(str(rego.query("data." + path.replace("/", "."))))["expressions"][0]
        body = json.dumps(value if version == "v0" else {"result": value}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


service = http.server.HTTPServer(("127.0.0.1", 0), Service)
with open(sys.argv[2] + ".new", "w") as port:
    port.write(str(service.server_port))
os.rename(sys.argv[2] + ".new", sys.argv[2])
service.serve_forever()
