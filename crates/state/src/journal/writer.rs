//! Writes the lines of a journal.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Answered, End, Line, Sent, Waits};
use base::error::{Error, ErrorCode, Result};
use base::{limits, task};

/// Writes the journal of one run.
#[derive(Debug)]
pub struct Writer {
    pub(super) journal: Arc<dyn crate::Journal>,
    pub(super) run: String,
    pub(super) client: String,
    /// Run that it continues.
    pub(super) parent: Option<String>,
    pub(super) key: Arc<str>,
    /// Origins of servers, with their digests by the key.
    pub(super) origins: Mutex<HashMap<String, String>>,
    /// Bytes of requests and answers so far.
    pub(super) kept: AtomicUsize,
    /// Bytes of all journals since old ones were removed.
    pub(super) written: Arc<AtomicU64>,
}

/// Digest of connection settings, for comparison on disk: its key keeps readers of the disk from trying values.
pub(super) fn keyed(key: &str, origin: &str) -> String {
    stubgen::digest(format!("{key} {origin}"))
}

impl Writer {
    /// Writes that a call goes out, with its `origin` as it is in memory; a request that is too large is left out.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written: the call must not go out.
    pub fn sent(&self, mut sent: Sent) -> Result<()> {
        let mut origins = self.origins.lock();
        sent.origin = origins.entry(sent.origin).or_insert_with_key(|origin| keyed(&self.key, origin)).clone();
        drop(origins);
        let size = sent.ask.as_ref().map_or(0, |ask| ask.get().len());
        sent.ask = sent.ask.filter(|_| self.has_room(size));
        let written = task::work_on(size, || self.write(&Line::<wire::Outcome>::Sent(sent)));
        written.map_err(|error| {
            let what = format!("the call is not made: it cannot be put into the journal of the run ({error})");
            Error::new(ErrorCode::Internal, what).hint("the operator has to see to the disk; then resume the run")
        })
    }

    /// Writes that the server has made a task of a call.
    pub fn has_task(&self, op: u64, id: &str) {
        self.note("a task", 0, &Line::<wire::Outcome>::Task { op, id: id.to_owned() });
    }

    /// Writes an answer. One that is too large is left out; one that cannot be written is missing, and its call counts
    /// as unknown.
    pub fn answered(&self, answered: Answered<&wire::Outcome>) {
        let asked = answered.ask.as_ref().map_or(0, |ask| ask.get().len());
        let size = match answered.answer {
            Some(wire::Outcome::Ok(value)) => value.get().len(),
            _ => 0,
        };
        let line = match self.has_room(asked + size) {
            true => answered,
            false => Answered { ask: None, answer: None, left_out: Some(asked + size), ..answered },
        };
        self.note("an answer", asked + size, &Line::Answered(line));
    }

    fn has_room(&self, bytes: usize) -> bool {
        let has_room = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= limits::JOURNAL_KEPT.max);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_ok()
    }

    /// Writes that a call waits for approval.
    pub fn waits(&self, waits: Waits) {
        self.note("a call that waits", 0, &Line::<wire::Outcome>::Waits(waits));
    }

    /// Writes the end of the run.
    pub fn ended(&self, mut end: End) {
        let size = end.value.as_ref().map_or(0, |value| value.get().len()) + end.output.len();
        if !self.has_room(size) {
            end.value = None;
        }
        self.note("the end", size, &Line::<wire::Outcome>::Ended(Box::new(end)));
    }

    /// Writes a line of about `size` bytes without which the run goes on all the same.
    fn note<A: serde::Serialize>(&self, what: &str, size: usize, line: &Line<A>) {
        task::work_on(size, || self.write(line))
            .unwrap_or_else(|error| tracing::error!(%error, "{what} is missing in the journal of its run"));
    }

    pub(super) fn write<A: serde::Serialize>(&self, line: &Line<A>) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.journal.append(&bytes)
    }
}
