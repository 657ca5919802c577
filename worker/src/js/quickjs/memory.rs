//! Memory of a QuickJS runtime: counted, limited, and in one place, so that a whole runtime is saved and restored by
//! copying bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use rlsf::Tlsf;
use rquickjs::allocator::Allocator;

/// Extra memory after a refusal, to unwind the script.
const UNWINDING: usize = 256 << 10;
/// Room beside the limit: for unwinding, and for what lies between allocations.
const ROOM: usize = 16 << 20;
/// Steps in which the place is taken into use.
const STEP: usize = 64 << 10;
/// Bytes beyond what was saved that are erased where they are: they are used again soon. Others go back to the system.
const KEPT: usize = 256 << 10;
/// Alignment of an allocation.
const ALIGN: usize = 16;
const PAGE: usize = 4096;

/// The lists of free blocks, of up to 8 GiB.
type Free = Tlsf<'static, u32, u32, 28, 32>;

/// Memory of one runtime, shared by its allocator and the engine. The lists of free blocks are in it, too.
pub(super) struct Heap {
    place: Place,
    /// Bytes of the place in use so far.
    len: Cell<usize>,
    limit: Cell<usize>,
    used: Cell<usize>,
    peak: Cell<usize>,
    refused: Cell<bool>,
    saved: RefCell<Option<Saved>>,
}

/// Bytes of a place for this limit.
fn needed(limit: usize) -> usize {
    limit.saturating_add(limit / 4).saturating_add(ROOM)
}

/// A runtime as it was.
struct Saved {
    bytes: Box<[u8]>,
    used: usize,
}

/// Pages, most of which are never touched.
struct Place {
    start: NonNull<u8>,
    bytes: usize,
    allocated: NonNull<u8>,
    layout: Layout,
}

impl Place {
    fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.checked_next_multiple_of(STEP)?;
        // With a larger alignment the standard library would touch every page.
        let layout = Layout::from_size_align(bytes.checked_add(PAGE)?, ALIGN).ok()?;
        #[expect(unsafe_code, reason = "the size is not zero, and a page longer than the place")]
        unsafe {
            let allocated = NonNull::new(alloc_zeroed(layout))?;
            let start = allocated.add(allocated.align_offset(PAGE));
            Some(Self { start, bytes, allocated, layout })
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "allocated with this layout")]
        unsafe {
            dealloc(self.allocated.as_ptr(), self.layout);
        }
    }
}

#[expect(unsafe_code, reason = "the place is this heap's alone, and only one thread has it")]
impl Heap {
    /// A heap that may be given limits up to this one; `None` if the system has not so much memory.
    pub(super) fn with_limit(limit: usize) -> Option<Rc<Self>> {
        let place = Place::new(needed(limit))?;
        let lists = size_of::<Free>().next_multiple_of(64);
        let heap = Self {
            place,
            len: Cell::new(STEP),
            limit: Cell::new(limit),
            used: Cell::new(0),
            peak: Cell::new(0),
            refused: Cell::new(false),
            saved: RefCell::default(),
        };
        unsafe {
            heap.place.start.cast::<Free>().write(Free::new());
            let rest = NonNull::slice_from_raw_parts(heap.place.start.add(lists), STEP - lists);
            (*heap.free()).insert_free_block_ptr(rest)?;
        }
        Some(Rc::new(heap))
    }

    fn free(&self) -> *mut Free {
        self.place.start.cast().as_ptr()
    }

    /// True if its place has room for this limit.
    pub(super) fn can_be(&self, limit: usize) -> bool {
        needed(limit) <= self.place.bytes
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

    /// Saves all that is in it, for [`Heap::restore`].
    pub(super) fn save(&self) {
        // Nothing may be in registers alone: no call of the runtime is active.
        let bytes = unsafe { std::slice::from_raw_parts(self.place.start.as_ptr(), self.len.get()) };
        *self.saved.borrow_mut() = Some(Saved { bytes: bytes.into(), used: self.used.get() });
    }

    /// Restores what was saved, byte for byte, and forgets the rest.
    ///
    /// # Safety
    /// No call of the runtime is active, and no value made since it was saved is used again or freed.
    pub(super) unsafe fn restore(&self) {
        let saved = self.saved.borrow();
        let Some(Saved { bytes, used }) = &*saved else { return };
        let start = self.place.start.as_ptr();
        let len = self.len.replace(bytes.len());
        let erased = len.min(bytes.len() + KEPT);
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            start.add(bytes.len()).write_bytes(0, erased - bytes.len());
            #[cfg(target_os = "linux")]
            if len > erased {
                use nix::sys::mman::{MmapAdvise, madvise};
                let rest = self.place.start.add(erased).cast();
                // Pages that stay are taken again as they are: no allocation is handed out as zeros unless it is.
                let _ = madvise(rest, len - erased, MmapAdvise::MADV_DONTNEED);
            }
        }
        self.used.set(*used);
        self.peak.set(*used);
        self.refused.set(false);
        self.limit.set(usize::MAX);
    }

