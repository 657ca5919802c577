//! Calls of one execution, and its remaining budget of calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::millis;
use crate::calls::preview;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::outcome::Outcome;
use config::Amount;
use state::audit::{CallRecord, HookRecord, StashUse, Verdict};
use state::spending::Paid;

/// Most requests of one run other than calls; they are answered from memory.
const MAX_DISCOVERY: u32 = limits::DISCOVERY.max as u32;
/// Most records of a run beyond its call limit: refused calls cost nothing, but are bounded.
const MAX_REFUSED: usize = 100;

/// Words behind the limit of calls of a run that has made them all.
pub(crate) const ALL_MADE: &str = " calls and this one has made them";

/// Operations of the stash that a record shows.
const MAX_STASH: usize = 200;

/// The calls of one execution in the order they were made.
#[derive(Default)]
pub struct Ledger {
    calls: Mutex<Vec<Arc<Mutex<CallRecord>>>>,
    stash: Mutex<Vec<StashUse>>,
    /// Decisions of hooks about the script.
    hooks: Mutex<Vec<HookRecord>>,
    closed: AtomicUsize,
    charged: AtomicU32,
    discovered: AtomicU32,
    /// Calls that an earlier run may answer.
    inherited: AtomicUsize,
    max_calls: u32,
}

impl Ledger {
    pub(super) fn new(max_calls: u32) -> Self {
        Self { max_calls, ..Self::default() }
    }

    /// Makes room for the records of calls that an earlier run answers.
    pub(super) fn expect_inherited(&self, calls: usize) {
        self.inherited.store(calls, Ordering::Relaxed);
    }

    /// Records so far.
    pub fn records(&self) -> Vec<CallRecord> {
        self.calls.lock().iter().map(|record| record.lock().clone()).collect()
    }

    /// Number of records, the `newest` of them, and the calls under way by server.
    pub(super) fn glance(&self, newest: usize) -> (usize, Vec<CallRecord>, BTreeMap<String, usize>) {
        let calls = self.calls.lock().clone();
        let mut under_way = BTreeMap::new();
        for call in &calls {
            let call = call.lock();
            if call.sent && call.outcome == Outcome::Running {
                *under_way.entry(call.server.clone()).or_default() += 1;
            }
        }
        let newest = calls.iter().skip(calls.len().saturating_sub(newest)).map(|call| call.lock().clone()).collect();
        (calls.len(), newest, under_way)
    }

    /// Puts an operation of the stash on record; only the first [`MAX_STASH`] are.
    pub(super) fn stash(&self, op: &'static str, key: &str, bytes: usize) {
        let mut stash = self.stash.lock();
        if stash.len() < MAX_STASH {
            stash.push(StashUse { op: op.to_owned(), key: preview(key), bytes });
        }
    }

    /// The operations of the stash so far.
    pub(super) fn stash_uses(&self) -> Vec<StashUse> {
        self.stash.lock().clone()
    }

    /// Puts decisions of hooks about the script on record.
    pub(super) fn heard(&self, decisions: impl IntoIterator<Item = HookRecord>) {
        self.hooks.lock().extend(decisions);
    }

    /// Those so far.
    pub(super) fn hooks(&self) -> Vec<HookRecord> {
        self.hooks.lock().clone()
    }

    /// Calls that have ended.
    pub fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn charge_discovery(&self) -> Result<()> {
        charge(&self.discovered, MAX_DISCOVERY, || {
            format!("a run may make {MAX_DISCOVERY} requests besides tool calls")
        })
    }

    /// Opens the record of a call.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when the run has too many refused calls; its last record says so.
    pub(super) fn open(&self, mut record: CallRecord) -> Result<Call<'_>> {
        let limit = self.max_calls as usize + MAX_REFUSED + self.inherited.load(Ordering::Relaxed);
        let mut calls = self.calls.lock();
        if calls.len() < limit {
            let record = Arc::new(Mutex::new(record));
            calls.push(Arc::clone(&record));
            let opened = Instant::now();
            return Ok(Call { ledger: self, record, opened, is_charged: false, is_planned: false, paid: None });
        }
        let error = Error::new(ErrorCode::BudgetExceeded, format!("a run may try {limit} calls and this one has"));
        if calls.len() == limit {
            record.outcome = Outcome::Failed(error.code);
            record.verdict = Verdict::Refused(error.code, format!("{}; what follows is not on record", error.message));
            calls.push(Arc::new(Mutex::new(record)));
        }
        Err(error)
    }
}

/// One call on record. Dropping it closes the record; a call that was not [closed](Call::close) stays `running`, since
/// its script ended first. What it has paid is refunded then, unless it went out.
pub(super) struct Call<'l> {
    ledger: &'l Ledger,
    record: Arc<Mutex<CallRecord>>,
    opened: Instant,
    is_charged: bool,
    is_planned: bool,
    /// Its payment, until its outcome is known.
    pub(super) paid: Option<Paid>,
}

impl Call<'_> {
    /// The record as it is now.
    pub(super) fn record(&self) -> CallRecord {
        self.record.lock().clone()
    }

    /// Notes something in the record.
    pub(super) fn note(&self, note: impl FnOnce(&mut CallRecord)) {
        note(&mut self.record.lock());
    }

    /// Number of the call, and digest of its arguments.
    pub(super) fn key(&self) -> (u64, String) {
        let record = self.record.lock();
        (record.call, record.args_hash.clone())
    }

    /// Bytes of its arguments and its answer.
    pub(super) fn size(&self) -> usize {
        let record = self.record.lock();
        record.args_bytes + record.answer_bytes
    }

    /// Charges the call to the run's call limit.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when the limit is used up.
    pub(super) fn charge(&mut self) -> Result<()> {
        let limit = self.ledger.max_calls;
        let made = || format!("a run may make {limit}{ALL_MADE}");
        charge(&self.ledger.charged, limit, made)?;
        self.is_charged = true;
        Ok(())
    }

    /// Notes the verdict of a refused call, and gives the charge back.
    pub(super) fn refused(&mut self, error: Error) -> Error {
        if std::mem::take(&mut self.is_charged) {
            self.ledger.charged.fetch_sub(1, Ordering::Relaxed);
        }
        self.record.lock().verdict = Verdict::refusal(&error);
        error
    }

    /// True once it was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.record.lock().sent
    }

    /// Notes that a dry run does not make it.
    pub(super) fn planned(&mut self) {
        self.is_planned = true;
    }

    /// Ends it with its answer, or the error in its place, whose message is shown as `redacted`.
    pub(super) fn close<T>(self, answer: &Result<T>, redacted: impl Fn(&str) -> String) {
        let outcome = if self.is_planned { Outcome::Planned } else { Outcome::of(answer) };
        let error = answer.as_ref().err().map(|error| preview(&redacted(&error.message)));
        let mut record = self.record.lock();
        (record.outcome, record.error) = (outcome, error);
        drop(record);
        self.ledger.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut record = self.record.lock();
        record.ms = Some(millis(self.opened));
        if self.paid.take().is_some_and(|paid| !paid.is_sent) {
            record.cost = Amount::ZERO;
        }
    }
}

/// Counts one more, up to a limit.
///
/// # Errors
/// `BUDGET_EXCEEDED` with the message when the limit is used up.
pub(super) fn charge(counter: &AtomicU32, limit: u32, message: impl Fn() -> String) -> Result<()> {
    // Saturating, so that a script that catches the error and continues cannot wrap the counter around.
    let charged = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1));
    charged.map(drop).map_err(|_| Error::new(ErrorCode::BudgetExceeded, message()))
}
