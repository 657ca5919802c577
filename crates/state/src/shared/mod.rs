//! State of all replicas of one gateway, in a Valkey or Redis server.
//!
//! Each operation is one script in the store, or a read and a change that fails if another replica was faster. Time is
//! the store's: no clock of a replica counts. When the store is away, an operation fails, and what needs it is refused;
//! the link connects again by itself. Another server (a restart, a failover) may have lost the last changes: before it
//! spends or resumes anything, each replica puts back what it knows.

/// A script that begins with what `lua/store.lua` defines.
macro_rules! settled_script {
    ($file:literal) => {
        redis::Script::new(concat!(include_str!("lua/store.lua"), include_str!($file)))
    };
}

mod collections;
mod journals;
mod link;
mod revoked;
mod spending;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::{Cmd, ExistenceCheck, Script, SetExpiry, SetOptions};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Charge, Collection, Counter, LoginLock, LoginVersion, RecordKind, Revoked, Spent, State, observed};
use crate::shapes::Shapes;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::limits;
use base::random;
use base::task;
use config::{Amount, Rate, Store};
use journals::Claims;
use link::{Call, Link};
use revoked::Revocations;
use spending::Spending;

static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/swap.lua")));
static LOGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/login.lua")));
static BEAT: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/pulse.lua"));
static UNLOCK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/unlock.lua")));

/// Time that entries and sums of a session are kept after their last use.
const SESSION: Duration = Duration::from_secs(24 * 60 * 60);
/// Time that setup requests of a session are kept after the last renewal by a replica that serves it.
const SETUP: Duration = Duration::from_secs(2 * 60 * 60);
/// Time after which a silent replica counts as gone.
const LEASE: Duration = Duration::from_secs(10);
/// Interval at which a replica says that it is there, and looks at what others changed.
const PULSE: Duration = Duration::from_secs(1);
/// Pulse while a store is settled that is new to the replicas.
const QUICK_PULSE: Duration = Duration::from_millis(100);
/// Least time in which replicas find such a store.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of attempts of what waits for it.
const UNSETTLED_PAUSE: Duration = Duration::from_millis(25);
/// Time for another replica's renewal of a login.
const LOCK_LIMIT: Duration = Duration::from_secs(90);
/// Lease of a replica that serves no client.
const IDLE: &str = "1";
/// Interval of attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// State in a store.
#[derive(Debug)]
pub struct Shared {
    link: Arc<Link>,
    keys: Keys,
    spending: Arc<Spending>,
    claims: Arc<Claims>,
    seen: Arc<Seen>,
}

/// Result of what a store does not do before it is settled: `None` until then.
type Settled<T> = Option<T>;

/// Waits for a store to be settled.
struct Unsettled {
    deadline: Instant,
}

impl Unsettled {
    fn new() -> Self {
        Self { deadline: Instant::now() + LEASE + GRACE }
    }

    /// Waits for the next attempt.
    ///
    /// # Errors
    /// `INTERNAL` when the store stays unsettled.
    async fn wait(&self) -> Result<()> {
        if Instant::now() < self.deadline {
            tokio::time::sleep(UNSETTLED_PAUSE).await;
            return Ok(());
        }
        let what = "the store that replicas share was started anew or failed over, and not all replicas have found it";
        Err(Error::new(ErrorCode::Internal, what).hint("try again in a moment"))
    }
}

/// Changes by other replicas, as of the last pulse.
#[derive(Debug, Default)]
struct Seen {
    /// Versions of logins.
    logins: Mutex<HashMap<String, u64>>,
    /// Runs that another replica has the client's answers for.
    wanted: watch::Sender<HashSet<String>>,
    /// Tokens that were taken back. None is forgotten, whatever the store loses.
    revoked: Mutex<Revoked>,
    /// Tokens that are refused here; `None` where nothing is served.
    refused: Mutex<Option<Revoked>>,
    /// True when the store was looked at, or tried in vain.
    looked: watch::Sender<bool>,
    /// True if the store was settled at the last look.
    settled: watch::Sender<bool>,
}

impl Seen {
    /// Adds tokens that were taken back; all of them if some are new.
    fn learn(&self, revoked: &HashSet<String>) -> Option<Revoked> {
        let mut known = self.revoked.lock();
        (!revoked.is_subset(&known)).then(|| {
            *known = Arc::new(known.union(revoked).cloned().collect());
            Arc::clone(&known)
        })
    }
}

/// Names of keys.
#[derive(Debug, Clone)]
struct Keys {
    prefix: Arc<str>,
    replica: Arc<str>,
}

impl Keys {
    /// A key. The braces keep all of them on one node of a cluster.
    fn of(&self, kind: &str, name: &str) -> String {
        format!("{{{}}}:{kind}:{name}", self.prefix)
    }

