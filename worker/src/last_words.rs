//! Final `Done` of a run that takes the process down with it.
//!
//! Memory that an engine's native requests in one piece cannot be refused there: the allocator fails and the process
//! aborts. The frame that reports it is encoded before the run starts, so that a signal handler can send it without a
//! lock and without an allocation.

use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use wire::{Done, FromWorker, Run, ScriptError, Stats};

use crate::engine::{cpu_error, heap_error};
use crate::serve::{EXIT_LIMIT, Wire, exit};

static FD: AtomicI32 = AtomicI32::new(-1);
static HEAP: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());
static CPU: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());

/// Installs the handler for the abort of a failed allocation.
pub(crate) fn arm(wire: &Wire) {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    FD.store(wire.raw_fd(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::Handler(on_abort), SaFlags::SA_RESETHAND, SigSet::empty());
    #[expect(unsafe_code, reason = "the handler only loads atomics, writes and exits, which is async-signal-safe")]
    // If this fails, the default stays: the gateway sees a worker killed by a signal.
    let _ = unsafe { sigaction(Signal::SIGABRT, &action) };
}

/// Encodes the final frames of a run.
pub(crate) fn prepare(run: &Run) {
    set(&HEAP, frame(run, heap_error(run)));
    set(&CPU, frame(run, cpu_error(run)));
}

/// Drops them: the run ended regularly.
pub(crate) fn forget() {
    set(&HEAP, None);
    set(&CPU, None);
}

/// Ends the process: the run's memory is used up.
pub(crate) fn say_heap() {
    say(&HEAP);
}

/// Ends the process: the run did not stop at its CPU limit.
pub(crate) fn say_cpu() {
    say(&CPU);
    exit(EXIT_LIMIT)
}

extern "C" fn on_abort(_signal: std::ffi::c_int) {
    // Returning continues the abort, by the default action.
    say_heap();
}

fn say(words: &AtomicPtr<Vec<u8>>) {
    let frame = words.load(Ordering::Acquire);
    if frame.is_null() {
        return;
    }
    #[expect(unsafe_code, reason = "frames are leaked while set, and write reads only the bytes it is given")]
    unsafe {
        nix::libc::write(FD.load(Ordering::Relaxed), (*frame).as_ptr().cast(), (*frame).len());
    }
    exit(EXIT_LIMIT)
}

fn frame(run: &Run, error: ScriptError) -> Option<Vec<u8>> {
    wire::encode(&FromWorker::Done(Box::new(Done { run: run.run, result: Err(error), stats: Stats::default() }))).ok()
}

fn set(words: &AtomicPtr<Vec<u8>>, frame: Option<Vec<u8>>) {
    let new = frame.map_or(std::ptr::null_mut(), |frame| Box::into_raw(Box::new(frame)));
    let old = words.swap(new, Ordering::AcqRel);
    if !old.is_null() {
        #[expect(unsafe_code, reason = "only this function replaces the pointer, and only from the engine thread")]
        drop(unsafe { Box::from_raw(old) });
    }
}