    fn has_room(&self, bytes: usize) -> bool {
        let used = self.used.get().saturating_add(bytes);
        if used <= self.limit.get() {
            self.peak.set(self.peak.get().max(used));
            return true;
        }
        self.refuse();
        false
    }

    fn refuse(&self) {
        if !self.refused.replace(true) {
            self.limit.set(self.limit.get().saturating_add(UNWINDING));
        }
    }

    /// Does `allocate`, and takes more of the place into use if it needs that.
    fn grown(&self, bytes: usize, mut allocate: impl FnMut(&mut Free) -> Option<NonNull<u8>>) -> *mut u8 {
        if let Some(memory) = allocate(unsafe { &mut *self.free() }) {
            return memory.as_ptr();
        }
        let len = self.len.get();
        // Blocks are found by classes of sizes, 32 to a power of two.
        let more = bytes.saturating_add(bytes / 16).saturating_add(STEP).checked_next_multiple_of(STEP);
        let Some(more) = more.filter(|more| *more <= self.place.bytes - len) else {
            self.refuse();
            return std::ptr::null_mut();
        };
        unsafe {
            let next = NonNull::slice_from_raw_parts(self.place.start.add(len), more);
            let taken = (*self.free()).append_free_block_ptr(next);
            self.len.set(len + taken);
            allocate(&mut *self.free()).map_or_else(std::ptr::null_mut, NonNull::as_ptr)
        }
    }
}

/// Allocates in a heap.
pub(super) struct Counted(pub(super) Rc<Heap>);

impl Counted {
    fn allocated(&self, memory: *mut u8) -> *mut u8 {
        if !memory.is_null() {
            let used = self.0.used.get() + size(memory);
            self.0.used.set(used);
            self.0.peak.set(self.0.peak.get().max(used));
        }
        memory
    }

    fn freed(&self, bytes: usize) {
        self.0.used.set(self.0.used.get().saturating_sub(bytes));
    }
}

fn size(memory: *mut u8) -> usize {
    #[expect(unsafe_code, reason = "only called with memory of a heap")]
    NonNull::new(memory).map_or(0, |memory| unsafe { Free::allocation_usable_size(memory) })
}

