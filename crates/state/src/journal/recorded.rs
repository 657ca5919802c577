//! One run as its journal tells it.

use std::collections::BTreeMap;

use wire::{Json, Op, Outcome};

use super::Reader;
use super::line::{Answered, End, Head, Line, NESTED, RunOp, Sent};
use base::error::{Error, ErrorCode, Result};
use base::memory;
use base::outcome;

/// A run with all that its journal has of it.
#[derive(Debug)]
pub struct Recorded {
    /// First line.
    pub head: Head,
    /// Operations by number.
    pub operations: BTreeMap<u64, Operation>,
    /// Calls of the scripts that it called, by number. A replay has the answers of these scripts.
    pub nested: BTreeMap<u64, Operation>,
    /// Numbers of the answered operations, in the order of the answers.
    pub order: Vec<u64>,
    /// The end; `None` if the run has none, or not yet.
    pub end: Option<End>,
    /// Memory for all of it.
    _room: Option<memory::Reservation>,
}

/// One operation of a script.
#[derive(Debug)]
pub struct Operation {
    /// The request; `None` where it was too large to keep.
    pub op: Option<Op>,
    /// The call that went out for it.
    pub sent: Option<Sent>,
    /// Its answer.
    pub given: Option<Given>,
}

/// Answer to an operation.
#[derive(Debug)]
pub struct Given {
    /// The script's clock from here on, in Unix milliseconds.
    pub now_ms: u64,
    /// The answer that the script got; `None` where it was too large to keep.
    pub outcome: Option<Outcome>,
    /// Bytes of an answer that is not kept.
    pub left_out: Option<usize>,
    /// The call of an earlier run that the answer is from.
    pub from: Option<RunOp>,
}

impl Operation {
    /// True for a call of a tool, resource or prompt, be it refused.
    pub fn is_call(&self) -> bool {
        let asks = |op: &Op| matches!(op, Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. });
        self.sent.is_some() || self.op.as_ref().is_some_and(asks)
    }

    /// True for a call that may be done or not, of a run that has ended.
    pub fn is_unknown(&self) -> bool {
        self.sent.is_some() && self.given.is_none()
    }
}

impl Recorded {
    /// Reads a journal.
    ///
    /// # Errors
    /// `INTERNAL` when it is damaged.
    pub(super) fn read(mut reader: Reader) -> Result<Self> {
        let run = reader.run().to_owned();
        let Some(Line::Begun(head)) = reader.next_line()? else { return Err(damaged(&run, "it has no first line")) };
        let (operations, nested, room) = (BTreeMap::new(), BTreeMap::new(), reader.take_room());
        let mut recorded = Self { head: *head, operations, nested, order: Vec::new(), end: None, _room: room };
        while let Some(line) = reader.next_line()? {
            match line {
                Line::Begun(_) => return Err(damaged(&run, "it has two first lines")),
                Line::Sent(mut sent) => {
                    let op = sent.ask.take().map(|ask| request(&run, &ask)).transpose()?;
                    let number = sent.op;
                    recorded.of(number).insert(number, Operation { op, sent: Some(sent), given: None });
                }
                Line::Task { .. } | Line::Waits(_) | Line::Asks(_) | Line::Heard { .. } => {}
                Line::Answered(answered) => recorded.answered(answered)?,
                Line::Ended(end) => recorded.end = Some(*end),
            }
        }
        Ok(recorded)
    }

    fn answered(&mut self, answered: Answered) -> Result<()> {
        let Answered { op, now_ms, ask, answer, left_out, from, .. } = answered;
        let request = ask.map(|ask| request(&self.head.run, &ask)).transpose()?;
        let operation = self.of(op).entry(op).or_insert(Operation { op: None, sent: None, given: None });
        if operation.given.is_some() {
            return Err(damaged(&self.head.run, &format!("operation {op} has two answers")));
        }
        operation.op = operation.op.take().or(request);
        operation.given = Some(Given { now_ms, outcome: answer, left_out, from });
        if op < NESTED {
            self.order.push(op);
        }
        Ok(())
    }

    /// The operations that one of this number belongs to.
    fn of(&mut self, op: u64) -> &mut BTreeMap<u64, Operation> {
        if op < NESTED { &mut self.operations } else { &mut self.nested }
    }

    /// Outcome of the run: `Running` while it is written, `Unfinished` if its gateway ended before it did.
    pub fn outcome(&self, is_running: bool) -> outcome::Outcome {
        match &self.end {
            _ if is_running => outcome::Outcome::Running,
            Some(end) => end.outcome,
            None => outcome::Outcome::Unfinished,
        }
    }

    /// Its calls, and those of the scripts that it called.
    pub fn calls(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values().chain(self.nested.values()).filter(|operation| operation.is_call())
    }

    /// True if the run was stopped from outside, or died: its journal ends somewhere in the middle of its script.
    pub fn is_cut(&self) -> bool {
        let is_stopped =
            |end: &End| matches!(end.outcome, outcome::Outcome::Failed(ErrorCode::Timeout | ErrorCode::Cancelled));
        self.end.as_ref().is_none_or(is_stopped)
    }
}

fn request(run: &str, ask: &Json) -> Result<Op> {
    serde_json::from_str(ask.get()).map_err(|error| damaged(run, &format!("a request is none: {error}")))
}

fn damaged(run: &str, what: &str) -> Error {
    Error::new(ErrorCode::Internal, format!("the journal of run {run} is damaged: {what}"))
        .hint("what the run did is not known: look at what is done")
}