    /// This replica.
    fn replica(&self) -> &str {
        &self.replica
    }

    fn lease(&self) -> String {
        self.of("replica", &self.replica)
    }

    /// The server that all replicas know, and how far they are with another one.
    fn epoch(&self) -> String {
        self.of("epoch", "")
    }

    /// Beginning of the keys of leases.
    fn leases(&self) -> String {
        self.of("replica", "")
    }
}

impl Shared {
    /// The state in a store, which is asked first when it is needed.
    ///
    /// # Errors
    /// `INTERNAL` when its URL or certificates cannot be used.
    pub(super) fn new(store: &Store) -> Result<Self> {
        let link = Arc::new(Link::new(store)?);
        let keys = Keys { prefix: store.prefix.as_str().into(), replica: random::id().into() };
        let (spending, claims, seen) = (Arc::new(Spending::new(keys.clone())), Arc::default(), Arc::<Seen>::default());
        let revocations = Revocations::new(store);
        seen.learn(&revocations.read());
        let heart = Heart {
            keys: keys.clone(),
            spending: Arc::clone(&spending),
            claims: Arc::clone(&claims),
            seen: Arc::clone(&seen),
            revocations,
            unnoted: None,
            store: String::new(),
            replicas: Vec::new(),
        };
        link.spawn(heart.beat(Arc::downgrade(&link)));
        Ok(Self { link, keys, spending, claims, seen })
    }
}

/// Says that this replica is there, and learns what others changed.
struct Heart {
    keys: Keys,
    spending: Arc<Spending>,
    claims: Arc<Claims>,
    seen: Arc<Seen>,
    revocations: Revocations,
    /// Tokens that could not be noted so far.
    unnoted: Option<Revoked>,
    /// Server that has all that this replica knows; empty before the first.
    store: String,
    /// Replicas that were there with the last beat.
    replicas: Vec<String>,
}

