//! Memory that several clients share: each has a part of its own, which the others cannot take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::principal::LOCAL;

/// Hint for [`Refused`].
pub const HINT: &str =
    "return or keep less, end sessions that are not needed, or raise `memory.results` in the configuration";

/// Memory for the stored results and the stash of all clients.
///
/// With two or more configured clients, half of it is common. The other half is divided evenly, so that no number of
/// sessions of one client leaves less than that to another. Any one client may take all of the rest.
pub struct SharedRoom(Mutex<Ledger>);

struct Ledger {
    size: usize,
    /// Configured clients.
    clients: BTreeSet<Arc<str>>,
    /// Reserved bytes by client.
    held: BTreeMap<Arc<str>, usize>,
}

impl SharedRoom {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Ledger { size: usize::MAX, clients: BTreeSet::new(), held: BTreeMap::new() }))
    }

    /// Sets the size and the clients. Reservations stay, also over a smaller size or part.
    pub(super) fn configure<'a>(&self, size: usize, clients: impl Iterator<Item = &'a String>) {
        let mut ledger = self.0.lock();
        ledger.size = size;
        ledger.clients = clients.map(|name| name.as_str().into()).collect();
    }

    /// Reserved bytes of all clients.
    pub fn taken(&self) -> usize {
        self.0.lock().taken()
    }

    /// Checks that `bytes` would fit for a client if it freed `freed` first.
    ///
    /// # Errors
    /// When they would not.
    pub fn check(&self, client: &Arc<str>, bytes: usize, freed: usize) -> Result<(), Refused> {
        self.0.lock().check(client, bytes, freed)
    }

    /// Reserves `bytes` for a client until the value is dropped.
    ///
    /// # Errors
    /// When fewer are free for this client.
    pub fn take(&'static self, client: &Arc<str>, bytes: usize) -> Result<Share, Refused> {
        let mut ledger = self.0.lock();
        ledger.check(client, bytes, 0)?;
        *ledger.held.entry(Arc::clone(client)).or_default() += bytes;
        Ok(Share { room: self, client: Arc::clone(client), bytes })
    }
}

impl Ledger {
    fn taken(&self) -> usize {
        self.held.values().sum()
    }

    /// Part of each configured client.
    fn part(&self) -> usize {
        self.size / 2 / self.clients.len().max(1)
    }

    /// Part of a client that no other can take; none of one that is no longer configured.
    fn own(&self, client: &str) -> usize {
        if self.clients.contains(client) { self.part() } else { 0 }
    }

    /// Checks that `bytes` more, in place of `freed`, fit into the client's own part, or that the common part has room for
    /// what is over it.
    fn check(&self, client: &Arc<str>, bytes: usize, freed: usize) -> Result<(), Refused> {
        if self.clients.len() < 2 || **client == *LOCAL {
            let (taken, size) = (self.taken().saturating_sub(freed), self.size);
            let fits = taken.checked_add(bytes).is_some_and(|sum| sum <= size);
            return if fits { Ok(()) } else { Err(Refused::All { bytes, taken, size }) };
        }
        let own = self.own(client);
        let held = self.held.get(client).copied().unwrap_or_default().saturating_sub(freed);
        let sum = held.saturating_add(bytes);
        if sum <= own {
            return Ok(());
        }
        let common = self.size - self.part() * self.clients.len();
        let others = self.held.iter().filter(|(other, _)| *other != client);
        let over = |(other, held): (&Arc<str>, &usize)| held.saturating_sub(self.own(other));
        let taken: usize = others.map(over).sum();
        match taken.saturating_add(sum - own) <= common {
            true => Ok(()),
            false => Err(Refused::Client { bytes, held, own, common }),
        }
    }
}

/// A reservation of one client; dropping it frees the bytes.
#[derive(Debug)]
pub struct Share {
    room: &'static SharedRoom,
    client: Arc<str>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut ledger = self.room.0.lock();
        if let Some(held) = ledger.held.get_mut(&self.client) {
            *held -= self.bytes;
            if *held == 0 {
                ledger.held.remove(&self.client);
            }
        }
    }
}

/// Error of a failed reservation.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Nothing more fits at all.
    #[error(
        "{bytes} bytes more do not fit beside {taken} of stored results and the stash of all sessions: the limit is \
         {size} bytes"
    )]
    All {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes in use.
        taken: usize,
        /// Limit in bytes.
        size: usize,
    },
    /// The client used up its own part, and the common one is in use.
    #[error(
        "{bytes} bytes more do not fit beside {held} of stored results and the stash of this client: {own} bytes are \
         its own, and too few of the {common} that all clients share are free"
    )]
    Client {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that the client holds.
        held: usize,
        /// Bytes of the client's own part.
        own: usize,
        /// Bytes of the common part.
        common: usize,
    },
}

impl std::fmt::Debug for SharedRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stored results and the stash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(clients: &[&str]) -> Vec<String> {
        clients.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn no_client_takes_the_part_of_another() {
        static ROOM: SharedRoom = SharedRoom::new();
        ROOM.configure(1200, names(&["a", "b", "c"]).iter());
        let [a, b, c, gone]: [Arc<str>; 4] = ["a", "b", "c", "gone"].map(Into::into);
        // 600 are common, and 200 each client's own.
        let first = ROOM.take(&a, 800).expect("its own part and the common one");
        let refused = ROOM.take(&a, 1).expect_err("that would be of others").to_string();
        assert!(refused.contains("beside 800") && refused.contains("200 bytes are its own"), "{refused}");
        assert!(refused.contains("the 600 that all clients share"), "{refused}");
        assert!(ROOM.take(&b, 201).is_err() && ROOM.take(&gone, 1).is_err());
        let held = [ROOM.take(&b, 200).expect("its own"), ROOM.take(&c, 200).expect("its own")];
        assert_eq!(ROOM.taken(), 1200);
        drop(first);
        let more = ROOM.take(&b, 400).expect("the common part is free again");
        assert!(ROOM.take(&a, 401).is_err() && ROOM.check(&b, 600, 399).is_err() && ROOM.check(&b, 600, 400).is_ok());
        drop(ROOM.take(&a, 400).expect("its own, and the rest of the common one"));
        drop((held, more));
        assert_eq!(ROOM.taken(), 0);
    }

    #[test]
    fn a_client_alone_has_all_and_so_has_this_machine() {
        static ROOM: SharedRoom = SharedRoom::new();
        for (clients, client) in [(&[][..], LOCAL), (&["a"], "a"), (&["a", "b"], LOCAL)] {
            ROOM.configure(100, names(clients).iter());
            let client: Arc<str> = client.into();
            let held = ROOM.take(&client, 100).expect("all of it");
            let refused = ROOM.take(&client, 1).expect_err("nothing is left").to_string();
            assert!(refused.ends_with("the limit is 100 bytes"), "{refused}");
            drop(held);
        }
    }

    #[test]
    fn a_new_client_has_its_part_whatever_others_took_before() {
        static ROOM: SharedRoom = SharedRoom::new();
        ROOM.configure(100, names(&["a"]).iter());
        let [a, b]: [Arc<str>; 2] = ["a", "b"].map(Into::into);
        let before = ROOM.take(&a, 100).expect("all of it");
        ROOM.configure(100, names(&["a", "b"]).iter());
        drop(ROOM.take(&b, 25).expect("its own part"));
        assert!(ROOM.take(&b, 26).is_err() && ROOM.take(&a, 1).is_err());
        drop(before);
        assert!(ROOM.take(&a, 75).is_ok());
    }
}
