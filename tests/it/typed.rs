//! `tools.d.ts` and `tools.pyi` of a generated tree: the type checkers of people's editors accept right scripts and find
//! every mistake of wrong ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::{Fence, finish};
use crate::real::skipped;

/// Folders of the pinned checkers that `cargo xtask test` installs.
const NODE: &str = "FORGEFS_REAL_CHECKERS_NODE";
const VENV: &str = "FORGEFS_REAL_CHECKERS_VENV";

/// Ends a line of a script that has a mistake.
const MARK: &str = " wrong";

/// As docs/operations.md says.
const TSC: &str = r#"{
  "files": ["stubs/tools.d.ts"],
  "include": ["scripts"],
  "compilerOptions": {
    "strict": true, "noEmit": true, "allowJs": true, "checkJs": true, "moduleDetection": "force",
    "target": "esnext", "module": "preserve", "lib": ["esnext"], "types": []
  }
}
"#;
const PYRIGHT: &str = r#"{ "include": ["scripts"], "reportMissingModuleSource": false }"#;
const IMPORT: &str = "from stubs.tools import *\n";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/typed")
}

/// Text of a fixture.
fn fixture(name: &str) -> String {
    fs::read_to_string(fixtures().join(name)).expect("readable")
}

/// A fence with the tree `stubs`, and the scripts with one of the suffixes in `scripts`.
fn repository(suffixes: &[&str]) -> (Fence, Vec<String>) {
    let fence = Fence::new();
    fence.write("catalog.json", &fixture("catalog.json"));
    fence.run(["stubs", "generate", "--out", "stubs", "--from", "catalog.json"]).success();
    let files = fs::read_dir(fixtures()).expect("readable").flatten().map(|entry| entry.file_name());
    let is_script = |name: &String| suffixes.iter().any(|suffix| name.ends_with(suffix));
    let mut scripts: Vec<String> = files.map(|name| name.into_string().expect("UTF-8")).filter(is_script).collect();
    scripts.sort();
    for script in &scripts {
        fence.write(format!("scripts/{script}"), &fixture(script));
    }
    assert!(scripts.len() > 1, "{scripts:?}");
    (fence, scripts)
}

/// Lines that a checker has to report: file and number.
fn marked(scripts: &[String]) -> BTreeSet<(String, usize)> {
    let lines = |script: &String| {
        let text = fixture(script);
        let lines = text.lines().enumerate().filter(|(_, line)| line.ends_with(MARK));
        lines.map(|(at, _)| (script.clone(), at + 1)).collect::<Vec<_>>()
    };
    scripts.iter().flat_map(lines).collect()
}

/// Lines that a checker reports, in any of the forms `file(1,2): error`, `file:1: error` and `file:1:2 - error`.
fn reported(text: &str) -> BTreeSet<(String, usize)> {
    let place = |line: &str| {
        let (place, _) = line.split_once("error")?;
        let (path, rest) = place.split_once([':', '('])?;
        let (number, _) = rest.split_once([':', ',', ')'])?;
        let script = Path::new(path.trim()).file_name()?.to_str()?.to_owned();
        Some((script, number.trim().parse().ok()?))
    };
    text.lines().filter_map(place).collect()
}

fn compare(checker: &str, command: &mut Command, scripts: &[String]) {
    let output = finish(command, "");
    let (found, wanted) = (reported(&output.stdout), marked(scripts));
    assert!(!wanted.is_empty(), "no script is wrong");
    assert_eq!(found, wanted, "{checker}: {output:?}");
}

/// An installed checker's file; visibly `None` without it.
fn installed(variable: &str, file: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(variable).unwrap_or_default());
    if folder.join(".installed-from").is_file() {
        return Some(folder.join(file));
    }
    skipped(&format!("no type checkers at {variable} (`cargo xtask check-stubs` installs them)"));
    None
}

