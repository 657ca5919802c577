//! Who may use the console. A token is exchanged for a session once; the session's own token travels in a header that no
//! other page can send, and in no cookie, which every port of this machine would get.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::reply::Refusal;
use crate::gateway::Gateway;
use base::listener::bearer;
use base::principal::Principal;
use base::random;
use config::Config;
use run::session;
use stubgen::sha256;

/// Time in which a one-time token can be used.
const ONCE: Duration = Duration::from_secs(10 * 60);
/// Longest session.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions of a person; one more ends the person's oldest.
const SESSIONS: usize = 16;
/// Most one-time tokens that wait; one more drops the oldest.
const WAITING: usize = 16;

/// Rights of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// True if they may change and call something; else they may look.
    pub may_act: bool,
}

/// A person who has signed in.
#[derive(Clone)]
pub(super) struct Person {
    /// Name in records.
    pub(super) name: String,
    pub(super) rights: Rights,
    /// Key of the session.
    pub(super) key: [u8; 32],
    /// The gateway's session in which scripts and calls of this one run.
    pub(super) session: Arc<session::Session>,
    /// Cancelled when the session has ended.
    pub(super) ended: CancellationToken,
}

/// One whose token is good, and who has begun nothing yet.
#[derive(Clone)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) rights: Rights,
    token: [u8; 32],
    /// Time until which it lets in, once; `None` for the token of an entry of `[console]`.
    until: Option<Instant>,
}

/// Tokens and sessions of a console.
#[derive(Default)]
pub struct Access {
    once: Mutex<Vec<Guest>>,
    sessions: Mutex<BTreeMap<[u8; 32], Session>>,
}

struct Session {
    person: Person,
    until: Instant,
    /// The entry of `[console]` that let in; the session ends with it.
    entry: Option<[u8; 32]>,
    /// Ends what the person has under way.
    _ends: DropGuard,
}

impl Session {
    /// True if its time is not over, and the entry that let in is as it was.
    fn holds(&self, config: &Config) -> bool {
        let is_its = |entry: &config::ConsoleToken| {
            self.entry == Some(entry.token) && entry.read_only != self.person.rights.may_act
        };
        self.until > Instant::now() && (self.entry.is_none() || config.console.values().any(is_its))
    }
}

impl Access {
    /// A token that lets a person of this name in once, within ten minutes.
    pub fn once(&self, name: String, rights: Rights) -> String {
        let token = new_token();
        let mut once = self.once.lock();
        if once.len() >= WAITING {
            once.remove(0);
        }
        once.push(Guest { token: sha256(&token), name, rights, until: Some(Instant::now() + ONCE) });
        token
    }

    /// The person of a token: one that lets in once, or that of an entry of `[console]`. Nothing begins or ends yet.
    pub(super) fn guest(&self, config: &Config, token: &str) -> Result<Guest, Refusal> {
        let (given, now) = (sha256(token), Instant::now());
        let is_given = |known: &[u8; 32]| bool::from(known.ct_eq(&given));
        let mut once = self.once.lock();
        once.retain(|once| once.until > Some(now));
        let people = config.console.iter().map(|(name, entry)| {
            let rights = Rights { may_act: !entry.read_only };
            Guest { name: name.clone(), rights, token: entry.token, until: None }
        });
        // Each is compared, so that the time tells nothing of which one it is.
        let known = once.iter().cloned().chain(people);
        known.fold(None, |found, its| if is_given(&its.token) { Some(its) } else { found }).ok_or_else(Refusal::nobody)
    }

    /// Begins a session; its token and what it may do.
    pub(super) fn begin(&self, gateway: &Gateway, guest: Guest) -> Result<Value, Refusal> {
        let Guest { name, rights, token, until } = guest;
        let is_gone = |once: &mut Vec<Guest>| once.extract_if(.., |once| once.token == token).count() == 0;
        if until.is_some() && is_gone(&mut self.once.lock()) {
            return Err(Refusal::nobody());
        }
        self.end_over(&gateway.config());
        let opened = gateway.open_session(Principal::of_console(&name));
        opened.met("forgefs console".to_owned());
        let session = new_token();
        let (key, entry, until) = (sha256(&session), until.is_none().then_some(token), Instant::now() + SESSION);
        let can_act = rights.may_act;
        tracing::info!(target: "forgefs::console", by = name, can_act, "signed in");
        let ended = CancellationToken::new();
        let _ends = ended.clone().drop_guard();
        let mut sessions = self.sessions.lock();
        // Of the person's own sessions: a person ends no others.
        let own = |session: &&Session| session.entry == entry && session.person.name == name;
        if sessions.values().filter(own).count() >= SESSIONS {
            let own = sessions.iter().filter(|(_, session)| own(session));
            let oldest = own.min_by_key(|(_, session)| session.until).map(|(key, _)| *key);
            oldest.map(|key| sessions.remove(&key));
        }
        let person = Person { name, rights, key, session: opened, ended };
        sessions.insert(key, Session { person, until, entry, _ends });
        let expires_ms = base::time::now_ms() + SESSION.as_millis() as u64;
        let version = env!("CARGO_PKG_VERSION");
        Ok(json!({ "session": session, "can_act": can_act, "version": version, "expires_ms": expires_ms }))
    }

    /// The person whose session a request has.
    pub(super) fn person(&self, config: &Config, headers: &HeaderMap) -> Result<Person, Refusal> {
        let Ok(Some(token)) = bearer(headers) else {
            return Err(Refusal::unauthorized("a session is needed: send `Authorization: Bearer SESSION`"));
        };
        self.holding(config, sha256(token)).ok_or_else(Refusal::over)
    }

    /// The person of a session that still holds.
    pub(super) fn holding(&self, config: &Config, key: [u8; 32]) -> Option<Person> {
        let sessions = self.sessions.lock();
        sessions.get(&key).filter(|session| session.holds(config)).map(|session| session.person.clone())
    }

    /// Ends the sessions that hold no longer.
    pub(super) fn end_over(&self, config: &Config) {
        self.sessions.lock().retain(|_, session| session.holds(config));
    }

    /// Ends a session.
    pub(super) fn logout(&self, person: &Person) {
        self.sessions.lock().remove(&person.key);
    }
}

fn new_token() -> String {
    format!("{}{}", random::token(), random::token())
}
