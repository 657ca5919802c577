//! Measures the memory of work by a counting allocator, per thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
}

/// Memory of a piece of work, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Peak.
    pub peak: usize,
    /// Total of all allocations, freed or not: a measure of time where no steps are counted.
    pub total: usize,
    /// Still allocated at the end.
    pub kept: usize,
}

/// Does work, and counts its allocations on this thread.
pub fn spent<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    let (live, total) = (LIVE.get(), TOTAL.get());
    let outer = PEAK.replace(live);
    let done = work();
    let (peak, kept) = (PEAK.get() - live, LIVE.get() - live);
    PEAK.set(outer.max(PEAK.get()));
    let bytes = |count: isize| usize::try_from(count).unwrap_or(0);
    (done, Spent { peak: bytes(peak), total: TOTAL.get() - total, kept: bytes(kept) })
}

fn count(taken: usize, freed: usize) {
    // A thread that ends has no counters any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + taken.cast_signed() - freed.cast_signed());
        PEAK.set(PEAK.get().max(live.get()));
        TOTAL.set(TOTAL.get().wrapping_add(taken));
    });
}

struct Counting;

#[expect(unsafe_code, reason = "every call is the system allocator's; only the counters are ours")]
// SAFETY: each method passes on what it is given, and the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_kept_and_freed_is_counted() {
        let (kept, spent) = spent(|| {
            drop(std::hint::black_box(vec![0_u8; 1 << 20]));
            std::hint::black_box(vec![0_u8; 1 << 16])
        });
        assert_eq!((spent.peak, spent.total, spent.kept), (1 << 20, (1 << 20) + (1 << 16), 1 << 16));
        drop(kept);
    }
}
