"""A hook of ForgeFS, to test what hooks can do (standard library only).

hook.py LOG SAYS        answers lines on stdin
hook.py LOG SAYS PORT   answers POSTs, and writes its port into the file PORT

LOG gets each question as a line. SAYS is JSON: what it answers, or for each event ("call", "answer", "script") what it
answers to that; else it allows. An answer that is a text is a mode:

  "raw TEXT"    TEXT in place of an answer; ID stands for the id of the question
  "huge"        an answer of 2 MiB
  "hang"        none
  "wait N"      N questions are there before it answers each
  "die"         it ends
  "die once"    it ends if the file LOG.died does not exist, and makes that
  "start"       it ends before the first question
  "echo"        it denies, with the question as its reason
  "stale"       it answers, and again with the same id
"""

import http.server
import json
import os
import sys
import threading

LOG, SAYS = sys.argv[1], json.loads(sys.argv[2])
ALLOW = {"decision": "allow"}
together = []
writing = threading.Lock()


def note(question):
    with writing, open(LOG, "a") as log:
        log.write(json.dumps(question) + "\n")


def said(question):
    """The answers to a question, as texts."""
    says = SAYS
    if isinstance(says, dict) and not {"decision", "result"} & says.keys():
        says = says.get(question["on"], ALLOW)
    if not isinstance(says, str):
        return [json.dumps({"id": question.get("id"), **says})]
    mode, _, rest = says.partition(" ")
    if mode == "raw":
        return [rest.replace("ID", json.dumps(question.get("id")))]
    if mode == "huge":
        return [json.dumps({"id": question.get("id"), **ALLOW, "more": "x" * (2 << 20)})]
    if mode == "hang":
        return []
    if mode == "wait":
        together.append(json.dumps({"id": question.get("id"), **ALLOW}))
        # The last question is answered first.
        return [together.pop() for _ in range(len(together))] if len(together) >= int(rest) else []
    if mode == "die":
        if not rest or not os.path.exists(LOG + ".died"):
            open(LOG + ".died", "w").close()
            print("it dies", file=sys.stderr, flush=True)
            os._exit(3)
        return [json.dumps({"id": question.get("id"), **ALLOW})]
    if mode == "echo":
        return [json.dumps({"id": question.get("id"), "decision": "deny", "reason": json.dumps(question)})]
    if mode == "stale":
        return [json.dumps({"id": question.get("id"), **ALLOW})] * 2
    raise SystemExit(f"no mode {says}")


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note({**question, "token": self.headers.get("x-token")})
        answers = said(question)
        if not answers:
            threading.Event().wait(20)
        body = (answers or ["{}"])[0].encode()
        is_bad = isinstance(SAYS, str) and SAYS == "raw 503"
        self.send_response(503 if is_bad else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if len(sys.argv) > 3:
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    with open(sys.argv[3] + ".new", "w") as port:
        port.write(str(service.server_port))
    os.rename(sys.argv[3] + ".new", sys.argv[3])
    service.serve_forever()
if SAYS == "start":
    raise SystemExit("no license")
for line in sys.stdin:
    question = json.loads(line)
    note(question)
    for text in said(question):
        sys.stdout.write(text + "\n")
    sys.stdout.flush()
