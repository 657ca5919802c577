//! Returns freed memory to the system, and limits memory for hostile input. By default the C library raises its
//! threshold to the largest block ever freed and keeps smaller ones in a heap per thread: after building the index of
//! 20 tools, 22 MiB stayed unused in blocks of 1 MiB.
//!
//! Other allocators return memory by themselves, or cannot be told: there, these functions do nothing.
//!
//! Memory for hostile input is reserved in a [`Room`] first: one for each kind of data, sized by the `[memory]` table.

mod shared;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use shared::{HINT as RESULTS_HINT, Refused, Share, SharedRoom};

/// Values of large texts.
pub static ANSWERS: Room = Room::new("answers", "memory.answers");
/// Stored results and the stash of all sessions, by client.
pub static RESULTS: SharedRoom = SharedRoom::new();
/// Definitions of all servers.
static LISTS: Room = Room::new("definitions of all servers", "memory.lists");
/// Bytes of each server's lists: the current one, and its successor during a replacement.
static LISTED: Mutex<BTreeMap<String, Vec<usize>>> = Mutex::new(BTreeMap::new());
/// Most bytes of definitions of one server.
static LIST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes of values below which no reservation is made.
pub const SMALL: usize = 1 << 20;
/// Longest wait of a large text for a reservation.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory of all rooms, in bytes: the `[memory]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Values of large answers and results, in total.
    pub answers: usize,
    /// Stored results and the stash of all sessions.
    pub results: usize,
    /// Definitions of all servers, as JSON.
    pub lists: usize,
    /// Definitions of one server.
    pub list: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { answers: 512 << 20, results: 256 << 20, lists: 64 << 20, list: 16 << 20 }
    }
}

/// Sets the sizes of all rooms; `clients` share that of results. Reservations stay, also over a smaller size.
pub fn configure<'a>(sizes: &Memory, clients: impl Iterator<Item = &'a String>) {
    let &Memory { answers, results, lists, list } = sizes;
    for (room, bytes) in [(&ANSWERS, answers), (&LISTS, lists)] {
        room.size.store(bytes, Ordering::Relaxed);
        room.freed.notify_waiters();
    }
    RESULTS.configure(results, clients);
    LIST.store(list, Ordering::Relaxed);
}

/// Most bytes of one server's definitions.
pub fn list_bytes() -> usize {
    LIST.load(Ordering::Relaxed)
}

/// Memory limit for one kind of data.
pub struct Room {
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

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` until the value is dropped.
    ///
    /// # Errors
    /// When fewer are free.
    pub fn take(&'static self, bytes: usize) -> Result<Reservation, Full> {
        let size = self.size();
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= size);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Reservation { room: self, bytes }),
            Err(taken) => Err(Full { room: self, bytes, taken }),
        }
    }

    /// Like [`Room::take`], but waits for free memory.
    ///
    /// # Errors
    /// When it never fits, or on a timeout.
    pub async fn wait_for(&'static self, bytes: usize) -> Result<Reservation, Full> {
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

/// A reservation; dropping it frees the bytes.
#[derive(Debug)]
pub struct Reservation {
    room: &'static Room,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        self.room.freed.notify_waiters();
    }
}

/// Reservation for one server's list, until dropped.
#[derive(Debug)]
pub struct Listed {
    server: String,
    bytes: usize,
}

impl Listed {
    /// Reserves memory for a list of `server`, beside or in place of its older one.
    ///
    /// # Errors
    /// When the lists of all servers would exceed their limit.
    pub fn take(server: &str, bytes: usize) -> Result<Self, Full> {
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

/// Error of a failed reservation.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes more do not fit beside {taken} of {}: the limit is {} bytes", room.what, room.size())]
pub struct Full {
    room: &'static Room,
    bytes: usize,
    taken: usize,
}

impl Full {
    /// How to free or add memory.
    pub fn hint(&self) -> String {
        format!("try again later, ask for less, or raise `{}` in the configuration", self.room.key)
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

/// Bytes from which a block is returned as soon as it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: nix::libc::c_int = 512 << 10;

/// Configures the allocator for a process with `threads` busy threads. Call it before there is a second one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set_up(threads: usize) {
    let heaps = nix::libc::c_int::try_from(threads.max(2)).unwrap_or(nix::libc::c_int::MAX);
    for (parameter, value) in [(nix::libc::M_MMAP_THRESHOLD, LARGE), (nix::libc::M_ARENA_MAX, heaps)] {
        #[expect(unsafe_code, reason = "nix has no mallopt; it changes a number, under the allocator's own lock")]
        // The result tells whether the number is valid, which these are.
        let _ = unsafe { nix::libc::mallopt(parameter, value) };
    }
}

/// Returns free memory, after work that took much for a while. Takes milliseconds: not for a thread that others wait
/// for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    #[expect(unsafe_code, reason = "nix has no malloc_trim; it touches nothing that is in use")]
    // The result tells whether there was any.
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_up(_threads: usize) {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

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
