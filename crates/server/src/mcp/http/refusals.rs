//! Refusals of requests over HTTP.

use hyper::StatusCode;
use rmcp::model::RequestId;

use super::super::message;
use super::reply::{self, Reply};
use super::sessions::Full as FullOf;
use base::error::{Error, ErrorCode};

/// Refusal of the state that replicas share: most often it is away.
pub(super) fn unavailable(error: &Error, id: Option<RequestId>) -> Reply {
    match error.code {
        ErrorCode::Internal => reply::error(StatusCode::SERVICE_UNAVAILABLE, id, message::refusal(error)),
        _ => not_admitted(error, id),
    }
}

/// Refusal of an answer to a question of another replica.
pub(super) fn not_asked_here() -> Error {
    Error::new(
        ErrorCode::InvalidArgs,
        "this answers a question that another replica asked, which no longer waits for it",
    )
    .hint("send the request again whose question it was; a proxy in front should route by Mcp-Session-Id")
}

/// Refusal of a request that its client may not make now.
pub(super) fn not_admitted(error: &Error, id: Option<RequestId>) -> Reply {
    let status = match error.code {
        ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    reply::error(status, id, message::refusal(error))
}

/// Refusal of a further session.
pub(super) fn no_room(full: FullOf, id: Option<RequestId>) -> Reply {
    let (status, what, key) = match full {
        FullOf::Client(most) => (
            StatusCode::TOO_MANY_REQUESTS,
            format!("this client has {most} sessions in use"),
            "http.max_client_sessions",
        ),
        FullOf::Gateway(most) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the gateway has {most} sessions"), "http.max_sessions")
        }
    };
    reply::refused(status, id, &what, &format!("end sessions that are not needed by DELETE, or raise `{key}`"))
}
