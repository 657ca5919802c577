//! The executable under test, and the JavaScript engine on which it runs scripts.
//!
//! `cargo xtask test` runs the tests that see the engine once more with [`ENGINE`], and a few with the executable of a build
//! without V8, which [`EXECUTABLE`] names: xtask/src/suite.rs lists both.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use forgefs::config::RecyclePolicy;
use forgefs::run::sandbox::{Pool, PoolOptions};

/// Variable with the JavaScript engine of every command that takes `--engine`; the executable's default if unset.
const ENGINE: &str = "FORGEFS_TEST_ENGINE";
/// Variable with another executable than that of the tests' own build.
const EXECUTABLE: &str = "FORGEFS_TEST_EXECUTABLE";

/// JavaScript engines of the executable, from its `--version`.
static ENGINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let version = Command::new(path()).arg("--version").output().expect("forgefs starts").stdout;
    let version = String::from_utf8(version).expect("text");
    let engines = version.lines().find_map(|line| line.strip_prefix("engines ")).expect("a line of the engines");
    engines.split(',').map(|engine| engine.trim().to_owned()).filter(|engine| engine != "starlark").collect()
});

/// Path of the executable.
pub(crate) fn path() -> OsString {
    variable(EXECUTABLE).unwrap_or_else(|| env!("CARGO_BIN_EXE_forgefs").into())
}

/// JavaScript engines of the executable.
pub(crate) fn engines() -> &'static [String] {
    &ENGINES
}

/// JavaScript engine on which the tests run.
pub(crate) fn engine() -> String {
    let asked = variable(ENGINE).map(|engine| engine.into_string().expect("text"));
    // Of several engines the executable prefers V8, the last of its list.
    asked.or_else(|| engines().last().cloned()).expect("an engine")
}

/// A command of the executable with these arguments, on the engine of the tests unless they name one.
pub(crate) fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
    let mut command = Command::new(path());
    if !args.iter().any(|arg| arg == "--engine") {
        command.args(on_engine());
    }
    command.args(args);
    command
}

/// Arguments of a worker process.
pub(crate) fn worker() -> Vec<OsString> {
    [OsString::from("worker")].into_iter().chain(on_engine()).collect()
}

/// Worker processes and checkers as the gateway has them.
pub(crate) fn pool() -> Arc<Pool> {
    Pool::new(PoolOptions {
        exe: path().into(),
        args: worker(),
        warm: 1,
        wear: RecyclePolicy::default(),
        runs: 4,
        queue: 4,
        require: Vec::new(),
    })
}

fn on_engine() -> impl Iterator<Item = OsString> {
    variable(ENGINE).into_iter().flat_map(|engine| ["--engine".into(), engine])
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
