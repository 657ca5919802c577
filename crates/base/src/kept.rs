//! Bounded maps for state that outlives a request, limited in entries and bytes. Over a limit the oldest entries are
//! evicted.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{self, Limit};

/// Bytes that an entry counts for beside its own.
const ENTRY: usize = 256;
/// Full maps of one kind from which each may hold less.
const MANY: usize = 8;
/// Share of its limit that a map may hold then.
const SHARE: usize = 16;

/// Stubs read by sessions.
pub static READS: Kind = Kind::new("reads", &limits::READS, &limits::READ_BYTES);
/// Reads that no record has yet, with their texts.
pub static UNRECORDED: Kind = Kind::new("unrecorded_reads", &limits::READS, &limits::READ_BYTES);
/// Users' consents for their sessions.
pub static CONSENTS: Kind = Kind::new("consents", &limits::CONSENTS, &limits::CONSENT_BYTES);
/// Compiled regular expressions and formats of schemas.
pub static PATTERNS: Kind = Kind::new("patterns", &limits::PATTERNS, &limits::PATTERN_BYTES);
/// Pages of tool lists, as clients are shown them.
pub static PAGES: Kind = Kind::new("pages", &limits::PAGES_KEPT, &limits::PAGES_KEPT_BYTES);
/// Tokens of logins, for redaction.
pub static TOKENS: Kind = Kind::new("tokens", &limits::TOKENS, &limits::TOKEN_BYTES);

/// Events of streams over HTTP, for clients that resume one.
pub static EVENTS: Kind = Kind::new("events", &limits::EVENT_COUNT, &limits::ALL_EVENTS);
/// Access tokens of clients on HTTP, with their claims.
pub static VERIFIED: Kind = Kind::new("verified_tokens", &limits::VERIFIED_TOKENS, &limits::VERIFIED_TOKEN_BYTES);

/// Usage of every kind.
pub fn held() -> Vec<Usage> {
    [&READS, &UNRECORDED, &CONSENTS, &PATTERNS, &PAGES, &TOKENS, &EVENTS, &VERIFIED].map(Kind::held).into()
}

/// A kind of state: the limits of each map, and the usage of all maps of the process.
pub struct Kind {
    what: &'static str,
    most_entries: &'static Limit,
    most_bytes: &'static Limit,
    entries: AtomicUsize,
    bytes: AtomicUsize,
}

/// Usage of all maps of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Name of the kind.
    pub what: &'static str,
    /// Entries.
    pub entries: usize,
    /// Estimated bytes.
    pub bytes: usize,
}

