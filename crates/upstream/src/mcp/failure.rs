//! Failures of a server in the gateway's terms, and whether the server may have acted on the request.

use std::error::Error as StdError;
use std::time::SystemTime;

use rmcp::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};

use super::http_client::retry_after;
use super::refusal::{Refusal, is_lost_session, is_unknown_session, refusal};
use crate::auth;
use base::error::{Effect, Error, ErrorCode, chain};
use base::text::visible;
use redact::Surface;

/// Errors of the HTTP transports.
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;

/// Most bytes of foreign text in an error.
const MAX_REPEATED: usize = 300;

/// JSON-RPC code of errors that our transports put in place of an answer that cannot be passed on. It is from the range
/// for implementations, and recognised only together with [`MARK`].
const REPLACED: i32 = -32_049;
/// JSON-RPC codes of servers that do not know a session.
const SESSION_LOST: [i32; 2] = [-32_001, -32_600];
/// Key of the data of such an error.
const MARK: &str = "forgefs";

/// An error in place of an answer.
fn replaced(mark: &str, message: String) -> ErrorData {
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: mark })))
}

/// Replaces an answer of more than `limit` bytes.
pub(super) fn oversized(limit: usize) -> ErrorData {
    let most = limit >> 20;
    replaced("oversized", format!("its answer is larger than {most} MiB, the most that one message may have"))
}

/// Replaces an answer whose values need too much memory, or that exceeds another limit.
pub(super) fn too_much(why: impl std::fmt::Display) -> ErrorData {
    replaced("oversized", format!("its answer is too large: {why}"))
}

/// Replaces an answer that is not MCP, and shows what came.
pub(super) fn unreadable(why: impl std::fmt::Display, came: &[u8]) -> ErrorData {
    told(format!("its answer is not MCP: {why}: {}", excerpt(came)), None)
}

/// An error in the server's words. Its form is not that of JSON-RPC, so that it proves nothing of the call's effect.
pub(super) fn told(words: String, data: Option<Value>) -> ErrorData {
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), words, Some(json!({ MARK: "told", "data": data })))
}

/// The beginning of what a server sent, for an error. Redacted before it is cut: half a secret would not be recognised.
pub(super) fn excerpt(came: &[u8]) -> String {
    const SHOWN: usize = 200;
    const READ: usize = 4000;
    let visible = visible(&String::from_utf8_lossy(&came[..came.len().min(READ)]));
    let redacted = redact::text(Surface::Error, visible.trim());
    let mut shown: String = redacted.chars().take(SHOWN).collect();
    if shown.len() < redacted.len() || came.len() > READ {
        shown.push('…');
    }
    if shown.is_empty() { "(nothing)".to_owned() } else { shown }
}

/// Replaces an answer whose stream ended before it; `over` is the last thing that was passed over.
pub(super) fn ended(over: Option<&str>) -> ErrorData {
    let over = over.map_or(String::new(), |over| format!("; what came is not MCP: {}", excerpt(over.as_bytes())));
    replaced("ended", format!("the stream of its answer ended during the call, without an answer{over}"))
}

/// True for an error that our transports put in place of an answer.
fn is_replaced(data: &ErrorData) -> bool {
    data.code.0 == REPLACED && data.data.as_ref().is_some_and(|data| data.get(MARK).is_some())
}

/// True if an answer within a session says that the server has lost it, as some do with the status 200. The codes are also
/// those of other errors, so that the words decide.
pub(super) fn is_about_session(data: &ErrorData) -> bool {
    SESSION_LOST.contains(&data.code.0) && is_lost_session(&data.message)
}

/// The error of a request in a session that the server does not know: it did nothing.
pub(super) fn of_lost_session(name: &str, told: impl std::fmt::Display) -> Error {
    dead(format!("{name} does not know our session any more ({told})")).without_effect()
}

