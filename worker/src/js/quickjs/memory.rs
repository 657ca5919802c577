//! Counts the memory of a QuickJS runtime.

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

/// Extra memory after a refusal, to unwind the script.
const UNWINDING: usize = 256 << 10;

/// Counters shared by a runtime's allocator and the engine.
#[derive(Default)]
pub(super) struct Heap {
    limit: Cell<usize>,
    used: Cell<usize>,
    peak: Cell<usize>,
    refused: Cell<bool>,
}

impl Heap {
    pub(super) fn with_limit(limit: usize) -> Rc<Self> {
        let heap = Self::default();
        heap.limit.set(limit);
        Rc::new(heap)
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
    }

    /// True if an allocation was refused: the script must end.
    pub(super) fn is_used_up(&self) -> bool {
        self.refused.get()
    }

    pub(super) fn peak(&self) -> usize {
        self.peak.get()
    }

    fn take(&self, bytes: usize) -> bool {
        let used = self.used.get().saturating_add(bytes);
        if used > self.limit.get() {
            if !self.refused.replace(true) {
                self.limit.set(self.limit.get().saturating_add(UNWINDING));
            }
            return false;
        }
        self.used.set(used);
        self.peak.set(self.peak.get().max(used));
        true
    }

    fn give_back(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }
}

/// Rust's allocator with a limit.
pub(super) struct Counted(pub(super) Rc<Heap>);

impl Counted {
    fn counted(&self, bytes: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
        if !self.0.take(bytes) {
            return std::ptr::null_mut();
        }
        let memory = allocate();
        self.0.give_back(bytes);
        if !memory.is_null() {
            self.0.used.set(self.0.used.get() + size(memory));
        }
        memory
    }
}

fn size(memory: *mut u8) -> usize {
    #[expect(unsafe_code, reason = "only called with memory of the inner allocator")]
    unsafe {
        RustAllocator::usable_size(memory)
    }
}

#[expect(unsafe_code, reason = "every memory is the inner allocator's; only the counters are ours")]
unsafe impl Allocator for Counted {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.counted(size, || RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
        self.counted(bytes, || RustAllocator.calloc(count, size))
    }

    unsafe fn dealloc(&mut self, memory: *mut u8) {
        self.0.give_back(size(memory));
        unsafe { RustAllocator.dealloc(memory) };
    }

    unsafe fn realloc(&mut self, memory: *mut u8, new_size: usize) -> *mut u8 {
        let old = size(memory);
        if new_size > old && !self.0.take(new_size - old) {
            return std::ptr::null_mut();
        }
        let moved = unsafe { RustAllocator.realloc(memory, new_size) };
        if new_size > old {
            self.0.give_back(new_size - old);
        }
        if !moved.is_null() {
            self.0.used.set((self.0.used.get() + size(moved)).saturating_sub(old));
        }
        moved
    }

    unsafe fn usable_size(memory: *mut u8) -> usize {
        size(memory)
    }
}
