//! The server that misbehaves on request.

use std::path::Path;
use std::process::Command;

/// The configuration of one faulty server, named `faulty`, with these arguments; `None`, with a line that says so,
/// when there is no Python.
pub(crate) fn faulty(args: &[&str]) -> Option<String> {
    python("faulty", "faulty.py", args)
}

/// As [`faulty`], for any server of tests/servers.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen in the log")]
pub(crate) fn python(name: &str, script: &str, args: &[&str]) -> Option<String> {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no python3 to run tests/servers/{script}");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(script);
    let mut all = vec![script.to_string_lossy().into_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Some(format!("[servers.{name}]\ncommand = \"python3\"\nargs = {all:?}\n"))
}

/// The sample servers of the demo, which need nothing but the executable itself.
pub(crate) fn samples() -> String {
    let exe = env!("CARGO_BIN_EXE_forgefs");
    let entry = |role| format!("[servers.{role}]\ncommand = {exe:?}\nargs = [\"demo-server\", \"{role}\"]\n");
    ["calendar", "people", "tickets"].map(entry).join("\n")
}
