//! What the scripts of a session keep for later ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, ErrorCode, Result};
use crate::labels::Labels;
use crate::limits;
use crate::memory::{self, Taken};

/// Bytes of all entries with the same labels, keys included.
const MAX_BYTES: usize = limits::STASH.max;
/// Entries with the same labels.
const MAX_ENTRIES: usize = limits::STASH_ENTRIES.max;
/// Different labels, besides none.
const MAX_LABELS: usize = 8;
/// Longest time that an entry is kept: longer than any session, and short enough to be added to a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Values by key, each with the labels of the execution that wrote it. What is past its time is gone, and so is the
/// room that it took.
///
/// An execution deals with the entries that it may read, as if there were no others: each operation is told which, by
/// their labels. A key may so have several entries, and room is counted for entries of the same labels alone.
#[derive(Default)]
pub struct Stash(Mutex<Entries>);

#[derive(Clone, Default)]
struct Entries {
    /// The latest last.
    kept: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    key: String,
    value: Arc<str>,
    labels: Labels,
    until: Option<Instant>,
    _room: Arc<Taken>,
}

impl Entries {
    /// With what is past its time taken away.
    fn current(&mut self) -> &mut Vec<Entry> {
        let now = Instant::now();
        self.kept.retain(|entry| entry.until.is_none_or(|until| until > now));
        &mut self.kept
    }
}

impl Stash {
    /// Keeps the JSON `value` under `key`, for `ttl` if given, else as long as the session. `labels` are those of the
    /// writer. What the key had before is replaced where the writer may read it.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when it is full for entries with these labels, or all sessions together hold too much.
    pub fn put(
        &self,
        key: String,
        value: String,
        labels: Labels,
        ttl: Option<Duration>,
        may: impl Fn(&Labels) -> bool,
    ) -> Result<()> {
        let mut entries = self.0.lock();
        let entries = entries.current();
        let others = || entries.iter().filter(|entry| entry.labels == labels && entry.key != key);
        let (count, taken) =
            (others().count(), others().map(|entry| entry.key.len() + entry.value.len()).sum::<usize>());
        let full = |what: String| {
            let error = Error::new(ErrorCode::BudgetExceeded, format!("the stash is full: {what}"));
            Err(error.hint("delete entries that are not needed, or give them a ttl"))
        };
        if count >= MAX_ENTRIES || taken + key.len() + value.len() > MAX_BYTES {
            return full(format!("{count} entries of {MAX_ENTRIES}, {taken} bytes of {MAX_BYTES} without this one"));
        }
        let known: BTreeSet<&Labels> = entries.iter().map(|e| &e.labels).filter(|labels| !labels.is_empty()).collect();
        if !labels.is_empty() && !known.contains(&labels) && known.len() >= MAX_LABELS {
            return full(format!("it has data of {MAX_LABELS} different sets of servers"));
        }
        let room = memory::RESULTS.take(key.len() + value.len());
        let room = room.map_err(|full| Error::new(ErrorCode::BudgetExceeded, full.to_string()).hint(full.hint()))?;
        let until = ttl.map(|ttl| Instant::now() + ttl.min(LONGEST));
        entries.retain(|entry| entry.key != key || !(entry.labels == labels || may(&entry.labels)));
        entries.push(Entry { key, value: value.into(), labels, until, _room: Arc::new(room) });
        Ok(())
    }

    /// The JSON kept under `key` last among what may be read, with its labels.
    #[must_use]
    pub fn get(&self, key: &str, may: impl Fn(&Labels) -> bool) -> Option<(Arc<str>, Labels)> {
        let mut entries = self.0.lock();
        let found = entries.current().iter().rev().find(|entry| entry.key == key && may(&entry.labels))?;
        Some((Arc::clone(&found.value), found.labels.clone()))
    }

    /// Forgets `key`, as far as it may be read.
    pub fn delete(&self, key: &str, may: impl Fn(&Labels) -> bool) {
        self.0.lock().current().retain(|entry| entry.key != key || !may(&entry.labels));
    }

