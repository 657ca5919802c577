//! Values that were too large to answer with, as files below `/results`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, ErrorCode, Result};
use crate::labels::Labels;
use crate::limits;
use crate::memory::{self, Taken};
use crate::text::brief;

/// Bytes of all of them; beyond, the oldest go.
const MAX_BYTES: usize = limits::RESULTS.max;
/// Executions of which is known how many files they stored.
const MAX_STORED: usize = limits::RESULT_COUNT.max;
/// Dropped results that are remembered to say so.
const MAX_DROPPED: usize = 1000;

/// The stored results of a session, oldest first.
#[derive(Default)]
pub struct Results(Mutex<Files>);

#[derive(Default)]
struct Files {
    kept: VecDeque<Arc<StoredResult>>,
    bytes: usize,
    /// Executions so far.
    runs: u64,
    /// Files that each execution stored, for the last of those that stored any.
    stored: BTreeMap<u64, u64>,
    /// The labels of those that were dropped, by path, oldest first.
    dropped: VecDeque<(String, Labels)>,
}

/// One stored result.
#[derive(Debug)]
pub struct StoredResult {
    /// `/results/<run>/<n>.json`, or `.txt` for what is no JSON.
    pub path: String,
    /// The text, as the agent may read it.
    pub text: String,
    /// Whose data it is made of.
    pub labels: Labels,
    /// Whether it is JSON.
    pub is_json: bool,
    /// Lines of the text.
    pub lines: usize,
    _room: Taken,
}

impl Results {
    /// The number of the next execution.
    #[must_use]
    pub fn begin(&self) -> u64 {
        let mut files = self.0.lock();
        files.runs += 1;
        files.runs
    }

    /// Stores a value of execution `run`, at the cost of older ones of the session; returns its path.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when it is too large for a session, or all sessions together hold too much.
    pub fn store(&self, run: u64, text: String, is_json: bool, labels: Labels) -> Result<String> {
        let (lines, bytes) = (text.lines().count(), text.len());
        if bytes > MAX_BYTES {
            let message = format!("a result of {bytes} bytes is over the limit of {MAX_BYTES} bytes a session");
            return Err(Error::new(ErrorCode::BudgetExceeded, message).hint("return less"));
        }
        let mut files = self.0.lock();
        while files.bytes + bytes > MAX_BYTES && files.drop_oldest() {}
        let room = loop {
            match memory::RESULTS.take(bytes) {
                Ok(room) => break room,
                Err(_) if files.drop_oldest() => {}
                Err(full) => return Err(Error::new(ErrorCode::BudgetExceeded, full.to_string()).hint(full.hint())),
            }
        };
        let number = files.stored.entry(run).or_default();
        *number += 1;
        let path = format!("/results/{run}/{number}.{}", if is_json { "json" } else { "txt" });
        if files.stored.len() > MAX_STORED {
            files.stored.pop_first();
        }
        files.bytes += bytes;
        let result = StoredResult { path: path.clone(), text, labels, is_json, lines, _room: room };
        files.kept.push_back(Arc::new(result));
        Ok(path)
    }

    /// The result at `path`, if it may be read by its labels. What the error says of others is of those that `sees`
    /// lets be known.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none, or none any more.
    pub fn get(
        &self,
        path: &str,
        may: impl Fn(&Labels) -> bool,
        sees: impl Fn(&Labels) -> bool,
    ) -> Result<Arc<StoredResult>> {
        let path = format!("/{}", path.trim_matches('/'));
        let files = self.0.lock();
        if let Some(found) = files.kept.iter().find(|result| result.path == path && may(&result.labels)) {
            return Ok(Arc::clone(found));
        }
        let message = match files.dropped(&path).is_some_and(may) {
            true => format!("{path} was dropped: {} MiB of results are kept, and the oldest go first", MAX_BYTES >> 20),
            false => format!("there is no {}", brief(&path)),
        };
        let listing = files.listing(&path, &sees).unwrap_or_else(|| files.every(&sees));
        Err(Error::new(ErrorCode::InvalidArgs, message).hint(format!("stored results:\n{listing}")))
    }

