//! Values too large to answer with, as files below `/results`.

use std::sync::Arc;

use crate::parts::Part;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::limits;
use base::text::{brief, counted};
use state::{Collection, Entry, New, Room, State};

/// Stored results of a session, oldest first. The name of an entry is its path, `/results/<run>/<n>.json`, or `.txt`
/// for other text; its value is the text, redacted for the agent.
#[derive(Debug)]
pub struct Results {
    pub(super) state: Arc<dyn State>,
    pub(super) collection: Collection,
}

/// True if a stored result is JSON.
pub fn is_json(result: &Entry) -> bool {
    result.name.ends_with(".json")
}

impl Results {
    /// Number of the next execution.
    ///
    /// # Errors
    /// As of [`State::number`].
    pub async fn begin(&self) -> Result<u64> {
        self.state.number(&self.collection).await
    }

    /// The text of these parts of the answer to a run: the large ones are stored, with a pointer in their place.
    pub async fn text_of(&self, parts: Vec<Part>, run: &str, labels: &Labels) -> String {
        let (mut text, mut stored) = (String::new(), 0);
        for part in parts {
            match part {
                Part::Text(part) => text.push_str(&part),
                Part::Large(large) => {
                    stored += 1;
                    let pointer = large.pointer();
                    text.push_str(&pointer(&self.store(run, stored, large.text, large.is_json, labels.clone()).await));
                }
            }
        }
        text
    }

    /// Stores the `number`th text of a run, and drops older ones of the session for it; returns its path. The same text of
    /// the same run is stored once.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when it is too large for a session, or its client holds as much as it may.
    async fn store(&self, folder: &str, number: usize, text: String, is_json: bool, labels: Labels) -> Result<String> {
        let path = format!("/results/{folder}/{number}.{}", if is_json { "json" } else { "txt" });
        let new = New { name: path.clone(), value: text, labels, ttl: None, replaces: Vec::new(), room: Room::RESULTS };
        self.state.insert(&self.collection, new).await?;
        Ok(path)
    }

    /// The result at `path`, if its labels `may` be read. Errors mention only results that `sees` allows.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it does not exist or was dropped.
    pub async fn get(
        &self,
        path: &str,
        may: impl Fn(&Labels) -> bool,
        sees: impl Fn(&Labels) -> bool,
    ) -> Result<Entry> {
        let path = format!("/{}", path.trim_matches('/'));
        let found = self.state.entries(&self.collection, &path).await?;
        if let Some(found) = found.into_iter().find(|entry| may(&entry.labels)) {
            return Ok(found);
        }
        let kept = self.state.listed(&self.collection).await?;
        let dropped = self.state.dropped(&self.collection).await?;
        let message = match dropped.iter().any(|(name, labels)| **name == *path && may(labels)) {
            true => {
                format!(
                    "{path} was dropped: {} MiB of results are kept, and the oldest go first",
                    limits::RESULTS.max >> 20
                )
            }
            false => format!("there is no {}", brief(&path)),
        };
        let listing = listing(&kept, &path, &sees).unwrap_or_else(|| every(&kept, &sees));
        Err(Error::new(ErrorCode::InvalidArgs, message).hint(format!("stored results:\n{listing}")))
    }

    /// Kept results that `sees` allows, oldest first, perhaps without their values.
    ///
    /// # Errors
    /// As of [`entries`](state::Collections::entries).
    pub async fn list(&self, sees: impl Fn(&Labels) -> bool) -> Result<Vec<Entry>> {
        let kept = self.state.listed(&self.collection).await?;
        Ok(kept.into_iter().filter(|result| sees(&result.labels)).collect())
    }

    /// Lists results below `path` that `sees` allows, one line each, without their content.
    ///
    /// # Errors
    /// `INVALID_ARGS` when `path` is none of its folders.
    pub async fn listing(&self, path: &str, sees: impl Fn(&Labels) -> bool) -> Result<String> {
        let path = format!("/{}", path.trim_matches('/'));
        let kept = self.state.listed(&self.collection).await?;
        match listing(&kept, &path, &sees) {
            Some(listing) => Ok(listing),
            None if path == "/results" => Ok(every(&kept, &sees)),
            None => Err(Error::new(ErrorCode::InvalidArgs, format!("there is no folder {}", brief(&path)))
                .hint(format!("stored results:\n{}", every(&kept, &sees)))),
        }
    }
}

/// Lines of one run's folder, or of one file; `None` when nothing is below `path`.
fn listing(kept: &[Entry], path: &str, sees: &impl Fn(&Labels) -> bool) -> Option<String> {
    let is_below = |own: &str| own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let below = kept.iter().filter(|result| is_below(&result.name) && sees(&result.labels));
    let lines: Vec<String> = below.map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn every(kept: &[Entry], sees: &impl Fn(&Labels) -> bool) -> String {
    let none = || "/results/  empty: results over the token budget are stored here".to_owned();
    listing(kept, "/results", sees).unwrap_or_else(none)
}

fn line(result: &Entry) -> String {
    format!("{}  {} bytes, {}", result.name, result.bytes, counted(result.lines, "line"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;

    #[tokio::test]
    async fn the_oldest_results_go_and_their_paths_say_so() {
        let session = Session::default();
        let results = &session.results;
        let begin = async || results.begin().await.expect("a number");
        let (first, second) = (begin().await, begin().await);
        let all = |_: &Labels| true;
        let get = |path: &'static str| results.get(path, all, all);
        let store = async |run: u64, number| {
            let half = "x".repeat(limits::RESULTS.max / 2 - 100);
            results.store(&run.to_string(), number, half, false, Labels::new()).await.expect("there is room")
        };
        assert_eq!(store(first, 1).await, "/results/1/1.txt");
        assert_eq!(store(second, 1).await, "/results/2/1.txt");
        assert_eq!(store(first, 2).await, "/results/1/2.txt");
        assert!(get("results/1/2.txt").await.is_ok() && get("/results/2/1.txt").await.is_ok());
        let gone = get("/results/1/1.txt").await.expect_err("it was dropped");
        assert!(gone.message.contains("was dropped: 64 MiB"), "{gone}");
        assert!(gone.suggested_fix().contains("/results/1/2.txt"), "{}", gone.suggested_fix());
        // Nothing is told of it where its data may not be read.
        let hidden = results.get("/results/1/1.txt", |_| false, |_| false).await.expect_err("it was dropped");
        assert!(hidden.message.contains("there is no /results/1/1.txt"), "{hidden}");
        for never in ["/results/1/3.txt", "/results/3/1.json", "/results/1", "/results/x/1.json", "/results/../1"] {
            let error = get(never).await.expect_err(never);
            assert!(error.message.contains("there is no"), "{error}");
        }
        // A result over the limit is refused, and drops no other.
        let larger = "x".repeat(limits::RESULTS.max + 1);
        let refused =
            results.store(&second.to_string(), 2, larger, false, Labels::new()).await.expect_err("it is too large");
        assert!(refused.message.contains("over the limit of 67108864 bytes a session"), "{refused}");
        assert_eq!(results.list(all).await.expect("state").len(), 2);
        assert_eq!(results.listing("/results/2/", all).await.expect("a folder").lines().count(), 1);
        assert!(results.listing("/results/3", all).await.is_err());
    }
}
