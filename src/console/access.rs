//! Who may use the console. A token is exchanged for a session once; the session's own token travels in a header that no
//! other page can send, and in no cookie, which every port of this machine would get.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::header::{self, HeaderMap};
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::reply::Refusal;
use crate::config::Config;
use crate::random;

/// Time in which a one-time token can be used.
const ONCE: Duration = Duration::from_secs(10 * 60);
/// Longest session.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions of a person; one more ends the person's oldest.
const SESSIONS: usize = 16;
/// Most one-time tokens that wait; one more drops the oldest.
const WAITING: usize = 16;

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// True if they may change and call something; else they may look.
    pub may_act: bool,
}

/// A person who has signed in.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// Name in records.
    pub(super) name: String,
    pub(super) rights: Rights,
    /// End of the session.
    pub(super) until: Instant,
    /// Key of the session.
    pub(super) session: [u8; 32],
}

/// Tokens and sessions of a console.
#[derive(Debug, Default)]
pub struct Access {
    once: Mutex<Vec<Once>>,
    sessions: Mutex<BTreeMap<[u8; 32], Session>>,
}

/// A token that lets in once.
#[derive(Debug)]
struct Once {
    token: [u8; 32],
    person: Person,
}

#[derive(Debug)]
struct Session {
    person: Person,
    /// The entry of `[console]` that let in; the session ends with it.
    entry: Option<[u8; 32]>,
}

/// Answer to a login.
#[derive(Debug, Serialize)]
pub(super) struct SignedIn {
    session: String,
    can_act: bool,
    version: &'static str,
    expires_ms: u64,
}

impl Access {
    /// A token that lets a person of this name in once, within ten minutes.
    pub fn once(&self, name: String, rights: Rights) -> String {
        let token = new_token();
        let person = Person { name, rights, until: Instant::now() + ONCE, session: [0; 32] };
        let mut once = self.once.lock();
        if once.len() >= WAITING {
            once.remove(0);
        }
        once.push(Once { token: digest(&token), person });
        token
    }

    /// Begins a session with a token: one that lets in once, or that of an entry of `[console]`.
    pub(super) fn login(&self, config: &Config, token: &str) -> Result<SignedIn, Refusal> {
        let (given, now) = (digest(token), Instant::now());
        let is_given = |known: &[u8; 32]| bool::from(known.ct_eq(&given));
        let mut once = self.once.lock();
        once.retain(|once| once.person.until > now);
        let person = match once.iter().position(|once| is_given(&once.token)) {
            Some(position) => Some((once.remove(position).person, None)),
            // Each is compared, so that the time tells nothing of which one it is.
            None => config.console.iter().fold(None, |found, (name, entry)| {
                let rights = Rights { may_act: !entry.read_only };
                let its = || (Person { name: name.clone(), rights, until: now, session: [0; 32] }, Some(entry.token));
                if is_given(&entry.token) { Some(its()) } else { found }
            }),
        };
        drop(once);
        let Some((person, entry)) = person else {
            return Err(Refusal::unauthorized(
                "this token lets nobody in: it was used, has expired, or is another one's",
            ));
        };
        let session = new_token();
        let key = digest(&session);
        let person = Person { until: now + SESSION, session: key, ..person };
        let can_act = person.rights.may_act;
        tracing::info!(target: "forgefs::console", by = person.name, can_act, "signed in");
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| session.person.until > now);
        // Of the person's own: nobody ends the sessions of others.
        let own = |session: &&Session| session.entry == entry && session.person.name == person.name;
        if sessions.values().filter(own).count() >= SESSIONS {
            let own = sessions.iter().filter(|(_, session)| own(session));
            let oldest = own.min_by_key(|(_, session)| session.person.until).map(|(key, _)| *key);
            oldest.map(|key| sessions.remove(&key));
        }
        sessions.insert(key, Session { person, entry });
        let expires_ms = crate::sandbox::now_ms() + SESSION.as_millis() as u64;
        Ok(SignedIn { session, can_act, version: env!("CARGO_PKG_VERSION"), expires_ms })
    }

    /// The person whose session a request has.
    pub(super) fn person(&self, config: &Config, headers: &HeaderMap) -> Result<Person, Refusal> {
        let Some(token) = bearer(headers) else {
            return Err(Refusal::unauthorized("a session is needed: send `Authorization: Bearer SESSION`"));
        };
        self.holding(config, digest(token)).ok_or_else(|| Refusal::unauthorized("the session has ended"))
    }

    /// The person of a session that still holds.
    pub(super) fn holding(&self, config: &Config, key: [u8; 32]) -> Option<Person> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get(&key).filter(|session| session.person.until > Instant::now());
        let holds = session.filter(|session| match session.entry {
            None => true,
            Some(token) => config
                .console
                .values()
                .any(|entry| entry.token == token && entry.read_only != session.person.rights.may_act),
        });
        let person = holds.map(|session| session.person.clone());
        if person.is_none() {
            sessions.remove(&key);
        }
        person
    }

    /// Ends a session.
    pub(super) fn logout(&self, person: &Person) {
        self.sessions.lock().remove(&person.session);
    }
}

/// The token of `Authorization: Bearer`, if there is one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn new_token() -> String {
    format!("{}{}", random::token(), random::token())
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
