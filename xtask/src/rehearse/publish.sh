# Publishes the version before and this one as the workflow does, and this one again: what a registry has is left out. twine can
# do that at PyPI alone.
set -eu
for version in "$BEFORE" "$VERSION"; do
    packages=$FOLDER/packages/$version
    packaging/npm/publish.sh "$packages"
    "$FOLDER/venv/bin/twine" check --strict "$packages"/*.whl
    "$FOLDER/venv/bin/twine" upload --disable-progress-bar "$packages"/*.whl
done
packaging/npm/publish.sh "$FOLDER/packages/$VERSION"
cd "$FOLDER/sources"
export CARGO_HOME=$FOLDER/registries/cargo CARGO_TARGET_DIR=$FOLDER/registries/build
packaging/crates/publish.sh
packaging/crates/publish.sh
