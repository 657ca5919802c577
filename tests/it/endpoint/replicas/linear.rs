//! A checker of linearizability (Wing and Gong, with the memory of Lowe): is there an order of the operations of a
//! history, each between its begin and its end, in which a model of one process gives the same answers?

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// What operations do to one state.
pub(super) trait Model: Debug + Clone + PartialEq {
    type State: Clone + Eq + Hash + Default;

    /// State after the operation, if its answer is possible. Where the answer was lost, it may be any.
    fn after(&self, state: &Self::State) -> Option<Self::State>;

    /// True if its answer was lost: it was done at any time since, or never.
    fn is_lost(&self) -> bool;
}

/// One operation with its answer.
#[derive(Debug, Clone)]
pub(super) struct Done<M> {
    begin: Instant,
    end: Instant,
    what: M,
}

/// Operations of all replicas.
#[derive(Debug)]
pub(super) struct History<M>(Arc<Mutex<Vec<Done<M>>>>);

impl<M> Clone for History<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Model> History<M> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Does something, and notes when.
    pub(super) async fn note(&self, work: impl Future<Output = M>) {
        let begin = Instant::now();
        let what = work.await;
        self.0.lock().push(Done { begin, end: Instant::now(), what });
    }

    pub(super) fn all(&self) -> Vec<M> {
        self.0.lock().iter().map(|done| done.what.clone()).collect()
    }

    /// Panics unless the history is linearizable.
    pub(super) fn check(&self) {
        let mut all = self.0.lock().clone();
        all.sort_by_key(|done| done.begin);
        assert!(all.len() <= 128, "{} operations do not fit", all.len());
        let mut seen = HashSet::new();
        let is_linear = is_linear(&all, 0, &M::State::default(), &mut seen);
        assert!(is_linear, "no order explains this history:\n{all:#?}");
    }
}

/// True if the operations outside of `done` (one bit each) can follow in this state.
fn is_linear<M: Model>(all: &[Done<M>], done: u128, state: &M::State, seen: &mut HashSet<(u128, M::State)>) -> bool {
    if !seen.insert((done, state.clone())) {
        return false;
    }
    let left = || all.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
    // What has no answer does not need to be done.
    let Some(first_end) = left().filter(|(_, one)| !one.what.is_lost()).map(|(_, one)| one.end).min() else {
        return true;
    };
    // Of those that differ in nothing but their time, the earlier one stands for the later ones.
    let is_later = |at: usize, one: &Done<M>| {
        one.what.is_lost() && left().any(|(other, before)| other < at && before.what == one.what)
    };
    left()
        .filter(|(at, one)| one.begin <= first_end && !is_later(*at, one))
        .any(|(at, one)| one.what.after(state).is_some_and(|after| is_linear(all, done | (1 << at), &after, seen)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A register: `Read` what was written, `Write` with an answer or without.
    #[derive(Debug, Clone, PartialEq)]
    enum Register {
        Write(u8, bool),
        Read(u8),
    }

    impl Model for Register {
        type State = u8;

        fn after(&self, state: &u8) -> Option<u8> {
            match self {
                Self::Write(value, _) => Some(*value),
                Self::Read(value) => (value == state).then_some(*state),
            }
        }

        fn is_lost(&self) -> bool {
            matches!(self, Self::Write(_, false))
        }
    }

    #[test]
    fn a_history_is_linear_if_one_order_explains_it() {
        let zero = Instant::now();
        let history = |all: &[(u64, u64, Register)]| {
            let at = |ms| zero + Duration::from_millis(ms);
            let done = |(begin, end, what): &(u64, u64, Register)| Done {
                begin: at(*begin),
                end: at(*end),
                what: what.clone(),
            };
            let all: Vec<_> = all.iter().map(done).collect();
            is_linear(&all, 0, &0, &mut HashSet::new())
        };
        use Register::{Read, Write};
        for (is_linear, all) in [
            (true, vec![(0, 1, Write(1, true)), (2, 3, Read(1))]),
            (false, vec![(0, 1, Write(1, true)), (2, 3, Read(0))]),
            (true, vec![(0, 9, Write(1, true)), (2, 3, Read(0)), (4, 5, Read(1))]),
            (false, vec![(0, 9, Write(1, true)), (2, 3, Read(1)), (4, 5, Read(0))]),
            (true, vec![(0, 1, Write(1, false)), (2, 3, Read(0)), (4, 5, Read(1))]),
            (true, vec![(0, 1, Write(1, false)), (2, 3, Read(0))]),
            (false, vec![(2, 3, Read(1)), (4, 5, Write(1, false))]),
        ] {
            assert_eq!(history(&all), is_linear, "{all:?}");
        }
    }
}
