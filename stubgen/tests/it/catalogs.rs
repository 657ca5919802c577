//! Real catalogs, if available, through Python's own parser.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use forgefs_stubgen::{ServerDef, View, generate};
use serde_json::Value;

use crate::invariants;

#[test]
fn every_real_tool_gives_python_that_parses_and_no_note() {
    let Some(catalogs) = catalogs() else { return };
    let mut files = Vec::new();
    let mut tools = 0;
    for (name, entries) in catalogs {
        let stubs = generate(ServerDef { name: name.clone(), tools: entries, ..ServerDef::default() }, "server");
        assert_eq!(stubs.notes, Vec::<String>::new(), "{name}");
        tools += stubs.tools.len();
        for tool in &stubs.tools {
            let [pyi, dts, md, json] = View::ALL.map(|(_, view)| tool.view(view, None));
            assert!(!pyi.lines().any(|line| line.starts_with("# note: ")), "{pyi}");
            assert!(!md.is_empty() && !json.is_empty());
            assert_eq!(invariants::python(&pyi, 1), Ok(()), "{pyi}");
            assert_eq!(invariants::typescript(&dts), Ok(()), "{dts}");
            files.push(pyi);
        }
        let init = stubs.init_pyi(|_| None);
        assert_eq!(invariants::python(&init, stubs.tools.len()), Ok(()), "{init}");
        files.push(init);
    }
    assert!(tools > 1000, "only {tools} tools");
    python_accepts(&files);
}

/// `(server, tools)` of every catalog file in `$FORGEFS_SHARED/catalogs`, or in `../shared` beside the workspace.
fn catalogs() -> Option<Vec<(String, Vec<Value>)>> {
    let shared = env::var_os("FORGEFS_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let Ok(folder) = fs::read_dir(shared.join("catalogs")) else {
        skipped(&format!("no catalogs in {} (set FORGEFS_SHARED)", shared.display()));
        return None;
    };
    let mut catalogs = Vec::new();
    for path in folder.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"))
    {
        let catalog: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("a readable catalog")).expect("a JSON catalog");
        let tools = catalog["tools"].as_array().or_else(|| catalog.as_array()).expect("a list of tools").clone();
        catalogs.push((path.file_stem().expect("a name").to_string_lossy().into_owned(), tools));
    }
    catalogs.sort_by(|a, b| a.0.cmp(&b.0));
    Some(catalogs)
}

/// Asserts that `ast.parse` accepts every file and finds only what a stub may contain.
pub(crate) fn python_accepts(files: &[String]) {
    const CHECK: &str = r"
import ast, json, sys
for text in json.load(sys.stdin):
    try:
        body = ast.parse(text).body
    except Exception as error:
        sys.exit(f'{error}\n{text}')
    for node in body:
        if not isinstance(node, (ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign)):
            sys.exit(f'unexpected {node}\n{text}')
";
    let child = Command::new("python3").args(["-c", CHECK]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        skipped("no python3");
        return;
    };
    let json = serde_json::to_string(files).expect("strings are JSON");
    child.stdin.take().expect("a pipe").write_all(json.as_bytes()).expect("python reads");
    let output = child.wait_with_output().expect("python ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Says that a test cannot be run here: in its log, and in the file that `cargo xtask test` counts.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(file) = env::var_os("FORGEFS_SKIPPED") {
        let file = fs::OpenOptions::new().append(true).create(true).open(file);
        writeln!(file.expect("the file of skipped tests opens"), "stubgen: {why}").expect("written");
    }
}
