# Makes the SBOM as the workflow does, in a copy of the sources: the tool writes into them.
set -eu
sources=$FOLDER/sources
mkdir "$sources"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory="$sources"
if ! cargo cyclonedx --version >/dev/null 2>&1 && [ ! -e "$FOLDER/tools/bin/cargo-cyclonedx" ]; then
    # The version is that of the workflow.
    version=$(sed -n 's/.*--version \(.*\) cargo-cyclonedx/\1/p' .github/workflows/release.yml)
    CARGO_TARGET_DIR=$FOLDER/registries/build cargo install --locked --version "$version" --root "$FOLDER/tools" cargo-cyclonedx
fi
PATH=$FOLDER/tools/bin:$PATH "$sources/packaging/sbom.sh" "$FOLDER/packages/$VERSION"
