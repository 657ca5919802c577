//! One collection in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Collection, Entry, Kind, New, Room};
use base::error::{Error, ErrorCode, Result};
use base::kept::{CONSENTS, Tracked};
use base::labels::Labels;
use base::memory::{self, Share};

/// Most dropped entries that are remembered.
pub(super) const MAX_DROPPED: usize = 1000;
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
    executions: u64,
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
    Tracked { _counted: Tracked },
}

impl Entries {
    pub(super) fn new(of: &Collection) -> Self {
        let client = Arc::clone(&of.client);
        Self { kind: of.kind, client, kept: VecDeque::new(), dropped: VecDeque::new(), next: 0, executions: 0 }
    }

    pub(super) fn named(&mut self, name: Option<&str>) -> Vec<Entry> {
        self.drop_expired();
        let kept = self.kept.iter().map(|kept| &kept.entry);
        kept.filter(|entry| name.is_none_or(|name| *entry.name == *name)).cloned().collect()
    }

    pub(super) fn number(&mut self) -> u64 {
        self.executions += 1;
        self.executions
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
        let slots: Vec<Slot<'_>> = self.kept.iter().map(Kept::slot).collect();
        let oldest = room_for(&slots, bytes, &labels, &replaces, &room)?;
        self.check_memory(bytes, &room)?;
        for id in oldest {
            self.drop_first(|entry| entry.id == id);
        }
        let held = self.hold(bytes, &room)?;
        self.remove(&replaces);
        let (lines, size) = (value.lines().count(), value.len());
        let (name, value, labels) = (name.into(), value.into(), Arc::new(labels));
        let entry = Entry { id: self.next, name, value, bytes: size, lines, labels };
        self.next += 1;
        let until = ttl.map(|ttl| Instant::now() + ttl.min(LONGEST));
        self.kept.push_back(Kept { entry, until, bytes, _held: held });
        Ok(())
    }

    /// Checks the memory for an entry. One that would not fit without the older ones either drops none of them.
    fn check_memory(&self, bytes: usize, room: &Room) -> Result<()> {
        if self.kind == Kind::Approvals {
            return Ok(());
        }
        let freed = if room.drops_oldest { self.kept.iter().map(|kept| kept.bytes).sum() } else { 0 };
        memory::RESULTS.check(&self.client, bytes, freed).map_err(refused)
    }

    /// Reserves the memory of an entry.
    fn hold(&mut self, bytes: usize, room: &Room) -> Result<Held> {
        if self.kind == Kind::Approvals {
            return Ok(Held::Tracked { _counted: CONSENTS.count(bytes) });
        }
        loop {
            match memory::RESULTS.take(&self.client, bytes) {
                Ok(share) => return Ok(Held::Shared { _share: share }),
                Err(_) if room.drops_oldest && self.drop_first(|_| true) => {}
                Err(full) => return Err(refused(full)),
            }
        }
    }

    fn drop_expired(&mut self) {
        let now = Instant::now();
        self.kept.retain(|kept| kept.until.is_none_or(|until| until > now));
    }

    /// Drops the oldest entry of a kind; false if there was none.
    fn drop_first(&mut self, is_it: impl Fn(&Entry) -> bool) -> bool {
        let position = self.kept.iter().position(|kept| is_it(&kept.entry));
        let Some(Kept { entry, .. }) = position.and_then(|at| self.kept.remove(at)) else { return false };
        self.dropped.push_back((entry.name, (*entry.labels).clone()));
        if self.dropped.len() > MAX_DROPPED {
            self.dropped.pop_front();
        }
        true
    }
}

fn refused(refused: memory::Refused) -> Error {
    Error::new(ErrorCode::BudgetExceeded, refused.to_string()).hint(memory::RESULTS_HINT)
}

impl Kept {
    fn slot(&self) -> Slot<'_> {
        Slot { id: self.entry.id, bytes: self.bytes, labels: &self.entry.labels }
    }
}

/// An entry, for limits.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    /// Its id.
    pub(super) id: u64,
    /// Bytes that it counts for.
    pub(super) bytes: usize,
    /// Servers whose data it contains.
    pub(super) labels: &'a Labels,
}

/// Makes an entry of `bytes` that replaces others fit the limits of a collection; returns the oldest entries, which are
/// dropped for it.
///
/// # Errors
/// `BUDGET_EXCEEDED` when it does not fit.
pub(super) fn room_for(
    kept: &[Slot<'_>],
    bytes: usize,
    labels: &Labels,
    replaces: &[u64],
    room: &Room,
) -> Result<Vec<u64>> {
    let full = |what: String| Err(Error::new(ErrorCode::BudgetExceeded, what));
    let others = || kept.iter().filter(|slot| !replaces.contains(&slot.id));
    if room.drops_oldest {
        if bytes > room.bytes {
            let what = format!("{bytes} bytes are over the limit of {} bytes a session", room.bytes);
            return full(what).map_err(|error| error.hint("return less"));
        }
        let (mut count, mut taken) = (others().count(), others().map(|slot| slot.bytes).sum::<usize>());
        let mut oldest = others();
        let mut dropped = Vec::new();
        while count >= room.entries || taken + bytes > room.bytes {
            let Some(slot) = oldest.next() else { break };
            count -= 1;
            taken -= slot.bytes;
            dropped.push(slot.id);
        }
        return Ok(dropped);
    }
    let beside = || others().filter(|slot| slot.labels == labels);
    let (count, taken) = (beside().count(), beside().map(|slot| slot.bytes).sum::<usize>());
    let hint = |error: Error| error.hint("delete entries that are not needed, or give them a ttl");
    if count >= room.entries || taken + bytes > room.bytes {
        return full(format!(
            "the stash is full: {count} entries of {}, {taken} bytes of {} without this one",
            room.entries, room.bytes
        ))
        .map_err(hint);
    }
    let sets: BTreeSet<&Labels> = others().map(|slot| slot.labels).filter(|labels| !labels.is_empty()).collect();
    match room.label_sets {
        Some(most) if !labels.is_empty() && !sets.contains(labels) && sets.len() >= most => {
            full(format!("the stash is full: it has data of {most} different sets of servers")).map_err(hint)
        }
        _ => Ok(Vec::new()),
    }
}
