//! Runs a program for a bounded time, with its output in files.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// How a program ended.
pub(crate) struct Ended {
    /// `None` if it was ended for its time.
    status: Option<ExitStatus>,
    pub(crate) stdout: String,
    stderr: String,
}

/// Runs `command`; its output goes through files in `folder`, so that a child that outlives it holds nothing up.
pub(crate) fn run(command: &mut Command, folder: &Path, limit: Duration) -> anyhow::Result<Ended> {
    let [out, err] = ["stdout", "stderr"].map(|name| folder.join(name));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
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
