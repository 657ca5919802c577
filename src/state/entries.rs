//! One collection in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Collection, Entry, Kind, New, Room};
use crate::error::{Error, ErrorCode, Result};
use crate::kept::{CONSENTS, Counted};
use crate::labels::Labels;
use crate::memory::{self, Share};

/// Most dropped entries that are remembered.
const MAX_DROPPED: usize = 1000;
/// Longest TTL: longer than any session, and short enough to be added to a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Entries of one collection, oldest first. Expired entries are gone, with the memory they took.
#[derive(Debug)]
pub(super) struct Entries {
    kind: Kind,
    client: Arc<str>,
    kept: VecDeque<Kept>,
    dropped: VecDeque<(Arc<str>, Labels)>,
    next: u64,
}

#[derive(Debug)]
struct Kept {
    entry: Entry,
    until: Option<Instant>,
    bytes: usize,
    _held: Held,
}

/// Memory of an entry, counted until dropped.
#[derive(Debug)]
enum Held {
    Shared { _share: Share },
    Counted { _counted: Counted },
}

impl Entries {
    pub(super) fn new(of: &Collection) -> Self {
        let client = Arc::clone(&of.client);
        Self { kind: of.kind, client, kept: VecDeque::new(), dropped: VecDeque::new(), next: 0 }
    }

    pub(super) fn named(&mut self, name: Option<&str>) -> Vec<Entry> {
        self.drop_expired();
        let kept = self.kept.iter().map(|kept| &kept.entry);
        kept.filter(|entry| name.is_none_or(|name| *entry.name == *name)).cloned().collect()
    }

    pub(super) fn dropped(&self) -> Vec<(Arc<str>, Labels)> {
        self.dropped.iter().cloned().collect()
    }

    pub(super) fn remove(&mut self, ids: &[u64]) {
        self.kept.retain(|kept| !ids.contains(&kept.entry.id));
    }

    pub(super) fn insert(&mut self, new: New) -> Result<()> {
        self.drop_expired();
        let New { name, value, labels, ttl, mut replaces, room } = new;
        let is_same = |entry: &Entry| *entry.name == *name && *entry.labels == labels;
        replaces.extend(self.kept.iter().map(|kept| &kept.entry).filter(|entry| is_same(entry)).map(|entry| entry.id));
        let bytes = name.len() + value.len() + room.overhead;
        self.make_room(bytes, &labels, &replaces, &room)?;
        let held = self.hold(bytes, &room)?;
        self.remove(&replaces);
        let lines = value.lines().count();
        let entry = Entry { id: self.next, name: name.into(), value: value.into(), lines, labels: Arc::new(labels) };
        self.next += 1;
        let until = ttl.map(|ttl| Instant::now() + ttl.min(LONGEST));
        self.kept.push_back(Kept { entry, until, bytes, _held: held });
        Ok(())
    }

    /// Reserves the memory of an entry.
    fn hold(&mut self, bytes: usize, room: &Room) -> Result<Held> {
        if self.kind == Kind::Approvals {
            return Ok(Held::Counted { _counted: CONSENTS.count(bytes) });
        }
        let refused = |refused: memory::Refused| {
            Error::new(ErrorCode::BudgetExceeded, refused.to_string()).hint(memory::RESULTS_HINT)
        };
        // What would not fit without the older ones either drops none of them.
        let freed = if room.drops_oldest { self.kept.iter().map(|kept| kept.bytes).sum() } else { 0 };
        memory::RESULTS.check(&self.client, bytes, freed).map_err(refused)?;
        loop {
            match memory::RESULTS.take(&self.client, bytes) {
                Ok(share) => return Ok(Held::Shared { _share: share }),
                Err(_) if room.drops_oldest && self.drop_oldest() => {}
                Err(full) => return Err(refused(full)),
            }
        }
    }

    /// Makes an entry fit the limits of the collection.
    fn make_room(&mut self, bytes: usize, labels: &Labels, replaces: &[u64], room: &Room) -> Result<()> {
        let full = |what: String| Err(Error::new(ErrorCode::BudgetExceeded, what));
        if room.drops_oldest {
            if bytes > room.bytes {
                let what = format!("{bytes} bytes are over the limit of {} bytes a session", room.bytes);
                return full(what).map_err(|error| error.hint("return less"));
            }
            let taken = |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.bytes).sum::<usize>();
            while (self.kept.len() >= room.entries || taken(&self.kept) + bytes > room.bytes) && self.drop_oldest() {}
            return Ok(());
        }
        let others = || self.kept.iter().filter(|kept| !replaces.contains(&kept.entry.id));
        let beside = || others().filter(|kept| *kept.entry.labels == *labels);
        let (count, taken) = (beside().count(), beside().map(|kept| kept.bytes).sum::<usize>());
        let hint = |error: Error| error.hint("delete entries that are not needed, or give them a ttl");
        if count >= room.entries || taken + bytes > room.bytes {
            return full(format!(
                "the stash is full: {count} entries of {}, {taken} bytes of {} without this one",
                room.entries, room.bytes
            ))
            .map_err(hint);
        }
        let sets: BTreeSet<&Labels> =
            others().map(|kept| &*kept.entry.labels).filter(|labels| !labels.is_empty()).collect();
        match room.label_sets {
            Some(most) if !labels.is_empty() && !sets.contains(labels) && sets.len() >= most => {
                full(format!("the stash is full: it has data of {most} different sets of servers")).map_err(hint)
            }
            _ => Ok(()),
        }
    }

    fn drop_expired(&mut self) {
        let now = Instant::now();
        self.kept.retain(|kept| kept.until.is_none_or(|until| until > now));
    }

    /// Drops the oldest entry; false if there was none.
    fn drop_oldest(&mut self) -> bool {
        let Some(Kept { entry, .. }) = self.kept.pop_front() else { return false };
        self.dropped.push_back((entry.name, (*entry.labels).clone()));
        if self.dropped.len() > MAX_DROPPED {
            self.dropped.pop_front();
        }
        true
    }
}
