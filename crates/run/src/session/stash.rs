//! Data that the scripts of a session keep for later ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::error::Result;
use base::labels::Labels;
use state::{Collection, Collections, Entry, New, Room};

/// Values by key, each with the labels of the execution that wrote it.
///
/// For an execution only the entries exist that it may read: each operation gets a filter by labels. So a key may have
/// several entries, and limits count entries of the same labels alone.
#[derive(Debug, Clone)]
pub struct Stash {
    pub(super) state: Arc<dyn Collections>,
    pub(super) collection: Collection,
}

impl Stash {
    /// The same entries in another state, such as that of a dry run.
    pub fn within(&self, state: Arc<dyn Collections>) -> Self {
        Self { state, collection: self.collection.clone() }
    }

    /// Its state.
    pub fn state(&self) -> &Arc<dyn Collections> {
        &self.state
    }

    /// Keeps the JSON `value` under `key`, for `ttl` if given, else for the session. `labels` are the writer's,
    /// `room` has its limits. Replaces entries of that key that the writer may read.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when it is full for entries with these labels, or its client holds as much as it may.
    pub async fn put(
        &self,
        key: String,
        value: String,
        labels: Labels,
        ttl: Option<Duration>,
        room: Room,
        may: impl Fn(&Labels) -> bool,
    ) -> Result<()> {
        let before = self.state.entries(&self.collection, &key).await?;
        let replaces = before.iter().filter(|entry| may(&entry.labels)).map(|entry| entry.id).collect();
        self.state.insert(&self.collection, New { name: key, value, labels, ttl, replaces, room }).await
    }

    /// The latest readable entry under `key`.
    ///
    /// # Errors
    /// As of [`Collections::entries`].
    pub async fn get(&self, key: &str, may: impl Fn(&Labels) -> bool) -> Result<Option<Entry>> {
        let entries = self.state.entries(&self.collection, key).await?;
        Ok(entries.into_iter().rev().find(|entry| may(&entry.labels)))
    }

    /// Deletes the readable entries of `key`.
    ///
    /// # Errors
    /// As of [`Collections::remove`].
    pub async fn delete(&self, key: &str, may: impl Fn(&Labels) -> bool) -> Result<()> {
        let entries = self.state.entries(&self.collection, key).await?;
        let ids: Vec<u64> = entries.iter().filter(|entry| may(&entry.labels)).map(|entry| entry.id).collect();
        self.state.remove(&self.collection, &ids).await
    }

