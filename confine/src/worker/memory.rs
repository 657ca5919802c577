//! Limits the memory of the process during a run.
//!
//! Not by RLIMIT_AS: V8 reserves address space by the gigabyte and uses little of it. RLIMIT_DATA counts private
//! writable memory, of all allocators and thread stacks. Only Linux tells how much that is: elsewhere there is no limit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// Memory of an engine beyond the script's heap: generations, doubling chunks, parsed answers of tools.
pub const OVERHEAD: u64 = 64 << 20;
/// The engine's own account of the heap is exact up to this factor; this limit is for memory it misses.
const FACTOR: u64 = 3;
/// The process's statistics, opened while files can be opened.
static STATISTICS: OnceLock<Option<File>> = OnceLock::new();

/// Limit of private writable memory.
pub struct DataLimit;

/// Bytes of private writable memory now, if known.
pub fn data_bytes() -> Option<u64> {
    let mut text = [0; 128];
    let read = STATISTICS.get()?.as_ref()?.read_at(&mut text, 0).ok()?;
    // The sixth field of `statm`: pages of data and stack.
    let pages: u64 = std::str::from_utf8(&text[..read]).ok()?.split_whitespace().nth(5)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|page| u64::try_from(page).ok());
    pages.checked_mul(page.unwrap_or(4096))
}

impl Default for DataLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl DataLimit {
    /// Opens the statistics of the process while files can be opened.
    pub fn new() -> Self {
        STATISTICS.get_or_init(|| File::open("/proc/self/statm").ok());
        Self
    }

    /// Limits memory to the present use and a heap of this size.
    pub fn set(&self, heap_bytes: u64) {
        self.leave(heap_bytes.saturating_mul(FACTOR));
    }

    /// Leaves room for as many bytes beyond what the process has now, and for what an allocator takes besides.
    pub fn leave(&self, bytes: u64) {
        if let Some(used) = data_bytes() {
            let limit = used.saturating_add(bytes).saturating_add(OVERHEAD);
            // Without it an engine's own limit still holds, and a checker's deadline.
            let _ = setrlimit(Resource::RLIMIT_DATA, limit, RLIM_INFINITY);
        }
    }

    /// Lifts the limit: the next scope is made between runs.
    pub fn lift(&self) {
        let _ = setrlimit(Resource::RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY);
    }
}
