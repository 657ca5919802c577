"""Starts verdaccio, pypiserver and an index of crates on this machine, and serves until it is killed.

registries.py FOLDER: FOLDER has node/ and venv/ with the programs. What clients need is in FOLDER/registries/env.sh when all
three answer.
"""

import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import crates

folder = pathlib.Path(sys.argv[1])
kept = folder / "registries"
# Everything may be published by everyone, and nothing is looked up elsewhere.
VERDACCIO = """storage: ./npm
uplinks: {}
max_body_size: 1gb
log: { type: stdout, level: warn }
auth: { htpasswd: { file: ./htpasswd } }
packages: { '**': { access: $all, publish: $all } }
"""


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(name, *command):
    log = open(kept / f"{name}.log", "wb")
    return subprocess.Popen(command, stdout=log, stderr=log)


def wait_for(url, program):
    for _ in range(300):
        try:
            return urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if program.poll() is not None:
                break
            time.sleep(0.2)
    sys.exit(f"no registry answers at {url}; the logs in {kept} say why")


for name in ("npm", "pypi", "crates", "cargo"):
    (kept / name).mkdir(parents=True)
at = {name: f"127.0.0.1:{port()}" for name in ("npm", "pypi", "crates")}
(kept / "verdaccio.yaml").write_text(VERDACCIO)
verdaccio = start("npm", folder / "node/node_modules/.bin/verdaccio", "--config", kept / "verdaccio.yaml", "--listen", at["npm"])
pypiserver = [folder / "venv/bin/pypi-server", "run", "--disable-fallback", "--authenticate=.", "--passwords=."]
pypiserver = start("pypi", *pypiserver, "--interface=127.0.0.1", f"--port={at['pypi'].split(':')[1]}", kept / "pypi")
index = crates.serve(kept / "crates", int(at["crates"].split(":")[1]))
threading.Thread(target=index.serve_forever, daemon=True).start()
wait_for(f"http://{at['npm']}/-/ping", verdaccio)
wait_for(f"http://{at['pypi']}/simple/", pypiserver)

(kept / "npmrc").write_text(f"registry=http://{at['npm']}/\n//{at['npm']}/:_authToken=rehearsal\nfetch-retries=0\n")
(kept / "cargo/config.toml").write_text(
    f'[registries.rehearsal]\nindex = "sparse+http://{at["crates"]}/index/"\n'
    '[source.crates-io]\nreplace-with = "rehearsal"\n'
)
variables = {
    "NPM": f"http://{at['npm']}",
    "PYPI": f"http://{at['pypi']}",
    "CRATES": f"http://{at['crates']}",
    "NPM_CONFIG_USERCONFIG": kept / "npmrc",
    "TWINE_REPOSITORY_URL": f"http://{at['pypi']}",
    "TWINE_USERNAME": "rehearsal",
    "TWINE_PASSWORD": "rehearsal",
    "TWINE_NON_INTERACTIVE": "1",
    "CARGO_REGISTRIES_REHEARSAL_TOKEN": "rehearsal",
    "FORGEFS_REGISTRY": "rehearsal",
    "FORGEFS_PUBLISH_PAUSE": "1",
}
(kept / "env.new").write_text("".join(f"export {name}='{value}'\n" for name, value in variables.items()))
os.rename(kept / "env.new", kept / "env.sh")
verdaccio.wait()