    /// Readable keys, sorted.
    ///
    /// # Errors
    /// As of [`Collections::listed`].
    pub async fn keys(&self, may: impl Fn(&Labels) -> bool) -> Result<Vec<String>> {
        let entries = self.state.listed(&self.collection).await?;
        let seen = entries.iter().filter(|entry| may(&entry.labels));
        Ok(seen.map(|entry| entry.name.to_string()).collect::<BTreeSet<String>>().into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use base::error::ErrorCode;
    use config::Limits;
    use state::DryRun;

    const MAX_BYTES: usize = 1 << 20;

    fn room() -> Room {
        Room::stash(&Limits { stash_bytes: MAX_BYTES, stash_entries: 100, ..Limits::default() })
    }

    fn all(_: &Labels) -> bool {
        true
    }

    async fn put(stash: &Stash, key: &str, bytes: usize, ttl: Option<u64>) -> Result<()> {
        stash.put(key.to_owned(), "x".repeat(bytes), Labels::new(), ttl.map(Duration::from_secs), room(), all).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_past_its_time_is_gone_and_frees_its_room() {
        let session = Session::default();
        let stash = &session.stash;
        put(stash, "large", MAX_BYTES - 100, Some(60)).await.expect("it fits");
        assert_eq!(put(stash, "more", 200, None).await.expect_err("it is full").code, ErrorCode::BudgetExceeded);
        put(stash, "large", MAX_BYTES - 100, Some(60)).await.expect("it replaces itself");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(
            stash.get("large", all).await.expect("state").is_none() && stash.keys(all).await.expect("state").is_empty()
        );
        put(stash, "more", MAX_BYTES - 100, None).await.expect("the room is free");
        put(stash, "forever", 10, Some(u64::MAX)).await.expect("no time is too long");
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded() {
        let session = Session::default();
        let stash = &session.stash;
        for n in 0..room().entries {
            put(stash, &n.to_string(), 1, None).await.expect("it fits");
        }
        assert!(put(stash, "one more", 1, None).await.is_err());
        stash.delete("0", all).await.expect("state");
        put(stash, "one more", 1, None).await.expect("there is a place");
    }

    #[tokio::test]
    async fn a_dry_run_goes_its_own_way() {
        let session = Session::default();
        let stash = &session.stash;
        put(stash, "a", 1, None).await.expect("it fits");
        let keys = async |stash: &Stash| stash.keys(all).await.expect("state");
        let dry = stash.within(Arc::new(DryRun::new(Arc::clone(stash.state()))));
        put(&dry, "b", 1, None).await.expect("it fits");
        put(&dry, "b", 2, None).await.expect("it replaces itself");
        assert_eq!(keys(&dry).await, ["a", "b"]);
        dry.delete("a", all).await.expect("state");
        assert_eq!((keys(stash).await, keys(&dry).await), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert_eq!(dry.get("b", all).await.expect("state").map(|entry| entry.value.len()), Some(2));
        dry.delete("b", all).await.expect("state");
        assert!(keys(&dry).await.is_empty());
    }

    #[tokio::test]
    async fn what_may_not_be_read_is_as_if_it_was_not_there() {
        let session = Session::default();
        let stash = &session.stash;
        let of = |server: &str| Labels::from([server.to_owned()]);
        let only = |server: &'static str| move |labels: &Labels| labels.iter().all(|label| label == server);
        let put = async |server, value: &str| {
            stash.put("k".to_owned(), value.to_owned(), of(server), None, room(), only(server)).await.expect("it fits");
        };
        let get = async |server| {
            let found = stash.get("k", only(server)).await.expect("state");
            found.map(|entry| entry.value.to_string()).unwrap_or_default()
        };
        put("vault", "1").await;
        assert!(get("chat").await.is_empty() && stash.keys(only("chat")).await.expect("state").is_empty());
        put("chat", "2").await;
        assert_eq!((get("vault").await, get("chat").await), ("1".to_owned(), "2".to_owned()));
        stash.delete("k", only("chat")).await.expect("state");
        assert_eq!((get("vault").await, get("chat").await), ("1".to_owned(), String::new()));
        // Without labels it is readable, and the latest, for all.
        stash.put("k".to_owned(), "3".to_owned(), Labels::new(), None, room(), only("chat")).await.expect("it fits");
        assert_eq!((get("vault").await, get("chat").await), ("3".to_owned(), "3".to_owned()));
        // Entries of other labels do not take its room.
        let large = "x".repeat(MAX_BYTES - 1);
        let fill =
            async |server| stash.put("l".to_owned(), large.clone(), of(server), None, room(), only(server)).await;
        fill("vault").await.expect_err("vault has an entry");
        fill("chat").await.expect("chat has none");
    }

    #[tokio::test]
    async fn different_labels_are_bounded_too() {
        let session = Session::default();
        let put = async |labels: Labels| {
            session.stash.put("k".to_owned(), "1".to_owned(), labels, None, room(), |_| false).await
        };
        for n in 0..room().label_sets.expect("a bound") {
            put(Labels::from([n.to_string()])).await.expect("it fits");
        }
        let error = put(Labels::from(["more".to_owned()])).await.expect_err("too many");
        assert!(error.message.contains("8 different sets"), "{error}");
        put(Labels::new()).await.expect("there is always room for what is nobody's");
        put(Labels::from(["0".to_owned()])).await.expect("it replaces itself");
    }
}
