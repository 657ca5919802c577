//! MCP servers over Streamable HTTP.

use std::collections::{BTreeMap, HashMap};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::error::{Error, ErrorCode, Result};
use crate::secret::Secret;

/// A transport to `url` that sends `headers` with every request. Redirects are not followed: a header meant for
/// one origin must not reach another.
///
/// # Errors
/// `TRANSPORT_DEAD` when a header is not valid or no HTTP client can be made.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, Secret>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>> {
    let dead = |what: String| Error::new(ErrorCode::TransportDead, what);
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| dead(format!("header name `{name}` is not valid")))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| dead(format!("the value of header `{name}` has characters that HTTP forbids")))?;
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("forgefs/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| dead(format!("no HTTP client: {error}")))?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
