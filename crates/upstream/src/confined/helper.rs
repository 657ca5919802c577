//! Short-lived processes on the way to a server: shims that are asked, and installations.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::{END, Server, dead};
use base::error::Error;
use base::program::{self, Ended, Running};

/// Most bytes that are read of an answer, and of a line.
const MAX_ANSWER: usize = 16 << 10;
const MAX_LINE: u64 = 2_000;
/// Bytes of its first lines that are enough for an error.
const MAX_FIRST: usize = 120;

/// Starts a process that confines itself, with pipes.
pub(super) async fn start(mut command: Command) -> Result<Running, Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command, END).await.map_err(|error| dead(format!("`{program}`")).caused_by(error))
}

/// Runs a process, and returns the first line of its stdout.
pub(super) async fn ask(command: Command, limit: Duration) -> Result<String, Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    match tokio::time::timeout(limit, program::run(command, None, MAX_ANSWER)).await {
        Ok(Ok(Ended { status, stdout, .. })) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).lines().next().unwrap_or_default().trim().to_owned())
        }
        Ok(Ok(Ended { status, words, .. })) => Err(dead(format!("`{program}` failed ({status}): {}", words.trim()))),
        Ok(Err(why)) => Err(dead(why)),
        Err(_) => Err(dead(format!("`{program}` did not answer within {limit:?}"))),
    }
}

/// Keeps the lines of a stream among those of the server, to its end; returns the first of them.
pub(super) async fn follow(stream: impl AsyncRead + Unpin, server: &Server<'_>) -> String {
    let mut reader = BufReader::new(stream);
    let (mut line, mut first) = (Vec::new(), String::new());
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return first,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                server.stderr.said(server.name, &text);
                if !text.trim().is_empty() && first.len() < MAX_FIRST {
                    first += if first.is_empty() { "" } else { " | " };
                    first += text.trim();
                }
            }
        }
    }
}
