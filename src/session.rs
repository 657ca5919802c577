//! What one client's session holds: what it read, what its scripts kept, and results too large to answer with.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::error::{Error, ErrorCode, Result};
use crate::spending::Purse;

/// Bytes of stored results; beyond, the oldest go.
const RESULT_BYTES: usize = 64 << 20;
/// Bytes of all stash entries together.
const STASH_BYTES: usize = 16 << 20;
/// Entries of the stash.
const STASH_ENTRIES: usize = 1000;

/// Longest time that an entry is kept: longer than any session, and short enough to be added to a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The state of one session.
#[derive(Default)]
pub struct Session {
    id: SessionId,
    client: Mutex<Option<String>>,
    reads: Mutex<BTreeMap<String, Read>>,
    results: Mutex<Results>,
    stash: Mutex<Stash>,
    spent: Purse,
}

/// What sets a session apart from others on record.
#[derive(Debug)]
struct SessionId(String);

impl Default for SessionId {
    fn default() -> Self {
        Self(random_id())
    }
}

/// Twelve hexadecimal digits by chance.
#[must_use]
pub fn random_id() -> String {
    let mut bytes = [0; 6];
    // Without randomness records of one moment share an id, and are told apart by their time.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stub that was read.
#[derive(Debug, Clone)]
pub struct Read {
    /// Digest of the tool's definition.
    pub digest: String,
    /// Digest of the text.
    pub object: String,
    /// The text.
    pub text: Arc<str>,
}

/// No holder of these locks can leave them half-changed, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// What sets it apart from others on record.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id.0
    }

    /// Notes who the client says it is.
    pub fn met(&self, client: String) {
        lock(&self.client).get_or_insert(client);
    }

    /// Who the client says it is.
    #[must_use]
    pub fn client(&self) -> Option<String> {
        lock(&self.client).clone()
    }

    /// What its calls cost so far.
    #[must_use]
    pub fn spent(&self) -> &Purse {
        &self.spent
    }

    /// Remembers that a stub was read, with the digest of its definition, and its text.
    pub fn saw(&self, path: String, digest: &str, text: &str) {
        let read = Read { digest: digest.to_owned(), object: stubgen::digest(text), text: text.into() };
        lock(&self.reads).insert(path, read);
    }

    /// Whether the stub at `path` was read when its tool had another digest.
    #[must_use]
    pub fn is_stale(&self, path: &str, digest: &str) -> bool {
        lock(&self.reads).get(path).is_some_and(|read| read.digest != digest)
    }

    /// The stubs read so far, each as it was read last.
    #[must_use]
    pub fn reads(&self) -> BTreeMap<String, Read> {
        lock(&self.reads).clone()
    }

    /// Stores a value that is too large to answer with; returns its path.
    pub fn store_result(&self, text: String) -> String {
        let mut results = lock(&self.results);
        results.last += 1;
        let path = format!("/results/{}.json", results.last);
        results.bytes += text.len();
        results.entries.push_back((path.clone(), text.into()));
        while results.bytes > RESULT_BYTES && results.entries.len() > 1 {
            if let Some((_, dropped)) = results.entries.pop_front() {
                results.bytes -= dropped.len();
            }
        }
        path
    }

    /// A stored result.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none at `path`.
    pub fn result(&self, path: &str) -> Result<Arc<str>> {
        let results = lock(&self.results);
        let found = results.entries.iter().find(|(own, _)| own == path).map(|(_, text)| Arc::clone(text));
        found.ok_or_else(|| {
            let listing = results.listing();
            Error::new(ErrorCode::InvalidArgs, format!("there is no {path}"))
                .hint(format!("stored results:\n{listing}"))
        })
    }

    /// One line a stored result.
    #[must_use]
    pub fn list_results(&self) -> String {
        lock(&self.results).listing()
    }

    /// Keeps `value` under `key`, for `ttl` if given, else as long as the session.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when the stash is full.
    pub fn stash_put(&self, key: String, value: String, ttl: Option<Duration>) -> Result<()> {
        let mut stash = lock(&self.stash);
        stash.expire();
        let others: usize =
            stash.0.iter().filter(|(own, _)| **own != key).map(|(own, kept)| own.len() + kept.size()).sum();
        if others + key.len() + value.len() > STASH_BYTES
            || (stash.0.len() >= STASH_ENTRIES && !stash.0.contains_key(&key))
        {
            return Err(Error::new(
                ErrorCode::BudgetExceeded,
                format!("the stash is full: {STASH_BYTES} bytes and {STASH_ENTRIES} entries at most"),
            )
            .hint("delete entries that are not needed, or give them a ttl"));
        }
        stash.0.insert(key, Kept { value: value.into(), until: ttl.map(|ttl| Instant::now() + ttl.min(LONGEST)) });
        Ok(())
    }

    /// The JSON kept under `key`.
    #[must_use]
    pub fn stash_get(&self, key: &str) -> Option<Arc<str>> {
        let mut stash = lock(&self.stash);
        stash.expire();
        stash.0.get(key).map(|kept| Arc::clone(&kept.value))
    }

    /// Forgets `key`; whether there was such an entry.
    pub fn stash_delete(&self, key: &str) -> bool {
        let mut stash = lock(&self.stash);
        stash.expire();
        stash.0.remove(key).is_some()
    }

    /// The keys kept, sorted.
    #[must_use]
    pub fn stash_keys(&self) -> Value {
        let mut stash = lock(&self.stash);
        stash.expire();
        stash.0.keys().cloned().map(Value::String).collect()
    }
}

#[derive(Default)]
struct Results {
    entries: VecDeque<(String, Arc<str>)>,
    bytes: usize,
    last: u64,
}

impl Results {
    fn listing(&self) -> String {
        if self.entries.is_empty() {
            return "/results/  empty: results over the token budget are stored here".to_owned();
        }
        let line = |(path, text): &(String, Arc<str>)| format!("{path}  {} bytes", text.len());
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[derive(Default)]
struct Stash(BTreeMap<String, Kept>);

struct Kept {
    value: Arc<str>,
    until: Option<Instant>,
}

impl Kept {
    fn size(&self) -> usize {
        self.value.len()
    }
}

impl Stash {
    fn expire(&mut self) {
        let now = Instant::now();
        self.0.retain(|_, kept| kept.until.is_none_or(|until| until > now));
    }
}
