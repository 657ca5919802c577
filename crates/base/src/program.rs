//! Programs that do one thing and end: they tell people, print a secret, or install a server. Never through a shell.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::spawner;

/// Most bytes of a program's stderr that an error repeats.
const WORDS: usize = 400;
/// Time that output may come after the program has ended, from what was already in the pipe. A process that it left behind
/// may keep the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// A program to run.
pub struct Program<'a> {
    /// Program and arguments.
    pub words: &'a [String],
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its stdin; `None` closes it.
    pub stdin: Option<&'a [u8]>,
    /// Most bytes of its stdout that are kept.
    pub stdout: usize,
}

/// Result of a program.
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Beginning of its stdout: one byte more than was asked for if there was more.
    pub stdout: Vec<u8>,
    /// Beginning of its stderr.
    pub words: String,
}

/// A running program. Dropping it kills its process group: the program, and processes that it left behind.
pub struct Running {
    child: Box<dyn ChildWrapper>,
    /// The signal that ends its group.
    end: Signal,
    has_ended: bool,
}

impl Running {
    /// Starts a program in a process group of its own that does not outlive this process; `end` ends the group.
    ///
    /// # Errors
    /// It cannot be started.
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "only Linux ties it"))]
    pub async fn start(mut command: Command, end: Signal) -> std::io::Result<Self> {
        #[cfg(target_os = "linux")]
        spawner::die_with_us(&mut command);
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader());
        if end == Signal::SIGKILL {
            wrapped.wrap(KillOnDrop);
        }
        let child = spawner::spawn(move || wrapped.spawn()).await?;
        Ok(Self { child, end, has_ended: false })
    }

    /// Its id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its ends of the pipes, as far as it has some that were not taken yet.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
    }

    /// Waits for the program, not for processes that it leaves behind.
    ///
    /// # Errors
    /// As of [`tokio::process::Child::wait`].
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    /// Sends a signal to its group, which may have ended already.
    pub fn signal(&self, signal: Signal) {
        let _ = self.child.signal(signal as i32);
    }

    fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.signal(self.end);
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
    pub async fn run(self) -> Result<Ended, String> {
        let (program, args) = self.words.split_first().ok_or("no program is configured")?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.env);
        run(command, self.stdin, self.stdout).await
    }
}

/// Runs a command to its end, with these bytes on stdin; `None` closes it. Keeps `most` bytes of its stdout.
///
/// # Errors
/// As of [`Program::run`].
pub async fn run(mut command: Command, input: Option<&[u8]>, most: usize) -> Result<Ended, String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(if most > 0 { Stdio::piped() } else { Stdio::null() }).stderr(Stdio::piped());
    let started = Running::start(command, Signal::SIGKILL).await;
    let mut running = started.map_err(|error| format!("`{name}` did not start: {error}"))?;
    let (stdin, stdout, stderr) = running.pipes();
    let (mut printed, mut words) = (Vec::new(), Vec::new());
    let status = {
        let given = give(stdin, input.unwrap_or_default());
        let (printed, words) = (keep(stdout, most + 1, &mut printed), keep(stderr, WORDS, &mut words));
        let pipes = async { tokio::join!(given, printed, words) };
        tokio::pin!(pipes);
        let (status, is_read) = tokio::select! {
            status = running.wait() => (status, false),
            _ = &mut pipes => (running.wait().await, true),
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
