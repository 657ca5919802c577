//! Short-lived processes on the way to a server: shims that are asked, and installations.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{Log, Reason};
use crate::spawner;

/// Most bytes that are read of an answer, and of a line.
const MAX_ANSWER: u64 = 16 << 10;
const MAX_LINE: u64 = 2_000;
/// Bytes of its first lines that are enough for an error.
const MAX_FIRST: usize = 120;

/// A child that is killed with its whole process group when dropped.
pub(super) struct Helper(Child, Option<Pid>);

impl std::ops::Deref for Helper {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Helper {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(group) = self.1 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Starts a process with pipes.
pub(super) async fn start(mut command: Command) -> Result<Helper, Reason> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawner::tie(&mut command);
    let child = spawner::spawn(move || command.spawn()).await;
    let child = child.map_err(|error| Reason::new(format!("`{program}`: {error}")))?;
    let group = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    Ok(Helper(child, group))
}

/// Runs a process, and returns the first line of its stdout.
pub(super) async fn ask(command: Command, limit: Duration) -> Result<String, Reason> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let mut child = start(command).await?;
    drop(child.stdin.take());
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Reason::new(format!("`{program}` has no pipes")));
    };
    let answered = async {
        let (mut said, mut complaint) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (stdout.take(MAX_ANSWER), stderr.take(MAX_ANSWER));
        let read = tokio::join!(stdout.read_to_end(&mut said), stderr.read_to_end(&mut complaint));
        read.0.and(read.1)?;
        std::io::Result::Ok((said, complaint, child.wait().await?))
    };
    match tokio::time::timeout(limit, answered).await {
        Ok(Ok((said, _, status))) if status.success() => {
            Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned())
        }
        Ok(Ok((_, complaint, status))) => {
            let complaint = String::from_utf8_lossy(&complaint);
            Err(Reason::new(format!("`{program}` failed ({status}): {}", crate::text::head(complaint.trim(), 300))))
        }
        Ok(Err(error)) => Err(Reason::new(format!("`{program}`: {error}"))),
        Err(_) => Err(Reason::new(format!("`{program}` did not answer within {limit:?}"))),
    }
}

/// Passes the lines of a stream on, to its end; returns the first of them.
pub(super) async fn follow(stream: impl AsyncRead + Unpin, log: &Log) -> String {
    let mut reader = BufReader::new(stream);
    let (mut line, mut first) = (Vec::new(), String::new());
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return first,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                log(&text);
                if !text.trim().is_empty() && first.len() < MAX_FIRST {
                    first += if first.is_empty() { "" } else { " | " };
                    first += text.trim();
                }
            }
        }
    }
}
