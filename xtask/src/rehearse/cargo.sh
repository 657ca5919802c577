# A user of cargo, with an empty home of cargo: builds the published crates, and removes the program.
set -eu
export CARGO_HOME=$FOLDER/registries/cargo CARGO_TARGET_DIR=$FOLDER/registries/build
cd "$FOLDER"
installed=$FOLDER/registries/installed
# Without optimisation: the same code, in half the time.
cargo install --locked --debug --root "$installed" forgefs
"$installed/bin/forgefs" demo >/dev/null
echo "+ cargo install --locked forgefs: $("$installed/bin/forgefs" --version | head -1)"
cargo uninstall --root "$installed" forgefs
test ! -e "$installed/bin/forgefs"
echo "+ cargo uninstall forgefs: nothing is left of it"
