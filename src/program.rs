//! Programs of the configuration that do one thing and end: they tell people, or print a secret. Never through a shell.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

use crate::spawner;

/// Most bytes of a program's stderr that an error repeats.
const WORDS: usize = 400;
/// Time that output may come after the program has ended, from what was already in the pipe. A process that it left behind
/// may keep the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// A program to run.
pub(crate) struct Program<'a> {
    /// Program and arguments.
    pub(crate) words: &'a [String],
    /// Its whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What it gets on stdin; `None` closes it.
    pub(crate) stdin: Option<&'a [u8]>,
    /// Most bytes of its stdout that are kept.
    pub(crate) stdout: usize,
}

/// What a program did.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Beginning of its stdout: one byte more than was asked for if there was more.
    pub(crate) stdout: Vec<u8>,
    /// Beginning of its stderr.
    pub(crate) words: String,
}

/// A running program, which ends with its group when it is dropped.
struct Running {
    child: Box<dyn ChildWrapper>,
    has_ended: bool,
}

impl Running {
    /// Kills the group: the program, and processes that it left behind.
    fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Program<'_> {
    /// Runs it to its end. Dropping the future kills it with its children.
    ///
    /// # Errors
    /// It cannot be started or waited for.
    pub(crate) async fn run(self) -> Result<Ended, String> {
        let (program, args) = self.words.split_first().ok_or("no program is configured")?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.env);
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(if self.stdout > 0 { Stdio::piped() } else { Stdio::null() }).stderr(Stdio::piped());
        #[cfg(target_os = "linux")]
        spawner::die_with_us(&mut command);
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let started = spawner::spawn(move || wrapped.spawn()).await;
        let child = started.map_err(|error| format!("`{program}` did not start: {error}"))?;
        let mut running = Running { child, has_ended: false };
        let child = &mut running.child;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (mut printed, mut words) = (Vec::new(), Vec::new());
        let status = {
            let given = give(stdin, self.stdin.unwrap_or_default());
            let (printed, words) = (keep(stdout, self.stdout + 1, &mut printed), keep(stderr, WORDS, &mut words));
            let pipes = async { tokio::join!(given, printed, words) };
            tokio::pin!(pipes);
            let (status, is_read) = tokio::select! {
                status = child.inner_mut().wait() => (status, false),
                _ = &mut pipes => (child.inner_mut().wait().await, true),
            };
            running.end();
            if !is_read {
                let _ = tokio::time::timeout(DRAIN, pipes).await;
            }
            status
        };
        let status = status.map_err(|error| error.to_string())?;
        Ok(Ended { status, stdout: printed, words: String::from_utf8_lossy(&words).into_owned() })
    }
}

/// Writes all of the input. A program that does not read it is not at fault.
async fn give(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
}

/// Keeps the beginning of an output, and reads the rest so that the program does not wait.
async fn keep(output: Option<impl AsyncRead + Unpin>, most: usize, kept: &mut Vec<u8>) {
    let Some(mut output) = output else { return };
    let _ = (&mut output).take(most as u64).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
}
