//! MCP servers over Streamable HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::authorized::Authorization;
use super::failure::dead;
use super::handshake::Revision;
use super::http_client::HttpClient;
use super::inbox::PassedOver;
use base::address::Reach;
use base::error::Result;
use base::limits;
use redact::secret::Secret;

/// Most redirects of one request.
const MAX_REDIRECTS: usize = limits::REDIRECTS.max;
/// Concurrent requests: a few that hang do not hold up the rest.
const MAX_REQUESTS: usize = 64;
/// Consecutive attempts to resume a stream, within about twenty seconds.
const RESUMES: usize = 8;

/// A transport to `url` that sends the headers and the token of `authorization` with every request. `in_session` becomes
/// true once the server has opened a session. `timeout` is that of a call.
///
/// # Errors
/// `TRANSPORT_DEAD` when the HTTP client cannot be built.
pub(super) fn transport(
    url: &str,
    authorization: Authorization,
    in_session: Arc<AtomicBool>,
    passed_over: PassedOver,
    timeout: Duration,
    revision: &Revision,
) -> Result<StreamableHttpClientTransport<HttpClient>> {
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let mut config = config.max_concurrent_requests(MAX_REQUESTS);
    let mut resume = ExponentialBackoff::default();
    resume.max_times = Some(RESUMES);
    resume.base_duration = Duration::from_millis(250);
    resume.max_delay = Some(Duration::from_secs(4));
    config.retry_config = Arc::new(resume);
    // A new session is a new connection: its tools are read and compared before the first call.
    let config = config.reinit_on_expired_session(false);
    let (client, revision) = (client(url, Reach::configured())?, revision.clone());
    let (latest, listened) = (Arc::default(), Arc::default());
    let client = HttpClient { client, authorization, in_session, passed_over, timeout, revision, latest, listened };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Configured headers, marked sensitive so that they are masked.
pub(super) fn custom(headers: &BTreeMap<String, Secret>) -> Result<HeaderMap> {
    let mut custom = HeaderMap::new();
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

/// An HTTP client for one server.
pub(crate) fn client(url: &str, reach: Reach) -> Result<reqwest::Client> {
    let url = Url::parse(url).map_err(|error| dead("no HTTP client").caused_by(error))?;
    let builder = base::http::client(&url, reach, Policy::custom(redirect));
    let client = builder.user_agent(concat!("forgefs/", env!("CARGO_PKG_VERSION"))).build();
    client.map_err(|error| dead("no HTTP client").caused_by(error))
}

/// Follows redirects within one origin only, so that a header for one never reaches another, and only those that repeat
/// the request unchanged: others would drop the message from it.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let is_repeat = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    match is_repeat && is_same && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}
