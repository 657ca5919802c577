#!/bin/sh
# publish.sh FOLDER [OPTION…]: publishes the npm packages that `cargo xtask package` made in FOLDER. The launcher goes last,
# since it names the others. A package that the registry has is left out: after a failure, run it again. Options are npm's.
set -eu
# Absolute, since npm takes a/b for a repository of GitHub.
folder=$(cd "$1" && pwd)
shift
launcher=$(ls "$folder"/forgefs-[0-9]*.tgz)
of_launcher() { tar -xzOf "$launcher" package/package.json | node -p "p = JSON.parse(fs.readFileSync(0)), $1"; }
version=$(of_launcher p.version)
platforms=$(of_launcher 'Object.keys(p.optionalDependencies).join(" ").replaceAll("@forgefs/", "")')
case $version in *-*) tag=next ;; *) tag=latest ;; esac

for platform in $platforms; do
    test -f "$folder/forgefs-$platform-$version.tgz" || {
        echo "error: $folder has no package for $platform, which the launcher names; nothing is published" >&2
        exit 1
    }
done

publish() {
    name=$1 file=$2
    shift 2
    if [ "$(npm view "$name@$version" version 2>/dev/null)" = "$version" ]; then
        echo "+ there already: $name@$version"
    else
        npm publish "$file" --access public --tag "$tag" "$@"
    fi
}
for platform in $platforms; do
    publish "@forgefs/$platform" "$folder/forgefs-$platform-$version.tgz" "$@"
done
publish forgefs "$launcher" "$@"
