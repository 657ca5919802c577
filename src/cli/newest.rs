//! The newest release, asked of the package registry by `doctor --online` alone. The registry's answer is outside text:
//! `fetch` bounds it, and only versions are read from it.

use std::time::Duration;

use semver::Version;
use serde::Deserialize;

use super::about;
use base::fetch::{self, Fetched};
use base::{json, limits};

/// Releases in the registry's index: a line of JSON each.
pub(super) const INDEX: &str = "https://index.crates.io/fo/rg/forgefs";
/// Timeout of the whole request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Most memory of the values in one line.
const MAX_LINE: usize = 1 << 20;

/// One line of the index; its other fields do not matter here.
#[derive(Deserialize)]
struct Release {
    vers: Version,
    #[serde(default)]
    yanked: bool,
}

/// Asks the index at `url` for a release that is newer than this build.
///
/// # Errors
/// Why there is no answer, for people.
pub(super) async fn newest(url: &str) -> Result<Option<Version>, String> {
    let index = fetch::registry(url)?;
    let text = match fetch::document(&index, None, &limits::RELEASES, REQUEST_LIMIT).await {
        Ok(Fetched::Document { body, .. }) => body,
        Ok(Fetched::Missing | Fetched::Unchanged) => return Err(format!("{url} answered 404 Not Found")),
        Err(fault) => return Err(fault.what),
    };
    compared(&text, about::VERSION).ok_or_else(|| format!("the answer of {url} is no list of releases"))
}

/// The newest release of an index, if it is newer than `this`; `None` if the index has none. Withdrawn ones and previews do not
/// count.
fn compared(index: &[u8], this: &str) -> Option<Option<Version>> {
    let lines = index.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let releases = lines.filter_map(|line| json::parse::<Release>(line, MAX_LINE).ok());
    let releases: Vec<Version> =
        releases.filter(|release| !release.yanked && release.vers.pre.is_empty()).map(|release| release.vers).collect();
    let newest = releases.into_iter().max()?;
    let is_newer = Version::parse(this).is_ok_and(|this| newest > this);
    Some(Some(newest).filter(|_| is_newer))
}
