"""An MCP server (stdio, standard library only) that makes tasks of calls, and keeps them in a folder as a remote one does.

usage: tasking.py ERA FOLDER

ERA is `legacy` (2025-11-25: the call asks for a task, `tasks/result` has the result) or `modern` (2026-07-28: the server
makes the task, `tasks/get` has the result). `pay` appends its number to FOLDER/ledger when its task is made. FOLDER/log has
a line for each request: its method, and the tool or what it asks about. FOLDER/kill makes the first `tasks/get` kill the
gateway; with FOLDER/down it does not start; FOLDER/forget makes the server forget tasks that it did not make itself.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

MODERN = sys.argv[1] == "modern"
FOLDER = pathlib.Path(sys.argv[2])
if (FOLDER / "down").exists():
    sys.exit(1)
VERSION = "2026-07-28" if MODERN else "2025-11-25"
LOCK = threading.Lock()
OWN = {}
ANSWERS = {}
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


def tool(name, support, **properties):
    more = {} if MODERN or support is None else {"execution": {"taskSupport": support}}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}, **more}


TOOLS = [
    tool("pay", "required", n={"type": "integer"}, ms={"type": "integer"}),
    tool("work", "required", ms={"type": "integer"}, told={"type": "boolean"}),
    tool("fail", "required", how={"type": "string"}),
    tool("ask", "required"),
    tool("odd", "required", how={"type": "string"}),
    tool("never", "required"),
    tool("maybe", "optional"),
    tool("list", None),
]


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def log(line):
    with LOCK, open(FOLDER / "log", "a") as file:
        file.write(line + "\n")


def text(value, **more):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def answer(identifier, result):
    complete = {"resultType": "complete"} if MODERN else {}
    send({"id": identifier, "result": {**complete, **result}})


def refuse(identifier, words, code=-32602):
    send({"id": identifier, "error": {"code": code, "message": words}})


def shown(task, status=None):
    """A task as the protocol has it."""
    status = status or status_of(task)
    interval = task.get("interval", 200)
    times = {"createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z"}
    names = {"ttlMs": None, "pollIntervalMs": interval} if MODERN else {"ttl": None, "pollInterval": interval}
    told = {"statusMessage": task["words"]} if "words" in task else {}
    found = {"taskId": task["id"], "status": status, **times, **names, **told}
    if MODERN and status == "completed":
        found["result"] = task["result"]
    if MODERN and status == "failed":
        found["error"] = {"code": -32603, "message": "it broke"}
    if MODERN and status == "input_required":
        found["inputRequests"] = {"a": {"method": "elicitation/create", "params": question()}}
    return found


def status_of(task):
    if task.get("cancelled"):
        return "cancelled"
    if task.get("asks") and "answer" not in task:
        return "input_required"
    return task.get("end", "completed") if time.time() >= task["due"] else "working"


def question():
    return {"mode": "form", "message": "go on?", "requestedSchema": FORM}


def keep(task):
    OWN[task["id"]] = task
    (FOLDER / f"{task['id'][:40]}.task").write_text(json.dumps(task))


def known(identifier):
    if identifier in OWN:
        return OWN[identifier]
    path = FOLDER / f"{identifier[:40]}.task"
    return json.loads(path.read_text()) if path.exists() and not (FOLDER / "forget").exists() else None


def call(identifier, params):
    name, arguments, token = params["name"], params.get("arguments") or {}, params["_meta"]["progressToken"]
    extensions = params["_meta"].get("io.modelcontextprotocol/clientCapabilities", {}).get("extensions", {})
    is_task = "task" in params or "io.modelcontextprotocol/tasks" in extensions
    log(f"tools/call {name}{' task' if is_task else ''}")
    if name == "list":
        ledger = FOLDER / "ledger"
        answer(identifier, text([int(line) for line in ledger.read_text().split()] if ledger.exists() else []))
        return
    if name == "maybe" or not is_task:
        answer(identifier, text("a task" if is_task else "plain")) if name == "maybe" else refuse(identifier, "only as a task", -32601)
        return
    task = {"id": f"task-{os.getpid()}-{time.time_ns()}", "due": time.time() + arguments.get("ms", 0) / 1000, "result": text(name)}
    if name == "pay":
        with open(FOLDER / "ledger", "a") as ledger:
            ledger.write(f"{arguments['n']}\n")
        task["result"] = text({"paid": arguments["n"]})
    elif name == "work":
        task["words"] = "half done"
        threading.Thread(target=work, args=(task, token, arguments), daemon=True).start()
        if arguments.get("told"):
            task["interval"] = 60000
    elif name == "fail":
        task.update(end="cancelled" if arguments["how"] == "cancelled" else "failed", words="no more paper")
        task["result"] = None if arguments["how"] in ("cancelled", "error") else text("jammed", isError=True)
    elif name == "ask":
        task["asks"] = True
    elif name == "never":
        task.update(due=time.time() + 1e6, interval=-5)
    elif name == "odd":
        task.update(odd=arguments["how"], due=time.time() + 0.3)
        if arguments["how"] == "huge_id":
            task["id"] = "x" * 100_000
        task["interval"] = {"zero": 0, "negative": -1, "huge": 1e300, "text": "soon"}.get(arguments["how"], 200)
    keep(task)
    found = shown(task)
    if task.get("odd") == "no_id":
        del found["taskId"]
    send({"id": identifier, "result": {"resultType": "task", **found} if MODERN else {"task": found}})


def work(task, token, arguments):
    progress = {"progressToken": token, "progress": 1, "total": 2, "message": "the first half"}
    time.sleep(0.05)
    send({"method": "notifications/progress", "params": progress})
    time.sleep(arguments.get("ms", 0) / 1000)
    if arguments.get("told"):
        task["due"] = 0
        send({"method": "notifications/tasks" if MODERN else "notifications/tasks/status", "params": shown(task)})


def get(identifier, task):
    kill = FOLDER / "kill"
    if kill.exists():
        kill.unlink()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    found, odd = shown(task), task.get("odd")
    if odd == "other_id":
        found["taskId"] = "another"
    elif odd == "status":
        found["status"] = "resting"
    elif odd == "dies":
        os._exit(1)
    elif odd == "no_task":
        found = {"something": "else"}
    elif odd == "other_type" and MODERN and found["status"] == "completed":
        found["result"] = ["a list"]
    answer(identifier, found)


def result(identifier, task):
    """Legacy: asks what the task asks, waits for its end, and has its result."""
    if status_of(task) == "input_required":
        with LOCK:
            number = 1000 + len(ANSWERS)
            ANSWERS[number] = [threading.Event(), None]
        related = {"io.modelcontextprotocol/related-task": {"taskId": task["id"]}}
        send({"id": number, "method": "elicitation/create", "params": {**question(), "_meta": related}})
        ANSWERS[number][0].wait()
        task.update(answer=True, result=text(ANSWERS[number][1]))
    while status_of(task) == "working":
        time.sleep(0.02)
    if task.get("odd") == "other_type":
        answer(identifier, {"task": shown(task)})
    elif task["result"] is None:
        refuse(identifier, "it has no result", -32603)
    else:
        answer(identifier, task["result"])


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        if identifier in ANSWERS:
            ANSWERS[identifier][1] = message.get("result", message.get("error"))
            ANSWERS[identifier][0].set()
        return
    info, extension = {"name": "tasking", "version": "1"}, {"io.modelcontextprotocol/tasks": {}}
    tasks = {"extensions": extension} if MODERN else {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
    hello = {"capabilities": {"tools": {}, **tasks}, "serverInfo": info}
    if method == "server/discover" and MODERN:
        answer(identifier, {"supportedVersions": [VERSION], "ttlMs": 0, "cacheScope": "private", **hello})
    elif method == "initialize" and not MODERN:
        answer(identifier, {"protocolVersion": VERSION, **hello})
    elif method == "tools/list":
        answer(identifier, {"tools": TOOLS, "_meta": None, **({"ttlMs": 0, "cacheScope": "private"} if MODERN else {})})
    elif method == "tools/call":
        call(identifier, params)
    elif method.startswith("tasks/"):
        task = known(params["taskId"])
        log(method)
        if task is None:
            refuse(identifier, "Task not found")
        elif method == "tasks/get":
            get(identifier, task)
        elif method == "tasks/result" and not MODERN:
            threading.Thread(target=result, args=(identifier, task), daemon=True).start()
        elif method == "tasks/update" and MODERN:
            task.update(answer=True, result=text(params["inputResponses"]["a"]))
            answer(identifier, {})
        elif method == "tasks/cancel":
            task["cancelled"] = True
            answer(identifier, {} if MODERN else shown(task))
        else:
            refuse(identifier, f"no {method}", -32601)
    elif identifier is not None:
        refuse(identifier, f"no {method}", -32601)


for line in sys.stdin:
    if line.strip():
        handle(json.loads(line))
