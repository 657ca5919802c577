//! The clock of a run. It stands still while the script computes and moves when the script gets a reply, to the time
//! that the reply names: what a script does depends on its replies alone, never on how fast the machine is.

use std::cell::Cell;

/// Reads of the clock without a move at which a script that used up its CPU time was most likely waiting in a loop.
const SPINNING: u64 = 10_000;

/// Milliseconds since 1970.
#[derive(Default)]
pub(super) struct Clock {
    now_ms: Cell<u64>,
    /// Reads since it moved.
    reads: Cell<u64>,
}

impl Clock {
    /// Sets it to the start of a run.
    pub(super) fn start(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
        self.reads.set(0);
    }

    /// Moves it, never back.
    pub(super) fn advance(&self, now_ms: u64) {
        self.now_ms.set(self.now_ms.get().max(now_ms));
        self.reads.set(0);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// The time for the script.
    pub(super) fn read(&self) -> f64 {
        self.reads.set(self.reads.get() + 1);
        #[expect(clippy::cast_precision_loss, reason = "exact for the next 280,000 years")]
        let now = self.now_ms.get() as f64;
        now
    }

    /// True if the script reads it over and over, as a loop does that waits for a time.
    pub(super) fn is_spinning(&self) -> bool {
        self.reads.get() >= SPINNING
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn the_clock_never_moves_back() {
        let clock = Clock::default();
        clock.start(1_000);
        clock.advance(1_500);
        clock.advance(1_200);
        assert_eq!((clock.now_ms(), clock.read()), (1_500, 1_500.0));
    }
}
