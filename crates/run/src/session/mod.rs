//! State of one client's session: stubs it read, data its scripts kept, and results too large to answer with.

mod approvals;
mod results;
mod stash;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub use approvals::{Approvals, Consent};
pub use results::{Results, is_json};
pub use stash::Stash;

use crate::router::Tenant;
use crate::searching::Searches;
use base::kept::{BoundedMap, READS, UNRECORDED};
use base::labels::Held;
use base::principal::Principal;
use redact::PlaceholderTable;
use state::audit::{self, Read};
use state::{Collection, Counter, Embedded, Kind, State};

/// One session.
pub struct Session {
    principal: Principal,
    client: Mutex<Option<String>>,
    reads: Mutex<Reads>,
    /// Lines of output that were shown of runs while they went on.
    looks: Mutex<BoundedMap<String, usize>>,
    placeholders: PlaceholderTable,
    tenant: Option<Tenant>,
    /// Labels of all its requests, once labels accumulate.
    held: OnceLock<Arc<Mutex<Held>>>,
    /// Of pages that its scripts have handed on, and that call tools.
    pages: Arc<Mutex<Held>>,
    /// Its last queries.
    pub searches: Mutex<Searches>,
    /// Results too large to answer with.
    pub results: Results,
    /// Data that its scripts keep for later ones.
    pub stash: Stash,
    /// Consents for the whole session.
    pub approvals: Approvals,
}

/// Stubs that were read, each in its last version. Over the bounds the oldest are forgotten, and count as new when read
/// again.
struct Reads {
    /// Digests of definition and text, by path.
    known: BoundedMap<String, (String, String)>,
    /// Reads that no record has yet.
    unrecorded: BoundedMap<String, Read>,
    /// Number of records with reads.
    part: u64,
    /// Number of new reads.
    count: usize,
}

impl Default for Reads {
    fn default() -> Self {
        Self { known: BoundedMap::new(&READS), unrecorded: BoundedMap::new(&UNRECORDED), part: 0, count: 0 }
    }
}

impl Reads {
    /// Queues a stub for the record. One dropped to make room was not recorded, and is forgotten.
    fn put(&mut self, path: String, read: Read) {
        let bytes = 2 * path.len() + read.text.len();
        for gone in self.unrecorded.insert(path, read, bytes) {
            self.known.remove(&gone);
        }
    }
}

/// A session of the client `local`, with a state of its own.
impl Default for Session {
    fn default() -> Self {
        Self::new(Principal::local(), &(Arc::new(Embedded::default()) as Arc<dyn State>))
    }
}

/// Drops its entries in the state.
impl Drop for Session {
    fn drop(&mut self) {
        self.results.state.end(&Counter::Session(Arc::clone(&self.principal.session)));
    }
}

impl Session {
    /// A new session, kept in `state`.
    pub fn new(principal: Principal, state: &Arc<dyn State>) -> Self {
        let state = || Arc::clone(state);
        let (client, session) = (&principal.client, &principal.session);
        let collection = |kind| Collection { kind, client: Arc::clone(client), session: Arc::clone(session) };
        Self {
            client: Mutex::default(),
            reads: Mutex::default(),
            looks: Mutex::new(BoundedMap::new(&READS)),
            placeholders: PlaceholderTable::default(),
            tenant: None,
            held: OnceLock::new(),
            pages: Arc::default(),
            searches: Mutex::default(),
            results: Results { state: state(), collection: collection(Kind::Results) },
            stash: Stash { state: state(), collection: collection(Kind::Stash) },
            approvals: Approvals { state: state(), collection: collection(Kind::Approvals) },
            principal,
        }
    }

    /// The same session, served by the instances of servers that are `tenant`'s. Without one it is served by the first
    /// instance of each server, as the only session of a gateway is.
    #[must_use]
    pub fn with_tenant(mut self, tenant: Tenant) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The session as the router sees it.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// Owner of the session.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Identifier in records.
    pub fn id(&self) -> &str {
        &self.principal.session
    }

    /// Labels and the strict group accumulate over its requests from now on, and begin with those of its pages.
    pub fn accumulate(&self) {
        self.held.get_or_init(|| Arc::clone(&self.pages));
    }

    /// Labels of all its requests; `None` where each is apart.
    pub fn held(&self) -> Option<Arc<Mutex<Held>>> {
        self.held.get().cloned()
    }

    /// Labels of the calls that pages make: those of all its requests, or of the runs that handed pages on and of such calls.
    pub fn held_by_pages(&self) -> Arc<Mutex<Held>> {
        self.held().unwrap_or_else(|| Arc::clone(&self.pages))
    }

    /// Notes the client's name.
    pub fn met(&self, client: String) {
        self.client.lock().get_or_insert(client);
    }

    /// The client's name, as it gives it.
    pub fn client(&self) -> Option<String> {
        self.client.lock().clone()
    }

    /// Its placeholders.
    pub fn placeholders(&self) -> &PlaceholderTable {
        &self.placeholders
    }

    /// Notes that `lines` of a run's output were shown; as many as were before, if it was shown before.
    pub fn looked(&self, run: &str, lines: usize) -> Option<usize> {
        let mut looks = self.looks.lock();
        let before = looks.get(&run.to_owned()).copied();
        looks.insert(run.to_owned(), lines, run.len());
        before
    }

