//! Failures of a server in the gateway's terms, and whether the server may have acted on the request.

use std::error::Error as StdError;
use std::time::SystemTime;

use rmcp::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};
use serde_json::{Value, json};

use super::http_client::retry_after;
use crate::auth;
use crate::error::{Effect, Error, ErrorCode, chain};

/// Errors of the HTTP transports.
pub(in crate::upstream) type HttpError = StreamableHttpError<reqwest::Error>;

/// Most bytes of foreign text in an error.
const MAX_REPEATED: usize = 300;

/// JSON-RPC code of errors that our transports put in place of an answer that cannot be passed on. It is from the range
/// for implementations, and recognised only together with [`MARK`].
const REPLACED: i32 = -32_049;
/// Key of the data of such an error.
const MARK: &str = "forgefs";

/// Replaces an answer of more than `limit` bytes.
pub(super) fn oversized(limit: usize) -> ErrorData {
    let message = format!("its answer is larger than {} MiB, the most that one message may have", limit >> 20);
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "oversized" })))
}

/// Replaces an answer whose values need too much memory, or that exceeds another limit.
pub(super) fn too_much(why: impl std::fmt::Display) -> ErrorData {
    let message = format!("its answer is too large: {why}");
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "oversized" })))
}

/// Replaces an answer that is not MCP.
pub(super) fn unreadable(why: impl std::fmt::Display) -> ErrorData {
    let message = format!("its answer is not MCP: {why}");
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "unreadable" })))
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
        ServiceError::UnexpectedResponse => dead(format!("{name} answered something else than it was asked")),
        other => Error::new(ErrorCode::UpstreamError, format!("{name}: {other}")),
    }
}

/// Classifies a JSON-RPC error. Servers send `-32602` on a call for bad arguments.
fn of_answer(name: &str, data: ErrorData) -> Error {
    let replaced = data.data.as_ref().and_then(|data| data.get(MARK)).and_then(Value::as_str);
    match (data.code.0, replaced) {
        (REPLACED, Some("oversized")) => {
            return Error::new(ErrorCode::BudgetExceeded, format!("{name}: {}", data.message))
                .hint("ask for less: a filter, a page size or fewer fields");
        }
        (REPLACED, Some(_)) => return dead(format!("{name}: {}", data.message)),
        _ => {}
    }
    let code = if data.code.0 == -32_602 { ErrorCode::InvalidArgs } else { ErrorCode::UpstreamError };
    let error = Error::new(code, format!("{name}: {} (JSON-RPC {})", data.message, data.code.0))
        .with_effect(Effect::of_rpc(data.code.0, &data.message));
    match data.data {
        Some(value) => error.data(value),
        None => error,
    }
}

/// The error of a status, with what the server says of it.
pub(in crate::upstream) fn status(status: u16, what: &str) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {what}").into())
}

/// The error of too many requests.
pub(in crate::upstream) fn too_many(retry_after: Option<String>) -> HttpError {
    HttpStatusError::new(429, retry_after).into()
}

/// Classifies a request over HTTP without an answer of the protocol.
pub(in crate::upstream) fn of_http(name: &str, error: &HttpError) -> Error {
    match error {
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            let error = Error::new(ErrorCode::RateLimit, format!("{name} allows no more requests now (HTTP 429)"));
            let error = error.with_effect(Effect::of_status(429));
            match status.retry_after.as_deref().map(str::trim) {
                Some(when) => {
                    let error = error.hint(format!("try again {}", retry_words(when)));
                    match retry_after(when, SystemTime::now()) {
                        Some(wait) => error.data(json!({ "retry_after_secs": wait.as_secs_f64() })),
                        None => error,
                    }
                }
                None => error,
            }
        }
        StreamableHttpError::HttpStatus(status) => {
            dead(format!("{name} answered HTTP {}", status.status)).with_effect(Effect::of_status(status.status))
        }
        StreamableHttpError::AuthRequired(_) => auth::needs_login(name).without_effect(),
        StreamableHttpError::InsufficientScope(error) => {
            auth::needs_scope(name, error.required_scope.as_deref()).without_effect()
        }
        StreamableHttpError::Auth(error) => auth::error(name, error).without_effect(),
        StreamableHttpError::SessionExpired => {
            dead(format!("{name} does not know our session any more")).without_effect()
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => of_answer(name, oversized(*max_size)),
        StreamableHttpError::UnexpectedServerResponse(what) => of_status(name, what),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("no content type");
            dead(format!("{name} answered with {kind}, which is not MCP"))
                .hint("is the URL that of its MCP endpoint? It often ends in /mcp")
        }
        StreamableHttpError::Client(error) => {
            let dead = dead(format!("could not send to {name}: {}", chain(error)));
            if error.is_connect() || error.is_builder() { dead.without_effect() } else { dead }
        }
        other => dead(format!("the connection to {name} failed: {}", chain(other))),
    }
}

/// True if a failure is about the login.
pub(super) fn wants_login(error: &HttpError) -> bool {
    matches!(
        error,
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) | StreamableHttpError::Auth(_)
    )
}

/// Classifies a failure that rmcp gives as text, which begins with the HTTP status if there was one.
fn of_status(name: &str, what: &str) -> Error {
    let what: String = what.trim().chars().take(MAX_REPEATED).collect();
    let status = http_status(&what);
    let error = match status {
        Some(status @ (401 | 403)) => unauthorized(name, status),
        Some(300..=399) => refused(format!("{name} answered with a redirect that is not followed ({what})"))
            .hint("redirects are followed within one origin only; configure the URL it leads to"),
        Some(404) => {
            dead(format!("{name} answered {what}")).hint("is the URL that of its MCP endpoint? It often ends in /mcp")
        }
        Some(400..=499) => refused(format!("{name} answered {what}")),
        Some(_) => dead(format!("{name} answered {what}")),
        None => dead(format!("{name}: its answer is not MCP: {what}")),
    };
    error.with_effect(status.map_or(Effect::Unknown, Effect::of_status))
}

/// Parses the status of `HTTP 404 Not Found: …`.
pub(super) fn http_status(what: &str) -> Option<u16> {
    what.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
}

fn unauthorized(name: &str, status: u16) -> Error {
    let (what, hint) = match status {
        401 => ("wants a login", "set an Authorization header in its `headers`, or replace the one that is set"),
        _ => ("does not allow this", "the credentials in its `headers` are valid, but not for this"),
    };
    Error::new(ErrorCode::UpstreamError, format!("{name} {what} (HTTP {status})")).hint(hint)
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

fn dead(what: String) -> Error {
    Error::new(ErrorCode::TransportDead, what)
}

/// Explains a failed start in one line, without rmcp's dumps of whole messages.
pub(super) fn of_start(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection before the handshake".to_owned(),
        ClientInitializeError::JsonRpcError(data) => format!("it refused the handshake: {}", data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::TransportError { error, context } => match http_of_start_error(&*error.error) {
            Some(http) => of_http("it", http).message,
            None => format!("{context}: {}", chain(&*error.error)),
        },
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_REPEATED).collect()
}

/// The HTTP error that ended an attempt to connect.
pub(super) fn http_of_start(error: &ClientInitializeError) -> Option<&HttpError> {
    match error {
        ClientInitializeError::TransportError { error, .. } => http_of_start_error(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => http_of_start(fallback),
        _ => None,
    }
}

fn http_of_start_error<'a>(error: &'a (dyn StdError + Send + Sync + 'static)) -> Option<&'a HttpError> {
    error.downcast_ref::<HttpError>()
}
