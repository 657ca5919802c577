"""An MCP server (stdio, standard library only) that writes into a ledger, and kills what it is told to kill.

usage: ledger.py FILE

`pay` appends its number to FILE, `list` reads it, `note` returns its text. FILE.kill names one point and a number of
calls of `pay`: at that call, at that point, the gateway, its worker or the server is killed. FILE.about is appended to
the description of `pay`. FILE.mode is `nostart`, `refuse` (a tool error), or the code of the JSON-RPC error with which
`pay` answers when it has paid.
"""

import json
import os
import pathlib
import signal
import sys
import time

FILE = pathlib.Path(sys.argv[1])
PLAN = FILE.with_suffix(".kill")
ABOUT = FILE.with_suffix(".about")
SLOW = FILE.with_suffix(".slow")
MODE = FILE.with_suffix(".mode")
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def about():
    return ABOUT.read_text() if ABOUT.exists() else ""


def tools():
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return [
        {"name": "pay", "description": "Pays once." + about(), "inputSchema": NUMBER},
        {"name": "list", "description": "Payments.", "inputSchema": {"type": "object"},
         "annotations": {"readOnlyHint": True}},
        {"name": "note", "description": "Returns a text.", "inputSchema": text},
    ]


def send(identifier, **what):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": identifier, **what}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def children(parent):
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                command = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if int(fields[1]) == parent:
                yield int(folder.name), command


def strike(point, gateway):
    """Kills what the point names."""
    who = point.split("-")[0]
    if who == "gateway":
        os.kill(gateway, signal.SIGKILL)
        time.sleep(60)
    elif who == "worker":
        for pid, command in children(gateway):
            if b"worker" in command and b"--check" not in command:
                os.kill(pid, signal.SIGKILL)
    else:
        os._exit(1)


def plan():
    """The point at which this call of `pay` is struck."""
    if not PLAN.exists():
        return ""
    point, left = PLAN.read_text().split()
    if int(left) > 0:
        PLAN.write_text(f"{point} {int(left) - 1}")
        return ""
    PLAN.unlink()
    return point


def pay(identifier, number):
    mode = MODE.read_text() if MODE.exists() else ""
    if mode == "refuse":
        send(identifier, result={"content": [{"type": "text", "text": "later"}], "isError": True})
        return
    point, gateway = plan(), os.getppid()
    if SLOW.exists():
        time.sleep(float(SLOW.read_text()))
    if point.endswith("-before"):
        strike(point, gateway)
    with open(FILE, "a") as ledger:
        ledger.write(f"{number}\n")
        ledger.flush()
        os.fsync(ledger.fileno())
    if point.endswith("-done"):
        strike(point, gateway)
    if mode:
        send(identifier, error={"code": int(mode), "message": "request timed out"})
        return
    send(identifier, result=text({"paid": number}))
    if point.endswith("-answered"):
        strike(point, gateway)


def call(identifier, name, arguments):
    if name == "pay":
        pay(identifier, arguments["n"])
    elif name == "list":
        lines = FILE.read_text().split() if FILE.exists() else []
        send(identifier, result=text([int(line) for line in lines]))
    else:
        send(identifier, result={"content": [{"type": "text", "text": arguments["text"]}]})


if MODE.exists() and MODE.read_text() == "nostart":
    sys.exit(1)
for line in sys.stdin:
    message = json.loads(line)
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if identifier is None:
        continue
    if method == "initialize":
        send(identifier, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "ledger", "version": "1"}})
    elif method == "tools/list":
        send(identifier, result={"tools": tools()})
    elif method == "tools/call":
        call(identifier, params["name"], params.get("arguments") or {})
    else:
        send(identifier, error={"code": -32601, "message": "Method not found"})
