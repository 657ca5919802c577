"""Processes, memory and time to first `ls` of three clients with ten sample servers, without and with the daemon.

    python3 benches/clients.py target/release/forgefs
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

CLIENTS, SERVERS = 3, 10
ROLES = ["calendar", "people", "tickets"]
NUMBERS = itertools.count(1)
UNFINISHED = ["starting", " 0 tools", "connecting"]


def say(client, message):
    client.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    client.stdin.flush()


def answer(client, number):
    while True:
        message = json.loads(client.stdout.readline())
        if message.get("id") == number and "method" not in message:
            return message


def listed(client):
    number = next(NUMBERS)
    say(client, {"id": number, "method": "tools/call", "params": {"name": "ls", "arguments": {}}})
    return answer(client, number)["result"]["content"][0]["text"]


def start(exe, environment):
    client = subprocess.Popen([exe, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **environment)
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    say(client, {"id": 0, "method": "initialize", "params": info})
    return client


def processes(marker):
    """Processes with this variable in their environment, and their PSS in KiB. Workers clear theirs: by their parent."""
    parents, found = {}, set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parents[int(pid)] = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker.encode() in file.read():
                    found.add(int(pid))
        except OSError:
            pass
    while True:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        if not children:
            break
        found |= children
    pss = 0
    for pid in found:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                pss += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return len(found), pss


def measure(exe, mode):
    with tempfile.TemporaryDirectory() as folder:
        entries = [
            f'[servers.s{n}]\ncommand = "{exe}"\nargs = ["demo-server", "{ROLES[n % len(ROLES)]}"]\n' for n in range(SERVERS)
        ]
        with open(f"{folder}/forge.toml", "w") as file:
            file.write(f'[daemon]\nstart = "{mode}"\nidle_exit = "5s"\n' + "".join(entries))
        marker = f"FORGEFS_BENCH={os.path.basename(folder)}"
        name, value = marker.split("=")
        environment = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "HOME": folder, name: value}}
        rows = []
        for round in ["first", "second"]:
            began = time.monotonic()
            clients = [start(exe, environment) for _ in range(CLIENTS)]
            for client in clients:
                answer(client, 0)
                say(client, {"method": "notifications/initialized"})
            texts = [listed(client) for client in clients]
            took = time.monotonic() - began
            assert all(f"{SERVERS} servers" in text for text in texts), texts
            deadline = time.monotonic() + 60
            while any(word in text for text in map(listed, clients) for word in UNFINISHED):
                assert time.monotonic() < deadline, texts
                time.sleep(0.1)
            time.sleep(3)
            count, pss = processes(marker)
            rows.append((round, took, count, pss))
            for client in clients:
                client.stdin.close()
                client.wait(20)
        subprocess.run([exe, "daemon", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **environment)
        time.sleep(1)
        left = processes(marker)[0]
        assert left == 0, f"{left} processes are left"
        return rows


exe = os.path.abspath(sys.argv[1])
print("| 3 clients × 10 servers | processes | PSS, MiB | first `ls` of all, s |\n|---|---:|---:|---:|")
for mode, name in [("never", "without the daemon"), ("auto", "with the daemon")]:
    for round, took, count, pss in measure(exe, mode):
        print(f"| {name}, {round} start | {count} | {pss / 1024:.0f} | {took:.2f} |")
