//! Metrics and traces: `[metrics]` and `[telemetry]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::credential::Credential;
use super::error::ConfigError;
use super::http::parse_listen;
use super::key::Key;
use super::raw::{RawMetrics, RawTelemetry};
use super::transport::{address, headers};

/// The `[metrics]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Address of the endpoint.
    pub listen: SocketAddr,
}

/// The `[telemetry]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// Endpoint for spans: a valid URL that ends with `/v1/traces`.
    pub traces: String,
    /// Headers of its requests.
    pub headers: BTreeMap<String, Credential>,
}

pub(super) fn metrics(key: &Key<'_>, raw: RawMetrics) -> Result<Option<Metrics>, ConfigError> {
    let allow_remote = raw.allow_remote.unwrap_or(false);
    let key = key.key("listen");
    let Some(text) = raw.listen else { return Ok(None) };
    let form = "write an address of this machine and a port, such as \"127.0.0.1:9464\"";
    let listen = parse_listen(&key.filled(text)?).map_err(|fault| key.at_value(fault).with_hint(form))?;
    match listen.ip().is_loopback() || allow_remote {
        true => Ok(Some(Metrics { listen })),
        false => Err(key
            .at_value("other machines could read it there")
            .with_hint("use 127.0.0.1, or add `allow_remote = true`")),
    }
}

pub(super) fn telemetry(key: &Key<'_>, raw: RawTelemetry) -> Result<Option<Telemetry>, ConfigError> {
    const PATH: &str = "v1/traces";
    let Some(endpoint) = raw.endpoint else {
        return raw.headers.map_or(Ok(None), |_| Err(key.key("headers").at_key("headers of no endpoint")));
    };
    let (mut traces, is_private) = address(&key.key("endpoint"), endpoint)?;
    if traces.contains(['?', '#']) {
        let error = key.key("endpoint").at_value("has a query or a fragment");
        return Err(error.with_hint(format!("give the base, such as \"http://127.0.0.1:4318\"; /{PATH} is added")));
    }
    if !traces.ends_with(&format!("/{PATH}")) {
        traces = format!("{}/{PATH}", traces.trim_end_matches('/'));
    }
    let headers = headers(&key.key("headers"), raw.headers.unwrap_or_default(), is_private)?;
    Ok(Some(Telemetry { traces, headers }))
}
