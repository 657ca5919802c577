//! Modules of a crate use each other in one direction. Between crates Cargo holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Uses of each module, with the files.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The crates from below, with those of their folders that are modules of their own; the rest of a crate is one.
const CRATES: [(&str, &[&str]); 9] = [
    ("base", &["*"]),
    ("redact", &[]),
    ("config", &["secrets"]),
    ("state", &["audit", "journal", "shapes", "spending"]),
    ("upstream", &["auth", "confined", "openapi/spec", "stderr"]),
    ("catalog", &["findings", "manifest", "people", "registry", "skills"]),
    ("run", &["*"]),
    ("server", &["*"]),
    ("cli", &[]),
];

/// The module that a path belongs to: `run/broker/mod.rs` to `run/broker`, `catalog/vfs.rs` to `catalog`.
fn module(path: &str) -> String {
    let owner = path.split('/').next().unwrap_or_default();
    let modules = CRATES.iter().find(|(name, _)| *name == owner).map_or(&[][..], |(_, modules)| modules);
    let rest = path[owner.len()..].trim_start_matches('/');
    let own = modules.iter().find_map(|module| match *module {
        "*" => rest.split('/').next().filter(|first| !["", "lib", "self"].contains(first)),
        module => Some(module).filter(|module| rest == *module || rest.starts_with(&format!("{module}/"))),
    });
    own.map_or_else(|| owner.to_owned(), |module| format!("{owner}/{module}"))
}

#[test]
fn modules_of_a_crate_use_each_other_in_one_direction() {
    let mut uses = Uses::new();
    for (within, source) in sources() {
        let own = module(within.trim_end_matches(".rs"));
        let owner = within.split('/').next().unwrap_or_default();
        assert!(CRATES.iter().any(|(name, _)| *name == owner), "{within}: {owner} is no crate that this test knows");
        for used in used(&source) {
            let used = module(&if owner == "cli" { used } else { format!("{owner}/{used}") });
            if used != own {
                uses.entry(own.clone()).or_default().entry(used).or_default().insert(within.clone());
            }
        }
    }
    assert!(uses.len() > 20 && uses["run/execution"].contains_key("run/broker"), "not understood: {uses:?}");
    let circles = circles(&uses);
    assert!(circles.is_empty(), "modules in a circle:\n{}", circles.join("\n"));
}

/// The order that ARCHITECTURE.md lists is the one that the manifests have.
#[test]
fn a_crate_depends_only_on_those_above_it_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("a page");
    let listed = CRATES.map(|(name, _)| architecture.find(&format!("/{name}/` |")).expect(name));
    assert!(listed.is_sorted(), "the list has another order: {listed:?}");
    for (at, (name, _)) in CRATES.iter().enumerate().take(CRATES.len() - 1) {
        let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).expect("a manifest");
        for (above, _) in CRATES.iter().skip(at) {
            assert!(!manifest.contains(&format!("\n{above}.workspace")), "{name} depends on {above}");
        }
    }
}

/// Every source file of the executable, without tests and fuzzing: its path from the crate's name, and its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut folders) = (Vec::new(), vec![(String::new(), root.join("src"))]);
    for (name, _) in CRATES.iter().take(CRATES.len() - 1) {
        folders.push((format!("{name}/"), root.join("crates").join(name).join("src")));
    }
    while let Some((within, folder)) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            match name.trim_end_matches(".rs") {
                "tests" | "fuzzing" => {}
                "lib" | "main" if within.is_empty() => {}
                _ if path.is_dir() => folders.push((format!("{within}{name}/"), path)),
                stem if stem != name => {
                    files.push((format!("{within}{name}"), fs::read_to_string(path).expect("a source")));
                }
                _ => {}
            }
        }
    }
    files
}

/// Paths that a source names by `crate::`, of up to three steps: `broker/policy/access`.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
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
        let used = used(source).into_iter().map(|used| (module(&used), BTreeSet::from([name.to_owned()])));
        uses.insert(name.to_owned(), used.collect());
    }
    let told = ["a uses b in {\"a\"}", "b uses c in {\"b\"}", "c uses a in {\"c\"}"];
    assert_eq!(circles(&uses), told);
    uses.remove("c");
    assert!(circles(&uses).is_empty());
}

/// What may stand in some places alone: a pattern, the places, and the invariant of ARCHITECTURE.md that says so.
const ONLY: [(&str, &[&str], &str); 5] = [
    (r"\brouter\.call\(", &["run/broker/steps.rs"], "1. The broker is the only caller of the router"),
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
    (r#""(v8|quickjs)""#, &["cli/global.rs"], "6. Engines are named in"),
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
    let found: Vec<String> = sources().iter().flat_map(|(within, source)| misplaced(within, source)).collect();
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
