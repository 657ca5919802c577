//! Runs a program for a bounded time, with its output in files.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// Runs its arguments in a session of their own, which is killed when standard input closes: at the latest when this process
/// ends, however it does.
const GUARD: &str = r#"trap '' INT HUP; exec 3<&0
setsid "$@" </dev/null 3<&- & session=$!
{ cat <&3; kill -KILL -$session; } >/dev/null 2>&1 & wait $session"#;

/// Ending of a program.
pub(crate) struct Ended {
    /// `None` if it was ended for its time.
    status: Option<ExitStatus>,
    pub(crate) stdout: String,
    stderr: String,
}

/// Like [`run`], and ends all that the command started.
pub(crate) fn run_guarded(command: &Command, folder: &Path, limit: Duration) -> anyhow::Result<Ended> {
    wait(&mut guarded(command), folder, limit)
}

/// Runs `command`; its output goes through files in `folder`, so that a child that outlives it holds nothing up.
pub(crate) fn run(command: &mut Command, folder: &Path, limit: Duration) -> anyhow::Result<Ended> {
    wait(command.stdin(Stdio::null()), folder, limit)
}

/// The command below [`GUARD`].
fn guarded(command: &Command) -> Command {
    let mut guarded = Command::new("sh");
    guarded.args(["-c", GUARD, "sh"]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::piped());
    guarded.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    guarded
}

fn wait(command: &mut Command, folder: &Path, limit: Duration) -> anyhow::Result<Ended> {
    let [out, err] = ["stdout", "stderr"].map(|name| folder.join(name));
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn().with_context(|| format!("{:?} does not start", command.get_program()))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if started.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let [stdout, stderr] = [out, err].map(|path| fs::read(path).unwrap_or_default());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended { status, stdout: text(stdout), stderr: text(stderr) })
}

impl Ended {
    /// An error with its last line unless it succeeded.
    pub(crate) fn succeeded(&self, what: &str) -> anyhow::Result<()> {
        match self.status {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("{what} failed ({status}): {}", self.last_line()),
            None => bail!("{what} took too long"),
        }
    }

    fn last_line(&self) -> &str {
        let lines = |text: &'_ str| text.trim_end().lines().next_back().is_some();
        let text = if lines(&self.stderr) { &self.stderr } else { &self.stdout };
        text.trim_end().lines().next_back().unwrap_or("it said nothing")
    }
}

/// A guarded program that runs until this is dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a command with its output in `log`.
    pub(crate) fn start(command: &Command, log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log)?;
        Ok(Self(guarded(command).stdout(log.try_clone()?).stderr(log).spawn()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until it holds.
    fn until(condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(60), "it never holds");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_server_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM INT HUP; sleep 600 & echo $!; echo $$; wait"]);
        let server = Server::start(&command, &log).expect("it starts");
        let read = || fs::read_to_string(&log).unwrap_or_default();
        until(|| read().lines().count() == 2);
        let runs = |pid: &str| {
            Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
        };
        assert!(read().lines().all(runs), "both run");
        drop(server);
        until(|| !read().lines().any(runs));
    }

    #[test]
    fn a_guarded_program_keeps_its_exit_code_and_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        let ended = run_guarded(command.args(["-c", "echo out; echo err >&2; exit 7"]), folder.path(), Duration::MAX);
        let ended = ended.expect("it starts");
        assert_eq!(ended.stdout, "out\n");
        let says = ended.succeeded("it").expect_err("it failed").to_string();
        assert_eq!(says, "it failed (exit status: 7): err");
    }
}