/// Classifies a failed request to the server `name`.
pub(super) fn of_request(name: &str, error: ServiceError) -> Error {
    match error {
        ServiceError::McpError(data) => of_answer(name, data),
        ServiceError::TransportClosed => dead(format!("the connection to {name} ended during the call")),
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<HttpError>() {
            Some(http) => of_http(name, http),
            // A message is a line: one that was not written to its end was not sent.
            None => dead(format!("could not send to {name}: {}", chain(&*error.error))).without_effect(),
        },
        ServiceError::Timeout { timeout } => {
            Error::new(ErrorCode::Timeout, format!("{name} did not answer within {timeout:?}"))
        }
        ServiceError::Cancelled { .. } => Error::new(ErrorCode::Cancelled, format!("the call to {name} was cancelled")),
        ServiceError::UnexpectedResponse => refused(format!("{name} answered something else than it was asked")),
        _ => Error::new(ErrorCode::UpstreamError, format!("{name} ended the request without an answer")),
    }
}

/// Classifies a JSON-RPC error. Servers send `-32602` on a call for bad arguments.
fn of_answer(name: &str, data: ErrorData) -> Error {
    if is_replaced(&data) {
        let said = format!("{name}: {}", data.message);
        let mut details = data.data.unwrap_or_default();
        return match details[MARK].as_str() {
            Some("oversized") => {
                Error::new(ErrorCode::BudgetExceeded, said).hint("ask for less: a filter, a page size or fewer fields")
            }
            Some("ended") => dead(said),
            // It arrived, so the server is alive; whether the call was carried out, it does not say.
            _ => match details["data"].take() {
                Value::Null => refused(said),
                own => refused(said).data(own),
            },
        };
    }
    let code = if data.code.0 == -32_602 { ErrorCode::InvalidArgs } else { ErrorCode::UpstreamError };
    let error = Error::new(code, format!("{name}: {} (JSON-RPC {})", data.message, data.code.0))
        .with_effect(Effect::of_rpc(data.code.0, &data.message));
    match data.data {
        Some(value) => error.data(value),
        None => error,
    }
}

/// Classifies a request over HTTP without an answer of the protocol.
pub(crate) fn of_http(name: &str, error: &HttpError) -> Error {
    if let Some(refusal) = refusal(error) {
        return of_refusal(name, refusal).with_effect(Effect::of_status(refusal.status.as_u16()));
    }
    match error {
        StreamableHttpError::AuthRequired(error) => {
            let mut needed = auth::needs_login(name).without_effect();
            // Without a challenge it is the refusal in words.
            if error.www_authenticate_header.starts_with("HTTP ") {
                needed.message = format!("{} ({})", needed.message, error.www_authenticate_header);
            }
            needed
        }
        StreamableHttpError::InsufficientScope(error) => {
            auth::needs_scope(name, error.required_scope.as_deref()).without_effect()
        }
        StreamableHttpError::Auth(error) => auth::error(name, error).without_effect(),
        StreamableHttpError::ResponseBodyTooLarge { max_size } => of_answer(name, oversized(*max_size)),
        StreamableHttpError::UnexpectedServerResponse(what) => {
            dead(format!("{name}: its answer is not MCP: {}", excerpt(what.as_bytes())))
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or("no content type".into(), |kind| excerpt(kind.as_bytes()));
            dead(format!("{name} answered with {kind}, which is not MCP"))
                .hint("is the URL that of its MCP endpoint? It often ends in /mcp")
        }
        StreamableHttpError::Client(error) => {
            // The outer words are the library's; the innermost are of the system or of TLS.
            let mut cause: &dyn StdError = error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            match error.is_body() || error.is_decode() {
                true => dead(format!("the answer of {name} broke off: {cause}")),
                false if error.is_connect() || error.is_builder() => {
                    dead(format!("could not send to {name}: no connection: {cause}")).without_effect()
                }
                false => dead(format!("could not send to {name}: {cause}")),
            }
        }
        StreamableHttpError::UnexpectedEndOfStream => dead(format!("the stream of {name} ended")),
        other => dead(format!("the connection to {name} failed: {}", chain(other))),
    }
}

