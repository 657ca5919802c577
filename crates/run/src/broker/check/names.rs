//! Names that a script uses and does not declare.

use wire::{JAVASCRIPT_GLOBALS, Language, Name};

use crate::scripts::SERVER;
use base::error::{Error, ErrorCode, did_you_mean, nearest};
use base::text::head;
use catalog::Catalog;

/// Most bytes of a checker's advice.
const MAX_FIX: usize = 500;

/// Globals of every script besides the servers.
const API: &[&str] = &[
    "forge", "manifest", "console", "setTimeout", "call_tool", "try_call", "parallel", "defer", "read_resource",
    "prompt", "stash", "results", "ls", "cat", "search", "json", "print", "struct",
];

/// Names of servers and of the script API that are spelt alike.
pub fn similar(name: &str, catalog: &Catalog) -> Vec<String> {
    nearest(name, catalog.servers().iter().map(|server| server.ident.as_str()).chain(API.iter().copied()))
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
        .or_else(|| did_you_mean(&similar(name, catalog)))
        .unwrap_or_else(|| "declare it, or look at `ls /` for the servers and `cat /forge.*` for the rest".to_owned());
    Some(Error::new(ErrorCode::ScriptError, format!("`{name}` is not defined")).hint(fix))
}
