//! Answers of the console, each with the headers that keep pages of others away.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use base::error::{Error, ErrorCode};
use base::text::brief;

/// An answer.
pub type Reply = Response<ReplyBody>;
/// Its body.
pub type ReplyBody = BoxBody<Bytes, Infallible>;

/// Only files of the executable, nothing inline, nothing from elsewhere, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    hint: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: &str, hint: &str) -> Self {
        Self { status, message: message.to_owned(), hint: hint.to_owned() }
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        let hint = "`forgefs console` prints a link that signs in once; `forgefs console add NAME` makes a token for \
                    `/console` of a gateway on HTTP";
        Self::new(StatusCode::UNAUTHORIZED, message, hint)
    }

    /// No person has this token.
    pub(super) fn nobody() -> Self {
        Self::unauthorized("this token is not valid: it was used, has expired, or is another one's")
    }

    /// The person's session has ended.
    pub(super) fn over() -> Self {
        Self::unauthorized("the session has ended")
    }

    pub(super) fn full() -> Self {
        let what = "the console has no place for a further connection of this person";
        let hint = "close pages that are not needed, and send it again: nothing was done";
        Self::new(StatusCode::TOO_MANY_REQUESTS, what, hint)
    }

    pub(super) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are answered", "reload the page")
    }

    pub(super) fn not_json() -> Self {
        let what = "the body is not JSON by its Content-Type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what, "send `Content-Type: application/json`")
    }

    pub(super) fn read_only() -> Self {
        let what = "this session may look, and change nothing";
        Self::new(StatusCode::FORBIDDEN, what, "sign in with a token that is not read-only")
    }

    pub(super) fn asks_no_server() -> Self {
        let what = "a resource is read from its server, and this session may only look";
        Self::new(StatusCode::FORBIDDEN, what, "sign in with a token that is not read-only")
    }

    /// The answer `{"error": {"message", "hint"}}`, once `clean` has gone over it.
    pub(super) fn reply(self, clean: impl FnOnce(Value) -> Value) -> Reply {
        let Self { status, message, hint } = self;
        let mut reply = json(&clean(json!({ "error": { "message": message, "hint": hint } })));
        *reply.status_mut() = status;
        reply
    }

    pub(super) fn unknown(path: &str) -> Self {
        let what = format!("there is nothing at /api/{}", brief(path));
        Self::new(StatusCode::NOT_FOUND, &what, "reload the page: it may be of another version")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.code {
            ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, hint: error.suggested_fix().to_owned(), message: error.message }
    }
}

/// A JSON object.
pub(super) fn json(object: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(object).unwrap_or_default();
    with_headers(Full::new(Bytes::from(body)).boxed(), "application/json")
}

/// A body of a type. What changes is kept by no cache.
pub(crate) fn with_headers(body: ReplyBody, kind: &'static str) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    let fixed: [(HeaderName, &'static str); 8] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
