//! MCP over the stdin and stdout of a process.

use std::sync::Arc;

use rmcp::model::ClientJsonRpcMessage;
use tokio::io::AsyncWriteExt as _;

use super::connection::{Connection, Outgoing};
use super::handshake::Revision;
use super::inbox::{Inbox, PassedOver};
use super::lines;
use super::pending::Pending;
use crate::process::{Process, Stdin};
use crate::program::Program;
use crate::stderr::Stderr;
use base::error::Result;

/// Starts a server and keeps its stderr in `stderr`. Handshakes offer `revision` first.
///
/// # Errors
/// As of [`Program::start`].
pub(super) async fn start(program: Program<'_>, stderr: &Stderr, revision: &Revision) -> Result<Connection<Input>> {
    let started = program.start(stderr).await?;
    let pending = Pending::default();
    let over = PassedOver::new(program.name, "stdout", stderr.clone());
    let messages = lines::messages(started.stdout, Inbox::of_connection(pending.clone(), over));
    let input = Input { stdin: started.stdin, _process: started.process };
    Ok(Connection::new(input, pending, messages, revision))
}

/// JSON lines to a process, which is ended on drop.
pub(super) struct Input {
    stdin: Stdin,
    _process: Process,
}

impl Outgoing for Input {
    type Error = std::io::Error;

    fn send(&self, message: ClientJsonRpcMessage) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let stdin = stdin.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }
}
