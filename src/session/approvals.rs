//! What a user has allowed for the rest of a session.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::kept::{CONSENTS, Kept};

/// What is remembered: one tool as it is defined now, of the server as it is reached now, and the rule that asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consent {
    /// The server.
    pub server: String,
    /// Digest of how it is reached: another program under its name is another server.
    pub origin: Arc<str>,
    /// The tool's wire name, or the operation for resources and prompts.
    pub tool: String,
    /// Whole digest of the definition of the tool or prompt: what changed is another one.
    pub digest: String,
    /// The rule.
    pub rule: String,
}

impl Consent {
    fn bytes(&self) -> usize {
        let Self { server, origin, tool, digest, rule } = self;
        // It is kept twice: in the map, and in the order of its keys.
        2 * (server.len() + origin.len() + tool.len() + digest.len() + rule.len())
    }
}

/// What was allowed so far. Over the bounds the oldest is forgotten, and asked again.
pub struct Approvals(Mutex<Kept<Consent, ()>>);

impl Default for Approvals {
    fn default() -> Self {
        Self(Mutex::new(Kept::new(&CONSENTS)))
    }
}

impl Approvals {
    /// Remembers a consent.
    pub fn grant(&self, consent: Consent) {
        let bytes = consent.bytes();
        self.0.lock().insert(consent, (), bytes);
    }

    /// Whether it was given.
    #[must_use]
    pub fn has(&self, consent: &Consent) -> bool {
        self.0.lock().get(consent).is_some()
    }
}
