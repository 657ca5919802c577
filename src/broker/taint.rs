//! Whose data an execution holds, and which strict group it is in.
//!
//! A label is the name of a server. It is added when something of that server reaches the script, before the script
//! can see it: an answer, an error with what the server said, an entry of the stash or a stored result that was made
//! from its data. Labels are never taken away. What a call sends was written before it was dispatched, so the labels
//! at that moment are those of everything that can be in it; answers that arrive while it is under way cannot.

use std::sync::Arc;

use parking_lot::Mutex;

use super::policy::{self, Rules};
use crate::error::{Error, Result};
use crate::labels::Labels;

/// What one execution holds.
pub(super) struct Taint {
    rules: Arc<Rules>,
    held: Mutex<TaintSnapshot>,
}

/// What an execution holds at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct TaintSnapshot {
    /// Whose data.
    pub(super) labels: Labels,
    /// The strict group that it is in.
    pub(super) group: Option<Arc<str>>,
}

impl Taint {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self { rules, held: Mutex::default() }
    }

    /// What is held now.
    pub(super) fn now(&self) -> TaintSnapshot {
        self.held.lock().clone()
    }

    /// Puts the execution into the strict group of a server that is about to be called.
    ///
    /// # Errors
    /// `GROUP_POLICY_DENIED` when it is in another one.
    pub(super) fn enter(&self, server: &str) -> Result<()> {
        policy::admit(&self.rules, &mut self.held.lock().group, server)
    }

    /// Adds what arrives from a server that was called.
    pub(super) fn receive(&self, server: &str) {
        let mut held = self.held.lock();
        if !held.labels.contains(server) {
            held.labels.insert(server.to_owned());
        }
    }

    /// Adds what something kept by an earlier execution was made from, as if its servers had been called now.
    ///
    /// # Errors
    /// `GROUP_POLICY_DENIED` when any of it is of another strict group; nothing is added then.
    pub(super) fn take_in(&self, what: &str, labels: &Labels) -> Result<()> {
        let mut held = self.held.lock();
        let mut group = held.group.clone();
        for server in labels {
            policy::admit(&self.rules, &mut group, server)
                .map_err(|error| Error { message: format!("{what}: {}", error.message), ..error })?;
        }
        held.group = group;
        held.labels.extend(labels.iter().cloned());
        Ok(())
    }

    /// Whether what was made from `labels` may be read from here; nothing is added.
    pub(super) fn may_take_in(&self, labels: &Labels) -> bool {
        let mut group = self.held.lock().group.clone();
        labels.iter().all(|server| policy::admit(&self.rules, &mut group, server).is_ok())
    }

    /// Adds what the mere existence of something tells of those that it was made from; whether that may be known here.
    /// Looking around puts no execution into a strict group, so what is of one is seen only from within.
    pub(super) fn glimpse(&self, labels: &Labels) -> bool {
        let mut held = self.held.lock();
        let mut group = held.group.clone();
        let is_free = labels.iter().all(|server| policy::admit(&self.rules, &mut group, server).is_ok());
        let is_seen = is_free && group == held.group;
        if is_seen {
            held.labels.extend(labels.iter().cloned());
        }
        is_seen
    }
}