impl Heart {
    /// Beats for as long as the link lives.
    async fn beat(mut self, link: Weak<Link>) {
        let mut is_away = false;
        loop {
            let pause = {
                let Some(link) = link.upgrade() else { return };
                let done = self.once(&link).await;
                match (&done, is_away) {
                    (Err(_), false) => tracing::error!("the store of [state] is away: what needs it is refused"),
                    (Ok(_), true) => tracing::warn!("the store of [state] is back"),
                    _ => {}
                }
                is_away = done.is_err();
                self.seen.looked.send_if_modified(|looked| !std::mem::replace(looked, true));
                self.seen.settled.send_replace(matches!(done, Ok(true)));
                if is_away {
                    link.renew();
                }
                // Who takes a token back waits for the next beat.
                let is_waited_for =
                    self.seen.refused.lock().as_ref().is_some_and(|all| *all != *self.seen.revoked.lock());
                if done.is_ok_and(|is_settled| !is_settled || is_waited_for) { QUICK_PULSE } else { PULSE }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One beat; true if the store is settled.
    async fn once(&mut self, link: &Link) -> Result<bool> {
        let all = vec![self.keys.lease(), self.keys.of("replicas", ""), self.keys.epoch()];
        let call = Call::of(&BEAT, all).arg(self.keys.replica()).number(LEASE.as_millis() as u64);
        let refused = self.seen.refused.lock().as_ref().map(|all| all.iter().cloned().collect::<Vec<_>>().join(" "));
        let lease = refused.map_or_else(|| IDLE.to_owned(), |all| format!("refuses {all}"));
        let call = call.number(GRACE.as_millis() as u64).arg(lease).arg(self.store.as_str());
        let call = self.replicas.iter().fold(call, |call, replica| call.arg(replica.as_str()));
        let (store, is_settled, replicas): (String, u64, Vec<String>) = link.run(call).await?;
        if store != self.store {
            if !self.store.is_empty() {
                tracing::warn!("the store of [state] was started anew or failed over: its last second may be lost");
            }
            let revoked: Vec<String> = self.seen.revoked.lock().iter().cloned().collect();
            take_back(link, &self.keys, &revoked).await?;
            self.spending.put_back(link, &self.claims.all()).await?;
            self.store = store;
        }
        self.replicas = replicas;
        let wanted: HashSet<String> = link.command(Cmd::smembers(self.keys.of("wanted", ""))).await?;
        self.seen.wanted.send_if_modified(|known| {
            let differs = *known != wanted;
            *known = wanted;
            differs
        });
        let revoked: HashSet<String> = link.command(Cmd::smembers(self.keys.of("revoked", ""))).await?;
        if let Some(all) = self.seen.learn(&revoked).or_else(|| self.unnoted.take())
            && !self.revocations.keep(all.clone()).await
        {
            self.unnoted = Some(all);
        }
        refresh(link, &self.keys, &self.seen).await?;
        Ok(is_settled == 1)
    }
}

/// Adds tokens to those that were taken back.
async fn take_back(link: &Link, keys: &Keys, tokens: &[String]) -> Result<()> {
    if !tokens.is_empty() {
        link.command::<u64>(Cmd::sadd(keys.of("revoked", ""), tokens)).await?;
    }
    Ok(())
}

/// Reads the versions of logins.
async fn refresh(link: &Link, keys: &Keys, seen: &Seen) -> Result<()> {
    let versions: HashMap<String, u64> = link.command(Cmd::hgetall(keys.of("login-versions", ""))).await?;
    *seen.logins.lock() = versions;
    Ok(())
}

/// The name under which a file of the embedded state is in the store.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Sets a key that is not there, for a time or for good. Answered by nothing if it is there.
fn create(key: &str, value: &str, ttl: Option<Duration>) -> Cmd {
    let absent = SetOptions::default().conditional_set(ExistenceCheck::NX);
    let options = match ttl {
        Some(ttl) => absent.with_expiration(SetExpiry::PX(ttl.as_millis() as u64)),
        None => absent,
    };
    Cmd::set_options(key, value, options)
}

/// Names of the keys of a record, and of the ids of all of its kind.
fn names(kind: RecordKind) -> [&'static str; 2] {
    match kind {
        RecordKind::Approval => ["approval", "approvals"],
        RecordKind::FirstUse => ["first-use", "first-uses"],
        RecordKind::Learned => ["learned", "all-learned"],
    }
}

impl Shared {
    /// True while the lease of a replica that serves does not say that it refuses all of these tokens.
    async fn is_let_in(&self, tokens: &[String]) -> Result<bool> {
        let replicas: Vec<String> = self.link.command(Cmd::zrange(self.keys.of("replicas", ""), 0, -1)).await?;
        let leases: Vec<String> = replicas.iter().map(|replica| self.keys.of("replica", replica)).collect();
        let leases: Vec<Option<String>> = self.link.command(Cmd::mget(leases)).await?;
        let lacks = |lease: &String| lease != IDLE && tokens.iter().any(|token| !lease.contains(token));
        Ok(leases.iter().flatten().any(lacks))
    }
}

#[async_trait]
impl State for Shared {
    async fn dropped(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>> {
        self.dropped_of(of).await
    }

    async fn number(&self, of: &Collection) -> Result<u64> {
        self.next_number(of).await
    }

    async fn spend(&self, cost: Amount, charges: &[Charge]) -> Result<Spent> {
        self.spending.spend(&self.link, cost, charges).await
    }

    async fn refund(&self, cost: Amount, charges: &[Charge]) {
        self.spending.refund(&self.link, cost, charges).await;
    }

    fn known(&self, counter: &Counter) -> Option<Amount> {
        self.spending.known(counter)
    }

    async fn admit(&self, bucket: &str, rate: Rate) -> Result<Result<(), Duration>> {
        self.spending.admit(&self.link, bucket, rate).await
    }

    async fn observe(&self, file: &Path, more: Shapes) -> Result<Shapes> {
        let key = self.keys.of("observed", &file_name(file));
        let forever = collections::FOREVER;
        for _ in 0..collections::TRIES {
            let call = Call::of(&collections::LOOK, vec![key.clone()]).number(forever).reads();
            let (version, kept, _): (u64, Vec<u8>, u64) = self.link.run(call).await?;
            let mut shapes = task::work_on(kept.len(), || observed::parse(&kept));
            if more.is_empty() {
                return Ok(shapes);
            }
            shapes.merge(more.clone());
            let text = observed::text(&shapes)
                .map_err(|error| Error::new(ErrorCode::Internal, "observed shapes cannot be kept").caused_by(error))?;
            let call = Call::of(&collections::CHANGE, vec![key.clone()]).number(version).arg(text).number(forever);
            if self.link.run::<u64>(call.arg("").arg("")).await? == 1 {
                return Ok(shapes);
            }
        }
        Err(Error::new(ErrorCode::Internal, "observed shapes cannot be kept: other replicas change them all the time"))
    }

    async fn login(&self, file: &Path) -> Result<Option<Vec<u8>>> {
        let login: Option<Vec<u8>> = self.link.command(Cmd::hget(self.keys.of("logins", ""), file_name(file))).await?;
        if login.is_some() && self.login_version(file).is_none() {
            refresh(&self.link, &self.keys, &self.seen).await?;
        }
        match login {
            Some(login) if login.len() > limits::LOGIN_FILE.max => Err(collections::damaged()),
            login => Ok(login),
        }
    }

    async fn logins(&self, _: &Path) -> Result<Vec<String>> {
        self.link.command(Cmd::hkeys(self.keys.of("logins", ""))).await
    }

    fn login_version(&self, file: &Path) -> Option<LoginVersion> {
        self.seen.logins.lock().get(&file_name(file)).copied().map(LoginVersion::Stored)
    }

    async fn keep_login(&self, file: &Path, login: Option<Vec<u8>>) -> Result<()> {
        let name = file_name(file);
        let call = Call::of(&LOGIN, vec![self.keys.of("logins", ""), self.keys.of("login-versions", "")]);
        let call = call.arg(name.as_str()).number(u64::from(login.is_some()));
        let is_some = login.is_some();
        let version: u64 = self.link.run(call.arg(login.unwrap_or_default())).await?;
        let mut logins = self.seen.logins.lock();
        match is_some {
            true => drop(logins.insert(name, version)),
            false => drop(logins.remove(&name)),
        }
        Ok(())
    }

    async fn lock_login(&self, file: &Path) -> Result<LoginLock> {
        let (key, token) = (self.keys.of("login-lock", &file_name(file)), random::token());
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            let locked: Option<String> = self.link.command(create(&key, &token, Some(LOCK_LIMIT))).await?;
            if locked.is_some() {
                let held = Held { link: Arc::clone(&self.link), key, token };
                // Changes of the last holder are seen now.
                refresh(&self.link, &self.keys, &self.seen).await?;
                return Ok(Box::new(held));
            }
            if Instant::now() >= deadline {
                let what =
                    format!("the login {} cannot be locked: another replica does not release it", file_name(file));
                return Err(Error::new(ErrorCode::Internal, what));
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    async fn record(&self, kind: RecordKind, _: &Path, id: &str) -> Result<Option<Vec<u8>>> {
        let [one, _] = names(kind);
        self.link.command(Cmd::get(self.keys.of(one, id))).await
    }

    async fn approvals(&self, _: &Path) -> Result<Vec<String>> {
        let [_, all] = names(RecordKind::Approval);
        self.link.command(Cmd::smembers(self.keys.of(all, ""))).await
    }

    /// Replaces a record, if it is still as it was read.
    async fn keep_record(
        &self,
        kind: RecordKind,
        _: &Path,
        id: &str,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> Result<bool> {
        let [one, all] = names(kind);
        let call = Call::of(&SWAP, vec![self.keys.of(one, id), self.keys.of(all, "")]).arg(id);
        let part =
            |call: Call, part: Option<Vec<u8>>| call.number(u64::from(part.is_some())).arg(part.unwrap_or_default());
        Ok(self.link.run::<u64>(part(part(call, before), after)).await? == 1)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn want(&self, run: &str) -> Result<bool> {
        let key = self.keys.of("wanted", "");
        self.link.command::<u64>(Cmd::sadd(&key, run)).await?;
        self.link.command::<u64>(Cmd::pexpire(&key, LEASE.as_millis() as i64)).await?;
        Ok(true)
    }

    async fn wanted(&self, run: &str) {
        // The sender lives as long as the state.
        if self.seen.wanted.subscribe().wait_for(|wanted| wanted.contains(run)).await.is_err() {
            std::future::pending().await
        }
    }

    async fn revoke(&self, tokens: &[String]) -> Result<bool> {
        take_back(&self.link, &self.keys, tokens).await?;
        let deadline = Instant::now() + LEASE + GRACE;
        // A store that is new to the replicas does not know all of them.
        while !*self.seen.settled.borrow() || self.is_let_in(tokens).await? {
            if Instant::now() >= deadline {
                let what = "the token is taken back, but not every replica has said that it refuses it";
                return Err(
                    Error::new(ErrorCode::Timeout, what).hint("run the command again; end a replica that hangs")
                );
            }
            tokio::time::sleep(UNSETTLED_PAUSE).await;
        }
        Ok(true)
    }

    fn refuses(&self, revoked: &Revoked) {
        *self.seen.refused.lock() = Some(Arc::clone(revoked));
    }

    async fn revoked(&self) -> Revoked {
        // The sender lives as long as the state.
        let _ = self.seen.looked.subscribe().wait_for(|looked| *looked).await;
        Arc::clone(&self.seen.revoked.lock())
    }

    /// Entries of a session stay for its requests to other replicas, until the store drops them.
    fn end(&self, counter: &Counter) {
        self.spending.end(counter);
    }
}

/// A lock in the store, released when it is dropped.
struct Held {
    link: Arc<Link>,
    key: String,
    token: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.link.run_later(Call::of(&UNLOCK, vec![std::mem::take(&mut self.key)]).arg(self.token.as_str()));
    }
}
