//! Limits for reading one schema: a short one can expand endlessly.

use std::cell::Cell;

/// Most types of a tool before the rest is widened: a real tool of 89 kB needs about 2,000.
const MAX_NODES: usize = 10_000;
/// Types allowed to any tool; a longer definition gets one more per two bytes.
const NODES: usize = 500;
/// Schema parts to read: for any definition, per byte of it, and at most.
const STEPS: usize = 50_000;
const STEPS_PER_BYTE: usize = 50;
const MAX_STEPS: usize = 5_000_000;

/// Counts schema parts and types.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: Cell<usize>,
    nodes: Cell<usize>,
}

impl Budget {
    /// Budget of a definition of `bytes`.
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget {
            steps: Cell::new(MAX_STEPS.min(STEPS + STEPS_PER_BYTE.saturating_mul(bytes))),
            nodes: Cell::new(MAX_NODES.min(NODES + bytes / 2)),
        }
    }

    /// Takes steps; false if too few are left.
    pub(super) fn steps(&self, steps: usize) -> bool {
        take(&self.steps, steps)
    }

    /// Takes types; false if too few are left.
    pub(super) fn nodes(&self, nodes: usize) -> bool {
        take(&self.nodes, nodes)
    }

    /// True if no type is left.
    pub(super) fn is_spent(&self) -> bool {
        self.nodes.get() == 0 || self.steps.get() == 0
    }
}

/// A request over the rest uses it up.
fn take(left: &Cell<usize>, wanted: usize) -> bool {
    let rest = left.get().checked_sub(wanted);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}
