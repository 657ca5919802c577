//! Memory that is not needed any more goes back to the system. Left to itself, the C library takes the largest block that
//! was ever freed for what the program usually needs and keeps everything smaller, in a heap for each thread: after the
//! index of 20 tools was built, in blocks of 1 MiB, 22 MiB that nobody used.
//!
//! Other allocators give back by themselves, or cannot be told: there, these functions do nothing.
//!
//! What hostile input can make the gateway hold is taken from a [`Room`] first: one for each kind of data, whose sizes
//! the `[memory]` table sets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config;

/// Values made of large texts.
pub(crate) static ANSWERS: Room = Room::new("answers", "memory.answers");
/// Stored results and the stash of all sessions.
pub(crate) static RESULTS: Room = Room::new("stored results and the stash of all sessions", "memory.results");
/// Definitions of all servers.
static LISTS: Room = Room::new("definitions of all servers", "memory.lists");
/// What the lists of each server take: one list, and while it is replaced the next one.
static LISTED: Mutex<BTreeMap<String, Vec<usize>>> = Mutex::new(BTreeMap::new());
/// Definitions of one server, at most.
static LIST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Texts whose values take less than this are not taken from a room, in bytes.
pub(crate) const SMALL: usize = 1 << 20;
/// How long a large text waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sets the sizes of all rooms. What is taken stays taken, also where it is more now.
pub(crate) fn configure(memory: &config::Memory) {
    for (room, bytes) in [(&ANSWERS, memory.answers), (&RESULTS, memory.results), (&LISTS, memory.lists)] {
        room.size.store(bytes, Ordering::Relaxed);
        room.freed.notify_waiters();
    }
    LIST.store(memory.list, Ordering::Relaxed);
}

/// Bytes that the definitions of one server may have.
pub(crate) fn list_bytes() -> usize {
    LIST.load(Ordering::Relaxed)
}

/// Bytes of memory for one kind of data.
pub(crate) struct Room {
    what: &'static str,
    key: &'static str,
    size: AtomicUsize,
    taken: AtomicUsize,
    freed: Notify,
}

impl Room {
    const fn new(what: &'static str, key: &'static str) -> Self {
        let (size, taken) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Self { what, key, size, taken, freed: Notify::const_new() }
    }

    /// Bytes of it.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Bytes that are taken of it.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes so many bytes until the value is dropped.
    ///
    /// # Errors
    /// When there are fewer.
    pub(crate) fn take(&'static self, bytes: usize) -> Result<Taken, Full> {
        let size = self.size();
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= size);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Taken { room: self, bytes }),
            Err(taken) => Err(Full { room: self, bytes, taken }),
        }
    }

    /// As [`Room::take`], after a while if need be.
    ///
    /// # Errors
    /// When there is no room for all that time, or never.
    pub(crate) async fn wait_for(&'static self, bytes: usize) -> Result<Taken, Full> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let freed = self.freed.notified();
            let full = match self.take(bytes) {
                Ok(taken) => return Ok(taken),
                Err(full) => full,
            };
            if bytes > self.size() || tokio::time::timeout_at(deadline, freed).await.is_err() {
                return Err(full);
            }
        }
    }
}

/// Bytes that are taken from a room; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Taken {
    room: &'static Room,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        self.room.freed.notify_waiters();
    }
}

/// The place of one server's list among those of all servers, until it is dropped.
#[derive(Debug)]
pub struct Listed {
    server: String,
    bytes: usize,
}

impl Listed {
    /// A place for a list of `server`, beside or in place of an older one of the same server.
    ///
    /// # Errors
    /// When the lists of all servers would take more than they may.
    pub(crate) fn take(server: &str, bytes: usize) -> Result<Self, Full> {
        let mut all = LISTED.lock();
        let others = all.iter().filter(|(name, _)| *name != server);
        let taken: usize = others.filter_map(|(_, lists)| lists.iter().max()).sum();
        if taken.saturating_add(bytes) > LISTS.size() {
            return Err(Full { room: &LISTS, bytes, taken });
        }
        all.entry(server.to_owned()).or_default().push(bytes);
        Ok(Self { server: server.to_owned(), bytes })
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut all = LISTED.lock();
        if let Some(lists) = all.get_mut(&self.server) {
            if let Some(position) = lists.iter().position(|bytes| *bytes == self.bytes) {
                lists.swap_remove(position);
            }
            if lists.is_empty() {
                all.remove(&self.server);
            }
        }
    }
}

/// There is no room.
#[derive(Debug)]
pub(crate) struct Full {
    room: &'static Room,
    bytes: usize,
    taken: usize,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { room, bytes, taken } = self;
        write!(f, "{bytes} bytes more do not fit beside {taken} of {}: the limit is {} bytes", room.what, room.size())
    }
}

impl Full {
    /// How to make room.
    pub(crate) fn hint(&self) -> String {
        format!("try again later, ask for less, or raise `{}` in the configuration", self.room.key)
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

/// A block from this size on is given back as soon as it is freed, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: nix::libc::c_int = 512 << 10;

/// Sets up the allocator for a process of so many busy threads. To be called before there is a second one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn set_up(threads: usize) {
    let heaps = nix::libc::c_int::try_from(threads.max(2)).unwrap_or(nix::libc::c_int::MAX);
    for (parameter, value) in [(nix::libc::M_MMAP_THRESHOLD, LARGE), (nix::libc::M_ARENA_MAX, heaps)] {
        #[expect(unsafe_code, reason = "nix has no mallopt; it changes a number, under the allocator's own lock")]
        // It says whether the number is valid, which these are.
        let _ = unsafe { nix::libc::mallopt(parameter, value) };
    }
}

/// Gives back what is free, after work that took much for a while. Milliseconds: not for a thread that others wait for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back() {
    #[expect(unsafe_code, reason = "nix has no malloc_trim; it touches nothing that is in use")]
    // It says whether there was anything.
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn set_up(_threads: usize) {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_room_is_never_taken_twice_and_is_waited_for() {
        static PLACE: Room = Room::new("things", "memory.things");
        PLACE.size.store(100, Ordering::Relaxed);
        let first = PLACE.take(60).expect("there is room");
        let full = PLACE.take(41).expect_err("there is not");
        assert_eq!(full.to_string(), "41 bytes more do not fit beside 60 of things: the limit is 100 bytes");
        assert!(full.hint().contains("memory.things"));
        assert!(PLACE.wait_for(41).await.is_err(), "nobody gives any back");
        assert!(PLACE.wait_for(101).await.is_err(), "there never is so much");
        let later = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(first);
        };
        let (taken, ()) = tokio::join!(PLACE.wait_for(100), later);
        drop(taken.expect("it was given back"));
        assert_eq!(PLACE.taken.load(Ordering::Relaxed), 0);
    }
}
