//! The tools of a list as it was read on one connection, and whether a call is of one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Listing, Operation};
use crate::error::{Error, ErrorCode, Result};

/// How long a reading of a server without sessions is good that says nothing about it, where `refresh` does not either.
const OTHERWISE: Duration = Duration::from_secs(60);
/// Longest time that such a server's `ttlMs` is taken for.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// One reading of the list.
#[derive(Debug)]
pub(super) struct Reading {
    /// Later readings have higher numbers.
    pub(super) number: u64,
    /// Whole digest of each tool's definition, by wire name.
    tools: HashMap<String, String>,
    /// How often the connection had told of changes before the list was asked for.
    changes: u64,
    /// When it stops being good; `None` as long as its connection lives.
    until: Option<Instant>,
}

impl Reading {
    /// Reads `listing`, which comes back with the number of the reading.
    pub(super) async fn of(
        number: u64,
        changes: u64,
        valid: Option<Duration>,
        mut listing: Listing,
    ) -> Result<(Arc<Self>, Listing)> {
        listing.reading = number;
        let until = valid.map(|valid| Instant::now() + valid);
        // Thousands of definitions take a while: not on a thread that serves requests.
        let made = tokio::task::spawn_blocking(move || (digests(&listing.tools), listing)).await;
        let (tools, listing) =
            made.map_err(|error| Error::new(ErrorCode::Internal, format!("its tools could not be read: {error}")))?;
        Ok((Arc::new(Self { number, tools, changes, until }), listing))
    }

    /// Whether it is still good on its connection, which has told of so many changes.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        self.changes == changes && self.until.is_none_or(|until| Instant::now() < until)
    }

    /// Whether both read the same tools.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.tools == other.tools
    }

    /// Lets a call through whose tool was read here with the definition that the caller knows; other operations pass.
    ///
    /// # Errors
    /// `TOOL_CHANGED` for a tool that is defined otherwise, or not listed any more.
    pub(super) fn check(&self, operation: &Operation) -> Result<()> {
        let Operation::Tool { name, definition, .. } = operation else { return Ok(()) };
        let changed = |what: &str| Err(Error::new(ErrorCode::ToolChanged, format!("not called: the server {what}")));
        match self.tools.get(name) {
            Some(listed) if listed == definition => Ok(()),
            Some(_) => changed("has changed the tool's definition since it was listed here"),
            None => changed("does not list the tool any more"),
        }
    }
}

/// How long a reading of a server without sessions is good.
pub(super) fn validity(refresh: Option<Duration>, ttl_ms: Option<u64>) -> Duration {
    refresh.or(ttl_ms.map(Duration::from_millis)).unwrap_or(OTHERWISE).min(LONGEST)
}

/// As stubs are made: the first definition of each name counts.
fn digests(tools: &[Value]) -> HashMap<String, String> {
    let mut digests = HashMap::with_capacity(tools.len());
    for tool in tools {
        if let Some(name) = tool.get("name").and_then(Value::as_str)
            && !digests.contains_key(name)
        {
            digests.insert(name.to_owned(), stubgen::digest(&stubgen::canonical_json(tool)));
        }
    }
    digests
}
