"""A registry of crates on this machine, with the checks and the limit of crates.io.

It takes publications, and serves their sparse index and their files. Every other crate is that of crates.io.
"""

import hashlib
import http.server
import json
import re
import struct

# New crates that crates.io takes at once. The next one is refused once here; there it takes ten minutes.
NEW = 5
LARGEST = 10 * 1024 * 1024

crates = {}
new = 0


def mistakes(about, content):
    """What crates.io refuses."""
    for key in ("description", "license"):
        if not about.get(key):
            yield f"{key} is missing"
    if not about.get("readme"):
        yield "the README is missing"
    if len(content) > LARGEST:
        yield f"{len(content)} bytes, and the limit is {LARGEST}"
    if len(about["keywords"]) > 5 or len(about["categories"]) > 5:
        yield "more than five keywords or categories"
    for keyword in about["keywords"]:
        if len(keyword) > 20 or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]*", keyword):
            yield f"the keyword {keyword!r}"
    for dep in about["deps"]:
        if dep["version_req"] in ("", "*"):
            yield f"any version of {dep['name']}"
        if dep["name"].startswith("forgefs") and dep["name"] not in crates:
            yield f"{dep['name']} is not published"
    if about["vers"] in crates.get(about["name"], {}):
        yield "this version is published already"


def entry(about, content):
    """A line of the index."""
    deps = []
    for dep in about["deps"]:
        name, renamed = dep["name"], dep.get("explicit_name_in_toml")
        kept = {key: dep[key] for key in ("features", "optional", "default_features", "target", "kind")}
        deps.append({"name": renamed or name, "req": dep["version_req"], "package": name if renamed else None, **kept})
    return {
        "name": about["name"],
        "vers": about["vers"],
        "deps": deps,
        "cksum": hashlib.sha256(content).hexdigest(),
        "features": {},
        "features2": about["features"],
        "yanked": False,
        "links": about.get("links"),
        "rust_version": about.get("rust_version"),
        "v": 2,
    }


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        global new
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (size,) = struct.unpack_from("<I", body)
        about, content = json.loads(body[4 : 4 + size]), body[8 + size :]
        name, version = about["name"], about["vers"]
        if wrong := "; ".join(mistakes(about, content)):
            return self.answer(400, {"errors": [{"detail": f"{name}: {wrong}"}]})
        if name not in crates:
            new += 1
            if new == NEW + 1:
                return self.answer(429, {"errors": [{"detail": "You have published too many new crates in a short period of time."}]})
        (self.server.folder / f"{name}-{version}.crate").write_bytes(content)
        crates.setdefault(name, {})[version] = (entry(about, content), {**about, "size": len(content)})
        self.answer(200, {"warnings": {"invalid_categories": [], "invalid_badges": [], "other": []}})

    def do_GET(self):
        match self.path.strip("/").split("/"):
            case ["index", "config.json"]:
                here = f"http://127.0.0.1:{self.server.server_port}"
                self.answer(200, {"dl": f"{here}/dl", "api": here})
            case ["index", *_, name] if name in crates:
                self.answer(200, *(line for line, _ in crates[name].values()))
            case ["index", *path]:
                self.elsewhere(f"https://index.crates.io/{'/'.join(path)}")
            case ["dl", name, version, "download"] if name in crates:
                self.send(200, (self.server.folder / f"{name}-{version}.crate").read_bytes())
            case ["dl", name, version, "download"]:
                self.elsewhere(f"https://static.crates.io/crates/{name}/{version}/download")
            case ["crates"]:
                self.answer(200, [about for versions in crates.values() for _, about in versions.values()])
            case _:
                self.send(404, b"")

    def answer(self, code, *lines):
        self.send(code, "\n".join(json.dumps(line) for line in lines).encode())

    def elsewhere(self, url):
        self.send(302, b"", url)

    def send(self, code, body, location=None):
        self.send_response(code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(folder, port):
    """A server of the registry that keeps the crates in `folder`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Registry)
    server.folder = folder
    return server
