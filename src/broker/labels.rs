//! Whose data an execution holds.
//!
//! A label is the name of a server. It is added when something of that server reaches the script, before the script
//! can see it: an answer, an error with what the server said, an entry of the stash or a stored result that was made
//! from its data. Labels are never taken away. What a call sends was written before it was dispatched, so the labels
//! at that moment are those of everything that can be in it; answers that arrive while it is under way cannot.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The labels of one execution.
#[derive(Default)]
pub(super) struct Holdings(Mutex<BTreeSet<String>>);

impl Holdings {
    /// No holder can leave it half-changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The labels so far, sorted.
    pub(super) fn labels(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    /// Adds what arrives from a server.
    pub(super) fn receive(&self, server: &str) {
        let mut labels = self.lock();
        if !labels.contains(server) {
            labels.insert(server.to_owned());
        }
    }
}
