//! The top-level modules of `src/` have no circular uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Uses of each module, with the files.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<PathBuf>>>;

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = Uses::new();
    for file in sources(&root) {
        let within = file.strip_prefix(&root).expect("below it");
        let first = within.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        for used in used(&fs::read_to_string(&file).expect("a source")) {
            if used != module {
                uses.entry(module.clone()).or_default().entry(used).or_default().insert(within.to_owned());
            }
        }
    }
    assert!(uses.len() > 20 && uses["gateway"].contains_key("broker"), "the sources were not understood: {uses:?}");
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

/// Top-level modules that a source names by `crate::`.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    // Only in tests and fuzzing.
    let code = code.replace("crate::fuzzing", "");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => found.extend(identifier(rest)),
            Some(group) => {
                let (mut depth, mut begins) = (0, true);
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        _ if begins && c.is_alphabetic() => {
                            found.extend(identifier(&group[at..]));
                            begins = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
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
    for (module, source) in sources {
        let used = used(source).into_iter().map(|used| (used, BTreeSet::from([PathBuf::from(module)])));
        uses.insert(module.to_owned(), used.collect());
    }
    let told = ["a uses b in {\"a\"}", "b uses c in {\"b\"}", "c uses a in {\"c\"}"];
    assert_eq!(circles(&uses), told);
    uses.remove("c");
    assert!(circles(&uses).is_empty());
}

/// What may stand in some places alone: a pattern, the places, and the invariant of ARCHITECTURE.md that says so.
const ONLY: [(&str, &[&str], &str); 5] = [
    (r"\brouter\.call\(", &["broker/mod.rs"], "1. The broker is the only caller of the router"),
    (
        r"\bstdout\(\)|\bprintln!|\bprint!",
        &["cli/ui.rs", "server/stdio.rs", "server/stdout.rs", "sandbox/process.rs", "program.rs"],
        "4. In `serve`, stdout",
    ),
    (
        r"\brmcp::",
        &["upstream/mcp/", "auth/", "server.rs", "server/", "cli/demo/server.rs", "cli/mod.rs"],
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
