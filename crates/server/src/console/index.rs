//! What ran: facts of each run of the audit log, the newest in memory, read on as the log grows.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::outcome::Outcome;
use base::text::head;
use base::time::unix_ms;
use config::Amount;
use state::audit::{CallRecord, Follower, Line, Record};
use state::title;

/// Most bytes of a script and of an error that are kept.
pub(super) const CODE: usize = 1_000;
const MESSAGE: usize = 300;
/// Bytes that a run and a call count for beside their texts.
const RUN: usize = 400;
const CALL: usize = 96;
/// Most bytes of a name, most labels of a call, and most calls of a run.
const NAME: usize = 256;
const LABELS: usize = 64;
const CALLS: usize = 20_000;
/// Most runs without an end.
const OPEN: usize = 2_000;

/// A run as lists show it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: Arc<str>,
    /// Begin, in Unix milliseconds.
    pub(super) at_ms: u64,
    pub(super) client: Arc<str>,
    pub(super) client_name: Option<Arc<str>>,
    pub(super) session: Arc<str>,
    /// Language of a script; `None` for another request.
    pub(super) language: Option<Arc<str>>,
    pub(super) request: Option<Arc<str>>,
    pub(super) outcome: Outcome,
    pub(super) error: Option<Box<str>>,
    pub(super) ms: Option<f64>,
    pub(super) cost: Amount,
    /// Beginning of the script.
    pub(super) code: Box<str>,
    /// Name of its file, if it is from one.
    file: Option<Arc<str>>,
    /// Path of its configuration.
    pub(super) config: Option<Arc<str>>,
    pub(super) dry_run: bool,
    /// Tokens of a plain list of its client's tools then, estimated.
    pub(super) plain_list: Option<u64>,
    pub(super) calls: Vec<Call>,
}

/// A call of a run.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) at_ms: u64,
    pub(super) server: Arc<str>,
    pub(super) tool: Arc<str>,
    pub(super) outcome: Outcome,
    pub(super) is_refused: bool,
    /// True if an earlier run of its chain answered it.
    pub(super) is_inherited: bool,
    /// Its time; `None` without its end.
    pub(super) ms: Option<f64>,
    pub(super) cost: Amount,
    pub(super) labels: Arc<[Arc<str>]>,
}

impl Entry {
    /// Its title; for another request than a script the name of that.
    pub(super) fn title(&self) -> String {
        let call = self.calls.first().map(|call| (&*call.server, &*call.tool));
        match &self.request {
            Some(request) if self.language.is_none() => request.to_string(),
            _ => title(self.file.as_deref(), &self.code, call),
        }
    }

    /// Number of its calls that were refused.
    pub(super) fn refused(&self) -> usize {
        self.calls.iter().filter(|call| call.is_refused).count()
    }

    /// Servers that it called.
    pub(super) fn servers(&self) -> BTreeSet<&str> {
        self.calls.iter().map(|call| &*call.server).collect()
    }

    /// Servers whose data it held at a call.
    pub(super) fn labels(&self) -> BTreeSet<&str> {
        self.calls.iter().flat_map(|call| call.labels.iter().map(|label| &**label)).collect()
    }

    fn bytes(&self) -> usize {
        let texts = self.code.len() + self.error.as_ref().map_or(0, |error| error.len());
        RUN + texts + self.calls.iter().map(Call::bytes).sum::<usize>()
    }
}

/// The runs of a log.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Index>);

#[derive(Debug, Default)]
struct Index {
    follower: Option<Follower>,
    /// In the order of their ends.
    ended: VecDeque<Arc<Entry>>,
    known: HashSet<Arc<str>>,
    /// Runs that sent calls and have no end yet.
    open: HashMap<Arc<str>, Entry>,
    bytes: usize,
    /// Bytes of those without an end.
    open_bytes: usize,
    words: HashSet<Arc<str>>,
}

impl Runs {
    /// The runs of a log, as far as they are kept, in no order; those without an end have the outcome `unfinished`.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// `INTERNAL` when the log cannot be read.
    pub(super) fn all(&self, path: &Path) -> Result<Vec<Arc<Entry>>> {
        let index = self.followed(path)?;
        let mut all: Vec<Arc<Entry>> = index.ended.iter().cloned().collect();
        all.extend(index.open.values().cloned().map(Arc::new));
        Ok(all)
    }

    /// Those of these runs that have no end yet. Blocks on the disk.
    ///
    /// # Errors
    /// `INTERNAL` when the log cannot be read.
    pub(super) fn open(&self, path: &Path, ids: &[String]) -> Result<Vec<Arc<Entry>>> {
        let index = self.followed(path)?;
        Ok(ids.iter().filter_map(|id| index.open.get(id.as_str())).cloned().map(Arc::new).collect())
    }

    /// The index with all that the log has by now.
    fn followed(&self, path: &Path) -> Result<MutexGuard<'_, Index>> {
        let mut index = self.0.lock();
        if index.follower.as_ref().is_none_or(|follower| follower.path() != path) {
            *index = Index { follower: Some(Follower::new(path.to_owned())), ..Index::default() };
        }
        let Some(mut follower) = index.follower.take() else { return Ok(index) };
        let looked = follower.look(|line| index.take(line));
        index.follower = Some(follower);
        looked.map_err(|error| {
            Error::new(ErrorCode::Internal, "the audit log cannot be read")
                .caused_by(error)
                .hint("see to its file, `[audit] path`")
        })?;
        Ok(index)
    }
}

impl Call {
    fn bytes(&self) -> usize {
        CALL + self.labels.len() * size_of::<Arc<str>>()
    }
}

