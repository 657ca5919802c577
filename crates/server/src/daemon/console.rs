//! The console of a daemon, opened for another process and served as long as that is there.

use serde::{Deserialize, Serialize};

use super::handshake::{self, Hello, PATIENCE};
use super::link::{self, LinkError};
use super::place::Place;
use crate::mcp::Opening;
use base::limits;

/// Answer of a daemon: the URL, or message and hint.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) url: Option<String>,
    pub(super) error: Option<(String, String)>,
}

/// Has the daemon open its console; returns its URL and what ends with the daemon, while which it is served. `None` if none
/// runs.
///
/// # Errors
/// As [`LinkError`]; the inner one is message and hint of the daemon.
pub async fn open_console(
    place: &Place,
    hello: &Hello,
    opening: &Opening,
) -> Result<Option<Result<(String, impl Future<Output = ()> + use<>), (String, String)>>, LinkError> {
    let Some(mut link) = link::open(place, hello).await? else { return Ok(None) };
    let opened = async {
        handshake::write(&mut link.writer, opening).await?;
        handshake::read::<Opened>(&mut link.reader, &limits::HANDSHAKE, PATIENCE).await
    };
    let Some(opened) = link::unless_gone(opened.await)? else { return Ok(None) };
    let Some(url) = opened.url else { return Ok(Some(Err(opened.error.unwrap_or_default()))) };
    Ok(Some(Ok((url, async move {
        // The daemon closes its end when it ends; ours stays open meanwhile.
        let _writer = link.writer;
        handshake::gone(&mut link.reader).await;
    }))))
}
