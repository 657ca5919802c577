//! Whose data something holds.

use std::collections::BTreeSet;

/// Names of the servers whose data something holds.
pub type Labels = BTreeSet<String>;
