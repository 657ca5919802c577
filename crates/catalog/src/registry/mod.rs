//! A registry of MCP servers, by the API of the official one (`/v0.1/servers`). Its answers are outside text: bounded, and
//! checked field by field.

mod cache;
mod entry;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use base::fetch::{self, Fault, Fetched};
use base::{json, limits};
use cache::Cache;

pub use entry::{Entry, Kind, Status, is_name};
pub use start::{Choice, Start};

/// The official registry.
pub const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";
/// Timeout of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Most memory of the values of an answer.
const MAX_VALUES: usize = 64 << 20;
/// Most servers of a page.
const PAGE: usize = 100;

/// A registry with the answers that are kept of it.
pub struct Registry {
    base: Url,
    cache: Cache,
}

/// Result of a search.
pub struct Search {
    /// Entries found.
    pub entries: Vec<Entry>,
    /// True if there are more.
    pub more: bool,
    /// Entries that were left out, since they are not valid.
    pub invalid: usize,
    /// Why the registry did not answer, and the age of the oldest kept answer in its place.
    pub away: Option<(String, Duration)>,
}

/// A page of a list; entries are read one by one, so that a bad one does not hide the others.
#[derive(Deserialize)]
struct Page {
    servers: Vec<Value>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default, rename = "nextCursor")]
    next_cursor: Option<String>,
}

/// Use of kept answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Fresh ones as they are, older ones if the registry is away.
    Kept,
    /// Only those that the registry says are unchanged.
    Confirmed,
}

/// An answer, and how old it is if the registry is away.
struct Answer<T> {
    value: T,
    away: Option<(String, Duration)>,
}

impl Registry {
    /// The registry at a URL; its answers are kept in `folder`.
    ///
    /// # Errors
    /// The URL may not be used.
    pub fn new(url: &str, folder: Option<PathBuf>) -> Result<Self, String> {
        let base = fetch::registry(url)?;
        if base.query().is_some() || base.fragment().is_some() || !base.username().is_empty() || base.cannot_be_a_base()
        {
            return Err(format!("{base} is no base URL: leave user, query and fragment out"));
        }
        Ok(Self { base, cache: Cache::new(folder) })
    }

    /// Its URL.
    pub fn url(&self) -> &Url {
        &self.base
    }

    /// Servers whose names contain `query`, the latest version of each, at most `most`.
    ///
    /// # Errors
    /// The registry is away and nothing is kept, or its answer is not one of the API.
    pub async fn search(&self, query: &str, most: usize) -> Result<Search, Fault> {
        let mut found = Search { entries: Vec::new(), more: false, invalid: 0, away: None };
        let (mut cursor, mut pages) = (None::<String>, 0);
        loop {
            let mut url = self.place(&[]);
            url.query_pairs_mut()
                .append_pair("search", query)
                .append_pair("version", "latest")
                .append_pair("limit", &most.min(PAGE).to_string());
            if let Some(cursor) = &cursor {
                url.query_pairs_mut().append_pair("cursor", cursor);
            }
            let Some(Answer { value: page, away }) = self.answer::<Page>(&url, Use::Kept).await? else {
                return Err(Fault {
                    what: format!("{url} answered 404 Not Found: no registry is there"),
                    is_away: false,
                });
            };
            found.away = older(found.away, away);
            for value in page.servers {
                match Entry::parse(value) {
                    Ok(entry) if entry.status == Status::Deleted => {}
                    Ok(entry) if found.entries.iter().any(|known| known.name == entry.name) => {}
                    Ok(entry) if found.entries.len() < most => found.entries.push(entry),
                    Ok(_) => found.more = true,
                    Err(_) => found.invalid += 1,
                }
            }
            pages += 1;
            let next = page.metadata.unwrap_or_default().next_cursor.filter(|next| !next.is_empty());
            let next = next.filter(|next| next.len() <= limits::NEXT_CURSOR.max);
            // A cursor that leads to itself would never end.
            if next.is_none() || next == cursor {
                return Ok(found);
            }
            if found.entries.len() >= most || pages >= limits::REGISTRY_PAGES.max {
                found.more = true;
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// A version of a server, as the registry says it now; `None` if there is none. What is only kept is not enough: a
    /// version may have been withdrawn since.
    ///
    /// # Errors
    /// The registry is away, or its answer is not one of the API.
    pub async fn entry(&self, name: &str, version: &str) -> Result<Option<Entry>, Fault> {
        let mut url = self.place(&[name, "versions", version]);
        url.query_pairs_mut().append_pair("include_deleted", "true");
        let Some(Answer { value, .. }) = self.answer::<Value>(&url, Use::Confirmed).await? else { return Ok(None) };
        let wrong = |what: String| Fault { what: format!("the answer of {url} is not valid: {what}"), is_away: false };
        let entry = Entry::parse(value).map_err(wrong)?;
        let is_other = entry.name != name || (version != LATEST && entry.version != version);
        if is_other {
            return Err(wrong("it is of another server or version".to_owned()));
        }
        Ok(Some(entry))
    }

    /// A URL below the list of servers.
    fn place(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["v0.1", "servers"]).extend(parts);
        }
        url
    }

    /// The answer at a URL; `None` for a missing document. Only one that is of the API is kept.
    async fn answer<T: DeserializeOwned>(&self, url: &Url, uses: Use) -> Result<Option<Answer<T>>, Fault> {
        let read = |body: &[u8]| json::parse::<T>(body, MAX_VALUES).ok();
        let kept = self.cache.load(url).and_then(|kept| Some((read(kept.body.as_bytes())?, kept)));
        let kept = match kept {
            Some((value, kept)) if uses == Use::Kept && kept.is_fresh() => {
                return Ok(Some(Answer { value, away: None }));
            }
            kept => kept,
        };
        let tag = kept.as_ref().and_then(|(_, kept)| kept.tag.as_deref());
        match (fetch::document(url, tag, &limits::REGISTRY_ANSWER, REQUEST_LIMIT).await, kept) {
            (Ok(Fetched::Document { body, tag }), _) => {
                let what = || Fault { what: format!("the answer of {url} is not one of a registry"), is_away: false };
                let value = read(&body).ok_or_else(what)?;
                self.cache.store(url, &body, tag);
                Ok(Some(Answer { value, away: None }))
            }
            (Ok(Fetched::Unchanged), Some((value, kept))) => {
                self.cache.store(url, kept.body.as_bytes(), kept.tag);
                Ok(Some(Answer { value, away: None }))
            }
            (Ok(Fetched::Unchanged | Fetched::Missing), _) => Ok(None),
            (Err(fault), Some((value, kept))) if fault.is_away && uses == Use::Kept => {
                Ok(Some(Answer { value, away: Some((fault.what, kept.age())) }))
            }
            (Err(fault), _) => Err(fault),
        }
    }
}

/// The version that the registry calls so is the newest one.
pub const LATEST: &str = "latest";

/// The older of two kept answers.
fn older(one: Option<(String, Duration)>, other: Option<(String, Duration)>) -> Option<(String, Duration)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.1 > one.1 { other } else { one }),
        (one, other) => one.or(other),
    }
}
