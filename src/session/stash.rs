//! What the scripts of a session keep for later ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::{Labels, lock};
use crate::error::{Error, ErrorCode, Result};

/// Bytes of all entries together, keys included.
const MAX_BYTES: usize = 16 << 20;
/// Entries.
const MAX_ENTRIES: usize = 1000;
/// Longest time that an entry is kept: longer than any session, and short enough to be added to a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Values by key, each with the labels of the execution that wrote it. What is past its time is gone, and so is the
/// room that it took.
#[derive(Default)]
pub struct Stash(Mutex<Entries>);

#[derive(Clone, Default)]
struct Entries(BTreeMap<String, Entry>);

#[derive(Clone)]
struct Entry {
    value: Arc<str>,
    labels: Labels,
    until: Option<Instant>,
}

impl Entries {
    /// With what is past its time taken away.
    fn current(&mut self) -> &mut BTreeMap<String, Entry> {
        let now = Instant::now();
        self.0.retain(|_, entry| entry.until.is_none_or(|until| until > now));
        &mut self.0
    }
}

impl Stash {
    /// Keeps the JSON `value` under `key`, for `ttl` if given, else as long as the session. `labels` are those of the
    /// writer, and replace what the key had before.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when it is full.
    pub fn put(&self, key: String, value: String, labels: Labels, ttl: Option<Duration>) -> Result<()> {
        let mut entries = lock(&self.0);
        let entries = entries.current();
        let others = entries.iter().filter(|(own, _)| **own != key);
        let taken: usize = others.map(|(own, entry)| own.len() + entry.value.len()).sum();
        let has_place = entries.len() < MAX_ENTRIES || entries.contains_key(&key);
        if !has_place || taken + key.len() + value.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorCode::BudgetExceeded,
                format!(
                    "the stash is full: {} entries of {MAX_ENTRIES}, {taken} bytes of {MAX_BYTES} without this one",
                    entries.len()
                ),
            )
            .hint("delete entries that are not needed, or give them a ttl"));
        }
        let until = ttl.map(|ttl| Instant::now() + ttl.min(LONGEST));
        entries.insert(key, Entry { value: value.into(), labels, until });
        Ok(())
    }

    /// The JSON kept under `key`, with its labels.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<(Arc<str>, Labels)> {
        let mut entries = lock(&self.0);
        entries.current().get(key).map(|entry| (Arc::clone(&entry.value), entry.labels.clone()))
    }

    /// Forgets `key`.
    pub fn delete(&self, key: &str) {
        lock(&self.0).current().remove(key);
    }

    /// The keys, sorted, with the labels of their entries.
    #[must_use]
    pub fn keys(&self) -> Vec<(String, Labels)> {
        let mut entries = lock(&self.0);
        entries.current().iter().map(|(key, entry)| (key.clone(), entry.labels.clone())).collect()
    }

    /// Another one with the same entries, which then goes its own way.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Mutex::new(lock(&self.0).clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(stash: &Stash, key: &str, bytes: usize, ttl: Option<u64>) -> Result<()> {
        stash.put(key.to_owned(), "x".repeat(bytes), Labels::new(), ttl.map(Duration::from_secs))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_past_its_time_is_gone_and_frees_its_room() {
        let stash = Stash::default();
        put(&stash, "large", MAX_BYTES - 100, Some(60)).expect("it fits");
        assert_eq!(put(&stash, "more", 200, None).expect_err("it is full").code, ErrorCode::BudgetExceeded);
        put(&stash, "large", MAX_BYTES - 100, Some(60)).expect("it replaces itself");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(stash.get("large").is_none() && stash.keys().is_empty());
        put(&stash, "more", MAX_BYTES - 100, None).expect("the room is free");
        put(&stash, "forever", 10, Some(u64::MAX)).expect("no time is too long");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let stash = Stash::default();
        (0..MAX_ENTRIES).for_each(|n| put(&stash, &n.to_string(), 1, None).expect("it fits"));
        assert!(put(&stash, "one more", 1, None).is_err());
        stash.delete("0");
        put(&stash, "one more", 1, None).expect("there is a place");
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let stash = Stash::default();
        put(&stash, "a", 1, None).expect("it fits");
        let fork = stash.fork();
        put(&fork, "b", 1, None).expect("it fits");
        fork.delete("a");
        assert_eq!((stash.keys().len(), fork.keys().len()), (1, 1));
        assert!(stash.get("a").is_some() && fork.get("b").is_some());
    }
}
