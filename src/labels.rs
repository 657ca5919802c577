//! Taint labels.

use std::collections::BTreeSet;

/// Names of the servers whose data a value contains.
pub type Labels = BTreeSet<String>;
