"""An MCP server (stdio, standard library only) whose tools are the lines of a file, with optional `list_changed`.

usage: living.py FILE [--modern] [--silent]

--modern speaks revision 2026-07-28 and notifies only subscribers, otherwise 2025-11-25; --silent never notifies.
Each start appends its parent's process id to FILE.starts. The tool `grow` appends a line to the file.
"""

import json
import os
import sys

FILE, FLAGS = sys.argv[1], sys.argv[2:]
MODERN, SILENT = "--modern" in FLAGS, "--silent" in FLAGS
META = "io.modelcontextprotocol/"
subscription = None


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(identifier, result):
    send({"id": identifier, "result": {"resultType": "complete", **result} if MODERN else result})


def refuse(identifier):
    send({"id": identifier, "error": {"code": -32601, "message": "Method not found"}})


def told(method, **params):
    meta = {"_meta": {META + "subscriptionId": subscription}} if MODERN else {}
    send({"method": method, "params": {**meta, **params}})


def tools():
    with open(FILE) as file:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in file.read().split()]


def call(identifier, name):
    if name == "grow":
        with open(FILE, "a") as file:
            file.write(f"grown_{len(tools())}\n")
    answer(identifier, {"content": [{"type": "text", "text": f"{name} done"}]})
    if name == "grow" and not SILENT and (subscription is not None or not MODERN):
        told("notifications/tools/list_changed")


def handle(message):
    global subscription
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    about = {"capabilities": {"tools": {"listChanged": not SILENT}}, "serverInfo": {"name": "living", "version": "1"}}
    if method == "server/discover" and MODERN:
        answer(identifier, {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", **about})
    elif method == "initialize" and not MODERN:
        answer(identifier, {"protocolVersion": "2025-11-25", **about})
    elif method == "subscriptions/listen" and MODERN and not SILENT:
        subscription = identifier
        told("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True})
    elif method == "tools/list":
        answer(identifier, {"tools": tools(), **({"ttlMs": 0, "cacheScope": "private"} if MODERN else {})})
    elif method == "tools/call":
        call(identifier, params["name"])
    elif method == "ping":
        answer(identifier, {})
    elif identifier is not None:
        refuse(identifier)


with open(FILE + ".starts", "a") as starts:
    starts.write(f"{os.getppid()}\n")
for line in sys.stdin:
    handle(json.loads(line))
