//! MCP servers over Streamable HTTP.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::authorized::{Authorization, Authorized};
use super::http_client::HttpClient;
use crate::address::Reach;
use crate::config::is_loopback;
use crate::error::{Error, ErrorCode, Result};
use crate::limits;
use crate::redact::secret::Secret;

/// Redirects of one request that are followed.
const MAX_REDIRECTS: usize = limits::REDIRECTS.max;
/// Requests at once, so that a few that hang do not hold up the rest.
const MAX_REQUESTS: usize = 64;
/// Attempts in a row to resume a stream, within about twenty seconds.
const RESUMES: usize = 8;

/// A transport to `url` that sends `headers`, and the token of a login, with every request. `in_session` becomes true
/// once the server has given it a session.
///
/// # Errors
/// `TRANSPORT_DEAD` when a header is not valid or no HTTP client can be made.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, Secret>,
    authorization: Authorization,
    in_session: Arc<AtomicBool>,
) -> Result<StreamableHttpClientTransport<Authorized>> {
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom(headers)?);
    let mut config = config.max_concurrent_requests(MAX_REQUESTS);
    let mut resume = ExponentialBackoff::default();
    resume.max_times = Some(RESUMES);
    resume.base_duration = Duration::from_millis(250);
    resume.max_delay = Some(Duration::from_secs(4));
    config.retry_config = Arc::new(resume);
    // A new session is a new connection: its tools are read and compared before a call goes out on it.
    let config = config.reinit_on_expired_session(false);
    let client = authorization.client(HttpClient::new(client(url)?, in_session));
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The configured headers, masked where they are shown.
pub(super) fn custom(headers: &BTreeMap<String, Secret>) -> Result<HashMap<HeaderName, HeaderValue>> {
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| dead(format!("header name `{name}` is not valid")))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| dead(format!("the value of header `{name}` has characters that HTTP forbids")))?;
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    Ok(custom)
}

/// A client for one server, which is not followed to addresses at which no server is. Proxies are those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
/// `NO_PROXY`), and never between us and this machine.
pub(super) fn client(url: &str) -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .redirect(Policy::custom(redirect))
        .dns_resolver(Arc::new(Reach::configured()))
        .user_agent(concat!("forgefs/", env!("CARGO_PKG_VERSION")));
    let is_local = Url::parse(url).is_ok_and(|url| is_loopback(&url));
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| dead(format!("no HTTP client: {error}")))
}

/// Follows redirects within one origin, since a header meant for one must not reach another, and only those that
/// repeat the request as it is: others would turn a message into a request without one.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let is_repeat = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    match is_repeat && is_same && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

fn dead(what: String) -> Error {
    Error::new(ErrorCode::TransportDead, what)
}
