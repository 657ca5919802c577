"""Shares of the gateway's processor time by stage of a call, of samples that perf took.

    RUSTFLAGS="-C force-frame-pointers=yes" CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --workspace --bins
    perf record -F 4999 --call-graph fp -p PID -o perf.data     # while a client runs scripts of many calls
    python3 benches/stages.py perf.data

A sample belongs to the stage of its innermost frame that has one.
"""

import collections
import re
import subprocess
import sys

# Parts of a function's name, with the stage. The first that fits a frame counts.
STAGES = [
    ("epoll_wait|park_internal|Parker|futex", "waiting for work"),
    ("state::audit::", "audit line, with its write"),
    ("state::journal", "journal's two lines, with their writes"),
    ("broker::evidence|broker::record|broker::recorder|calls::beginning", "record of the call, with its digests"),
    ("forgefs_redact", "redaction"),
    ("broker::arguments|Broker::normalise|broker::schema|stubgen::", "names, arguments, schema"),
    ("policy|Broker::decide|approvals|broker::consent", "policy"),
    ("observed|shapes|broker::sample", "shapes of answers"),
    ("mcp::stdio::Input|mcp::connection::Outgoing", "request to the server, with its write"),
    ("mcp::inbox|mcp::connection::read|mcp::message", "answer of the server, read and parsed"),
    ("upstream::mcp::results", "answer of the server, as a value"),
    ("^<?rmcp::", "rmcp"),
    ("forgefs_upstream", "router and upstream"),
    ("sandbox::(pipes|conversation)", "frames from and to the worker"),
    ("Broker::dispatch|Broker::send|broker::", "broker, the rest"),
    ("forgefs_run::execution|forgefs_run::sandbox", "frames from and to the worker"),
    ("tokio::runtime::(scheduler|task)", "tasks: queues, wake-ups"),
]


def stage(frames):
    for frame in frames:
        for part, name in STAGES:
            if re.search(part, frame):
                return name
    return "allocation, and what has no caller"


def main():
    script = ["perf", "script", "--no-inline", "-i", sys.argv[1], "-F", "ip,sym"]
    samples = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split("\n\n")
    stacks = [[line.strip().partition(" ")[2] for line in sample.splitlines()] for sample in samples if sample.strip()]
    counts = collections.Counter(map(stage, stacks))
    print(f"| stage | share of {len(stacks)} samples |\n|---|---:|")
    for name, count in counts.most_common():
        print(f"| {name} | {100 * count / len(stacks):.1f} % |")


main()
