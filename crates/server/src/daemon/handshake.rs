//! First lines of a connection: a process says who it is and what it wants, and the daemon answers.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use base::limits::Limit;
use base::lines::{self, Line};
use base::principal::{LOCAL, Principal};

/// Revision of the handshake. Both ends must have the same one; the versions of the program may differ.
const REVISION: u32 = 2;
/// Version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time for each line of a handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Pass the lines of an MCP client.
    Attach,
    /// Answer one request of the command line.
    Ask,
    /// Serve the console until the connection ends.
    Console,
    /// Tell the daemon's state.
    Status,
    /// End the daemon.
    Stop,
}

/// First line, of the process that connects. It holds values of variables: it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    forgefs: u32,
    /// Version of the sender.
    pub version: String,
    /// Process of the sender.
    pub pid: u32,
    /// Purpose of the connection.
    pub purpose: Purpose,
    /// Absent where an older revision speaks, which is refused.
    #[serde(default)]
    pub speaker: Speaker,
}

/// Client and session of a process. It holds values of variables: it has no `Debug`.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Speaker {
    /// Values of the variables that the configuration references, as this process has them.
    pub environment: BTreeMap<String, String>,
    /// The client, if it is not this machine's user.
    pub client: Option<String>,
    /// Profile of that client, if it has one.
    pub profile: Option<String>,
    /// Form in which it wants its tools shown: a word of `expose`.
    pub expose: Option<String>,
}

impl Speaker {
    /// A new session of it.
    pub fn principal(&self) -> Principal {
        let principal = Principal::of(self.client.as_deref().unwrap_or(LOCAL));
        Principal { profile: self.profile.as_deref().map(Into::into), ..principal }
    }
}

impl Hello {
    /// The line of this process.
    pub fn new(purpose: Purpose, speaker: Speaker) -> Self {
        Self { forgefs: REVISION, version: VERSION.to_owned(), pid: std::process::id(), purpose, speaker }
    }

    /// Error for a process that speaks another revision.
    pub(super) fn refusal(&self) -> Option<String> {
        (self.forgefs != REVISION).then(|| {
            format!(
                "forgefs {} speaks revision {} of the daemon's handshake, and this daemon, forgefs {VERSION}, revision \
                 {REVISION}; `forgefs daemon stop` ends it",
                self.version, self.forgefs
            )
        })
    }
}

/// Answer of the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    forgefs: u32,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Reason for a refusal.
    pub error: Option<String>,
}

impl Welcome {
    pub(super) fn new(error: Option<String>) -> Self {
        Self { forgefs: REVISION, version: VERSION.to_owned(), pid: std::process::id(), error }
    }
}

/// Writes a line of JSON.
pub(super) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads a line of JSON of at most `limit` bytes, in time.
///
/// # Errors
/// `UnexpectedEof` when there is none, `TimedOut`, and `InvalidData` for one that is too long or another shape.
pub(super) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin),
    limit: &Limit,
    time: Duration,
) -> io::Result<T> {
    let line = match tokio::time::timeout(time, lines::try_next(from, limit.max)).await {
        Ok(line) => line?.ok_or(io::ErrorKind::UnexpectedEof)?,
        Err(_) => {
            let what = format!("no complete line within {} s", time.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
    };
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    match line {
        Line::Whole(line) => serde_json::from_slice(&line).map_err(|error| invalid(error.to_string())),
        Line::Skipped { bytes, .. } => {
            Err(invalid(limit.exceeded(base::error::ErrorCode::LimitExceeded, bytes).message))
        }
    }
}

/// Waits until the other end goes: nothing more is expected of it.
pub(super) async fn gone(from: &mut (impl AsyncRead + Unpin)) {
    let _ = from.read(&mut [0; 1]).await;
}