    /// The keys that may be read, sorted.
    #[must_use]
    pub fn keys(&self, may: impl Fn(&Labels) -> bool) -> Vec<String> {
        let mut entries = self.0.lock();
        let seen = entries.current().iter().filter(|entry| may(&entry.labels));
        seen.map(|entry| entry.key.clone()).collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Another one with the same entries, which then goes its own way.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: &Labels) -> bool {
        true
    }

    fn put(stash: &Stash, key: &str, bytes: usize, ttl: Option<u64>) -> Result<()> {
        stash.put(key.to_owned(), "x".repeat(bytes), Labels::new(), ttl.map(Duration::from_secs), all)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_past_its_time_is_gone_and_frees_its_room() {
        let stash = Stash::default();
        put(&stash, "large", MAX_BYTES - 100, Some(60)).expect("it fits");
        assert_eq!(put(&stash, "more", 200, None).expect_err("it is full").code, ErrorCode::BudgetExceeded);
        put(&stash, "large", MAX_BYTES - 100, Some(60)).expect("it replaces itself");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(stash.get("large", all).is_none() && stash.keys(all).is_empty());
        put(&stash, "more", MAX_BYTES - 100, None).expect("the room is free");
        put(&stash, "forever", 10, Some(u64::MAX)).expect("no time is too long");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let stash = Stash::default();
        (0..MAX_ENTRIES).for_each(|n| put(&stash, &n.to_string(), 1, None).expect("it fits"));
        assert!(put(&stash, "one more", 1, None).is_err());
        stash.delete("0", all);
        put(&stash, "one more", 1, None).expect("there is a place");
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let stash = Stash::default();
        put(&stash, "a", 1, None).expect("it fits");
        let fork = stash.fork();
        put(&fork, "b", 1, None).expect("it fits");
        fork.delete("a", all);
        assert_eq!((stash.keys(all).len(), fork.keys(all).len()), (1, 1));
        assert!(stash.get("a", all).is_some() && fork.get("b", all).is_some());
    }

    #[test]
    fn what_may_not_be_read_is_as_if_it_was_not_there() {
        let stash = Stash::default();
        let of = |server: &str| Labels::from([server.to_owned()]);
        let only = |server: &'static str| move |labels: &Labels| labels.iter().all(|label| label == server);
        let put = |server, value: &str| stash.put("k".to_owned(), value.to_owned(), of(server), None, only(server));
        let get = |server| stash.get("k", only(server)).map(|(value, _)| value.to_string());
        put("vault", "1").expect("it fits");
        assert!(get("chat").is_none() && stash.keys(only("chat")).is_empty());
        put("chat", "2").expect("it fits");
        assert_eq!((get("vault").as_deref(), get("chat").as_deref()), (Some("1"), Some("2")));
        stash.delete("k", only("chat"));
        assert_eq!((get("vault").as_deref(), get("chat").as_deref()), (Some("1"), None));
        // Without labels it may be read by all, and is the latest for all.
        stash.put("k".to_owned(), "3".to_owned(), Labels::new(), None, only("chat")).expect("it fits");
        assert_eq!((get("vault").as_deref(), get("chat").as_deref()), (Some("3"), Some("3")));
        // What one has filled is room for another.
        let large = "x".repeat(MAX_BYTES - 1);
        stash.put("l".to_owned(), large.clone(), of("vault"), None, only("vault")).expect_err("vault has an entry");
        stash.put("l".to_owned(), large, of("chat"), None, only("chat")).expect("chat has none");
    }

    #[test]
    fn different_labels_are_bounded_too() {
        let stash = Stash::default();
        let put = |labels: Labels| stash.put("k".to_owned(), "1".to_owned(), labels, None, |_| false);
        for n in 0..MAX_LABELS {
            put(Labels::from([n.to_string()])).expect("it fits");
        }
        let error = put(Labels::from(["more".to_owned()])).expect_err("too many");
        assert!(error.message.contains("8 different sets"), "{error}");
        put(Labels::new()).expect("there is always room for what is nobody's");
        put(Labels::from(["0".to_owned()])).expect("it replaces itself");
    }
}
