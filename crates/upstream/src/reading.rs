//! Definitions that a server listed on one connection, to compare operations with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::events::Changes;
use super::{Listing, Operation, Subject};
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
    listed: Listed,
    /// Changes counted on the connection before the lists were requested.
    pub(super) changes: Changes,
    /// The lists beside the tools are to come.
    pub(super) is_partial: bool,
    /// End of validity; `None` while its connection lives.
    until: Option<Instant>,
}

/// Full digest of each definition, by wire name, URI or URI template.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    tools: HashMap<String, String>,
    resources: HashMap<String, String>,
    templates: HashMap<String, String>,
    prompts: HashMap<String, String>,
}

impl Listed {
    fn of(listing: &Listing) -> Self {
        Self {
            tools: digests(&listing.tools, "name", |tool| stubgen::digest(&stubgen::canonical_json(tool))),
            resources: digests(&listing.resources, "uri", offer_digest),
            templates: digests(&listing.templates, "uriTemplate", offer_digest),
            prompts: digests(&listing.prompts, "name", offer_digest),
        }
    }
}

impl Reading {
    /// Digests `listing`, which comes back with the number of the reading.
    pub(super) async fn of(
        number: u64,
        changes: Changes,
        valid: Option<Duration>,
        mut listing: Listing,
    ) -> Result<(Arc<Self>, Listing)> {
        listing.reading = number;
        let is_partial = listing.is_partial;
        let until = valid.map(|valid| Instant::now() + valid);
        // Thousands of definitions take a while: off the threads that serve requests.
        let made = tokio::task::spawn_blocking(move || (Listed::of(&listing), listing)).await;
        let (listed, listing) =
            made.map_err(|error| Error::new(ErrorCode::Internal, "its lists could not be read").caused_by(error))?;
        Ok((Arc::new(Self { number, listed, changes, is_partial, until }), listing))
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
        let (what, listed, known) = match operation {
            Operation::List | Operation::Connect => return Ok(()),
            Operation::Tool { name, definition, .. } => ("tool", self.listed.tools.get(name), Some(definition)),
            Operation::Resource { uri, definition } => {
                ("resource", self.listed.resources.get(uri), definition.as_ref())
            }
            Operation::Prompt { name, definition, .. }
            | Operation::Complete { subject: Subject::Prompt(name), definition, .. } => {
                ("prompt", self.listed.prompts.get(name), definition.as_ref())
            }
            Operation::Complete { subject: Subject::Template(uri), definition, .. } => {
                ("template", self.listed.templates.get(uri), definition.as_ref())
            }
        };
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
    stubgen::digest(&stubgen::canonical_json(&offer_bare(definition)))
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
