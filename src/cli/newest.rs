//! The newest release, asked of the package registry by `doctor --online` alone. The registry's answer is outside text:
//! bounded in bytes and time, without redirects, and only versions are read from it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use semver::Version;
use serde::Deserialize;
use url::Url;

use super::about;
use crate::address::{Reach, refusal};
use crate::config::{is_loopback, is_private};
use crate::error::chain;
use crate::{json, limits, tls};

/// Releases in the registry's index: a line of JSON each.
pub(super) const INDEX: &str = "https://index.crates.io/fo/rg/forgefs";
/// Timeout of the whole request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Most bytes of the answer.
const MAX_ANSWER: usize = limits::RELEASES.max;
/// Most memory of the values in one line.
const MAX_LINE: usize = 1 << 20;

/// Comparison of this build with the newest release.
pub(super) enum Newest {
    /// There is none that is newer.
    This,
    /// This one is newer.
    Other(Version),
}

/// One line of the index; its other fields do not matter here.
#[derive(Deserialize)]
struct Release {
    vers: Version,
    #[serde(default)]
    yanked: bool,
}

/// Asks the index at `url`.
///
/// # Errors
/// Why there is no answer, for people.
pub(super) async fn newest(url: &str) -> Result<Newest, String> {
    let text = tokio::time::timeout(REQUEST_LIMIT, fetched(url)).await;
    let text = text.unwrap_or_else(|_| Err(format!("{url} did not answer within {} s", REQUEST_LIMIT.as_secs())))?;
    compared(&text, about::VERSION).ok_or_else(|| format!("the answer of {url} is no list of releases"))
}

async fn fetched(url: &str) -> Result<Vec<u8>, String> {
    let url = Url::parse(url).map_err(|error| format!("{url} is no URL: {error}"))?;
    let reach = Reach::of_server(&url, false);
    if !is_private(&url) {
        return Err(format!("{url} is not https"));
    }
    if !reach.allows(&url) {
        return Err(refusal(url.as_str()).to_string());
    }
    let client = tls::client().dns_resolver(Arc::new(reach)).redirect(Policy::none()).user_agent("forgefs");
    let client = if is_loopback(&url) { client.no_proxy() } else { client };
    let client = client.build().map_err(|error| chain(&error))?;
    let mut answer = client.get(url.clone()).send().await.map_err(|error| chain(&error))?;
    if !answer.status().is_success() {
        return Err(format!("{url} answered {}", answer.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| chain(&error))? {
        if body.len() + part.len() > MAX_ANSWER {
            return Err(format!("the answer of {url} is longer than {MAX_ANSWER} bytes"));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Compares `this` with the releases of an index; `None` if it has none. Withdrawn ones and previews do not count.
fn compared(index: &[u8], this: &str) -> Option<Newest> {
    let lines = index.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let releases = lines.filter_map(|line| json::parse::<Release>(line, MAX_LINE).ok());
    let releases: Vec<Version> =
        releases.filter(|release| !release.yanked && release.vers.pre.is_empty()).map(|release| release.vers).collect();
    let newest = releases.into_iter().max()?;
    let is_newer = Version::parse(this).is_ok_and(|this| newest > this);
    Some(if is_newer { Newest::Other(newest) } else { Newest::This })
}
