//! Answers a script from a record, in the recorded order, and finds where it diverges.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use wire::{Op, Outcome};

use super::tape::TapedAnswer;
use super::{Asked, Parting, Tape, Taped, raw};
use crate::sandbox::{Answer, Host};
use base::pause::Pause;
use redact::Surface;

/// Silence after which an answer no longer waits for one before it, whose request has not come.
const QUIET: Duration = Duration::from_millis(100);
/// Silence after which the first timer that is not recorded runs out; each further one takes half of it, so that all
/// together take no more than twice as long.
const SLEEP: Duration = Duration::from_secs(1);

/// Rule by which a request is the same as a recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The n-th request is the n-th recorded one, and equal.
    Exact,
    /// The n-th request is the n-th recorded one, with any arguments.
    Position,
    /// The request is the next recorded one that is equal, as this surface shows both.
    Kind(Surface),
}

/// A script's host that knows a record only.
#[derive(Debug)]
pub struct Player {
    matching: Matching,
    tape: Tape,
    stall: Duration,
    state: Mutex<State>,
    /// Counts what happens.
    steps: watch::Sender<u64>,
    pause: Pause,
}

#[derive(Debug, Default)]
struct State {
    /// Places of operations on the tape by key, where they are matched so.
    by_key: HashMap<String, VecDeque<usize>>,
    was_asked: Vec<bool>,
    /// Requests as the script made them, with the operation on the tape.
    asked: Vec<(u64, Asked, Option<usize>)>,
    /// Places of answers whose requests have come.
    waiting: BTreeSet<usize>,
    /// Timers that are not recorded: end and number.
    timers: BTreeSet<(u64, u64)>,
    /// Number of those that ran out.
    run_out: u32,
    /// Places of answers that were given.
    given: BTreeSet<usize>,
    /// Requests that get no answer.
    held: usize,
    now_ms: u64,
    parting: Option<Parting>,
}

/// Way of a request.
enum Way<'t> {
    Answer(&'t TapedAnswer, &'t Outcome),
    /// A timer that is not recorded: its end and number.
    Timer(u64, u64),
    Nothing,
}

impl Player {
    /// A player of a tape; without a step for `stall`, a script that waits is taken for one that has parted.
    pub fn new(tape: Tape, matching: Matching, stall: Duration) -> Self {
        let was_asked = vec![false; tape.operations.len()];
        let mut state = State { now_ms: tape.now_ms, was_asked, ..State::default() };
        if let Matching::Kind(surface) = matching {
            for (index, operation) in tape.operations.iter().enumerate() {
                let key = operation.asked.clone().redacted(surface).key();
                state.by_key.entry(key).or_default().push_back(index);
            }
        }
        let (steps, pause) = (watch::Sender::new(0), Pause::default());
        Self { matching, tape, stall, state: Mutex::new(state), steps, pause }
    }

    /// Waits until the script has parted from the record.
    pub async fn parted(&self) {
        let mut steps = self.steps.subscribe();
        loop {
            steps.borrow_and_update();
            if self.state.lock().parting.is_some() {
                return;
            }
            if timeout(self.stall, steps.changed()).await.is_err() {
                let mut state = self.state.lock();
                if state.held > 0 || !state.waiting.is_empty() {
                    let parting = self.first_missing(&state).or_else(|| self.first_held(&state));
                    state.parting = parting;
                }
            }
        }
    }

    /// Where the run parted, also by ending before it had made all recorded requests.
    pub fn parting(&self) -> Option<Parting> {
        let state = self.state.lock();
        state.parting.clone().or_else(|| self.first_missing(&state))
    }

    /// Requests that the script made, in order, each with the number of the recorded one.
    pub fn asked(&self) -> Vec<(Asked, Option<u64>)> {
        let state = self.state.lock();
        let recorded = |index: &usize| self.tape.operations.get(*index).map(|operation| operation.number);
        let mut asked: Vec<_> = state.asked.iter().collect();
        asked.sort_by_key(|(number, ..)| *number);
        asked.into_iter().map(|(_, asked, index)| (asked.clone(), index.as_ref().and_then(recorded))).collect()
    }

    /// Recorded requests that the script did not make.
    pub fn missing(&self) -> Vec<Asked> {
        let state = self.state.lock();
        let missing = self.tape.operations.iter().zip(&state.was_asked).filter(|(_, was_asked)| !**was_asked);
        missing.map(|(operation, _)| operation.asked.clone()).collect()
    }

    fn first_missing(&self, state: &State) -> Option<Parting> {
        let index = state.was_asked.iter().position(|was_asked| !was_asked)?;
        let Taped { number, asked, .. } = self.tape.operations.get(index)?;
        Some(Parting::Missing { number: *number, recorded: asked.clone() })
    }

    fn first_held(&self, state: &State) -> Option<Parting> {
        let answer = |index: usize| self.tape.operations.get(index)?.answer.as_ref();
        let held = state.asked.iter().find(|(_, _, index)| index.and_then(answer).is_none());
        held.map(|(number, asked, _)| Parting::NotRecorded { number: *number, asked: asked.clone() })
    }