    /// Every result that is kept and that `sees` lets be known, oldest first.
    #[must_use]
    pub fn list(&self, sees: impl Fn(&Labels) -> bool) -> Vec<Arc<StoredResult>> {
        self.0.lock().kept.iter().filter(|result| sees(&result.labels)).cloned().collect()
    }

    /// One line a result below `path` that `sees` lets be known; nothing of what is in it.
    ///
    /// # Errors
    /// `INVALID_ARGS` when `path` is none of its folders.
    pub fn listing(&self, path: &str, sees: impl Fn(&Labels) -> bool) -> Result<String> {
        let path = format!("/{}", path.trim_matches('/'));
        let files = self.0.lock();
        match files.listing(&path, &sees) {
            Some(listing) => Ok(listing),
            None if path == "/results" => Ok(files.every(&sees)),
            None => Err(Error::new(ErrorCode::InvalidArgs, format!("there is no folder {}", brief(&path)))
                .hint(format!("stored results:\n{}", files.every(&sees)))),
        }
    }
}

impl Files {
    /// Whether there was one to drop.
    fn drop_oldest(&mut self) -> bool {
        let Some(dropped) = self.kept.pop_front() else { return false };
        self.bytes -= dropped.text.len();
        self.dropped.push_back((dropped.path.clone(), dropped.labels.clone()));
        if self.dropped.len() > MAX_DROPPED {
            self.dropped.pop_front();
        }
        true
    }

    /// The labels of a result that was dropped.
    fn dropped(&self, path: &str) -> Option<&Labels> {
        self.dropped.iter().find(|(dropped, _)| dropped == path).map(|(_, labels)| labels)
    }

    /// The lines of one run's folder, or of one file; `None` when nothing is below `path`.
    fn listing(&self, path: &str, sees: &impl Fn(&Labels) -> bool) -> Option<String> {
        let is_below = |own: &str| own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let below = self.kept.iter().filter(|result| is_below(&result.path) && sees(&result.labels));
        let lines: Vec<String> = below.map(|result| line(result)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn every(&self, sees: &impl Fn(&Labels) -> bool) -> String {
        let none = || "/results/  empty: results over the token budget are stored here".to_owned();
        self.listing("/results", sees).unwrap_or_else(none)
    }
}

fn line(result: &StoredResult) -> String {
    format!("{}  {} bytes, {} lines", result.path, result.text.len(), result.lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_results_go_and_their_paths_say_so() {
        let results = Results::default();
        let (first, second) = (results.begin(), results.begin());
        let all = |_: &Labels| true;
        let get = |path: &str| results.get(path, all, all);
        let large = || "x".repeat(MAX_BYTES / 2);
        let store = |run, text| results.store(run, text, false, Labels::new()).expect("there is room");
        assert_eq!(store(first, large()), "/results/1/1.txt");
        assert_eq!(store(second, large()), "/results/2/1.txt");
        assert_eq!(store(first, large()), "/results/1/2.txt");
        assert!(get("results/1/2.txt").is_ok() && get("/results/2/1.txt").is_ok());
        let gone = get("/results/1/1.txt").expect_err("it was dropped");
        assert!(gone.message.contains("was dropped: 64 MiB"), "{gone}");
        assert!(gone.suggested_fix().contains("/results/1/2.txt"), "{}", gone.suggested_fix());
        for never in ["/results/1/3.txt", "/results/3/1.json", "/results/1", "/results/x/1.json", "/results/../1"] {
            let error = get(never).expect_err(never);
            assert!(error.message.contains("there is no"), "{error}");
        }
        // One that is larger than everything is refused, and costs no other.
        let refused = results.store(second, "x".repeat(MAX_BYTES + 1), false, Labels::new());
        assert!(refused.expect_err("it is too large").message.contains("over the limit of 67108864 bytes a session"));
        assert_eq!(results.list(all).len(), 2);
        assert_eq!(results.listing("/results/2/", all).expect("a folder").lines().count(), 1);
        assert!(results.listing("/results/3", all).is_err());
    }
}