#[test]
fn tsc_finds_every_mistake_of_a_script_and_no_other() {
    let Some(tsc) = installed(NODE, "node_modules/typescript/bin/tsc") else { return };
    let (fence, scripts) = repository(&[".ts", ".js"]);
    fence.write("tsconfig.json", TSC);
    compare(
        "tsc",
        Command::new("node").arg(&tsc).args(["--pretty", "false", "--project", "."]).current_dir(fence.work()),
        &scripts,
    );

    // Globals of scripts agree with those of a browser.
    fence.write("tsconfig.json", &TSC.replace(r#"["esnext"]"#, r#"["esnext", "dom"]"#));
    compare(
        "tsc",
        Command::new("node").arg(&tsc).args(["--pretty", "false", "--project", "."]).current_dir(fence.work()),
        &scripts,
    );
}

#[test]
fn pyright_finds_every_mistake_of_a_script_and_no_other() {
    let Some(pyright) = installed(NODE, "node_modules/pyright/index.js") else { return };
    let (fence, scripts) = repository(&[".py"]);
    fence.write("pyrightconfig.json", PYRIGHT);
    fence.write("__builtins__.pyi", IMPORT);
    compare("pyright", Command::new("node").arg(pyright).current_dir(fence.work()), &scripts);
}

#[test]
fn mypy_and_ty_find_every_mistake_of_a_script_and_no_other() {
    let Some(python) = installed(VENV, "bin/python") else { return };
    let (fence, scripts) = repository(&[".py"]);
    for script in &scripts {
        let text = fixture(script);
        let (_, text) = text.split_once('\n').expect("a comment comes first");
        fence.write(format!("scripts/{script}"), &format!("{IMPORT}{text}"));
    }
    let mypy = [
        "-m", "mypy", "--strict", "--namespace-packages", "--explicit-package-bases", "--config-file=", "scripts",
        "stubs/tools.pyi",
    ];
    compare("mypy", Command::new(&python).args(mypy).current_dir(fence.work()), &scripts);
    let ty = ["-m", "ty", "check", "--output-format", "concise", "--no-progress", "scripts", "stubs/tools.pyi"];
    compare("ty", Command::new(&python).args(ty).current_dir(fence.work()), &scripts);
}

#[test]
fn ruff_would_format_no_stub_anew() {
    let Some(python) = installed(VENV, "bin/python") else { return };
    let (fence, _) = repository(&[".py"]);
    let format = ["-m", "ruff", "format", "--check", "--isolated", "--no-cache", "--no-respect-gitignore", "stubs"];
    let output = finish(Command::new(python).args(format).current_dir(fence.work()), "");
    assert!(output.code == Some(0) && output.stdout.contains(" files already formatted"), "{output:?}");
}

#[test]
fn right_scripts_are_right_and_wrong_ones_wrong_to_the_gateway_too() {
    let (fence, scripts) = repository(&[".ts", ".js", ".py"]);
    for script in scripts {
        let output = fence.run(["--catalog", "catalog.json", "check", &format!("scripts/{script}")]);
        assert_eq!(output.code == Some(0), script.starts_with("right"), "{script}: {output:?}");
    }
}

#[test]
fn the_types_belong_to_the_tree_and_to_no_other_view() {
    let (fence, _) = repository(&[".ts"]);
    let check = || finish(&mut fence.forgefs(["stubs", "check", "stubs", "--from", "catalog.json"]), "");
    assert_eq!(check().code, Some(0), "{:?}", check());
    for file in ["tools.d.ts", "tools.pyi"] {
        let path = fence.work().join("stubs").join(file);
        let text = fs::read_to_string(&path).expect("it is written");
        fs::write(&path, format!("{text}\n")).expect("writable");
        assert_eq!(check().code, Some(1), "{file} may drift");
        assert!(check().stdout.contains(&format!("--- a/{file}")), "{:?}", check());
        fs::remove_file(&path).expect("removable");
        assert_eq!(check().code, Some(1), "{file} may be missing");
        fence.run(["stubs", "generate", "--out", "stubs", "--from", "catalog.json"]).success();
        assert_eq!(fs::read_to_string(&path).expect("it is written again"), text);
        let shown = fence.run(["--catalog", "catalog.json", "cat", &format!("/{file}")]);
        assert_ne!(shown.code, Some(0), "{shown:?}");
    }
    assert!(!fence.run(["--catalog", "catalog.json", "ls", "/"]).success().stdout.contains("tools.pyi"));
}

#[test]
fn a_script_may_end_with_the_export_of_a_function() {
    let run = |script: &str| {
        let fence = Fence::new();
        fence.write("script.ts", script);
        fence.run(["run", "script.ts"])
    };
    for script in [
        "export default async () => 1 + 1",
        "// One.\nconst one: number = 1;\nexport default\n  async function main(): Promise<number> { return one + 1 }\n",
        "export default (function () { return 2 });",
    ] {
        let output = run(script).success();
        assert_eq!(output.stdout.trim(), "2", "{script}: {output:?}");
    }
    for (script, told) in [
        ("export default async () => {\n  throw new Error('here');\n};", "line 2, column"),
        ("export const one = 1;\nexport default () => one;", "line 1, column 1"),
        ("export default 5;", "line 1, column 1"),
        ("import a from 'a';\nexport default () => a;", "line 1, column 1"),
    ] {
        let output = run(script);
        assert_eq!(output.code, Some(1), "{script}: {output:?}");
        assert!(output.stderr.contains(told), "{script}: {output:?}");
    }
}
