//! Taint of an execution: the servers whose data it holds, and its strict group.
//!
//! A label is a server's name. It is added before the script can see anything of that server: an answer, an error with
//! the server's words, an entry of the stash or a stored result made from its data. Labels are never removed. A call's
//! arguments were written before it was dispatched, so the labels at that moment cover everything in them; answers that
//! arrive meanwhile cannot be in it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::policy::{self, Rules};
use base::error::Result;
use base::labels::{Held, Labels};

/// Taint of one execution.
pub(super) struct Taint {
    rules: Arc<Rules>,
    /// Shared with the session where labels accumulate over it.
    held: Arc<Mutex<Held>>,
}

impl Taint {
    pub(super) fn new(rules: Arc<Rules>, held: Arc<Mutex<Held>>) -> Self {
        Self { rules, held }
    }

    /// The same taint, which goes its own way from now on.
    pub(super) fn fork(&self) -> Self {
        Self { rules: Arc::clone(&self.rules), held: Arc::new(Mutex::new(self.now())) }
    }

    /// Current taint.
    pub(super) fn now(&self) -> Held {
        self.held.lock().clone()
    }

    /// Enters the strict group of a server before a call.
    ///
    /// # Errors
    /// `GROUP_POLICY_DENIED` when it is in another one.
    pub(super) fn enter(&self, server: &str) -> Result<()> {
        policy::admit(&self.rules, &mut self.held.lock().group, server)
    }

    /// Adds the label of a called server.
    pub(super) fn receive(&self, server: &str) {
        let mut held = self.held.lock();
        if !held.labels.contains(server) {
            held.labels.insert(server.to_owned());
        }
    }

    /// Adds the labels of kept data, as if its servers had been called now.
    ///
    /// # Errors
    /// `GROUP_POLICY_DENIED` when any of them is of another strict group; none is added then.
    pub(super) fn take_in(&self, what: &str, labels: &Labels) -> Result<()> {
        let mut held = self.held.lock();
        held.group = policy::entered(&self.rules, held.group.as_ref(), labels).map_err(|error| error.context(what))?;
        held.labels.extend(labels.iter().cloned());
        Ok(())
    }

    /// True if data of `labels` may be read here; adds nothing.
    pub(super) fn may_take_in(&self, labels: &Labels) -> bool {
        policy::entered(&self.rules, self.held.lock().group.as_ref(), labels).is_ok()
    }

    /// Adds the labels of data whose mere existence becomes known; true if it may be known here. Looking does not enter
    /// a strict group, so data of one is visible only from within.
    pub(super) fn glimpse(&self, labels: &Labels) -> bool {
        let mut held = self.held.lock();
        let is_seen = policy::entered(&self.rules, held.group.as_ref(), labels).is_ok_and(|group| group == held.group);
        if is_seen {
            held.labels.extend(labels.iter().cloned());
        }
        is_seen
    }
}
