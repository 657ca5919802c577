//! What reading one schema may take: a server can write a short one that unfolds without end.

use std::cell::Cell;

/// Types that a tool may need before the rest is widened: a real tool of 89 kB needs about 2,000.
const MAX_NODES: usize = 10_000;
/// Types that any tool may need; a longer definition may need one more for each other byte.
const NODES: usize = 500;
/// Parts of schemas that are looked at: for any definition, for each byte of it, and at most.
const STEPS: usize = 50_000;
const STEPS_PER_BYTE: usize = 50;
const MAX_STEPS: usize = 5_000_000;

/// Counts what is read and made.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: Cell<usize>,
    nodes: Cell<usize>,
}

impl Budget {
    /// For a definition of so many bytes.
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget {
            steps: Cell::new(MAX_STEPS.min(STEPS + STEPS_PER_BYTE.saturating_mul(bytes))),
            nodes: Cell::new(MAX_NODES.min(NODES + bytes / 2)),
        }
    }

    /// Takes steps, if there are so many left.
    pub(super) fn steps(&self, steps: usize) -> bool {
        take(&self.steps, steps)
    }

    /// Takes types, if there are so many left.
    pub(super) fn nodes(&self, nodes: usize) -> bool {
        take(&self.nodes, nodes)
    }

    /// Whether there is no type left.
    pub(super) fn is_spent(&self) -> bool {
        self.nodes.get() == 0 || self.steps.get() == 0
    }
}

/// What is asked for beyond what is left ends it.
fn take(left: &Cell<usize>, wanted: usize) -> bool {
    let rest = left.get().checked_sub(wanted);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}
