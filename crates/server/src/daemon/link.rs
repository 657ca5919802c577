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

/// The result; `None` if the other end closed the connection, as a daemon that ends does.
pub(super) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};

    match result {
        Err(error) if matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset) => Ok(None),
        result => result.map(Some),
    }
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
    match unless_gone(met.await)? {
        Some(Welcome { error: Some(why), .. }) => Err(LinkError::Refused(why)),
        welcome => Ok(welcome.map(|welcome| Link { reader, writer, welcome })),
    }
}

/// Has the daemon do what `hello` says, with a request if it takes one, and returns its answer; `None` if none runs,
/// or it ended before it had the request, or before its answer if it takes none.
///
/// # Errors
/// As [`LinkError`]; `UnexpectedEof` when the daemon ended before its answer to a request.
pub async fn ask(place: &Place, hello: &Hello, request: Option<&Value>) -> Result<Option<Value>, LinkError> {
    let Some(mut link) = open(place, hello).await? else { return Ok(None) };
    let Some(request) = request else {
        return Ok(unless_gone(handshake::read(&mut link.reader, &limits::DAEMON_ANSWER, PATIENCE).await)?);
    };
    // Its end is written last: a daemon that closed before has not begun it.
    let Some(()) = unless_gone(handshake::write(&mut link.writer, request).await)? else { return Ok(None) };
    Ok(Some(handshake::read(&mut link.reader, &limits::DAEMON_ANSWER, ANY).await?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{Ipv4Addr, Shutdown};
    use std::os::unix::net::UnixListener;

    use super::super::{Purpose, Speaker, open_console};
    use super::*;
    use crate::mcp::Opening;

    #[tokio::test]
    async fn a_daemon_that_ends_after_its_welcome_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("forge.toml");
        std::fs::write(&config, "").expect("it can be written");
        let place = Place::of(folder.path(), &config).expect("a place");
        let _held = place.hold().expect("the lock").expect("free");
        let listener = UnixListener::bind(place.socket()).expect("it listens");
        let ending = std::thread::spawn(move || {
            for mut stream in listener.incoming().take(3).map(|stream| stream.expect("a connection")) {
                BufReader::new(&stream).read_line(&mut String::new()).expect("a line");
                stream.shutdown(Shutdown::Read).expect("it is open");
                serde_json::to_writer(&stream, &Welcome::new(None)).expect("it is written");
                stream.write_all(b"\n").expect("it is written");
            }
        });
        let hello = |purpose| Hello::new(purpose, Speaker::default());
        let opening = Opening { listen: (Ipv4Addr::LOCALHOST, 0).into(), read_only: true };
        assert!(matches!(ask(&place, &hello(Purpose::Status), None).await, Ok(None)));
        assert!(matches!(ask(&place, &hello(Purpose::Ask), Some(&Value::Null)).await, Ok(None)));
        assert!(matches!(open_console(&place, &hello(Purpose::Console), &opening).await, Ok(None)));
        ending.join().expect("it ends");
    }
}
