//! Consents of a user for the rest of a session.

use std::sync::Arc;

use serde::Serialize;

use base::error::Result;
use base::labels::Labels;
use state::{Collection, New, Room, State};

/// One tool with its current definition, its server at its current origin, and the rule that asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Consent {
    /// The server.
    pub server: String,
    /// Digest of its origin: another program under its name is another server.
    pub origin: Arc<str>,
    /// The tool's wire name, or the operation for resources and prompts.
    pub tool: String,
    /// Full digest of the definition of the tool or prompt: a changed one is another.
    pub digest: String,
    /// The rule.
    pub rule: String,
}

impl Consent {
    /// Its name in the state, unique for each consent.
    fn name(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Consents so far. Over the bounds the oldest is forgotten, and asked again.
#[derive(Debug)]
pub struct Approvals {
    pub(super) state: Arc<dyn State>,
    pub(super) collection: Collection,
}

impl Approvals {
    /// Remembers a consent.
    ///
    /// # Errors
    /// As of [`insert`](state::Collections::insert).
    pub async fn grant(&self, consent: &Consent) -> Result<()> {
        let (name, room) = (consent.name(), Room::APPROVALS);
        let new = New { name, value: String::new(), labels: Labels::new(), ttl: None, replaces: Vec::new(), room };
        self.state.insert(&self.collection, new).await
    }

    /// True if the user consented.
    ///
    /// # Errors
    /// As of [`entries`](state::Collections::entries).
    pub async fn has(&self, consent: &Consent) -> Result<bool> {
        Ok(!self.state.entries(&self.collection, &consent.name()).await?.is_empty())
    }
}
