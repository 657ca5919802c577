//! Watches the CPU time of the engine thread from another thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use parking_lot::{Condvar, Mutex};
use wire::Run;

use crate::last_words;

/// CPU time over the limit for the engine to stop; then the process ends.
const GRACE: Duration = Duration::from_secs(2);

/// Tells an engine that its run's CPU time is used up. Interpreters poll [`Interrupt::is_raised`]; V8 has a hook.
#[derive(Default)]
pub(crate) struct Interrupt {
    raised: AtomicBool,
    hook: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Interrupt {
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    #[cfg(feature = "v8")]
    pub(crate) fn on_raise(&self, hook: impl Fn() + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
        if let Some(hook) = &*self.hook.lock() {
            hook();
        }
    }

    fn clear(&self) {
        self.raised.store(false, Ordering::Relaxed);
    }
}

/// Watches one run at a time.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    clock: ClockId,
    started: Duration,
}

struct Shared {
    interrupt: Arc<Interrupt>,
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Default)]
struct Watched {
    /// CPU time of the thread at which the run is over its limit.
    end: Option<Duration>,
    raised: bool,
    /// Time at which the watching thread looks again unasked.
    looks: Option<Instant>,
}

impl Watchdog {
    /// Starts watching the calling thread.
    pub(crate) fn start(interrupt: Arc<Interrupt>) -> io::Result<Self> {
        let clock = thread_clock()?;
        let shared = Arc::new(Shared { interrupt, watched: Mutex::default(), changed: Condvar::new() });
        let seen = Arc::clone(&shared);
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || seen.watch(clock))?;
        Ok(Self { shared, clock, started: Duration::ZERO })
    }

    /// Starts the clock of a run.
    pub(crate) fn arm(&mut self, run: &Run) {
        self.started = now(self.clock);
        self.shared.interrupt.clear();
        let limit = Duration::from_millis(run.limits.cpu_ms);
        let mut watched = self.shared.watched.lock();
        (watched.end, watched.raised) = (Some(self.started.saturating_add(limit)), false);
        // The thread is not woken for a run that it will look at in time: most are over long before.
        if watched.looks.is_none_or(|looks| looks > Instant::now() + limit) {
            self.shared.changed.notify_one();
        }
    }

    /// Stops the clock and returns the CPU time of the run in microseconds.
    pub(crate) fn disarm(&mut self) -> u64 {
        self.shared.watched.lock().end = None;
        let used = now(self.clock).saturating_sub(self.started);
        u64::try_from(used.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Shared {
    fn watch(&self, clock: ClockId) {
        let mut watched = self.watched.lock();
        loop {
            let Some(end) = watched.end else {
                watched.looks = None;
                self.changed.wait(&mut watched);
                continue;
            };
            let deadline = if watched.raised { end.saturating_add(GRACE) } else { end };
            let left = deadline.saturating_sub(now(clock));
            if !left.is_zero() {
                // The thread cannot use CPU time faster than time passes.
                watched.looks = Some(Instant::now() + left);
                self.changed.wait_for(&mut watched, left);
            } else if watched.raised {
                last_words::say_cpu();
            } else {
                watched.raised = true;
                self.interrupt.raise();
            }
        }
    }
}

fn now(clock: ClockId) -> Duration {
    clock.now().map_or(Duration::ZERO, Duration::from)
}

#[cfg(target_os = "linux")]
fn thread_clock() -> io::Result<ClockId> {
    let mut clock = 0;
    #[expect(unsafe_code, reason = "nix has no pthread_getcpuclockid; the thread is the calling one, so it lives")]
    let code = unsafe { nix::libc::pthread_getcpuclockid(nix::libc::pthread_self(), &raw mut clock) };
    if code == 0 { Ok(ClockId::from_raw(clock)) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// On other platforms the process's CPU time stands in: the engine thread uses nearly all of it.
#[cfg(not(target_os = "linux"))]
fn thread_clock() -> io::Result<ClockId> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}
