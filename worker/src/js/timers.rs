//! Timers of a script. The gateway waits for each ([`wire::Op::Sleep`]), so that replies alone decide when one runs.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// Due time in milliseconds of the run's clock, and number: the order of timers.
type Due = (u64, u32);

/// Timers without delay that run between two replies. Those set after that wait for the gateway, so that a script that
/// polls hears replies.
const MOST_TURNS: u32 = 8;

/// Timers that are set.
#[derive(Default)]
pub(super) struct Timers {
    /// To run before another reply is looked at, in order.
    ready: VecDeque<u32>,
    waiting: BTreeSet<Due>,
    /// By the requests for them; those of cancelled timers are answered too.
    sleeps: HashMap<u64, Due>,
    /// Timers that ran since the last reply.
    turns: u32,
}

impl Timers {
    /// True if a timer without delay may run before the next reply.
    pub(super) fn may_run_now(&self) -> bool {
        self.turns < MOST_TURNS
    }

    /// Sets a timer without delay: no reply decides when it runs.
    pub(super) fn set_now(&mut self, id: u32) {
        self.ready.push_back(id);
    }

    /// Sets a timer that is due when `call` is answered.
    pub(super) fn set(&mut self, id: u32, due_ms: u64, call: u64) {
        self.waiting.insert((due_ms, id));
        self.sleeps.insert(call, (due_ms, id));
    }

    pub(super) fn cancel(&mut self, id: u32) {
        self.ready.retain(|ready| *ready != id);
        self.waiting.retain(|(_, waiting)| *waiting != id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty()
    }

    /// Notes a reply. The timer of an answered request is ready, after all that are due before it: the gateway may answer
    /// requests of the same moment in any order. Returns its due time, or `None` if the call is not of a timer.
    pub(super) fn answered(&mut self, call: u64) -> Option<u64> {
        self.turns = 0;
        let due = self.sleeps.remove(&call)?;
        while let Some(first) = self.waiting.pop_first() {
            if first > due {
                self.waiting.insert(first);
                break;
            }
            self.ready.push_back(first.1);
        }
        Some(due.0)
    }

    /// Takes the next timer to run.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front().inspect(|_| self.turns += 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;

    fn ready(timers: &mut Timers) -> Vec<u32> {
        std::iter::from_fn(|| timers.next_ready()).collect()
    }

    #[test]
    fn timers_run_in_the_order_of_their_times_whichever_is_answered_first() {
        let mut timers = Timers::default();
        timers.set(1, 130, 11);
        timers.set(2, 120, 12);
        timers.set(3, 120, 13);
        timers.set(4, 200, 14);
        assert_eq!(timers.answered(13), Some(120));
        assert_eq!(ready(&mut timers), [2, 3]);
        assert_eq!((timers.answered(12), timers.answered(99)), (Some(120), None));
        assert_eq!(ready(&mut timers), [0_u32; 0]);
        assert_eq!((timers.answered(14), ready(&mut timers)), (Some(200), vec![1, 4]));
        assert!(timers.is_empty());
    }

    #[test]
    fn a_cancelled_timer_never_runs_and_leaves_nothing_to_wait_for() {
        let mut timers = Timers::default();
        timers.set_now(1);
        timers.set(2, 100, 11);
        timers.cancel(1);
        timers.cancel(2);
        assert!(timers.is_empty());
        assert_eq!((timers.answered(11), ready(&mut timers)), (Some(100), Vec::new()));
    }
}