impl Kind {
    const fn new(what: &'static str, most_entries: &'static Limit, most_bytes: &'static Limit) -> Self {
        Self { what, most_entries, most_bytes, entries: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Counts an entry of `bytes` stored elsewhere, until dropped.
    pub fn count(&'static self, bytes: usize) -> Tracked {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Tracked { kind: self, bytes }
    }

    /// Limits of one map in entries and bytes: smaller where all maps together hold much, since a client can have many
    /// sessions.
    fn limits(&self) -> (usize, usize) {
        let (entries, bytes) = (self.most_entries.max, self.most_bytes.max);
        let held = self.held();
        let is_crowded = held.entries > MANY * entries || held.bytes > MANY * bytes;
        if is_crowded { (entries / SHARE, bytes / SHARE) } else { (entries, bytes) }
    }

    /// True if all maps together have more than one of them may have.
    pub fn is_full(&self) -> bool {
        let held = self.held();
        held.entries > self.most_entries.max || held.bytes > self.most_bytes.max
    }

    /// Entries and bytes of all its maps.
    pub fn held(&self) -> Usage {
        let (entries, bytes) = (self.entries.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        Usage { what: self.what, entries, bytes }
    }
}

/// A counted entry.
pub struct Tracked {
    kind: &'static Kind,
    bytes: usize,
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.kind.what)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.kind.entries.fetch_sub(1, Ordering::Relaxed);
        self.kind.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A map of one kind.
pub struct BoundedMap<K, V> {
    kind: &'static Kind,
    entries: HashMap<K, Entry<V>>,
    /// Keys by age.
    order: BTreeMap<u64, K>,
    next: u64,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    counted: Tracked,
    age: u64,
}

impl<K: Clone + Eq + Hash, V> BoundedMap<K, V> {
    /// An empty map with the bounds of `kind`.
    pub fn new(kind: &'static Kind) -> Self {
        Self { kind, entries: HashMap::new(), order: BTreeMap::new(), next: 0, bytes: 0 }
    }

    /// Inserts a value of `bytes`, key included, as the newest, and replaces the key's older one. Returns the evicted
    /// keys: the oldest, or this one if it is larger than the limit.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) -> Vec<K> {
        self.remove(&key);
        let bytes = bytes.saturating_add(ENTRY);
        if bytes > self.kind.most_bytes.max {
            return vec![key];
        }
        let age = self.next;
        self.next += 1;
        self.order.insert(age, key.clone());
        self.entries.insert(key, Entry { value, counted: self.kind.count(bytes), age });
        self.bytes += bytes;
        let mut gone = Vec::new();
        let (most_entries, most_bytes) = self.kind.limits();
        while self.entries.len() > 1 && (self.bytes > most_bytes || self.entries.len() > most_entries) {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
            gone.push(oldest);
        }
        gone
    }

    /// Takes out the entry of `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { value, counted, age } = self.entries.remove(key)?;
        self.order.remove(&age);
        self.bytes -= counted.bytes;
        Some(value)
    }

    /// Value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Drains all entries.
    pub fn take(&mut self) -> impl Iterator<Item = (K, V)> {
        (self.bytes, self.order) = (0, BTreeMap::new());
        std::mem::take(&mut self.entries).into_iter().map(|(key, entry)| (key, entry.value))
    }

    /// True if more than half of a limit is used.
    pub fn is_half_full(&self) -> bool {
        self.entries.len() > self.kind.most_entries.max / 2 || self.bytes > self.kind.most_bytes.max / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Unit;

    #[test]
    fn many_maps_hold_less_each() {
        static MOST: Limit = Limit { field: "things", max: 160, unit: Unit::Items, place: "", key: None };
        static BYTES: Limit = Limit { field: "bytes", max: 1 << 20, unit: Unit::Bytes, place: "", key: None };
        static THINGS: Kind = Kind::new("things", &MOST, &BYTES);
        let mut maps: Vec<BoundedMap<u32, ()>> = (0..50).map(|_| BoundedMap::new(&THINGS)).collect();
        for map in &mut maps {
            for key in 0..200 {
                map.insert(key, (), 0);
            }
        }
        let all = MANY * MOST.max + maps.len() * (MOST.max / SHARE) + MOST.max;
        assert!((MANY * MOST.max..all).contains(&THINGS.held().entries), "{}", THINGS.held().entries);
        maps.truncate(1);
        for key in 0..200 {
            maps[0].insert(key, (), 0);
        }
        assert_eq!(THINGS.held().entries, MOST.max, "alone it has its own again");
    }

    #[test]
    fn the_oldest_go_by_count_and_by_bytes() {
        static FEW: Limit = Limit { field: "things", max: 3, unit: Unit::Items, place: "", key: None };
        static SMALL: Limit = Limit { field: "bytes", max: 3 * ENTRY + 100, unit: Unit::Bytes, place: "", key: None };
        static THINGS: Kind = Kind::new("things", &FEW, &SMALL);
        let held = || (THINGS.held().entries, THINGS.held().bytes);
        let mut kept = BoundedMap::<u32, ()>::new(&THINGS);
        for key in 0..3 {
            assert!(kept.insert(key, (), 0).is_empty());
        }
        assert!(kept.insert(0, (), 0).is_empty(), "it takes its own place, as the newest");
        assert_eq!(kept.insert(3, (), 0), vec![1], "too many");
        assert_eq!(held(), (3, 3 * ENTRY));
        assert_eq!(kept.insert(4, (), 101), vec![2, 0], "one makes room for the count, and one for the bytes");
        assert_eq!(kept.insert(5, (), ENTRY), vec![3, 4], "it needs the room of two");
        assert_eq!(kept.insert(5, (), 4 * ENTRY), vec![5], "it is larger than all may be");
        assert!(kept.get(&5).is_none() && !kept.is_half_full());
        let mut other = BoundedMap::<u32, ()>::new(&THINGS);
        other.insert(1, (), 50);
        other.insert(2, (), 50);
        assert!(other.is_half_full());
        assert_eq!(other.take().count(), 2);
        assert_eq!(held(), (0, 0));
        other.insert(1, (), 50);
        drop((kept, other));
        assert_eq!(held(), (0, 0));
    }
}
