//! The transcripts of tests/fixtures/trial: their scripts still solve the tasks, and docs/benchmarks.md has their table.
#![expect(clippy::expect_used, reason = "a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const ROUNDS: [&str; 2] = ["unknown", "known"];
/// Tasks whose script is a tool.
const SCRIPTED: &str = "scripted";

#[test]
fn the_scripts_of_the_transcripts_solve_the_tasks_of_a_new_company() {
    for round in ROUNDS {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trial").join(round);
        let _ = fs::remove_dir_all(&folder);
        step("prepare", &[&folder]);
        let before = trial("check", &[&folder]);
        assert!(String::from_utf8_lossy(&before.stderr).contains("6 of 6 tasks are not solved"), "{before:?}");

        let mut arguments = vec![folder.clone()];
        arguments.extend(transcripts(round));
        arguments.extend(["--forgefs".into(), forgefs()]);
        step("replay", &arguments);
        step("check", &[&folder]);
    }
}

#[test]
fn the_documented_table_is_that_of_the_transcripts() {
    let documented = fs::read_to_string(root().join("docs/benchmarks.md")).expect("the page can be read");
    for round in ROUNDS.into_iter().chain([SCRIPTED]) {
        let table = step("count", &transcripts(round));
        assert!(
            documented.contains(&table),
            "docs/benchmarks.md lacks what `cargo xtask trial count` prints:\n{table}"
        );
    }
}

#[test]
fn the_reviewed_scripts_solve_their_tasks_in_three_calls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trial").join(SCRIPTED);
    let _ = fs::remove_dir_all(&folder);
    step("prepare", &[&folder]);
    let scripts = folder.join("scripts");
    fs::create_dir(&scripts).expect("a folder");
    for entry in fs::read_dir(root().join("tests/fixtures/trial/scripts")).expect("the scripts can be listed") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), scripts.join(entry.file_name())).expect("a copy");
    }
    let config = folder.join("forge.toml");
    let text = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("{text}\n[scripts]\npath = \"scripts\"\n")).expect("a configuration");
    let mut lock = Command::new(forgefs());
    lock.arg("--config").arg(&config).args(["scripts", "lock"]).env("HOME", &folder).env_remove("XDG_STATE_HOME");
    let locked = lock.output().expect("forgefs starts");
    assert!(locked.status.success(), "{locked:?}");

    let mut arguments = vec![folder.clone()];
    arguments.extend(transcripts(SCRIPTED));
    arguments.extend(["--forgefs".into(), forgefs()]);
    step("replay", &arguments);
    let checked = trial("check", &[&folder]);
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    for task in ["growth", "overdue", "stock", "duplicates"] {
        assert!(checked.contains(&format!("{task}: solved")), "{task}: {checked}");
    }
}

fn transcripts(round: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/fixtures/trial").join(round);
    let entries = fs::read_dir(folder).expect("the fixtures can be listed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let tasks = if round == SCRIPTED { 4 } else { 6 };
    assert_eq!(files.len(), tasks, "one transcript a task: {files:?}");
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The gateway, which a build of the whole workspace puts beside this package's executable.
fn forgefs() -> PathBuf {
    let path =
        Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name(format!("forgefs{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is missing: build with --workspace", path.display());
    path
}

fn step(step: &str, arguments: &[impl AsRef<Path>]) -> String {
    let output = trial(step, arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{step}: {stdout}{stderr}");
    stdout.into_owned()
}

fn trial(step: &str, arguments: &[impl AsRef<Path>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["trial", step]).args(arguments.iter().map(AsRef::as_ref));
    command.output().expect("xtask starts")
}