impl Index {
    /// Takes a line of the log; one that is no record is left out, as half a record of a full disk is.
    fn take(&mut self, line: &[u8]) {
        match std::str::from_utf8(line).ok().and_then(Line::read) {
            Some(Line::Sent(run, begun, call)) => self.sent(&run, &begun, &call),
            Some(Line::Ended(record)) => self.ended(&record),
            None => return,
        }
        if self.open.len() > OPEN || self.open_bytes > limits::CONSOLE_INDEX.max / 2 {
            self.open.clear();
            self.open_bytes = 0;
        }
        let is_full = |index: &Self| index.bytes + index.open_bytes > limits::CONSOLE_INDEX.max;
        while self.ended.len() > limits::CONSOLE_RUNS.max || is_full(self) {
            let Some(oldest) = self.ended.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.known.remove(&oldest.id);
        }
        if self.words.len() > limits::CONSOLE_RUNS.max {
            self.words.clear();
        }
    }

    fn sent(&mut self, run: &str, record: &Record, call: &CallRecord) {
        if self.known.contains(run) {
            return;
        }
        let call = Call { outcome: Outcome::Running, ..self.call(call) };
        if let Some(begun) = self.open.get_mut(run) {
            if begun.calls.len() < CALLS {
                self.open_bytes += call.bytes();
                begun.calls.push(call);
            }
            return;
        }
        let begun = Entry { outcome: Outcome::Unfinished, calls: vec![call], ..self.entry(run, record) };
        self.open_bytes += begun.bytes();
        self.open.insert(Arc::clone(&begun.id), begun);
    }

    fn ended(&mut self, record: &Record) {
        let id = record.id.as_str();
        if id.is_empty() || self.known.contains(id) {
            return;
        }
        let begun = self.open.remove(id);
        self.open_bytes = self.open_bytes.saturating_sub(begun.as_ref().map_or(0, Entry::bytes));
        let calls = record.calls.iter().take(CALLS).map(|call| self.call(call)).collect();
        let mut entry = Entry { calls, ..self.entry(id, record) };
        // The name of a request is in each record, the begin of a run in its first line.
        if let Some(begun) = begun.filter(|_| entry.at_ms == 0) {
            entry.at_ms = begun.at_ms;
        }
        let entry = Arc::new(entry);
        self.bytes += entry.bytes();
        self.known.insert(Arc::clone(&entry.id));
        self.ended.push_back(entry);
    }

    fn entry(&mut self, id: &str, record: &Record) -> Entry {
        let run = &record.run;
        Entry {
            id: head(id, NAME).into(),
            at_ms: millis(&record.time),
            client: self.word(run.principal.as_deref().unwrap_or(base::principal::LOCAL)),
            client_name: run.client.as_deref().map(|name| self.word(name)),
            session: self.word(&run.session),
            language: run.language.as_deref().map(|word| self.word(word)),
            request: run.request.as_deref().map(|word| self.word(word)),
            outcome: record.outcome,
            error: record.error.as_deref().map(|error| head(error, MESSAGE).into()),
            ms: record.ms,
            cost: record.cost,
            code: head(run.code.as_deref().unwrap_or_default(), CODE).into(),
            file: run.file.as_deref().map(|file| self.word(file)),
            config: run.config.as_deref().map(|path| self.word(path)),
            dry_run: run.dry_run,
            plain_list: record.plain_list,
            calls: Vec::new(),
        }
    }

    fn call(&mut self, call: &CallRecord) -> Call {
        let labels: Vec<Arc<str>> = call.labels.iter().take(LABELS).map(|label| self.word(label)).collect();
        Call {
            at_ms: unix_ms(call.began.0),
            server: self.word(&call.server),
            tool: self.word(&call.tool),
            outcome: call.outcome,
            is_refused: call.verdict.is_refusal(),
            is_inherited: call.is_inherited(),
            ms: call.ms,
            cost: call.cost,
            labels: labels.into(),
        }
    }

    /// A word, kept once.
    fn word(&mut self, word: &str) -> Arc<str> {
        let word = head(word, NAME);
        if let Some(known) = self.words.get(word) {
            return Arc::clone(known);
        }
        let new: Arc<str> = word.into();
        self.words.insert(Arc::clone(&new));
        new
    }
}

/// A time of the log in Unix milliseconds; 0 for what is none.
fn millis(time: &str) -> u64 {
    humantime::parse_rfc3339_weak(time).map_or(0, unix_ms)
}

/// The value at a share of sorted values.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position"
    )]
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_runs_without_an_end_are_bounded_together() {
        let mut index = Index::default();
        let kept = |index: &Index| index.open.values().map(Entry::bytes).sum::<usize>();
        let most = limits::CONSOLE_INDEX.max / 2;
        let runs = most / (CALLS * CALL) + 1;
        for run in 0..runs {
            assert_eq!(index.open.len(), run, "none is forgotten before the bound");
            let line = format!(r#"{{"event":"call","run":"{run:012x}","server":"s","tool":"t","verdict":"allowed"}}"#);
            (0..CALLS).for_each(|_| index.take(line.as_bytes()));
            assert!(kept(&index) <= most, "{} bytes", kept(&index));
        }
        assert!(index.open.len() < runs, "all were kept");
        index.take(br#"{"event":"sent","run":"abcdefabcdef","server":"s","tool":"t","verdict":"allowed"}"#);
        assert_eq!(index.open_bytes, kept(&index));
        index.take(br#"{"id":"abcdefabcdef","session":"s","outcome":"ok"}"#);
        assert_eq!((index.open_bytes, index.ended.len()), (kept(&index), 1));
    }
}
