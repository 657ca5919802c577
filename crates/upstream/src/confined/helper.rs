//! Short-lived processes on the way to a server: shims that are asked, and installations.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::process::Command;

use super::{END, Server, dead};
use crate::stderr::each_line;
use base::error::Error;
use base::program::{self, Ended, Running};

/// Most bytes that are read of an answer.
const MAX_ANSWER: usize = 16 << 10;
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
    let mut first = String::new();
    let take = |line: &str| {
        server.stderr.said(server.name, line);
        if !line.trim().is_empty() && first.len() < MAX_FIRST {
            first += if first.is_empty() { "" } else { " | " };
            first += line.trim();
        }
    };
    each_line(stream, take).await;
    first
}
