//! Definitions that a server listed on one connection, to compare operations with.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::events::Changes;
use super::{Listing, Operation, Subject};
use crate::overridden::Overrides;
use base::error::{Error, ErrorCode, Result};

/// Default validity of a list of a server without sessions, when neither it nor `refresh` sets one.
const OTHERWISE: Duration = Duration::from_secs(60);
/// Longest `ttlMs` that is honoured.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// One reading of the list.
#[derive(Debug)]
pub(super) struct Reading {
    /// Later readings have higher numbers.
    pub(super) number: u64,
    /// Full digest of each definition: by the kind of what is defined, and its wire name, URI or URI template.
    listed: HashMap<&'static str, HashMap<String, String>>,
    /// Names of other tools that overrides give to tools: they are not for those.
    pub(super) taken: BTreeSet<String>,
    /// Changes counted on the connection before the lists were requested.
    pub(super) changes: Changes,
    /// The lists beside the tools are to come.
    pub(super) is_partial: bool,
    /// End of validity; `None` while its connection lives.
    until: Option<Instant>,
}

/// Kinds of definitions.
const TOOL: &str = "tool";
const RESOURCE: &str = "resource";
const TEMPLATE: &str = "template";
const PROMPT: &str = "prompt";

impl Reading {
    /// Changes the tools of `listing` by their overrides, and digests it. It comes back with the number of the reading.
    pub(super) async fn of(
        number: u64,
        changes: Changes,
        valid: Option<Duration>,
        listing: Listing,
        overrides: &Arc<Overrides>,
    ) -> Result<(Arc<Self>, Listing)> {
        let until = valid.map(|valid| Instant::now() + valid);
        let overrides = Arc::clone(overrides);
        // Thousands of definitions take a while: off the threads that serve requests.
        let made = tokio::task::spawn_blocking(move || {
            let (listing, taken) = overrides.listing(listing);
            let listed = HashMap::from([
                (TOOL, digests(&listing.tools, "name", |tool| stubgen::digest(stubgen::canonical_json(tool)))),
                (RESOURCE, digests(&listing.resources, "uri", offer_digest)),
                (TEMPLATE, digests(&listing.templates, "uriTemplate", offer_digest)),
                (PROMPT, digests(&listing.prompts, "name", offer_digest)),
            ]);
            let reading = Self { number, listed, taken, changes, is_partial: listing.is_partial, until };
            (Arc::new(reading), Listing { reading: number, ..listing })
        });
        made.await.map_err(|error| Error::new(ErrorCode::Internal, "its lists could not be read").caused_by(error))
    }

    /// True while it is valid for an operation on its connection, which has counted `now` changes.
    pub(super) fn is_current(&self, now: Changes, operation: &Operation) -> bool {
        let is_same = match operation {
            Operation::Tool { .. } => self.changes.tools == now.tools,
            Operation::List | Operation::Connect => self.changes == now,
            _ => self.changes.others == now.others,
        };
        is_same && self.until.is_none_or(|until| Instant::now() < until)
    }

    /// True if both have the same definitions.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.listed == other.listed
    }

    /// Admits an operation whose definition is listed as the caller knows it. Without a known definition it passes too:
    /// the server decides whether the name exists.
    ///
    /// # Errors
    /// The difference, if the server lists something else.
    pub(super) fn check(&self, operation: &Operation) -> Result<(), String> {
        let (what, name, known) = match operation {
            Operation::List | Operation::Connect => return Ok(()),
            Operation::Tool { name, definition, .. } => (TOOL, name, Some(definition)),
            Operation::Resource { uri, definition } => (RESOURCE, uri, definition.as_ref()),
            Operation::Prompt { name, definition, .. }
            | Operation::Complete { subject: Subject::Prompt(name), definition, .. } => {
                (PROMPT, name, definition.as_ref())
            }
            Operation::Complete { subject: Subject::Template(uri), definition, .. } => {
                (TEMPLATE, uri, definition.as_ref())
            }
        };
        let listed = self.listed.get(what).and_then(|listed| listed.get(name));
        match (listed, known) {
            (_, None) => Ok(()),
            (Some(listed), Some(known)) if listed == known => Ok(()),
            (Some(_), _) => Err(format!("the server has changed the {what}'s definition since it was listed here")),
            (None, _) => Err(format!("the server does not list the {what} any more")),
        }
    }
}

/// The error of an operation that is not sent, or not continued, for this reason.
pub(super) fn changed(outcome: &str, why: &str) -> Error {
    Error::new(ErrorCode::ToolChanged, format!("{outcome}: {why}"))
}

/// Validity of a list of a server without sessions.
pub(super) fn validity(refresh: Option<Duration>, ttl_ms: Option<u64>) -> Duration {
    refresh.or(ttl_ms.map(Duration::from_millis)).unwrap_or(OTHERWISE).min(LONGEST)
}

/// Full digest of the definition of a resource, template or prompt, without the fields that describe its current
/// content.
pub fn offer_digest(definition: &Value) -> String {
    stubgen::digest(stubgen::canonical_json(&offer_bare(definition)))
}

/// The definition of a resource, template or prompt, without the fields that describe its current content.
pub fn offer_bare(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Value::Object(fields) = &mut definition {
        fields.shift_remove("size");
        if let Some(Value::Object(notes)) = fields.get_mut("annotations") {
            notes.shift_remove("lastModified");
        }
    }
    definition
}

/// Digests as the catalog is built: the first definition of each name counts, which is the last one here.
fn digests(list: &[Value], key: &str, digest: impl Fn(&Value) -> String) -> HashMap<String, String> {
    let named = list.iter().rev().filter_map(|definition| Some((definition.get(key)?.as_str()?, definition)));
    named.map(|(name, definition)| (name.to_owned(), digest(definition))).collect()
}
