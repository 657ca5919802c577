"""Prints the packages as the registries show them; fails if something is wrong with one."""

import email
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.request
import zipfile

LICENSE = "MIT OR Apache-2.0"
# Largest files that registries take.
LARGEST = {"PyPI": 100_000_000, "crates.io": 10 * 1024 * 1024}
# Fewest crates that an executable is built of.
COMPONENTS = 100


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def mistakes(package, version):
    """What is wrong with a package that should be of this version."""
    if package["version"] != version:
        yield f"its version is {package['version']!r}, not {version}"
    if package["license"] != LICENSE:
        yield f"its licence is {package['license']!r}, not {LICENSE}"
    if not package["readme"].strip():
        yield "it has no README"
    # crates.io completes them with the repository.
    links = [link for link in package["readme"].split("](")[1:] if not link.startswith(("http", "#"))]
    if package["registry"] != "crates.io" and links:
        yield f"its README has a link that leads nowhere: {links[0].split(')')[0]}"
    if package["bytes"] > LARGEST.get(package["registry"], package["bytes"]):
        yield f"its file of {package['bytes']} bytes is too large"
    if not package["attested"]:
        yield "its file is not in SHA256SUMS, of which the release has attestations"


def npm(version, sums):
    launcher = json.loads(get(f"{os.environ['NPM']}/forgefs/{version}"))
    for name in [*launcher["optionalDependencies"], "forgefs"]:
        fields = ["version", "license", "readme", "dist.tarball", "repository.url"]
        view = subprocess.run(["npm", "view", "--json", f"{name}@{version}", *fields], capture_output=True, check=True)
        about = json.loads(view.stdout)
        file = get(about["dist.tarball"])
        attested = hashlib.sha256(file).hexdigest() in sums.values()
        # npm refuses provenance of another repository.
        assert about["repository.url"] == "git+https://github.com/forgefs/forgefs.git", about
        yield {"registry": "npm", "name": name, "bytes": len(file), "attested": attested, **about}


def pypi(packages, sums):
    page = get(f"{os.environ['PYPI']}/simple/forgefs/").decode()
    for name, known in sums.items():
        if not name.endswith(".whl"):
            continue
        assert f">{name}<" in page, f"PyPI does not show {name}"
        file = get(f"{os.environ['PYPI']}/packages/{name}")
        with zipfile.ZipFile(packages / name) as wheel:
            (path,) = (path for path in wheel.namelist() if path.endswith("/METADATA"))
            metadata = email.message_from_bytes(wheel.read(path))
        yield {
            "registry": "PyPI",
            "name": name,
            "version": metadata["Version"],
            "license": metadata["License-Expression"],
            "readme": metadata.get_payload(),
            "bytes": len(file),
            "attested": hashlib.sha256(file).hexdigest() == known,
        }


def crates():
    """cargo checks their files by the index, and they have no attestation."""
    for about in json.loads(get(f"{os.environ['CRATES']}/crates")):
        about["license"] = about["license"] or ""
        yield {"registry": "crates.io", "bytes": about["size"], "attested": True, **about, "version": about["vers"]}


def sbom(packages, version):
    """What is wrong with the SBOM."""
    text = (packages / "forgefs.cdx.json").read_text()
    listed = json.loads(text)
    about, components = listed["metadata"]["component"], listed["components"]
    without = [component["name"] for component in components if not component.get("licenses")]
    print(f"+ SBOM: {about['name']} {about['version']}, {len(components)} crates, {len(without)} without a licence")
    if (about["name"], about["version"]) != ("forgefs", version):
        yield f"SBOM: it is of {about['name']} {about['version']}"
    if len(components) < COMPONENTS:
        yield f"SBOM: it has {len(components)} crates, and any executable has more than {COMPONENTS}"
    if without:
        yield f"SBOM: it names no licence of {', '.join(without)}"
    if os.environ["FOLDER"] in text:
        yield "SBOM: it has paths of this machine"


def main():
    version = os.environ["VERSION"]
    packages = pathlib.Path(os.environ["FOLDER"], "packages", version)
    sums = dict(reversed(line.split("  ")) for line in (packages / "SHA256SUMS").read_text().splitlines())
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], capture_output=True, check=True)
    members = {member["name"] for member in json.loads(metadata.stdout)["packages"] if member["publish"] is None}
    shown = [*npm(version, sums), *pypi(packages, sums), *crates()]
    wrong = [*sbom(packages, version)]
    print(f"+ {'registry':<10}{'package':<52}{'version':<9}{'licence':<19}{'MB':>7}  README")
    for package in shown:
        first = package["readme"].strip().split("\n")[0][:40]
        size = package["bytes"] / 1e6
        print("+ {registry:<10}{name:<52}{version:<9}{license:<19}".format(**package) + f"{size:>7.2f}  {first}")
        wanted = os.environ["PYTHON_VERSION"] if package["registry"] == "PyPI" else version
        wrong += [f"{package['registry']} {package['name']}: {mistake}" for mistake in mistakes(package, wanted)]
    published = {package["name"] for package in shown if package["registry"] == "crates.io"}
    if published != members:
        wrong.append(f"crates.io: published are {sorted(published)}, of {sorted(members)}")
    for line in wrong:
        print(f"+ WRONG: {line}")
    print(f"+ {len(shown)} packages, {len(wrong)} mistakes; files of npm and PyPI were compared with SHA256SUMS")
    if wrong:
        sys.exit(f"{len(wrong)} mistakes")


if __name__ == "__main__":
    main()