    /// Remembers a stub that was read, with the digest of its definition, and its text.
    pub fn saw(&self, path: String, digest: &str, text: &str) {
        let (digest, object) = (digest.to_owned(), stubgen::digest(text));
        let mut reads = self.reads.lock();
        let known = reads.known.get(&path);
        if known.is_some_and(|known| (&known.0, &known.1) == (&digest, &object)) {
            return;
        }
        let is_new = known.is_none();
        reads.count += usize::from(is_new);
        let bytes = 2 * path.len() + digest.len() + object.len();
        reads.known.insert(path.clone(), (digest.clone(), object.clone()), bytes);
        reads.put(path, Read { digest, object, text: text.into() });
    }

    /// True if the tool had another digest when the stub at `path` was read.
    pub fn is_stale(&self, path: &str, digest: &str) -> bool {
        self.reads.lock().known.get(&path.to_owned()).is_some_and(|(read, _)| read != digest)
    }

    /// Takes the reads for a record.
    #[must_use]
    pub fn take_new_reads(&self) -> audit::Reads {
        let mut reads = self.reads.lock();
        let read: BTreeMap<String, Read> = reads.unrecorded.take().collect();
        reads.part += u64::from(!read.is_empty());
        let (part, count) = (reads.part, reads.count as u64);
        audit::Reads { read, read_part: (count > 0).then_some(part), read_count: (count > 0).then_some(count) }
    }

    /// Reverts [`Session::take_new_reads`] when the record could not be written.
    pub fn give_back_reads(&self, new: BTreeMap<String, Read>) {
        let mut reads = self.reads.lock();
        for (path, read) in new {
            // A later read is newer.
            if reads.unrecorded.get(&path).is_none() {
                reads.put(path, read);
            }
        }
    }

    /// True if enough reads wait for a record of their own.
    pub fn is_record_due(&self) -> bool {
        self.reads.lock().unrecorded.is_half_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::kept::{self, CONSENTS};
    use base::limits;

    #[test]
    fn a_session_forgets_the_oldest_reads_and_records_them_again() {
        let session = Session::default();
        let saw = |number: usize| session.saw(format!("/many/{number}.pyi"), "digest", "text");
        for number in 0..2 * limits::READS.max {
            saw(number);
            if session.is_record_due() {
                assert!(session.take_new_reads().read.len() > limits::READS.max / 2);
            }
        }
        let _ = session.take_new_reads();
        assert_eq!((READS.held().entries, UNRECORDED.held().entries), (limits::READS.max, 0));
        saw(2 * limits::READS.max - 1);
        assert!(session.take_new_reads().read.is_empty(), "it is known");
        saw(0);
        let news = session.take_new_reads();
        assert_eq!((news.read.len(), news.read_count), (1, Some(2 * limits::READS.max as u64 + 1)));
        drop(session);
        assert!(kept::held().iter().all(|held| (held.entries, held.bytes) == (0, 0)));
    }

    #[test]
    fn texts_without_a_record_are_bounded_and_one_is_due_before() {
        let session = Session::default();
        let text = "x".repeat(1 << 20);
        for number in 0..18 {
            session.saw(format!("/many/{number}.pyi"), "digest", &text);
            assert_eq!(session.is_record_due(), number >= 7, "after {number}");
            assert!(UNRECORDED.held().bytes <= limits::READ_BYTES.max);
        }
        // A forgotten read is on no record: it is new when read again.
        let news = session.take_new_reads();
        assert_eq!((news.read.len(), news.read_count), (15, Some(18)));
        let texts = || UNRECORDED.held().bytes;
        assert_eq!(texts(), 0);
        session.give_back_reads(news.read);
        assert!(texts() > 15 << 20);
        session.saw("/many/0.pyi".to_owned(), "digest", &text);
        assert!(session.take_new_reads().read.contains_key("/many/0.pyi"));
    }

    #[tokio::test]
    async fn a_session_forgets_the_oldest_consents() {
        let state: Arc<dyn State> = Arc::new(Embedded::default());
        let session = Session::new(Principal::local(), &state);
        let approvals = &session.approvals;
        let grant = async |consent: Consent| approvals.grant(&consent).await.expect("state");
        let has = async |consent: Consent| approvals.has(&consent).await.expect("state");
        let consent = |number: usize, tool: &str| Consent {
            server: "many".to_owned(),
            origin: "origin".into(),
            tool: format!("{tool}{number}"),
            digest: "d".repeat(64),
            rule: "approval = \"always\"".to_owned(),
        };
        for number in 0..limits::CONSENTS.max + 5 {
            grant(consent(number, "t")).await;
        }
        for (number, is_kept) in [(4, false), (5, true), (limits::CONSENTS.max + 4, true)] {
            assert_eq!(has(consent(number, "t")).await, is_kept, "{number}");
        }
        assert_eq!(CONSENTS.held().entries, limits::CONSENTS.max);
        let long = "t".repeat(100_000);
        for number in 0..50 {
            grant(consent(number, &long)).await;
        }
        assert!(CONSENTS.held().bytes <= limits::CONSENT_BYTES.max);
        assert!(has(consent(49, &long)).await && !has(consent(5, "t")).await);
        drop(session);
        assert_eq!(CONSENTS.held().entries, 0, "it leaves nothing behind in a state that lives on");
        drop(state);
    }
}
