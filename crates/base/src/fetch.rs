//! Requests for documents of registries: over https or to this machine, bounded in bytes and time, without redirects.

use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use reqwest::redirect::Policy;
use url::Url;

use crate::address::{Reach, is_private, refusal};
use crate::error::chain;
use crate::http::{body, client};
use crate::limits::Limit;

/// Longest entity tag that is kept, in bytes.
const TAG: usize = 256;

/// A document, or that there is none.
pub enum Fetched {
    /// A document.
    Document {
        /// Its bytes.
        body: Vec<u8>,
        /// Its entity tag, for the next request.
        tag: Option<String>,
    },
    /// It is the one of the entity tag that was sent.
    Unchanged,
    /// `404 Not Found`.
    Missing,
}

/// Reason why there is no answer.
#[derive(Debug)]
pub struct Fault {
    /// For people, with the URL.
    pub what: String,
    /// True if the same request may be answered later: no connection, no answer in time, or a fault of the server.
    pub is_away: bool,
}

impl Fault {
    fn lasting(what: String) -> Self {
        Self { what, is_away: false }
    }

    fn away(what: String) -> Self {
        Self { what, is_away: true }
    }
}

/// The URL of a registry.
///
/// # Errors
/// It is no URL, not https, or an address that is not allowed.
pub fn registry(url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| format!("{url} is no URL: {error}"))?;
    if !is_private(&url) {
        return Err(format!("{url} is not https"));
    }
    match Reach::of_server(&url, false).allows(&url) {
        true => Ok(url),
        false => Err(refusal(url.as_str()).to_string()),
    }
}

/// Gets a document of at most `most` bytes within `time`. With the entity tag of an earlier one, only a new one is sent.
///
/// # Errors
/// There is no document, with the reason.
pub async fn document(url: &Url, tag: Option<&str>, most: &Limit, time: Duration) -> Result<Fetched, Fault> {
    let answer = tokio::time::timeout(time, answered(url, tag, most)).await;
    answer.unwrap_or_else(|_| Err(Fault::away(format!("{url} did not answer within {} s", time.as_secs()))))
}

async fn answered(url: &Url, tag: Option<&str>, most: &Limit) -> Result<Fetched, Fault> {
    // Names are checked when they are resolved.
    let client = client(url, Reach::of_server(url, false), Policy::none()).user_agent("forgefs").build();
    let client = client.map_err(|error| Fault::lasting(chain(&error)))?;
    let mut request = client.get(url.clone()).header(ACCEPT, "application/json, text/plain;q=0.9, */*;q=0.1");
    if let Some(tag) = tag {
        request = request.header(IF_NONE_MATCH, tag);
    }
    let answer = request.send().await.map_err(|error| Fault::away(chain(&error)))?;
    match answer.status() {
        StatusCode::NOT_MODIFIED if tag.is_some() => return Ok(Fetched::Unchanged),
        StatusCode::NOT_FOUND => return Ok(Fetched::Missing),
        status if status.is_success() => {}
        status => {
            let what = format!("{url} answered {status}");
            let is_away = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(Fault { what, is_away });
        }
    }
    let tag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    let tag = tag.filter(|tag| tag.len() <= TAG).map(str::to_owned);
    let body = body(answer, most.max).await.map_err(|error| Fault::away(chain(&error)))?;
    let too_long = || Fault::lasting(format!("the answer of {url} is longer than {} bytes", most.max));
    Ok(Fetched::Document { body: body.ok_or_else(too_long)?, tag })
}
