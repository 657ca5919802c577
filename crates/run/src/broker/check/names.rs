//! Names that a script uses and does not declare.

use wire::{JAVASCRIPT_GLOBALS, Language, Name};

use crate::scripts::SERVER;
use base::error::{Error, ErrorCode, did_you_mean, nearest};
use base::text::head;
use catalog::Catalog;

/// Most bytes of a checker's advice.
const MAX_FIX: usize = 500;

/// Most tools that an error names.
const MAX_MEANT: usize = 3;

/// Globals of every script besides the servers.
const OF_JAVASCRIPT: &[&str] = &["forge", "manifest", "console", "setTimeout"];
const OF_STARLARK: &[&str] = &[
    "forge", "call_tool", "try_call", "parallel", "defer", "read_resource", "prompt", "stash", "results", "ls", "cat",
    "search", "json", "print", "struct",
];

/// The way for a name that nothing has: the tools of that name, or else servers and the script API that are spelt alike.
pub fn meant(name: &str, language: Language, catalog: &Catalog) -> Option<String> {
    let tools = tools(name, catalog);
    if !tools.is_empty() {
        return Some(format!("a tool is called by its server: `{}`", tools.join("` or `")));
    }
    let api = if language == Language::Javascript { OF_JAVASCRIPT } else { OF_STARLARK };
    let servers = catalog.servers().iter().map(|server| server.ident.as_str());
    did_you_mean(&nearest(name, servers.chain(api.iter().copied())))
}

/// Calls of the tools of this name, which may have that of the server in front: `orders__list_orders`.
fn tools(name: &str, catalog: &Catalog) -> Vec<String> {
    let wanted: Vec<char> = folded(name.strip_prefix("mcp__").unwrap_or(name)).collect();
    let mut found = Vec::new();
    for server in catalog.servers() {
        let of_server = wanted.strip_prefix(folded(&server.ident).collect::<Vec<_>>().as_slice());
        let is = |ident: &str, wanted: &[char]| folded(ident).eq(wanted.iter().copied());
        let is_meant = |ident: &str| is(ident, &wanted) || of_server.is_some_and(|rest| is(ident, rest));
        let meant = server.stubs.tools.iter().filter(|tool| is_meant(&tool.ident));
        found.extend(meant.map(|tool| format!("{}.{}(…)", server.ident, tool.ident)));
    }
    found.truncate(MAX_MEANT);
    found
}

/// Letters and digits of a name, in lower case.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// The error of a name that nothing has. A checker leaves out the globals of Starlark itself.
pub(super) fn undefined(name: &Name, language: Language, catalog: &Catalog) -> Option<Error> {
    let Name { name, fix, .. } = name;
    let name = name.as_str();
    let is_global = language == Language::Javascript && JAVASCRIPT_GLOBALS.contains(&name);
    // The server `scripts` is of the operator's folder: the call itself is judged.
    if is_global || name == SERVER || catalog.servers().iter().any(|server| server.ident == name) {
        return None;
    }
    let known = fix.as_deref().map(|fix| head(fix, MAX_FIX).to_owned());
    let fix = known
        .or_else(|| meant(name, language, catalog))
        .unwrap_or_else(|| "declare it, or look at `ls /` for the servers and `cat /forge.*` for the rest".to_owned());
    Some(Error::new(ErrorCode::ScriptError, format!("`{name}` is not defined")).hint(fix))
}
