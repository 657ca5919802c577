//! What a user has allowed for the rest of a session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::lock;

/// What is remembered: one tool as it is defined now, of the server as it is reached now, and the rule that asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consent {
    /// The server.
    pub server: String,
    /// Digest of how it is reached: another program under its name is another server.
    pub origin: Arc<str>,
    /// The tool's wire name, or the operation for resources and prompts.
    pub tool: String,
    /// Whole digest of the tool's definition: a tool that changed is another one.
    pub digest: String,
    /// The rule.
    pub rule: String,
}

/// What was allowed so far.
#[derive(Default)]
pub struct Approvals(Mutex<BTreeSet<Consent>>);

impl Approvals {
    /// Remembers a consent.
    pub fn grant(&self, consent: Consent) {
        lock(&self.0).insert(consent);
    }

    /// Whether it was given.
    #[must_use]
    pub fn has(&self, consent: &Consent) -> bool {
        lock(&self.0).contains(consent)
    }
}
