//! A server that misbehaves on request.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::Fence;
use crate::real::skipped;

/// Configuration of one faulty server, named `faulty`, with these arguments; `None`, visibly, without Python.
pub(crate) fn faulty(args: &[&str]) -> Option<String> {
    python("faulty", "faulty.py", args)
}

/// Like [`faulty`], for any server of tests/servers.
pub(crate) fn python(name: &str, script: &str, args: &[&str]) -> Option<String> {
    has_python(&format!("tests/servers/{script}"))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(script);
    let mut all = vec![script.to_string_lossy().into_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Some(format!("[servers.{name}]\ncommand = \"python3\"\nargs = {all:?}\n"))
}

/// A fence for a Python script; `None`, visibly, without Python.
pub(crate) fn has_python(script: &str) -> Option<Fence> {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        skipped(&format!("no python3 to run {script}"));
        return None;
    }
    Some(Fence::new())
}

/// The file in which a faulty server in this fence logs its actions, and the setting that names it.
pub(crate) fn log(fence: &Fence) -> (Log, String) {
    log_in(fence, "faulty.log")
}

/// Like [`log`], for one of several servers.
pub(crate) fn log_in(fence: &Fence, file: &str) -> (Log, String) {
    let path = fence.work().join(file);
    let setting = format!("env = {{ FAULTY_LOG = {path:?} }}\n");
    (Log(path), setting)
}

/// Log of a faulty server.
pub(crate) struct Log(PathBuf);

impl Log {
    /// Number of times a line occurs.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|logged| *logged == line).count()
    }

    /// All lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits for that many times.
    pub(crate) async fn until(&self, line: &str, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.count(line) < count {
            assert!(Instant::now() < deadline, "{line:?} is logged {} times", self.count(line));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Processes that were started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.lines().iter().filter_map(|line| line.strip_prefix("start ")?.parse().ok()).collect()
    }
}

/// True if a thread of a process runs; a zombie does not. The first thread may end before the others do.
pub(crate) fn runs(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).any(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}

/// Waits until none of the processes runs.
pub(crate) async fn all_end(pids: &[u32], limit: Duration) {
    let deadline = Instant::now() + limit;
    while let Some(pid) = pids.iter().find(|pid| runs(**pid)) {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        assert!(Instant::now() < deadline, "process {pid} still runs after {limit:?}: {command}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The sample servers of the demo, which need only the executable.
pub(crate) fn samples() -> String {
    let exe = env!("CARGO_BIN_EXE_forgefs");
    let entry = |role| format!("[servers.{role}]\ncommand = {exe:?}\nargs = [\"demo-server\", \"{role}\"]\n");
    ["calendar", "people", "tickets"].map(entry).join("\n")
}
