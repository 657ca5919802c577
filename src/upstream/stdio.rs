//! MCP servers as child processes.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use process_wrap::tokio::{CommandWrap, KillOnDrop, ProcessGroup};
use rmcp::transport::TokioChildProcess;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::ChildStderr;

use crate::error::{Error, ErrorCode, Result};
use crate::secret::{self, Secret};

/// The variables a server inherits; everything else of the gateway's environment stays with the gateway.
const INHERITED: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR", // Windows needs these to start anything.
    "APPDATA",
    "LOCALAPPDATA",
    "PATHEXT",
    "SYSTEMROOT",
    "USERPROFILE",
];

/// Lines of stderr that are kept.
const KEPT_LINES: usize = 50;
/// Bytes of one line that are kept.
const KEPT_BYTES: u64 = 2000;

/// Starts a server in a process group of its own, so that launchers such as npx go down with their children.
///
/// # Errors
/// `TRANSPORT_DEAD` when the program cannot be started.
pub(super) fn spawn(
    name: &str,
    program: &str,
    args: &[String],
    env: &BTreeMap<String, Secret>,
    cwd: Option<&Path>,
) -> Result<(TokioChildProcess, StderrTail)> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear();
    command.envs(INHERITED.iter().filter_map(|key| std::env::var_os(key).map(|value| (key, value))));
    command.envs(env.iter().map(|(key, value)| (key, value.expose())));
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let mut wrapped = CommandWrap::from(command);
    wrapped.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
    let (transport, stderr) = TokioChildProcess::builder(wrapped)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(name, program, cwd, &error))?;
    Ok((transport, StderrTail::follow(name, stderr)))
}

fn cannot_start(name: &str, program: &str, cwd: Option<&Path>, error: &std::io::Error) -> Error {
    let dead = Error::new(ErrorCode::TransportDead, format!("{name} did not start: `{program}`: {error}"));
    match (error.kind(), cwd) {
        (std::io::ErrorKind::NotFound, Some(cwd)) if !cwd.is_dir() => {
            dead.hint(format!("its `cwd` {} is not a folder", cwd.display()))
        }
        (std::io::ErrorKind::NotFound, _) => {
            dead.hint(format!("is `{program}` installed and on PATH? An absolute path in `command` works too"))
        }
        _ => dead,
    }
}

/// The last lines that a server wrote on stderr.
#[derive(Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    fn follow(name: &str, stderr: Option<ChildStderr>) -> Self {
        let tail = Self::default();
        let Some(stderr) = stderr else { return tail };
        let (kept, name) = (tail.clone(), name.to_owned());
        tokio::spawn(async move {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                // A line without end is read in pieces, so that no server can fill our memory.
                match (&mut reader).take(KEPT_BYTES).read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => kept.push(&name, &line),
                }
            }
        });
        tail
    }

    fn push(&self, name: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = secret::redact(text.trim_end()).into_owned();
        if text.is_empty() {
            return;
        }
        tracing::debug!(server = name, "stderr: {text}");
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }

    /// The last `count` lines, joined by ` | `.
    pub(super) fn last_lines(&self, count: usize) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = lines.len().saturating_sub(count);
        lines.iter().skip(skip).map(String::as_str).collect::<Vec<_>>().join(" | ")
    }
}
