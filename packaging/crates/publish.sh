#!/bin/sh
# publish.sh [OPTION…]: publishes the crates of the workspace to the registry FORGEFS_REGISTRY, crates.io by default; cargo finds
# their order. Crates that the registry has are left out: after a failure, run it again. Options are cargo's.
#
# crates.io takes a few new crates at once, then one every ten minutes. So a failed attempt that published something is
# followed by another after FORGEFS_PUBLISH_PAUSE seconds.
set -eu
registry=${FORGEFS_REGISTRY:-crates-io}
pause=${FORGEFS_PUBLISH_PAUSE:-620}
version=$(cargo pkgid --package forgefs | sed 's/.*[#@]//')
crates=$(cargo metadata --no-deps --locked --format-version 1 |
    python3 -c 'import json, sys; print(*(p["name"] for p in json.load(sys.stdin)["packages"] if p["publish"] is None))')

# Options that exclude the crates that the registry has.
published() {
    for crate in $crates; do
        if cargo info --quiet --registry "$registry" "$crate@$version" >/dev/null 2>&1; then
            echo "--exclude=$crate"
        fi
    done
}

all=$(echo "$crates" | wc -w)
there=$(published)
while [ "$(echo "$there" | wc -w)" -lt "$all" ]; do
    # shellcheck disable=SC2086
    cargo publish --workspace --locked --no-verify --registry "$registry" $there "$@" && exit
    before=$there
    there=$(published)
    if [ "$there" = "$before" ]; then
        echo "error: no crate could be published" >&2
        exit 1
    fi
    echo "+ $(echo "$there" | wc -w) of $all crates are published; the next attempt is in $pause s"
    sleep "$pause"
done
echo "+ there already: all $all crates"