    /// Takes a request.
    fn take(&self, number: u64, op: &Op) -> Way<'_> {
        let mut state = self.state.lock();
        let asked = match Asked::of(op) {
            Ok(asked) => asked,
            Err(error) => {
                let why = error.message;
                state.parting.get_or_insert(Parting::Unreadable { number, why });
                return Way::Nothing;
            }
        };
        let index = match self.matching {
            Matching::Kind(surface) => {
                let key = asked.clone().redacted(surface).key();
                state.by_key.get_mut(&key).and_then(VecDeque::pop_front)
            }
            Matching::Exact | Matching::Position => {
                self.tape.operations.binary_search_by_key(&number, |operation| operation.number).ok()
            }
        };
        state.asked.push((number, asked.clone(), index));
        let Some((index, taped)) = index.and_then(|index| Some((index, self.tape.operations.get(index)?))) else {
            return self.unrecorded(&mut state, number, asked, op);
        };
        let recorded = &taped.asked;
        let is_same = match self.matching {
            _ if *recorded == Asked::left_out() => true,
            Matching::Exact => recorded.key() == asked.key(),
            Matching::Position => recorded.subject() == asked.subject(),
            Matching::Kind(_) => true,
        };
        if !is_same {
            let recorded = recorded.clone();
            state.parting.get_or_insert(Parting::Other { number, recorded, asked });
            return Way::Nothing;
        }
        if let Some(was_asked) = state.was_asked.get_mut(index) {
            *was_asked = true;
        }
        let Some(answer) = &taped.answer else {
            state.held += 1;
            self.look_for_end(&mut state);
            return Way::Nothing;
        };
        match &answer.outcome {
            Ok(outcome) => {
                state.waiting.insert(answer.order);
                Way::Answer(answer, outcome)
            }
            Err(bytes) => {
                let (number, recorded, bytes) = (taped.number, recorded.clone(), *bytes);
                state.parting.get_or_insert(Parting::LeftOut { number, recorded, bytes });
                Way::Nothing
            }
        }
    }

    /// A request that is not recorded. By number it is one that had no answer when the run ended.
    fn unrecorded(&self, state: &mut State, number: u64, asked: Asked, op: &Op) -> Way<'_> {
        match (self.matching, op) {
            (Matching::Kind(_), Op::Sleep { ms }) => {
                let end = state.now_ms.saturating_add(u64::from(*ms));
                state.timers.insert((end, number));
                Way::Timer(end, number)
            }
            (Matching::Kind(_), _) => {
                state.parting.get_or_insert(Parting::NotRecorded { number, asked });
                Way::Nothing
            }
            (Matching::Exact | Matching::Position, _) => {
                state.held += 1;
                self.look_for_end(state);
                Way::Nothing
            }
        }
    }

    /// The end of a record without an end: all is answered, and the script waits.
    fn look_for_end(&self, state: &mut State) {
        let is_over = self.tape.is_cut && state.held > 0 && state.given.len() == self.tape.answers();
        if is_over && state.was_asked.iter().all(|was_asked| *was_asked) {
            state.parting.get_or_insert(Parting::End);
        }
    }

    fn step(&self) {
        self.steps.send_modify(|steps| *steps = steps.wrapping_add(1));
    }

    /// Waits for the place of an answer.
    async fn turn(&self, order: usize) {
        let mut steps = self.steps.subscribe();
        loop {
            steps.borrow_and_update();
            let (is_first, is_next) = {
                let state = self.state.lock();
                let last = state.given.last().map_or(0, |last| last + 1);
                (state.waiting.first() == Some(&order), order <= last)
            };
            let patience = match (is_first, is_next, self.matching) {
                (true, true, _) => return,
                (true, false, Matching::Kind(_)) => QUIET,
                _ => Duration::MAX,
            };
            if timeout(patience, steps.changed()).await.is_err() {
                return;
            }
        }
    }

    fn give(&self, answer: &TapedAnswer, outcome: &Outcome) -> Answer {
        let mut state = self.state.lock();
        state.now_ms = answer.now_ms.max(state.now_ms);
        state.waiting.remove(&answer.order);
        state.given.insert(answer.order);
        self.look_for_end(&mut state);
        Answer { outcome: outcome.clone(), now_ms: state.now_ms }
    }

    /// Waits until nothing else happens, and this timer is the next.
    async fn run_out(&self, end: u64, number: u64) -> Answer {
        let mut steps = self.steps.subscribe();
        loop {
            steps.borrow_and_update();
            let patience = {
                let state = self.state.lock();
                let is_next = state.waiting.is_empty() && state.timers.first() == Some(&(end, number));
                if is_next { SLEEP / (1 << state.run_out.min(16)) } else { Duration::MAX }
            };
            if timeout(patience, steps.changed()).await.is_err() {
                break;
            }
        }
        let mut state = self.state.lock();
        state.timers.remove(&(end, number));
        state.run_out += 1;
        state.now_ms = state.now_ms.max(end);
        Answer { outcome: Outcome::Ok(raw(&serde_json::Value::Null)), now_ms: state.now_ms }
    }
}

#[async_trait]
impl Host for Player {
    async fn call(&self, number: u64, op: Op) -> Answer {
        let way = self.take(number, &op);
        self.step();
        let answer = match way {
            Way::Answer(answer, outcome) => {
                self.turn(answer.order).await;
                Some(self.give(answer, outcome))
            }
            Way::Timer(end, number) => Some(self.run_out(end, number).await),
            Way::Nothing => None,
        };
        self.step();
        match answer {
            Some(answer) => answer,
            None => pending().await,
        }
    }

    fn pause(&self) -> &Pause {
        &self.pause
    }
}
