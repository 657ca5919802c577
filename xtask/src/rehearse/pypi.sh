# A user of PyPI: tries forgefs with uvx, installs the version before with pip, upgrades it and removes it. Each line that
# begins with "+" is printed.
export UV_DEFAULT_INDEX="$PYPI" PIP_INDEX_URL="$PYPI" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=0 UV_PYTHON_DOWNLOADS=never
program=$HOME/venv/bin/forgefs
is() {
    said=$("$program" --version)
    case $said in "forgefs $1"*) echo "+ $2: forgefs $1" ;; *) echo "$2: wanted $1, not $said" >&2 && exit 1 ;; esac
}

echo "+ $(python3 --version), $(uv --version)"
uvx forgefs demo >demo.txt
grep -q '^## ls /' demo.txt
echo "+ uvx forgefs demo: $(wc -l <demo.txt) lines"
python3 -m venv venv
venv/bin/pip install --quiet "forgefs==$PYTHON_BEFORE"
is "$BEFORE" "pip install forgefs==$PYTHON_BEFORE"
venv/bin/pip install --quiet --upgrade forgefs
is "$VERSION" "pip install --upgrade forgefs"
"$program" demo >/dev/null
venv/bin/pip uninstall --quiet --yes forgefs
left=$(find venv -name '*forgefs*')
test -z "$left" || { echo "left behind: $left" >&2 && exit 1; }
echo "+ pip uninstall forgefs: nothing is left of it"
uv tool install --quiet forgefs
"$HOME/.local/bin/forgefs" demo >/dev/null
uv tool uninstall --quiet forgefs
test ! -e "$HOME/.local/bin/forgefs"
echo "+ uv tool install forgefs, uv tool uninstall forgefs"
