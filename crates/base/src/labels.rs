//! Taint labels.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Names of the servers whose data a value contains.
pub type Labels = BTreeSet<String>;

/// Labels of a run, or of a session.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Servers whose data is held.
    pub labels: Labels,
    /// Strict group that it has entered.
    pub group: Option<Arc<str>>,
}
