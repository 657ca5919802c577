//! A refusal over HTTP: its status, and what the server says of it, bounded.

use std::fmt;
use std::io;

use futures::StreamExt as _;
use reqwest::header::{HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError, StreamableHttpError};

use super::failure::{HttpError, in_one_line};
use base::limits;

/// An HTTP answer in place of one of the protocol.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// The body, or the address of a redirect; at most [`limits::REFUSAL`] and a cut character.
    pub words: String,
    pub retry_after: Option<String>,
    /// The server does not know the session that the request was in: it did nothing.
    pub is_about_session: bool,
}

impl Refusal {
    /// A refusal without words.
    pub fn bare(status: StatusCode) -> Self {
        Self { status, words: String::new(), retry_after: None, is_about_session: false }
    }

    /// Reads a response whose status is not a success; of its body no more than [`limits::REFUSAL`].
    pub async fn read(response: Response, in_session: bool) -> Self {
        let status = response.status();
        let retry_after = header(&response, RETRY_AFTER).filter(|when| when.len() <= limits::RETRY_AFTER.max);
        let words = match redirect(&response) {
            Some(place) => place,
            None => String::from_utf8_lossy(&beginning(response).await.0).into_owned(),
        };
        // A status that leaves open whether something was done does not say that the session is unknown.
        let is_about_session = match status.as_u16() {
            404 => in_session,
            400 if is_lost_session(&words) => in_session,
            400 | 401 | 403 | 410 => in_session && words.to_lowercase().contains("session"),
            422 => in_session && is_lost_session(&words),
            _ => false,
        };
        Self { status, words, retry_after, is_about_session }
    }

    /// True if other credentials may help.
    pub(super) fn wants_credentials(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED && !self.is_about_session
    }
}

/// True if the words of an error say that a session is lost.
pub(super) fn is_lost_session(words: &str) -> bool {
    const LOST: [&str; 10] = [
        "not found", "expired", "invalid", "no valid", "unknown", "terminated", "not exist", "no such", "closed",
        "lost",
    ];
    // The standard words of -32600 say nothing of it.
    let words = words.to_lowercase().replace("invalid request", "");
    words.contains("server not initialized")
        || words.contains("session") && LOST.iter().any(|lost| words.contains(lost))
}

/// True if the words of a failure, which may be of a tool with sessions of its own, are about that of MCP.
pub(super) fn is_unknown_session(words: &str) -> bool {
    let words = words.to_lowercase();
    is_lost_session(&words) && ["session id", "session not found"].iter().any(|known| words.contains(known))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status.as_str())?;
        if let Some(reason) = self.status.canonical_reason() {
            write!(f, " {reason}")?;
        }
        match in_one_line(&self.words) {
            words if words.is_empty() => Ok(()),
            words => write!(f, ": {words}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// rmcp's errors have no place for it but this.
impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> Self {
        StreamableHttpError::Io(io::Error::other(refusal))
    }
}

/// The refusal behind an error.
pub(crate) fn refusal(error: &HttpError) -> Option<&Refusal> {
    match error {
        StreamableHttpError::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The status of the refusal behind an error.
pub(super) fn status(error: &HttpError) -> Option<u16> {
    refusal(error).map(|refusal| refusal.status.as_u16())
}

/// True for a refused notification, unless the server wants a login. Other clients go on: what it does not take it does not
/// need.
pub(super) fn is_needless(message: &ClientJsonRpcMessage, error: &HttpError) -> bool {
    let is_refused = refusal(error).is_some_and(|refusal| !refusal.wants_credentials());
    is_refused && matches!(message, ClientJsonRpcMessage::Notification(_))
}

/// The demand of a login or of more scopes, where a response has one.
pub(super) fn challenge(response: &Response) -> Option<HttpError> {
    let challenge = header(response, WWW_AUTHENTICATE)?;
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Some(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => None,
    }
}

/// The scope of a challenge (RFC 6750, section 3).
fn scope(challenge: &str) -> Option<String> {
    let (_, value) = challenge.split_once("scope=")?;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', ' ']).next(),
    };
    scope.map(str::to_owned)
}

pub(crate) fn header(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Where a redirect leads, without the parts that may hold credentials.
fn redirect(response: &Response) -> Option<String> {
    let is_moved = response.status().is_redirection() && response.status() != StatusCode::NOT_MODIFIED;
    let place = header(response, LOCATION).filter(|_| is_moved)?;
    let mut url = match response.url().join(&place) {
        Ok(url) => url,
        Err(_) => return Some("to a place that is no address".to_owned()),
    };
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    let query = if url.query().is_some() { "?…" } else { "" };
    url.set_query(None);
    url.set_fragment(None);
    Some(format!("to {url}{query}"))
}

/// The beginning of a body, at most [`limits::REFUSAL`], and whether there is more of it.
pub(crate) async fn beginning(response: Response) -> (Vec<u8>, bool) {
    let (mut chunks, mut body) = (response.bytes_stream(), Vec::new());
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = limits::REFUSAL.max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return (body, true);
        }
    }
    (body, false)
}
