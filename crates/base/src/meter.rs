//! Meters work on untrusted input in steps, and keeps it off the async threads.
//!
//! A [`Meter`] counts steps of some ten to a hundred nanoseconds. Work without steps left stops, and so does work whose
//! request ended: cancelled, timed out, or with the gateway.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use crate::error::{Error, ErrorCode};

/// Steps done inline: well under a millisecond.
const INLINE: u64 = 4_000;
/// Steps between checks for cancellation.
const LOOK: u64 = 256;

/// Concurrent long work, so that a processor stays free: one less than there are, at least one.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    Semaphore::new(processors.saturating_sub(1).max(1))
});

/// Reason why metered work stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Out of steps.
    Spent,
    /// Cancelled.
    GivenUp,
    /// Panicked; the panic hook has logged the place.
    Panicked,
}

impl Stopped {
    /// Error of stopped work; `what` is such as "check the arguments".
    pub fn error(self, what: &str) -> Error {
        match self {
            Self::Spent => Error::new(ErrorCode::LimitExceeded, format!("too much work to {what}"))
                .hint("make the input smaller or less nested; the step limits are in docs/limits.md"),
            Self::GivenUp => Error::new(ErrorCode::Cancelled, format!("it was given up to {what}")),
            Self::Panicked => Error::new(ErrorCode::Internal, format!("a defect made it impossible to {what}")),
        }
    }
}

/// Counts the steps of one piece of work.
pub struct Meter {
    left: Cell<u64>,
    until_look: Cell<u64>,
    given_up: Option<Arc<AtomicBool>>,
}

impl Meter {
    /// A meter for inline work.
    pub fn new(steps: u64) -> Self {
        Self { left: Cell::new(steps), until_look: Cell::new(LOOK), given_up: None }
    }

    /// Steps left.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Charges `steps` before they are done.
    ///
    /// # Errors
    /// When too few are left, or the work was cancelled.
    pub fn spend(&self, steps: u64) -> Result<(), Stopped> {
        self.left.set(self.left.get().checked_sub(steps).ok_or(Stopped::Spent)?);
        match self.until_look.get().checked_sub(steps) {
            Some(until) => self.until_look.set(until),
            None => {
                self.until_look.set(LOOK);
                if self.given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::Relaxed)) {
                    return Err(Stopped::GivenUp);
                }
            }
        }
        Ok(())
    }

    /// Charges work that takes long whatever its steps, so that it is not done inline.
    ///
    /// # Errors
    /// As [`Meter::spend`].
    pub fn spend_long(&self) -> Result<(), Stopped> {
        self.spend(INLINE + 1)
    }
}

/// Does work of at most `steps`. Short work runs inline. Longer work restarts on a thread for blocking work, a few at a
/// time; dropping the future cancels it.
///
/// # Errors
/// The reason why it stopped early.
pub async fn metered<T, W>(steps: u64, work: W) -> Result<T, Stopped>
where
    T: Send + 'static,
    W: Fn(&Meter) -> Result<T, Stopped> + Send + 'static,
{
    match work(&Meter::new(steps.min(INLINE))) {
        Err(Stopped::Spent) if steps > INLINE => {}
        done => return done,
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let _dropped = scopeguard::guard(Arc::clone(&given_up), |given_up| given_up.store(true, Ordering::Relaxed));
    let meter = Meter { given_up: Some(given_up), ..Meter::new(steps) };
    apart(move || work(&meter)).await?
}

/// Does bounded work on a thread for blocking work, a few at a time.
///
/// # Errors
/// When it panicked, or the gateway shuts down.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Stopped> {
    let _place = PLACES.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => Err(Stopped::Panicked),
        Err(_) => Err(Stopped::GivenUp),
    }
}

/// Reason why metered, fallible work has no result.
pub enum Halt {
    /// The meter, or a panic, stopped it.
    Stopped(Stopped),
    /// It failed.
    Failed(Error),
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Halt {
    /// Error of work named `what`.
    pub fn error(self, what: &str) -> Error {
        match self {
            Self::Stopped(stopped) => stopped.error(what),
            Self::Failed(error) => error,
        }
    }
}

/// Like [`metered`], for fallible work named `what`, such as "check the arguments".
///
/// # Errors
/// The work's own, or the reason why it was stopped.
pub async fn metered_as<T, W>(what: &str, steps: u64, work: W) -> Result<T, Error>
where
    T: Send + 'static,
    W: Fn(&Meter) -> Result<T, Halt> + Send + 'static,
{
    let done = metered(steps, move |meter| match work(meter) {
        Ok(done) => Ok(Ok(done)),
        Err(Halt::Failed(error)) => Ok(Err(error)),
        Err(Halt::Stopped(stopped)) => Err(stopped),
    });
    done.await.unwrap_or_else(|stopped| Err(stopped.error(what)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn count(to: u64) -> impl Fn(&Meter) -> Result<u64, Stopped> + Send + 'static {
        move |meter| {
            for _ in 0..to {
                meter.spend(1)?;
            }
            Ok(to)
        }
    }

    #[tokio::test]
    async fn work_ends_with_its_steps_short_or_long() {
        for (steps, needed, ends) in [
            (10, 10, Ok(10)),
            (9, 10, Err(Stopped::Spent)),
            (100_000, 100_000, Ok(100_000)),
            (99_999, 100_000, Err(Stopped::Spent)),
        ] {
            assert_eq!(metered(steps, count(needed)).await, ends, "{needed} of {steps}");
        }
    }

    #[tokio::test]
    async fn dropping_the_future_gives_the_work_up() {
        let (tell, told) = std::sync::mpsc::channel();
        let endless = move |meter: &Meter| loop {
            if let Err(stopped) = meter.spend(1) {
                let _ = tell.send(stopped);
                return Err::<(), _>(stopped);
            }
        };
        let waited = tokio::time::timeout(Duration::from_millis(20), metered(u64::MAX, endless)).await;
        assert!(waited.is_err(), "it is endless");
        assert_eq!(told.recv(), Ok(Stopped::Spent), "the first try, on this thread");
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(Stopped::GivenUp));
    }
}
