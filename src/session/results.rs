//! Values that were too large to answer with, as files below `/results`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::{Labels, lock};
use crate::error::{Error, ErrorCode, Result};

/// Bytes of all of them; beyond, the oldest go.
const MAX_BYTES: usize = 64 << 20;

/// The stored results of a session, oldest first.
#[derive(Default)]
pub struct Results(Mutex<Files>);

#[derive(Default)]
struct Files {
    kept: VecDeque<Arc<StoredResult>>,
    bytes: usize,
    /// Executions so far.
    runs: u64,
    /// Files that each execution stored, for those that stored any.
    stored: BTreeMap<u64, u64>,
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
}

impl Results {
    /// The number of the next execution.
    #[must_use]
    pub fn begin(&self) -> u64 {
        let mut files = lock(&self.0);
        files.runs += 1;
        files.runs
    }

    /// Stores a value of execution `run`; returns its path. It is kept however large it is, at the cost of older ones.
    #[must_use]
    pub fn store(&self, run: u64, text: String, is_json: bool, labels: Labels) -> String {
        let mut files = lock(&self.0);
        let number = files.stored.entry(run).or_default();
        *number += 1;
        let path = format!("/results/{run}/{number}.{}", if is_json { "json" } else { "txt" });
        files.bytes += text.len();
        files.kept.push_back(Arc::new(StoredResult {
            path: path.clone(),
            lines: text.lines().count(),
            text,
            labels,
            is_json,
        }));
        while files.bytes > MAX_BYTES && files.kept.len() > 1 {
            if let Some(dropped) = files.kept.pop_front() {
                files.bytes -= dropped.text.len();
            }
        }
        path
    }

    /// The result at `path`.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none, or none any more.
    pub fn get(&self, path: &str) -> Result<Arc<StoredResult>> {
        let path = format!("/{}", path.trim_matches('/'));
        let files = lock(&self.0);
        if let Some(found) = files.kept.iter().find(|result| result.path == path) {
            return Ok(Arc::clone(found));
        }
        let message = match files.was_stored(&path) {
            true => format!("{path} was dropped: {} MiB of results are kept, and the oldest go first", MAX_BYTES >> 20),
            false => format!("there is no {path}"),
        };
        let listing = files.listing(&path).unwrap_or_else(|| files.every());
        Err(Error::new(ErrorCode::InvalidArgs, message).hint(format!("stored results:\n{listing}")))
    }

    /// Every result that is kept, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<StoredResult>> {
        lock(&self.0).kept.iter().cloned().collect()
    }

    /// One line a result below `path`; nothing of what is in it.
    ///
    /// # Errors
    /// `INVALID_ARGS` when `path` is none of its folders.
    pub fn listing(&self, path: &str) -> Result<String> {
        let path = format!("/{}", path.trim_matches('/'));
        let files = lock(&self.0);
        match files.listing(&path) {
            Some(listing) => Ok(listing),
            None if path == "/results" => Ok(files.every()),
            None => Err(Error::new(ErrorCode::InvalidArgs, format!("there is no folder {path}"))
                .hint(format!("stored results:\n{}", files.every()))),
        }
    }
}

impl Files {
    fn was_stored(&self, path: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let place = path.strip_prefix("/results/").and_then(|rest| rest.split_once('/')).and_then(|(run, file)| {
            let (file, _) = file.split_once('.')?;
            Some((number(run)?, number(file)?))
        });
        place.is_some_and(|(run, file)| self.stored.get(&run).is_some_and(|last| (1..=*last).contains(&file)))
    }

    /// The lines of one run's folder, or of one file; `None` when nothing is below `path`.
    fn listing(&self, path: &str) -> Option<String> {
        let is_below = |own: &str| own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let lines: Vec<String> = self.kept.iter().filter(|r| is_below(&r.path)).map(|r| line(r)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn every(&self) -> String {
        match self.kept.is_empty() {
            true => "/results/  empty: results over the token budget are stored here".to_owned(),
            false => self.kept.iter().map(|result| line(result)).collect::<Vec<_>>().join("\n"),
        }
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
        let large = || "x".repeat(MAX_BYTES / 2);
        let store = |run, text| results.store(run, text, false, Labels::new());
        assert_eq!(store(first, large()), "/results/1/1.txt");
        assert_eq!(store(second, large()), "/results/2/1.txt");
        assert_eq!(store(first, large()), "/results/1/2.txt");
        assert!(results.get("results/1/2.txt").is_ok() && results.get("/results/2/1.txt").is_ok());
        let gone = results.get("/results/1/1.txt").expect_err("it was dropped");
        assert!(gone.message.contains("was dropped: 64 MiB"), "{gone}");
        assert!(gone.suggested_fix().contains("/results/1/2.txt"), "{}", gone.suggested_fix());
        for never in ["/results/1/3.txt", "/results/3/1.json", "/results/1", "/results/x/1.json", "/results/../1"] {
            let error = results.get(never).expect_err(never);
            assert!(error.message.contains("there is no"), "{error}");
        }
        // One that is larger than everything is kept all the same.
        store(second, "x".repeat(MAX_BYTES + 1));
        assert_eq!(results.list().len(), 1);
        assert_eq!(results.listing("/results/2/").expect("a folder").lines().count(), 1);
        assert!(results.listing("/results/1").is_err());
    }
}
