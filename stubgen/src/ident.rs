//! Identifiers for arbitrary wire names, valid in Python, Starlark and JavaScript.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Longest identifier; bounds hostile names of a megabyte.
const MAX_IDENT: usize = 96;

/// Identifiers for a set of server names, in the same order; collisions are numbered in wire-name order.
///
/// Keywords of Python, Starlark and JavaScript get a trailing `_`, and so do names of the script API and globals that
/// such a server would shadow, and names that Windows has for devices.
pub fn assign_idents(names: &[&str]) -> Vec<String> {
    assign(names, |ident| is_keyword(ident) || SCRIPT_GLOBALS.contains(ident) || is_one_of(&DEVICES, ident))
}

/// Identifiers of a server's tools. Tools are attributes of the server and files in its folder, so only keywords, names
/// used by the stubs, names with a meaning on every JavaScript object, and names of other files and of devices are reserved.
pub(crate) fn assign_tool_idents(names: &[&str]) -> Vec<String> {
    assign(names, |ident| {
        is_keyword(ident) || STUB_NAMES.contains(ident) || is_one_of(&DEVICES, ident) || is_one_of(&FILES, ident)
    })
}

/// True for a tool's name that is its own identifier in Python, Starlark and JavaScript.
pub fn is_tool_ident(name: &str) -> bool {
    is_plain(name) && name.len() <= MAX_IDENT && !is_keyword(name) && !is_stub_name(name)
}

/// Identifiers of one tool's parameters: keyword arguments in Python and Starlark.
pub(crate) fn assign_param_idents(names: &[&str]) -> Vec<String> {
    if names.iter().all(|name| is_plain(name) && name.len() <= MAX_IDENT && !is_python_keyword(name)) {
        return names.iter().map(|name| (*name).to_owned()).collect();
    }
    number(names, is_python_keyword, str::to_owned)
}

/// True for an ASCII identifier (keywords included).
pub(crate) fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// True for a keyword of Python or Starlark (such as `load`).
pub(crate) fn is_python_keyword(name: &str) -> bool {
    // Longer than any of them: most names need no hash.
    name.len() <= 8 && PYTHON_KEYWORDS.contains(name)
}

/// True for a keyword of Python, Starlark or JavaScript.
pub(crate) fn is_keyword(name: &str) -> bool {
    is_python_keyword(name) || JS_RESERVED.contains(name)
}

/// True for type names in stubs; a class or tool of that name would change their meaning.
pub(crate) fn is_stub_name(name: &str) -> bool {
    STUB_NAMES.contains(name)
}

fn assign(names: &[&str], reserved: impl Fn(&str) -> bool) -> Vec<String> {
    number(names, reserved, |ident| ident.to_ascii_lowercase())
}

/// Numbers colliding names. Two names collide when `fold` makes them equal: case is folded where identifiers become
/// file names.
///
/// Names that are valid identifiers come first, and none is numbered before each of them has its spelling if that is free:
/// both spellings can be called, and the exact one must mean itself.
fn number(names: &[&str], reserved: impl Fn(&str) -> bool, fold: impl Fn(&str) -> String) -> Vec<String> {
    let bases: Vec<String> = names.iter().map(|name| sanitize(name, &reserved)).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| (bases[a] != names[a], names[a]).cmp(&(bases[b] != names[b], names[b])));
    let mut taken: HashSet<String> = HashSet::with_capacity(names.len());
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut idents = bases.clone();
    order.retain(|&at| bases[at] != names[at] || !taken.insert(fold(&bases[at])));
    for at in order {
        let mut folded = fold(&bases[at]);
        let count = next.entry(folded.clone()).or_insert(1);
        while !taken.insert(folded) {
            *count += 1;
            idents[at] = format!("{}_{count}", bases[at]);
            folded = fold(&idents[at]);
        }
    }
    idents
}

