//! What one client's session holds: what it read, what its scripts kept, and results too large to answer with.

mod approvals;
mod results;
mod stash;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use approvals::{Approvals, Consent};
pub use results::{Results, StoredResult};
pub use stash::Stash;

use crate::redact::Minted;
use crate::spending::Purse;

/// Names of the servers whose data something holds.
pub type Labels = BTreeSet<String>;

/// The state of one session.
#[derive(Default)]
pub struct Session {
    id: SessionId,
    client: Mutex<Option<String>>,
    reads: Mutex<Reads>,
    spent: Purse,
    minted: Minted,
    /// Results too large to answer with.
    pub results: Results,
    /// What its scripts keep for later ones.
    pub stash: Arc<Stash>,
    /// What the user allowed for all of it.
    pub approvals: Approvals,
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
    /// Whole digest of the tool's definition.
    pub digest: String,
    /// Digest of the text.
    pub object: String,
    /// The text.
    pub text: Arc<str>,
}

/// The stubs that were read, each as it was read last.
#[derive(Debug, Default)]
struct Reads {
    by_path: BTreeMap<String, Read>,
    /// Those that are on no record yet.
    unrecorded: BTreeSet<String>,
    /// How often some were put on record.
    part: u64,
}

/// What of the stubs that a session read is on no record yet.
#[derive(Debug)]
pub struct NewReads {
    /// The stubs, by path.
    pub new: BTreeMap<String, Read>,
    /// The number of the last part that was put on record, which is this one if there is anything new.
    pub part: u64,
    /// The stubs that the session has read altogether.
    pub count: usize,
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

    /// Its placeholders.
    #[must_use]
    pub fn minted(&self) -> &Minted {
        &self.minted
    }

    /// What its calls cost so far.
    #[must_use]
    pub fn spent(&self) -> &Purse {
        &self.spent
    }

    /// Remembers that a stub was read, with the digest of its definition, and its text.
    pub fn saw(&self, path: String, digest: &str, text: &str) {
        let read = Read { digest: digest.to_owned(), object: stubgen::digest(text), text: text.into() };
        let mut reads = lock(&self.reads);
        let is_known = |known: &Read| (&known.digest, &known.object) == (&read.digest, &read.object);
        if !reads.by_path.get(&path).is_some_and(is_known) {
            reads.unrecorded.insert(path.clone());
            reads.by_path.insert(path, read);
        }
    }

    /// Whether the stub at `path` was read when its tool had another digest.
    #[must_use]
    pub fn is_stale(&self, path: &str, digest: &str) -> bool {
        lock(&self.reads).by_path.get(path).is_some_and(|read| read.digest != digest)
    }

    /// Takes the stubs that are to be put on record.
    #[must_use]
    pub fn take_new_reads(&self) -> NewReads {
        let mut reads = lock(&self.reads);
        let paths = std::mem::take(&mut reads.unrecorded);
        reads.part += u64::from(!paths.is_empty());
        let new = paths.into_iter().filter_map(|path| Some((path.clone(), reads.by_path.get(&path)?.clone())));
        NewReads { new: new.collect(), part: reads.part, count: reads.by_path.len() }
    }

    /// Takes back [`Session::take_new_reads`] where the record could not be written.
    pub fn give_back_reads<'a>(&self, paths: impl Iterator<Item = &'a String>) {
        lock(&self.reads).unrecorded.extend(paths.cloned());
    }
}