#[expect(unsafe_code, reason = "every memory is of the same heap, with one alignment")]
unsafe impl Allocator for Counted {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.0.has_room(size) {
            return std::ptr::null_mut();
        }
        let Ok(layout) = Layout::from_size_align(size, ALIGN) else { return std::ptr::null_mut() };
        self.allocated(self.0.grown(size, |free| free.allocate(layout)))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
        let memory = self.alloc(bytes);
        if !memory.is_null() {
            unsafe { memory.write_bytes(0, bytes) };
        }
        memory
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.freed(size(ptr));
        if let Some(memory) = NonNull::new(ptr) {
            unsafe { (*self.0.free()).deallocate(memory, ALIGN) };
        }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let Some(memory) = NonNull::new(ptr) else { return self.alloc(new_size) };
        let old = size(ptr);
        if new_size > old && !self.0.has_room(new_size - old) {
            return std::ptr::null_mut();
        }
        let Ok(layout) = Layout::from_size_align(new_size, ALIGN) else { return std::ptr::null_mut() };
        let moved = self.0.grown(new_size, |free| unsafe { free.reallocate(memory, layout) });
        if !moved.is_null() {
            self.freed(old);
        }
        self.allocated(moved)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        size(ptr)
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "an allocator is tested")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A step of a runtime: it allocates, or changes or frees the allocation at a position.
    #[derive(Debug, Clone)]
    enum Step {
        Alloc(usize),
        Calloc(usize),
        Realloc(usize, usize),
        Free(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let size = || prop_oneof![8 => 0..200_usize, 2 => 200..20_000_usize, 1 => 20_000..3_000_000_usize];
        let step = prop_oneof![
            4 => size().prop_map(Step::Alloc),
            1 => size().prop_map(Step::Calloc),
            3 => (any::<usize>(), size()).prop_map(|(at, size)| Step::Realloc(at, size)),
            3 => any::<usize>().prop_map(Step::Free),
        ];
        proptest::collection::vec(step, 0..120)
    }

    /// Allocations with what was written into each.
    #[derive(Clone, Default)]
    struct Held(Vec<(*mut u8, usize, u8)>);

    impl Held {
        fn fill(memory: *mut u8, size: usize, with: u8) {
            unsafe { memory.write_bytes(with, size) };
        }

        fn check(&self) {
            for (memory, size, with) in &self.0 {
                let bytes = unsafe { std::slice::from_raw_parts(*memory, *size) };
                assert!(bytes.iter().all(|byte| byte == with), "another allocation wrote into this one");
                assert_eq!(memory.addr() % ALIGN, 0);
                assert!(super::size(*memory) >= *size);
            }
        }

        fn take(&mut self, heap: &mut Counted, step: &Step, with: u8) {
            let position = |at: usize, len: usize| at.checked_rem(len);
            match *step {
                Step::Alloc(size) | Step::Calloc(size) => {
                    let is_zeroed = matches!(step, Step::Calloc(_));
                    let memory = if is_zeroed { heap.calloc(size, 1) } else { heap.alloc(size) };
                    if memory.is_null() {
                        return;
                    }
                    let bytes = unsafe { std::slice::from_raw_parts(memory, size) };
                    assert!(!is_zeroed || bytes.iter().all(|byte| *byte == 0));
                    Self::fill(memory, size, with);
                    self.0.push((memory, size, with));
                }
                Step::Realloc(at, size) => {
                    let Some(at) = position(at, self.0.len()) else { return };
                    let (memory, old, filled) = self.0[at];
                    let moved = unsafe { heap.realloc(memory, size) };
                    if moved.is_null() {
                        return;
                    }
                    let kept = unsafe { std::slice::from_raw_parts(moved, old.min(size)) };
                    assert!(kept.iter().all(|byte| *byte == filled));
                    Self::fill(moved, size, with);
                    self.0[at] = (moved, size, with);
                }
                Step::Free(at) => {
                    let Some(at) = position(at, self.0.len()) else { return };
                    unsafe { heap.dealloc(self.0.swap_remove(at).0) };
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_saved_is_there_again_whatever_happened_since(
            before in steps(),
            runs in proptest::collection::vec(steps(), 1..4),
            limit in 1_000_000..40_000_000_usize,
        ) {
            let heap = Heap::with_limit(limit).expect("memory");
            let mut counted = Counted(Rc::clone(&heap));
            let mut held = Held::default();
            for (step, with) in before.iter().zip(1..) {
                held.take(&mut counted, step, with);
            }
            held.check();
            let used = heap.used.get();
            prop_assert!(used <= limit + UNWINDING + (before.len() * 32));
            heap.save();
            for run in runs {
                let mut more = held.clone();
                heap.set_limit(limit);
                for (step, with) in run.iter().zip(100..) {
                    more.take(&mut counted, step, with);
                }
                more.check();
                unsafe { heap.restore() };
                held.check();
                prop_assert_eq!(heap.used.get(), used);
                prop_assert!(!heap.is_used_up());
            }
            for (memory, ..) in held.0 {
                unsafe { counted.dealloc(memory) };
            }
            prop_assert_eq!(heap.used.get(), 0);
        }
    }

    #[test]
    fn a_heap_refuses_what_is_over_its_limit_and_says_so() {
        let heap = Heap::with_limit(10 << 20).expect("memory");
        let mut counted = Counted(Rc::clone(&heap));
        assert!(!counted.alloc(9 << 20).is_null() && !heap.is_used_up());
        assert!(counted.alloc(2 << 20).is_null() && heap.is_used_up());
        assert!(!counted.alloc(1 << 10).is_null(), "there is room to unwind");
        for size in [usize::MAX, usize::MAX - 64, isize::MAX as usize, 1 << 62] {
            assert!(counted.alloc(size).is_null() && counted.calloc(size, 2).is_null());
        }
        assert!(heap.can_be(10 << 20) && !heap.can_be(1 << 30) && !heap.can_be(usize::MAX));
    }
}
