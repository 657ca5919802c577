//! Limits V8's allocations.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deno_core::v8;

use crate::last_words;
use confine::worker::{OVERHEAD, data_bytes};

/// Extra heap per step for V8 to unwind a script at its limit.
const UNWINDING: usize = 16 << 20;
/// Steps until the process ends instead: a native's work cannot be unwound.
const STEPS: usize = 3;

/// Stops the script when V8's heap, or memory attached to it outside, is nearly full: objects of ICU are small in the
/// heap and large beside it.
pub(super) struct HeapGuard {
    isolate: v8::IsolateHandle,
    hit: AtomicBool,
    /// Bytes of the heap with attached memory, and of the process before the first script.
    limit: u64,
    before: u64,
}

impl HeapGuard {
    /// The guard must live as long as the isolate.
    pub(super) fn install(isolate: &mut v8::OwnedIsolate, heap_bytes: usize) -> Box<Self> {
        let mut guard = Box::new(Self {
            isolate: isolate.thread_safe_handle(),
            hit: AtomicBool::new(false),
            limit: (heap_bytes as u64).saturating_add(OVERHEAD),
            before: data_bytes().unwrap_or(u64::MAX),
        });
        isolate.add_near_heap_limit_callback(near_heap_limit, (&raw mut *guard).cast());
        isolate.add_gc_epilogue_callback(after_collection, (&raw mut *guard).cast(), v8::GCType::kGCTypeAll);
        isolate.set_oom_error_handler(out_of_memory);
        guard
    }

    pub(super) fn is_hit(&self) -> bool {
        self.hit.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.hit.store(true, Ordering::Relaxed);
        self.isolate.terminate_execution();
    }
}

/// Called after a collection, which V8 also starts for attached memory. `unused` is V8's free heap.
#[expect(unsafe_code, reason = "the pointers are those of the guard and of the isolate that calls")]
unsafe extern "C" fn after_collection(
    mut isolate: v8::UnsafeRawIsolatePtr,
    _kind: v8::GCType,
    _flags: v8::GCCallbackFlags,
    guard: *mut c_void,
) {
    let guard = unsafe { &*guard.cast::<HeapGuard>() };
    let isolate = unsafe { v8::Isolate::ref_from_raw_isolate_ptr_mut(&mut isolate) };
    let heap = isolate.get_heap_statistics();
    let unused = heap.total_physical_size().saturating_sub(heap.used_heap_size()) as u64;
    let taken = data_bytes().unwrap_or(0).saturating_sub(guard.before);
    if taken.saturating_sub(unused) > guard.limit {
        guard.stop();
    }
}

#[expect(unsafe_code, reason = "the pointer is that of the guard, which outlives the isolate")]
unsafe extern "C" fn near_heap_limit(guard: *mut c_void, current: usize, initial: usize) -> usize {
    let guard = unsafe { &*guard.cast::<HeapGuard>() };
    if current >= initial + STEPS * UNWINDING {
        last_words::say_heap();
    }
    guard.stop();
    current + UNWINDING
}

/// One allocation exceeded all free memory; V8 ends the process after this.
#[expect(unsafe_code, reason = "the signature is V8's")]
unsafe extern "C" fn out_of_memory(_location: *const c_char, _details: &v8::OomDetails) {
    last_words::say_heap();
}

/// Memory of array buffers, outside V8's heap.
pub(super) struct Buffers {
    left: AtomicUsize,
}

impl Buffers {
    #[expect(unsafe_code, reason = "the handle is an Arc, which `release` takes back")]
    pub(super) fn allocator(limit: usize) -> v8::UniqueRef<v8::Allocator> {
        static VTABLE: v8::RustAllocatorVtable<Buffers> =
            v8::RustAllocatorVtable { allocate, allocate_uninitialized, free, drop: release };
        let buffers = Arc::new(Self { left: AtomicUsize::new(limit) });
        unsafe { v8::new_rust_allocator(Arc::into_raw(buffers), &VTABLE) }
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn allocate(&self, bytes: usize, allocate: impl Fn(Layout) -> *mut u8) -> *mut c_void {
        let Some(layout) = layout(bytes) else { return std::ptr::null_mut() };
        if !self.take(bytes) {
            return std::ptr::null_mut();
        }
        let memory = allocate(layout);
        if memory.is_null() {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
        memory.cast()
    }
}

/// V8 asks for buffers of zero bytes too; they get one byte.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), align_of::<u128>()).ok()
}

#[expect(unsafe_code, reason = "the layout is never of size zero")]
unsafe extern "C" fn allocate(buffers: &Buffers, bytes: usize) -> *mut c_void {
    buffers.allocate(bytes, |layout| unsafe { alloc_zeroed(layout) })
}

#[expect(unsafe_code, reason = "the layout is never of size zero")]
unsafe extern "C" fn allocate_uninitialized(buffers: &Buffers, bytes: usize) -> *mut c_void {
    buffers.allocate(bytes, |layout| unsafe { alloc(layout) })
}

#[expect(unsafe_code, reason = "V8 frees what it got from `allocate`, with the same size")]
unsafe extern "C" fn free(buffers: &Buffers, memory: *mut c_void, bytes: usize) {
    let Some(layout) = layout(bytes) else { return };
    buffers.left.fetch_add(bytes, Ordering::Relaxed);
    unsafe { dealloc(memory.cast(), layout) };
}

#[expect(unsafe_code, reason = "the pointer is that of `Arc::into_raw` in `allocator`")]
unsafe extern "C" fn release(buffers: *const Buffers) {
    drop(unsafe { Arc::from_raw(buffers) });
}
