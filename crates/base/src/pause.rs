//! Time that does not count towards timeouts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time in which a person or model at the client is asked: it counts neither for the script nor for the server.
#[derive(Debug, Default)]
pub struct Pause {
    held: Mutex<PauseState>,
    is_held: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct PauseState {
    holders: usize,
    since: Option<Instant>,
    before: Duration,
}

impl Pause {
    /// Starts or joins a pause; it ends when the last holder is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>) -> Hold {
        let mut held = self.held.lock();
        held.holders += 1;
        held.since.get_or_insert_with(Instant::now);
        self.is_held.send_replace(true);
        Hold(Arc::clone(self))
    }

    /// Waits until a pause starts, or ends.
    pub async fn until(&self, is_held: bool) {
        // The sender lives as long as the pause does.
        let _ = self.is_held.subscribe().wait_for(|now| *now == is_held).await;
    }

    /// Total time so far.
    pub fn total(&self) -> Duration {
        let held = self.held.lock();
        held.before + held.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Counts the time from now on, to extend a deadline.
    #[must_use]
    pub fn count(&self) -> Counted<'_> {
        Counted { pause: self, counted: self.total() }
    }
}

/// Paused time, counted once.
pub struct Counted<'a> {
    pause: &'a Pause,
    counted: Duration,
}

impl Counted<'_> {
    /// Paused time since the last call; not less than a beat unless it was zero.
    pub fn more(&mut self) -> Duration {
        const BEAT: Duration = Duration::from_millis(50);
        let more = self.pause.total() - self.counted;
        self.counted += more;
        if more.is_zero() { more } else { more.max(BEAT) }
    }
}

/// Keeps a pause going.
pub struct Hold(Arc<Pause>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.0.held.lock();
        held.holders -= 1;
        if held.holders == 0
            && let Some(since) = held.since.take()
        {
            held.before += since.elapsed();
            self.0.is_held.send_replace(false);
        }
    }
}
