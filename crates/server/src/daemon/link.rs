//! The other end of the daemon's socket: connects, and says who this process is.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::handshake::{self, Hello, PATIENCE, Welcome};
use super::place::Place;
use base::limits;

/// Time for an answer to a request of the command line, which may wait for servers and scripts: any.
const ANY: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A connection that the daemon has accepted.
pub(crate) struct Link {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
    /// The daemon's answer.
    pub welcome: Welcome,
}

/// Reason why a running daemon cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket, or the other end.
    #[error("the daemon cannot be reached: {0}")]
    Io(#[from] io::Error),
    /// The daemon refuses this process.
    #[error("the daemon refuses this process: {0}")]
    Refused(String),
}

/// True if the other end closed the connection, as a daemon that ends does.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};

    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset)
}

/// Connects to the daemon; `None` if none runs, or it is about to end.
///
/// # Errors
/// As [`LinkError`].
pub(crate) async fn open(place: &Place, hello: &Hello) -> Result<Option<Link>, LinkError> {
    let Some(stream) = place.connect().await? else { return Ok(None) };
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let met = async {
        handshake::write(&mut writer, hello).await?;
        handshake::read::<Welcome>(&mut reader, &limits::HANDSHAKE, PATIENCE).await
    };
    match met.await {
        Ok(Welcome { error: Some(why), .. }) => Err(LinkError::Refused(why)),
        Ok(welcome) => Ok(Some(Link { reader, writer, welcome })),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Has the daemon do what `hello` says, with a request if it takes one, and returns its answer; `None` if none runs,
/// or it ended before its answer and had no request.
///
/// # Errors
/// As [`LinkError`]; `UnexpectedEof` when the daemon ended before its answer to a request.
pub async fn ask(place: &Place, hello: &Hello, request: Option<&Value>) -> Result<Option<Value>, LinkError> {
    let Some(mut link) = open(place, hello).await? else { return Ok(None) };
    let Some(request) = request else {
        return match handshake::read(&mut link.reader, &limits::DAEMON_ANSWER, PATIENCE).await {
            Err(error) if is_gone(&error) => Ok(None),
            answer => Ok(Some(answer?)),
        };
    };
    handshake::write(&mut link.writer, request).await?;
    Ok(Some(handshake::read(&mut link.reader, &limits::DAEMON_ANSWER, ANY).await?))
}