fn of_refusal(name: &str, refusal: &Refusal) -> Error {
    let when = refusal.retry_after.as_deref().map(str::trim);
    let later = |error: Error| match when {
        Some(when) => error.hint(format!("try again {}", retry_words(when))),
        None => error,
    };
    match refusal.status.as_u16() {
        _ if refusal.is_about_session => of_lost_session(name, refusal),
        401 => refused(format!("{name} wants a login ({refusal})"))
            .hint("set an Authorization header in its `headers`, or replace the one that is set"),
        403 => refused(format!("{name} does not allow this ({refusal})"))
            .hint("the credentials in its `headers` are valid, but not for this"),
        300..=399 => refused(format!("{name} answered with a redirect that is not followed ({refusal})"))
            .hint("redirects are followed within one origin only; configure the URL it leads to"),
        404 => dead(format!("{name} answered {refusal}"))
            .hint("is the URL that of its MCP endpoint? It often ends in /mcp"),
        429 => {
            let error = Error::new(ErrorCode::RateLimit, format!("{name} allows no more requests now ({refusal})"));
            match when.and_then(|when| retry_after(when, SystemTime::now())) {
                Some(wait) => later(error).data(json!({ "retry_after_secs": wait.as_secs_f64() })),
                None => later(error),
            }
        }
        // They say that it never will.
        501 | 505 => refused(format!("{name} answered {refusal}")),
        500.. if is_unknown_session(&refusal.words) => later(dead(format!("{name} answered {refusal}"))),
        500.. => later(refused(format!("{name} answered {refusal}")).of_failing_server()),
        _ => refused(format!("{name} answered {refusal}")),
    }
}

/// The beginning of foreign text, in one line.
pub(super) fn in_one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REPEATED) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// True if a failure is about the login.
pub(super) fn wants_login(error: &HttpError) -> bool {
    matches!(
        error,
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) | StreamableHttpError::Auth(_)
    )
}

/// Formats a `Retry-After`: `in 5s`, or `after Wed, 21 Oct 2026 07:28:00 GMT`.
fn retry_words(when: &str) -> String {
    match when.parse::<u64>() {
        Ok(seconds) => format!("in {seconds}s"),
        Err(_) => format!("after {when}"),
    }
}

fn refused(what: String) -> Error {
    Error::new(ErrorCode::UpstreamError, what)
}

pub(super) fn dead(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::TransportDead, what)
}

/// Words for a server that ends before it is asked anything.
pub(super) const CLOSED: &str = "it closed the connection before the handshake";

fn is_closed(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// Explains a failed start in one line, without rmcp's dumps of whole messages.
pub(super) fn of_start(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => CLOSED.to_owned(),
        ClientInitializeError::JsonRpcError(data) if is_replaced(data) => data.message.to_string(),
        ClientInitializeError::JsonRpcError(data) => format!("it refused the handshake: {}", data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::TransportError { error, context } => match error.error.downcast_ref() {
            Some(http) => of_http("it", http).message,
            None if error.error.downcast_ref().is_some_and(is_closed) => CLOSED.to_owned(),
            None => format!("{context}: {}", chain(&*error.error)),
        },
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let named: Vec<&str> = server_supported.iter().map(rmcp::model::ProtocolVersion::as_str).collect();
            format!("it speaks no revision of MCP that is known here, but: {}", named.join(", "))
        }
        ClientInitializeError::ConflictInitResponseId(..) | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "its answer to the handshake has the number of another request".to_owned()
        }
        ClientInitializeError::Cancelled => "the handshake was given up".to_owned(),
        _ => "it answered something else than the handshake".to_owned(),
    };
    in_one_line(&text)
}

/// The HTTP error that ended an attempt to connect.
pub(super) fn http_of_start(error: &ClientInitializeError) -> Option<&HttpError> {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.downcast_ref(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => http_of_start(fallback),
        _ => None,
    }
}
