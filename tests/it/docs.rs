//! Documentation pages generated from tables of the code.

mod configuration;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forgefs::base::error::{Behaviour, CODES, code_name};
use forgefs::base::limits::{BOUNDS, Bound, Counted, FIELDS, Limit};
use forgefs_measure::count;

use crate::client::Fence;

/// Set by `cargo xtask docs`, which writes the pages instead of comparing them.
pub(crate) const WRITE: &str = "FORGEFS_WRITE_DOCS";

#[test]
fn the_pages_are_what_the_tables_say() {
    is_current("docs/errors.md", &errors());
    is_current("docs/limits.md", &limits());
    is_current("docs/configuration.md", &configuration::page());
}

fn errors() -> String {
    let mut page = include_str!("../../templates/errors.md").to_owned();
    for code in CODES {
        let Behaviour { retryable, fault, fix, means, exit } = Behaviour::of(code);
        let yes = |is: bool| if is { "yes" } else { "" };
        let (code, retryable, fault) = (code_name(code), yes(retryable), yes(fault));
        page.push_str(&format!("| `{code}` | {means} | {retryable} | {fault} | {exit} | {fix} |\n"));
    }
    page
}

fn limits() -> String {
    let mut page = include_str!("../../templates/limits.md").to_owned();
    for Bound { work, counted, each, besides } in BOUNDS {
        let counted = match counted {
            Counted::Steps => "steps",
            Counted::Memory => "bytes of memory",
            Counted::Output => "bytes written",
        };
        page.push_str(&format!("| {work} | {counted} | {each} | {besides} |\n"));
    }
    page.push_str(include_str!("../../templates/limits-fields.md"));
    for Limit { field, max, unit, place, key } in FIELDS {
        let most = unit.counted(*max);
        let key = key.map_or_else(|| "fixed".to_owned(), |key| format!("`{key}`"));
        page.push_str(&format!("| {field} | {most} | {place} | {key} |\n"));
    }
    page
}

#[test]
fn the_tokens_of_the_demo_are_what_a_tokenizer_counts() {
    let printed = Fence::new().run(["demo", "--texts"]).success().stdout;
    let texts: BTreeMap<String, String> = serde_json::from_str(&printed).expect("texts by name");
    let row = |(name, text): (&String, &String)| format!("  {name:?}: [{}, {}]", text.len(), count(text));
    let rows: Vec<String> = texts.iter().map(row).collect();
    is_current("src/cli/demo/tokens.json", &format!("{{\n{}\n}}\n", rows.join(",\n")));
    // Written figures are in the executable that is built next.
    let is_shown = std::env::var_os(WRITE).is_none();
    assert!(!is_shown || !Fence::new().run(["demo"]).success().stdout.contains("[~"), "a figure is estimated");
}

/// Compares `file` of the repository with what is made for it, or writes it.
fn is_current(file: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, made).expect("the file can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "{file} is not current: `cargo xtask docs` writes it");
}

/// A code missing from the list has no row.
#[test]
fn every_code_has_a_row() {
    let known = serde_json::from_str::<wire::ErrorCode>("\"nothing\"").expect_err("no code").to_string();
    let known: Vec<&str> = known.split('`').skip(3).step_by(2).collect();
    let listed = CODES.map(code_name);
    assert_eq!(listed.as_slice(), known.as_slice());
}

/// Texts of every source file.
fn sources(root: &Path) -> String {
    let (mut text, mut folders) =
        (String::new(), ["src", "crates", "tests", "stubgen", "wire", "worker"].map(|f| root.join(f)).to_vec());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.extension().and_then(std::ffi::OsStr::to_str) {
                _ if path.is_dir() => folders.push(path),
                Some("rs") => text.push_str(&std::fs::read_to_string(&path).expect("a source")),
                _ => {}
            }
        }
    }
    text
}

/// Text in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_entry_point_of_a_dependency_has_a_guard_and_a_test_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/hostile-input.md")).expect("the page");
    let (sources, mut wrong, mut rows) = (sources(root), Vec::new(), 0);
    for row in page.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, _, guard, tests, _] = cells[..] else { panic!("four columns: {row}") };
        rows += 1;
        let files: Vec<&str> = quoted(guard).filter(|name| name.ends_with(".rs")).collect();
        let is_missing = |file: &&&str| !root.join(file).is_file();
        let missing_tests = quoted(tests).filter(|test| !sources.contains(&format!("fn {test}(")));
        wrong.extend(files.iter().filter(is_missing).map(|file| format!("no {file}: {row}")));
        wrong.extend(missing_tests.map(|test| format!("no test {test}: {row}")));
        if files.is_empty() || quoted(tests).next().is_none() {
            wrong.push(format!("no guard or no test: {row}"));
        }
    }
    assert!(rows > 30 && wrong.is_empty(), "{rows} rows\n{}", wrong.join("\n"));
}

/// Most crates of others in the executable with the default features; tantivy alone brings 40.
const MOST_CRATES: usize = 462;

#[test]
#[expect(clippy::print_stderr, reason = "the count is to be seen in the log")]
fn the_executable_is_built_of_few_crates() {
    let words = ["tree", "--edges", "normal,build", "--prefix", "none", "--offline", "--package", "forgefs"];
    let tree = std::process::Command::new("cargo").args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let tree = match tree {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        missing => return crate::real::skipped(&format!("cargo shows no tree of the crates: {missing:?}")),
    };
    let version = |line: &'_ str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let crates: BTreeSet<_> = tree.lines().filter(|line| !line.starts_with("forgefs")).map(version).collect();
    eprintln!("{} crates", crates.len());
    assert!(
        (100..=MOST_CRATES).contains(&crates.len()),
        "{} crates, {MOST_CRATES} at most: see Cargo.toml",
        crates.len()
    );
}

/// cargo-fuzz has its own toolchain, so no test builds its targets: each is one line that a test reads.
#[test]
fn every_target_of_fuzz_is_listed_and_those_of_the_gateway_are_properties() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (manifest, readme) = (read("fuzz/Cargo.toml"), read("fuzz/README.md"));
    let call = regex::Regex::new(r"\bforgefs_(catalog|run)::([a-z_:]+)::(\w+)\(data\)\);").expect("a pattern");
    let mut properties = 0;
    for entry in std::fs::read_dir(root.join("fuzz/fuzz_targets")).expect("a folder").flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let name = file.trim_end_matches(".rs");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{file}\"")), "fuzz/Cargo.toml lacks {name}");
        assert!(readme.contains(&format!("`{name}`")), "fuzz/README.md lacks {name}");
        let Some(called) = call.captures(&read(&format!("fuzz/fuzz_targets/{file}"))).map(|found| {
            let [owner, module, function] = [1, 2, 3].map(|group| found[group].to_owned());
            (format!("crates/{owner}/src/{}.rs", module.replace("::", "/")), function)
        }) else {
            continue;
        };
        assert_eq!(called.1, name);
        assert!(read(&called.0).contains(&format!("{name}(&data);")), "{name} is no property of {}", called.0);
        properties += 1;
    }
    assert_eq!(properties, 7);
}
