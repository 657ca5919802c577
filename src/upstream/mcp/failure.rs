//! What went wrong between us and a server, in the gateway's own terms, and whether the server can have acted on it.

use std::error::Error as StdError;

use rmcp::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};

use crate::auth;
use crate::error::{Error, ErrorCode, chain};
use crate::upstream::reconnect::Fault;

/// What the transports run into over HTTP.
pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// Most of a message of somebody else that an error repeats.
const MAX_REPEATED: usize = 300;

/// JSON-RPC code with which our transports answer in place of a server whose answer cannot be passed on; from the
/// range that JSON-RPC leaves to implementations, and recognised only together with [`MARK`].
const REPLACED: i32 = -32_049;
/// Key of the data of such an error.
const MARK: &str = "forgefs";

/// An answer in place of one that is larger than `limit` bytes.
pub(super) fn oversized(limit: usize) -> ErrorData {
    let message = format!("its answer is larger than {} MiB, the most that one message may have", limit >> 20);
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "oversized" })))
}

/// An answer in place of one whose values there is no room for, or that is too large in another way.
pub(super) fn too_much(why: impl std::fmt::Display) -> ErrorData {
    let message = format!("its answer is too large: {why}");
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "oversized" })))
}

/// An answer in place of one that is not MCP.
pub(super) fn unreadable(why: impl std::fmt::Display) -> ErrorData {
    let message = format!("its answer is not MCP: {why}");
    ErrorData::new(rmcp::model::ErrorCode(REPLACED), message, Some(json!({ MARK: "unreadable" })))
}

/// The failure of a request to the server `name`.
pub(super) fn of_request(name: &str, error: ServiceError) -> Fault {
    match error {
        ServiceError::McpError(data) => of_answer(name, data),
        ServiceError::TransportClosed => dead(format!("the connection to {name} ended during the call")).into(),
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<HttpError>() {
            Some(http) => of_http(name, http),
            // A message is a line: one that was not written to its end is none.
            None => Fault::unsent(dead(format!("could not send to {name}: {}", chain(&*error.error)))),
        },
        ServiceError::Timeout { timeout } => {
            Error::new(ErrorCode::Timeout, format!("{name} did not answer within {timeout:?}")).into()
        }
        ServiceError::Cancelled { .. } => {
            Error::new(ErrorCode::Cancelled, format!("the call to {name} was cancelled")).into()
        }
        ServiceError::UnexpectedResponse => dead(format!("{name} answered something else than it was asked")).into(),
        other => Error::new(ErrorCode::UpstreamError, format!("{name}: {other}")).into(),
    }
}

/// A JSON-RPC error. `-32602` on a call is what servers send for bad arguments.
fn of_answer(name: &str, data: ErrorData) -> Fault {
    let replaced = data.data.as_ref().and_then(|data| data.get(MARK)).and_then(Value::as_str);
    match (data.code.0, replaced) {
        (REPLACED, Some("oversized")) => {
            return Error::new(ErrorCode::BudgetExceeded, format!("{name}: {}", data.message))
                .hint("ask for less: a filter, a page size or fewer fields")
                .into();
        }
        (REPLACED, Some(_)) => return dead(format!("{name}: {}", data.message)).into(),
        _ => {}
    }
    let code = if data.code.0 == -32_602 { ErrorCode::InvalidArgs } else { ErrorCode::UpstreamError };
    let error = Error::new(code, format!("{name}: {} (JSON-RPC {})", data.message, data.code.0));
    match data.data {
        Some(value) => error.data(value),
        None => error,
    }
    .into()
}

/// A request over HTTP that got no answer of the protocol.
pub(super) fn of_http(name: &str, error: &HttpError) -> Fault {
    match error {
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            let error = Error::new(ErrorCode::RateLimit, format!("{name} allows no more requests now (HTTP 429)"));
            Fault::unsent(match status.retry_after.as_deref().map(str::trim) {
                Some(when) => {
                    error.hint(format!("try again {}", retry_words(when))).data(json!({ "retry_after": when }))
                }
                None => error,
            })
        }
        StreamableHttpError::HttpStatus(status) => dead(format!("{name} answered HTTP {}", status.status)).into(),
        StreamableHttpError::AuthRequired(_) => Fault::unsent(auth::needs_login(name)),
        StreamableHttpError::InsufficientScope(error) => {
            Fault::unsent(auth::needs_scope(name, error.required_scope.as_deref()))
        }
        StreamableHttpError::Auth(error) => Fault::unsent(auth::error(name, error)),
        StreamableHttpError::SessionExpired => {
            Fault::unsent(dead(format!("{name} does not know our session any more")))
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => of_answer(name, oversized(*max_size)),
        StreamableHttpError::UnexpectedServerResponse(what) => of_status(name, what),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("no content type");
            dead(format!("{name} answered with {kind}, which is not MCP"))
                .hint("is the URL that of its MCP endpoint? It often ends in /mcp")
                .into()
        }
        StreamableHttpError::Client(error) => {
            let dead = dead(format!("could not send to {name}: {}", chain(error)));
            Fault { error: dead, delivered: !error.is_connect() && !error.is_builder() }
        }
        other => dead(format!("the connection to {name} failed: {}", chain(other))).into(),
    }
}

/// Whether a failure is about the login.
pub(super) fn wants_login(error: &HttpError) -> bool {
    matches!(
        error,
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) | StreamableHttpError::Auth(_)
    )
}

/// A failure that rmcp tells in words, which begin with the status where there was one.
fn of_status(name: &str, what: &str) -> Fault {
    let what: String = what.trim().chars().take(MAX_REPEATED).collect();
    match http_status(&what) {
        Some(status @ (401 | 403)) => Fault::unsent(unauthorized(name, status)),
        Some(300..=399) => Fault::unsent(
            refused(format!("{name} answered with a redirect that is not followed ({what})"))
                .hint("redirects are followed within one origin only; configure the URL it leads to"),
        ),
        Some(404) => Fault::unsent(
            dead(format!("{name} answered {what}")).hint("is the URL that of its MCP endpoint? It often ends in /mcp"),
        ),
        Some(400..=499) => Fault::unsent(refused(format!("{name} answered {what}"))),
        Some(_) => dead(format!("{name} answered {what}")).into(),
        None => dead(format!("{name}: its answer is not MCP: {what}")).into(),
    }
}

/// The status in `HTTP 404 Not Found: …`.
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

/// `in 5s`, or `after Wed, 21 Oct 2026 07:28:00 GMT`, from a `Retry-After`.
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

/// Why a server could not be started, in one line, without rmcp's dumps of whole messages.
pub(super) fn of_start(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection before the handshake".to_owned(),
        ClientInitializeError::JsonRpcError(data) => format!("it refused the handshake: {}", data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::TransportError { error, context } => match http_of_start_error(&*error.error) {
            Some(http) => of_http("it", http).error.message,
            None => format!("{context}: {}", chain(&*error.error)),
        },
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_REPEATED).collect()
}

/// The failure over HTTP that ended an attempt to connect.
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
