//! Requests to other machines: one way to make a client, and one to read an answer within its limit.

use std::sync::{Arc, Once};

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};
use url::Url;

use crate::address::{Reach, is_loopback};

/// Builds a client for `url`. It uses the proxies of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
/// `NO_PROXY`), but never for this machine.
pub fn builder(url: &Url, redirects: Policy) -> ClientBuilder {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that one is installed already. reqwest panics where none is.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = Client::builder().redirect(redirects);
    if is_loopback(url) { builder.no_proxy() } else { builder }
}

/// The same for a client that connects only to addresses within `reach`.
pub fn client(url: &Url, reach: Reach, redirects: Policy) -> ClientBuilder {
    builder(url, redirects).dns_resolver(Arc::new(reach))
}

/// Reads a body; `None` for one of more than `limit` bytes.
///
/// # Errors
/// When the connection fails.
pub async fn body(answer: Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    rest(Vec::new(), answer, limit).await
}

/// The same for a body whose beginning was read.
///
/// # Errors
/// As there.
pub async fn rest(mut body: Vec<u8>, mut answer: Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let is_long = |body: &Vec<u8>, more: u64| body.len() as u64 + more > limit as u64;
    if is_long(&body, answer.content_length().unwrap_or_default()) {
        return Ok(None);
    }
    while let Some(part) = answer.chunk().await? {
        if is_long(&body, part.len() as u64) {
            return Ok(None);
        }
        body.extend_from_slice(&part);
    }
    Ok(Some(body))
}
