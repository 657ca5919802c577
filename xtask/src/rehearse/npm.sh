# A user of npm: tries forgefs, installs the version before, upgrades it and removes it. Each line that begins with "+" is printed.
export npm_config_registry="$NPM" npm_config_prefix="$HOME/npm" npm_config_fetch_retries=0
export npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
program=$HOME/npm/bin/forgefs
is() {
    said=$("$program" --version)
    case $said in "forgefs $1"*) echo "+ $2: forgefs $1" ;; *) echo "$2: wanted $1, not $said" >&2 && exit 1 ;; esac
}

# npx of npm 9 fails without it.
mkdir -p "$HOME/npm/lib"
echo "+ node $(node --version), npm $(npm --version)"
npx --yes forgefs demo >demo.txt
grep -q '^## ls /' demo.txt
echo "+ npx forgefs demo: $(wc -l <demo.txt) lines"
npm install --global "forgefs@$BEFORE"
is "$BEFORE" "npm install --global forgefs@$BEFORE"
npm update --global forgefs
is "$VERSION" "npm update --global forgefs"
"$program" demo >/dev/null
npm uninstall --global forgefs
left=$(find "$HOME/npm" -name '*forgefs*')
test -z "$left" || { echo "left behind: $left" >&2 && exit 1; }
echo "+ npm uninstall --global forgefs: nothing is left of it"