/// Invalid characters become `_`, a leading digit gets a leading `_`, a reserved word a trailing one.
fn sanitize(name: &str, reserved: impl Fn(&str) -> bool) -> String {
    let mut ident = String::with_capacity(name.len().min(MAX_IDENT) + 1);
    for c in name.chars().take(MAX_IDENT) {
        if ident.is_empty() && c.is_ascii_digit() {
            ident.push('_');
        }
        ident.push(if c.is_ascii_alphanumeric() { c } else { '_' });
    }
    if ident.is_empty() || reserved(&ident) {
        ident.push('_');
    }
    ident
}

/// True for a word of the set in any case, as file systems compare names.
fn is_one_of(words: &Words, ident: &str) -> bool {
    words.contains(&*ident.to_ascii_lowercase())
}

/// A set of words.
pub(crate) type Words = LazyLock<HashSet<&'static str>>;

pub(crate) fn words(text: &'static str) -> HashSet<&'static str> {
    text.split_ascii_whitespace().collect()
}

/// Python 3 hard keywords, and Starlark's `load`.
static PYTHON_KEYWORDS: Words = LazyLock::new(|| {
    words(
        "False None True and as assert async await break class continue def del elif else except finally for from global \
    if import in is lambda load nonlocal not or pass raise return try while with yield",
    )
});

/// Words that cannot name a JavaScript binding in a strict-mode module.
static JS_RESERVED: Words = LazyLock::new(|| {
    words(
        "arguments await break case catch class const continue debugger default delete do else enum eval export extends \
    false finally for function if implements import in instanceof interface let new null package private protected \
    public return static super switch this throw true try typeof undefined var void while with yield",
    )
});

/// Names that a server must not shadow: the script API, and globals of both languages in scripts.
static SCRIPT_GLOBALS: Words = LazyLock::new(|| {
    words(
        "Array ArrayBuffer Atomics BigInt Boolean DataView Date Error ForgeError Function Infinity Intl Iterator JSON Map \
    Math NaN Number Object Promise Proxy Record Reflect RegExp Set String Struct Symbol TextDecoder TextEncoder \
    URL URLSearchParams Uint8Array WeakMap WeakRef WeakSet abs all any atob bool breakpoint btoa bytes call_stack call_tool cat chr \
    clearInterval clearTimeout console constructor crypto decodeURI decodeURIComponent defer dict dir encodeURI \
    encodeURIComponent enumerate error escape eval_type fail field filter float forge fs getattr global globalThis \
    handle hasOwnProperty hasattr hash input int isFinite isNaN isinstance json len list ls main manifest map max \
    min module namespace ord parallel parseFloat parseInt partial pprint prepr print process prompt prototype pstr \
    queueMicrotask range read_resource record repr require result results reversed runs search server set setInterval \
    setTimeout sorted stash str struct structuredClone toString try_call tuple",
    )
});

/// Names with a meaning inside stub files or on every JavaScript object.
static STUB_NAMES: Words = LazyLock::new(|| {
    words(
        "Any Array Boolean Function Literal NotRequired Number Object Promise Record Required String Symbol TypeAlias \
    TypedDict __init__ __proto__ bool constructor dict float hasOwnProperty int list prototype str then toJSON \
    toString tuple valueOf",
    )
});

/// Names without suffix of files that each server's folder has.
static FILES: Words = LazyLock::new(|| words("readme __init__"));

/// Names that Windows has for devices, with any suffix.
static DEVICES: Words = LazyLock::new(|| {
    words("aux con nul prn com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_in_three_languages() {
        let names =
            ["github", "my-server", "2fa", "class", "delete", "print", "forge", "", "日本", "a.b", "a/b", "A_B"];
        let idents = assign_idents(&names);
        let wanted = "github my_server _2fa class_ delete_ print_ forge_ _ __ a_b_2 a_b_3 A_B";
        assert_eq!(idents.join(" "), wanted);
    }

    #[test]
    fn an_exact_spelling_keeps_its_name() {
        assert_eq!(assign_tool_idents(&["from", "from_"]), ["from__2", "from_"]);
        assert_eq!(assign_tool_idents(&["search", "list", "delete"]), ["search", "list_", "delete_"]);
        assert_eq!(
            assign_param_idents(&["max-results", "list", "delete", "in"]),
            ["max_results", "list", "delete", "in_"]
        );
    }
}
