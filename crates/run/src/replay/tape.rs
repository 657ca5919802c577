//! Recorded operations, ready to be played.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use wire::{CallError, Json, Outcome};

use super::{Asked, raw};
use base::error::Result;
use redact::{Outgoing as _, Surface};
use state::journal::Recorded;

/// Recorded operations of a run.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    /// The operations, by number.
    pub operations: Vec<Taped>,
    /// True if the run was stopped, or died, before its script ended.
    pub is_cut: bool,
    /// The clock at its begin, in Unix milliseconds.
    pub now_ms: u64,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Taped {
    /// Its number.
    pub number: u64,
    /// The request.
    pub asked: Asked,
    /// Its answer; `None` if the run ended without one.
    pub answer: Option<TapedAnswer>,
}

/// A recorded answer.
#[derive(Debug, Clone)]
pub struct TapedAnswer {
    /// Its place in the order of answers, from 0.
    pub order: usize,
    /// The script's clock from here on, in Unix milliseconds.
    pub now_ms: u64,
    /// The answer, or its size if it was too large to keep.
    pub outcome: std::result::Result<Outcome, usize>,
}

impl Tape {
    /// Operations of a journal.
    ///
    /// # Errors
    /// `INVALID_ARGS` when a request cannot be read.
    pub fn of(recorded: Recorded) -> Result<Self> {
        let is_cut = recorded.is_cut();
        let now_ms = recorded.head.now_ms;
        let places: HashMap<u64, usize> =
            recorded.order.iter().enumerate().map(|(place, number)| (*number, place)).collect();
        let mut operations = Vec::with_capacity(recorded.operations.len());
        for (number, operation) in recorded.operations {
            let asked = operation.op.as_ref().map(Asked::of).transpose()?;
            let answer = operation.given.map(|given| TapedAnswer {
                order: places.get(&number).copied().unwrap_or_default(),
                now_ms: given.now_ms,
                outcome: match (given.outcome, &asked) {
                    (Some(outcome), Some(_)) => Ok(outcome),
                    _ => Err(given.left_out.unwrap_or_default()),
                },
            });
            operations.push(Taped { number, asked: asked.unwrap_or_else(Asked::left_out), answer });
        }
        Ok(Self { operations, is_cut, now_ms })
    }

    /// Number of recorded answers.
    pub(super) fn answers(&self) -> usize {
        self.operations.iter().filter(|operation| operation.answer.is_some()).count()
    }

    /// The same, with answers as they are shown on a surface.
    #[must_use]
    pub fn redacted(mut self, surface: Surface) -> Self {
        for answer in self.operations.iter_mut().filter_map(|operation| operation.answer.as_mut()) {
            if let Ok(outcome) = &mut answer.outcome {
                *outcome = clean(outcome, surface);
            }
        }
        self
    }
}

fn clean(outcome: &Outcome, surface: Surface) -> Outcome {
    let json = |json: &Json| match redact::json_text(surface, json.get()) {
        Cow::Borrowed(_) => json.clone(),
        Cow::Owned(text) => RawValue::from_string(text).unwrap_or_else(|_| raw(&Value::from("[redacted]"))),
    };
    match outcome {
        Outcome::Ok(value) => Outcome::Ok(json(value)),
        Outcome::Err(error) => Outcome::Err(CallError {
            code: error.code,
            message: error.message.clone().redacted(surface),
            retryable: error.retryable,
            suggested_fix: error.suggested_fix.clone().map(|fix| fix.redacted(surface)),
            data: error.data.as_ref().map(json),
        }),
    }
}
