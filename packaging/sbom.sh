#!/bin/sh
# sbom.sh FOLDER: lists the crates that the executables are built of in FOLDER/forgefs.cdx.json, and adds its checksum to those
# of the packages there. Needs cargo-cyclonedx.
set -eu
packages=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
cargo cyclonedx --format json --features v8 --override-filename forgefs.cdx
# Its identifiers are paths of this machine.
sed "s|file://$PWD|file://.|g" forgefs.cdx.json >"$packages/forgefs.cdx.json"
cd "$packages"
sha256sum forgefs.cdx.json >>SHA256SUMS
