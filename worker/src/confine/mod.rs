//! What the process gives up before it reads its first script.

use wire::Layer;

/// Layers that must be in place before the process has other threads.
pub(crate) fn before_threads() -> Vec<Layer> {
    Vec::new()
}

/// Layers that would keep the engines from starting.
pub(crate) fn after_threads() -> Vec<Layer> {
    Vec::new()
}
