//! The layers of a sandbox worker, applied before its first script: on Linux all that the kernel supports, elsewhere what
//! the platform has. Each layer reports whether it is in force.
//!
//! Every layer holds alone: a script that escaped its engine would still find no file, no socket, no other program, no
//! way to become one, and no memory that is both writable and executable.

#[cfg(target_os = "linux")]
mod linux;
mod memory;
#[cfg(target_os = "linux")]
mod syscalls;

#[cfg(not(target_os = "linux"))]
use wire::{Layer, LayerName};

#[cfg(target_os = "linux")]
pub use linux::{after_threads, apply, before_threads};
pub use memory::{DataLimit, OVERHEAD, data_bytes};
#[cfg(target_os = "linux")]
pub use syscalls::{filter_by_allow_list, filter_by_deny_list};

/// Layers that must be applied before the process has other threads.
#[cfg(not(target_os = "linux"))]
pub fn before_threads() -> Vec<Layer> {
    LayerName::ALL.iter().copied().map(apply).collect()
}

/// Applies one layer.
#[cfg(not(target_os = "linux"))]
pub fn apply(name: LayerName) -> Layer {
    Layer::of(
        name,
        Err("this platform offers no sandbox that ForgeFS uses: scripts are held by their engine alone".to_owned()),
    )
}

/// Layers that would keep the engines from starting.
#[cfg(not(target_os = "linux"))]
pub fn after_threads() -> Vec<Layer> {
    Vec::new()
}
