//! Rooms of `src/` use only those below them, and modules of a room each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Uses of each module, with the files.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<PathBuf>>>;

/// The rooms from below, with those of their folders that are modules of their own; the rest of a room is one.
const ROOMS: [(&str, &[&str]); 9] = [
    ("base", &["*"]),
    ("redact", &[]),
    ("config", &["secrets"]),
    ("state", &["audit", "journal", "shapes", "spending"]),
    ("upstream", &["auth", "confined", "openapi/spec"]),
    ("catalog", &["findings", "manifest", "people", "registry", "skills"]),
    ("run", &["*"]),
    ("server", &["*"]),
    ("cli", &[]),
];

/// The module that a path belongs to: `run/broker/mod.rs` to `run/broker`, `catalog/vfs.rs` to `catalog`.
fn module(path: &str) -> String {
    let room = path.split('/').next().unwrap_or_default();
    let modules = ROOMS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, modules)| modules);
    let rest = path[room.len()..].trim_start_matches('/');
    let own = modules.iter().find_map(|module| match *module {
        "*" => rest.split('/').next().filter(|first| !["", "mod", "self"].contains(first)),
        module => Some(module).filter(|module| rest == *module || rest.starts_with(&format!("{module}/"))),
    });
    own.map_or_else(|| room.to_owned(), |module| format!("{room}/{module}"))
}

#[test]
fn rooms_and_modules_use_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut uses, mut upward) = (Uses::new(), BTreeSet::new());
    let level = |module: &str| ROOMS.iter().position(|(room, _)| module.split('/').next() == Some(room));
    for file in sources(&root) {
        let within = file.strip_prefix(&root).expect("below it").with_extension("");
        let own = module(&within.to_string_lossy());
        assert!(level(&own).is_some(), "{own} is in no room");
        for used in used(&fs::read_to_string(&file).expect("a source")).iter().map(|used| module(used)) {
            if level(&used) > level(&own) {
                upward.insert(format!("{own} uses {used} in {within:?}"));
            }
            if used != own {
                uses.entry(own.clone()).or_default().entry(used).or_default().insert(within.clone());
            }
        }
    }
    assert!(uses.len() > 20 && uses["server/gateway"].contains_key("run/broker"), "not understood: {uses:?}");
    assert_eq!(upward, BTreeSet::new());
    let circles = circles(&uses);
    assert!(circles.is_empty(), "modules in a circle:\n{}", circles.join("\n"));
}

/// Every source file of the executable: without tests and fuzzing.
fn sources(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            match name.trim_end_matches(".rs") {
                "tests" | "fuzzing" | "lib" | "main" => {}
                _ if path.is_dir() => folders.push(path),
                stem if stem != name => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// Paths that a source names by `crate::`, of up to three steps: `run/broker/policy`.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    // Only in tests and fuzzing.
    let code = code.replace("crate::fuzzing", "");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        paths(rest, "", &mut found);
    }
    found
}

/// Takes the paths at the beginning of `text`, each behind `before`.
fn paths(text: &str, before: &str, found: &mut BTreeSet<String>) {
    if let Some(group) = text.strip_prefix('{') {
        let (mut depth, mut begins) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ if begins && c.is_alphabetic() => {
                    paths(&group[at..], before, found);
                    begins = false;
                }
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path = if before.is_empty() { text[..end].to_owned() } else { format!("{before}/{}", &text[..end]) };
    match text[end..].strip_prefix("::") {
        Some(rest) if path.matches('/').count() < 2 && rest.starts_with(|c: char| c.is_lowercase() || c == '{') => {
            paths(rest, &path, found);
        }
        _ => drop(found.insert(path)),
    }
}

/// Modules reachable from one.
fn reached<'u>(uses: &'u Uses, from: &'u String) -> BTreeSet<&'u String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        open.extend(uses.get(module).into_iter().flat_map(BTreeMap::keys).filter(|next| seen.insert(*next)));
    }
    seen
}

/// Each use that is part of a circle, with its files.
fn circles(uses: &Uses) -> Vec<String> {
    let edges = uses.iter().flat_map(|(from, to)| to.iter().map(move |(to, files)| (from, to, files)));
    let closed = edges.filter(|(from, to, _)| reached(uses, to).contains(from));
    closed.map(|(from, to, files)| format!("{from} uses {to} in {files:?}")).collect()
}

#[test]
fn a_circle_is_found_and_named() {
    let sources = [
        ("a", "use crate::b::{self, X};\n// crate::d"),
        ("b", "use crate::{c::{Y, a}, e};"),
        ("c", "fn f() { crate::a::g() }\n#[cfg(test)]\nmod tests {\nuse crate::e;"),
        ("e", "use crate::error::Error;"),
    ];
    let mut uses = Uses::new();
    for (name, source) in sources {
        let used = used(source).into_iter().map(|used| (module(&used), BTreeSet::from([PathBuf::from(name)])));
        uses.insert(name.to_owned(), used.collect());
    }
    let told = ["a uses b in {\"a\"}", "b uses c in {\"b\"}", "c uses a in {\"c\"}"];
    assert_eq!(circles(&uses), told);
    uses.remove("c");
    assert!(circles(&uses).is_empty());
}

/// What may stand in some places alone: a pattern, the places, and the invariant of ARCHITECTURE.md that says so.
const ONLY: [(&str, &[&str], &str); 5] = [
    (r"\brouter\.call\(", &["run/broker/mod.rs"], "1. The broker is the only caller of the router"),
    (
        r"\bstdout\(\)|\bprintln!|\bprint!",
        &["cli/ui.rs", "server/mcp/stdio.rs", "server/mcp/stdout.rs", "run/sandbox/process.rs", "base/program.rs"],
        "4. In `serve`, stdout",
    ),
    (
        r"\brmcp::",
        &["upstream/mcp/", "upstream/auth/", "server/mcp.rs", "server/mcp/", "cli/demo/server.rs", "cli/mod.rs"],
        "5. rmcp's types stay in",
    ),
    (r"\bworker::", &["main.rs"], "only `main.rs` names `worker`"),
    (r#""(v8|quickjs)""#, &["cli/mod.rs"], "6. Engines are named in"),
];

/// Where a source breaks a rule of [`ONLY`].
fn misplaced(within: &str, source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = || code.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for (pattern, places, invariant) in ONLY {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        if !places.iter().any(|place| within.starts_with(place)) {
            let broken = lines().filter(|(line, _)| pattern.is_match(line));
            found.extend(broken.map(|(line, number)| format!("{within}:{number}: {}: {invariant}", line.trim())));
        }
    }
    found
}

#[test]
fn what_belongs_in_one_place_is_there_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("a page");
    for (_, _, invariant) in ONLY {
        assert!(architecture.contains(invariant), "ARCHITECTURE.md does not say: {invariant}");
    }
    let root = root.join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let within = file.strip_prefix(&root).expect("below it").to_string_lossy().into_owned();
        found.extend(misplaced(&within, &fs::read_to_string(&file).expect("a source")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_in_the_wrong_place_is_found_and_named() {
    let source = "// rmcp::model\nuse rmcp::model::Tool;\nlet x = self.router.call(entry);\n";
    let found = misplaced("catalog/mod.rs", source);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("catalog/mod.rs:3: let x") && found[1].contains("2: use rmcp::model::Tool;"));
    assert!(misplaced("upstream/mcp/mod.rs", "use rmcp::model::Tool;").is_empty());
}
