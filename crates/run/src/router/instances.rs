//! Instances of servers beside the first of each: of clients, of sessions, and with values of a client.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::instance::Instance;
use super::tenant::{Own, Tenant};
use super::{Blueprint, replaced};
use base::error::{ErrorCode, Result};
use base::limits;
use base::principal::Principal;
use base::task::Task;
use config::{Login, Scope, Transport};
use state::State;
use upstream::auth::{Account, Browsers, Person};
use upstream::{Connection, Event, EventReceiver, Operation, Progress, Rotation, Upstream};

/// Idle time after which an instance ends, unless `idle_stop` sets one.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Time that an instance outlives the last session that may use it, unless it belongs to that session alone.
const LINGER: Duration = Duration::from_secs(60);
/// The same where each client has its own login, which a person may be making meanwhile.
const LOGIN_LINGER: Duration = Duration::from_secs(600);

/// Time that the connections of a client that is gone have for cancelling its calls.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The instances of a gateway.
pub struct Instances {
    held: Mutex<Held>,
    state: Arc<dyn State>,
    browsers: Browsers,
}

#[derive(Default)]
struct Held {
    /// Client of each open session.
    sessions: HashMap<Arc<str>, Arc<str>>,
    instances: Vec<Arc<Instance>>,
    /// Numbers of the servers in force: see [`super::Route::instance`].
    in_force: HashSet<u64>,
    /// Number of the last instance.
    last: u64,
}

impl Instances {
    /// No instances yet. `state` has the logins.
    pub fn new(state: Arc<dyn State>) -> Arc<Self> {
        Arc::new(Self { held: Mutex::default(), state, browsers: Browsers::default() })
    }

    /// Parts of the endpoint that logins of its clients need.
    pub fn browsers(&self) -> &Browsers {
        &self.browsers
    }

    /// Ends the instances of servers other than those with these numbers.
    pub fn keep(&self, in_force: HashSet<u64>) {
        let mut held = self.held.lock();
        let gone: Vec<_> = held.instances.extract_if(.., |instance| !in_force.contains(&instance.of)).collect();
        held.in_force = in_force;
        drop(held);
        drop(gone);
    }

    /// Ends the instances of clients that are none any more, and at once the logins that they offer.
    pub fn keep_clients(&self, is_client: impl Fn(&str) -> bool) {
        self.browsers.pages.keep(&is_client);
        let is_over = |instance: &mut Arc<Instance>| !is_client(&instance.client);
        let gone: Vec<_> = self.held.lock().instances.extract_if(.., is_over).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        // Calls that end with their client are cancelled at the server first.
        runtime.spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            drop(gone);
        });
    }

    /// Number of open sessions.
    pub fn sessions(&self) -> usize {
        self.held.lock().sessions.len()
    }

    /// Number of instances by server name.
    pub fn count(&self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for instance in &self.held.lock().instances {
            *count.entry(instance.server.clone()).or_default() += 1;
        }
        count
    }

    /// Connections of the instances of one server.
    pub fn rotations(&self, server: &str) -> Vec<Rotation> {
        let held = self.held.lock();
        let instances = held.instances.iter().filter(|instance| instance.server == server);
        instances.map(|instance| instance.rotation.clone()).collect()
    }

    /// Notes an open session.
    pub(super) fn enter(&self, principal: &Principal) {
        let (session, client) = (Arc::clone(&principal.session), Arc::clone(&principal.client));
        let mut held = self.held.lock();
        for instance in &held.instances {
            if instance.scope == Scope::Client(Arc::clone(&client)) {
                instance.users.lock().none_since = None;
            }
        }
        held.sessions.insert(session, client);
    }

    /// Notes the end of a session: its own instances end at once, others when they were not needed for a while.
    pub(super) fn leave(self: &Arc<Self>, session: &Arc<str>) {
        let mut held = self.held.lock();
        held.sessions.remove(session);
        let is_own = |instance: &mut Arc<Instance>| matches!(&instance.scope, Scope::Session(own) if own == session);
        let gone: Vec<_> = held.instances.extract_if(.., is_own).collect();
        let Held { sessions, instances, .. } = &*held;
        let mut longest = None;
        for instance in instances {
            instance.users.lock().sessions.remove(session);
            let is_wanted = instance.is_wanted(sessions);
            let none_since = &mut instance.users.lock().none_since;
            if !is_wanted && none_since.is_none() {
                *none_since = Some(Instant::now());
                longest = longest.max(Some(instance.linger));
            }
        }
        drop(held);
        // A process that ends may take a while.
        drop(gone);
        let Ok(runtime) = Handle::try_current() else { return };
        if let Some(longest) = longest {
            let instances = Arc::downgrade(self);
            runtime.spawn(async move {
                for pause in [LINGER, longest - LINGER] {
                    tokio::time::sleep(pause).await;
                    instances.upgrade().into_iter().for_each(|instances| instances.end_unwanted());
                }
            });
        }
    }

    /// Ends what no session may use any more, and has lingered.
    fn end_unwanted(&self) {
        let is_over = |instance: &mut Arc<Instance>| {
            instance.users.lock().none_since.is_some_and(|since| since.elapsed() >= instance.linger)
        };
        let gone: Vec<_> = self.held.lock().instances.extract_if(.., is_over).collect();
        drop(gone);
    }

    /// Ends one instance.
    fn end(&self, number: u64) {
        let is_it = |instance: &mut Arc<Instance>| instance.number == number;
        let gone: Vec<_> = self.held.lock().instances.extract_if(.., is_it).collect();
        drop(gone);
    }

    /// The instance of the server `name` with the number `of` for these, started on its first call.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` for a server that was replaced; `LIMIT_EXCEEDED` over the bounds.
    pub(super) fn find_or_start(
        self: &Arc<Self>,
        name: &str,
        of: u64,
        blueprint: &Blueprint,
        scope: Scope,
        own: Option<Arc<Own>>,
        tenant: &Tenant,
    ) -> Result<Arc<Instance>> {
        let (principal, credentials) = (&tenant.principal, tenant.credentials.as_ref());
        // Dropped after the lock: a process that ends may take a while.
        let _gone;
        let mut held = self.held.lock();
        if !held.in_force.contains(&of) {
            return Err(replaced(name));
        }
        let known = held.instances.iter().find(|instance| instance.is(of, &scope, own.as_ref(), credentials)).cloned();
        let instance = match known {
            Some(instance) => instance,
            None => {
                _gone = held.make_room(of, blueprint);
                held.check_room(name, blueprint, &principal.client)?;
                held.last += 1;
                let started = Started { number: held.last, name, of, blueprint, scope, own, tenant };
                let instance = Arc::new(self.start(started));
                held.instances.push(Arc::clone(&instance));
                instance
            }
        };
        let mut users = instance.users.lock();
        users.sessions.insert(Arc::clone(&principal.session));
        users.none_since = None;
        drop(users);
        Ok(instance)
    }

    fn start(self: &Arc<Self>, started: Started<'_>) -> Instance {
        let Started { number, name, of, blueprint, scope, own, tenant } = started;
        let client = &tenant.principal.client;
        let server = own.as_ref().map_or(&blueprint.server, |own| &own.server);
        // With values of its own its address, and with it the login, may be another.
        let common = blueprint.account.clone().filter(|common| own.is_none() && common.is_of(client));
        let account = common.or_else(|| {
            let person = Person { client, credentials: tenant.credentials.as_ref() };
            Account::for_client(name, server, &self.state, person, Some(&self.browsers))
        });
        let server = config::Server { idle_stop: server.idle_stop.or(Some(IDLE)), ..server.clone() };
        let Connection { upstream, events, rotation, .. } = upstream::build(name, &server, account, blueprint.refresh);
        let watch = Task::spawn(watch(events, Arc::downgrade(&upstream), Arc::downgrade(self), number));
        let (client, credentials) = (Arc::clone(client), tenant.credentials.clone());
        let (server, users) = (name.to_owned(), Mutex::default());
        let linger = if is_personal(blueprint) { LOGIN_LINGER } else { LINGER };
        Instance {
            number,
            server,
            of,
            scope,
            own,
            client,
            credentials,
            linger,
            upstream,
            rotation,
            users,
            _watch: watch,
        }
    }
}

/// An instance to start.
struct Started<'a> {
    number: u64,
    name: &'a str,
    of: u64,
    blueprint: &'a Blueprint,
    scope: Scope,
    own: Option<Arc<Own>>,
    tenant: &'a Tenant,
}

/// True for a server at which each client has its own login.
fn is_personal(blueprint: &Blueprint) -> bool {
    blueprint.server.login() != Login::Gateway
}

/// True for a server that is started here.
fn is_process(blueprint: &Blueprint) -> bool {
    matches!(blueprint.server.transport, Transport::Stdio { .. })
}

/// Most instances of a server.
fn most(blueprint: &Blueprint) -> usize {
    if is_process(blueprint) { limits::SERVER_INSTANCES.max } else { limits::INSTANCES.max }
}

impl Held {
    /// Takes out the instance of the server that no session has used for longest, if its bound is reached.
    fn make_room(&mut self, of: u64, blueprint: &Blueprint) -> Option<Arc<Instance>> {
        let of_server = |instance: &&Arc<Instance>| instance.of == of;
        if self.instances.iter().filter(of_server).count() < most(blueprint) {
            return None;
        }
        let since = |instance: &Arc<Instance>| instance.users.lock().none_since;
        let unused =
            self.instances.iter().filter(of_server).filter_map(|instance| Some((since(instance)?, instance.number)));
        let (_, number) = unused.min()?;
        let position = self.instances.iter().position(|instance| instance.number == number)?;
        Some(self.instances.remove(position))
    }

    /// Checks the bounds for one more instance.
    fn check_room(&self, name: &str, blueprint: &Blueprint, client: &Arc<str>) -> Result<()> {
        let count = |is_counted: &dyn Fn(&Instance) -> bool| {
            self.instances.iter().filter(|instance| is_counted(instance)).count() + 1
        };
        // Of a server that is not started here an instance is a connection, which the total bounds.
        let of_server = if is_process(blueprint) { count(&|instance| instance.server == name) } else { 0 };
        for (limit, size) in [
            (&limits::SERVER_INSTANCES, of_server),
            (&limits::CLIENT_INSTANCES, count(&|instance| instance.client == *client)),
            (&limits::INSTANCES, count(&|_| true)),
        ] {
            if size > limit.max {
                let mut error = limit.exceeded(ErrorCode::LimitExceeded, size);
                error.message = format!("not called: `{name}` needs an instance of its own; {}", error.message);
                let hint = match is_personal(blueprint) {
                    true => "end sessions that are not needed: each person has a connection of their own",
                    false => "end sessions that are not needed, or let more of them share it: `share`",
                };
                return Err(error.hint(hint).without_effect());
            }
        }
        Ok(())
    }
}

/// Ends an instance that was stopped for being idle, and drops its lists: the catalog has those of the first instance.
async fn watch(mut events: EventReceiver, upstream: Weak<dyn Upstream>, instances: Weak<Instances>, number: u64) {
    while let Some(event) = events.recv().await {
        match event {
            Event::IdleStopped => {
                let Some(instances) = instances.upgrade() else { return };
                return instances.end(number);
            }
            Event::Connected(_) => {
                let Some(upstream) = upstream.upgrade() else { return };
                let _ = upstream.call(&Operation::List, &Progress::default()).await;
            }
            Event::Changed => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;
    use config::{Server, Share};
    use state::Embedded;

    fn all() -> Arc<Instances> {
        let instances = Instances::new(Arc::new(Embedded::default()));
        instances.keep((1..=9).collect());
        instances
    }

    fn blueprint(share: Share) -> Blueprint {
        let transport = Transport::Stdio { command: "true".into(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        Blueprint { server: Server { share, ..Server::new(transport) }, account: None, refresh: None }
    }

    fn tenant(instances: &Arc<Instances>, client: &str) -> Tenant {
        let principal = Principal { client: client.into(), ..Principal::local() };
        let tenant = Tenant::new(principal, None, None, instances);
        Router::default().prepare(&tenant);
        tenant
    }

    /// Uses the server with this number.
    fn uses(tenant: &Tenant, of: u64, share: Share) -> Result<u64> {
        let (blueprint, principal) = (blueprint(share), &tenant.principal);
        let scope = share.scope(principal);
        let instances = &tenant.instances;
        let found = instances.find_or_start(&format!("s{of}"), of, &blueprint, scope, None, tenant);
        found.map(|instance| instance.number)
    }

    #[tokio::test]
    async fn instances_are_bounded_by_server_client_and_in_total() {
        let instances = all();
        let refused = |tenant: &Tenant, of| uses(tenant, of, Share::Session).expect_err("over the bound").message;
        let sessions =
            |client: &str, count: usize| -> Vec<Tenant> { (0..count).map(|_| tenant(&instances, client)).collect() };
        let one = sessions("one", limits::SERVER_INSTANCES.max + 1);
        let (last, within) = one.split_last().expect("some");
        for (tenant, of) in within.iter().flat_map(|tenant| [(tenant, 1), (tenant, 2)]) {
            uses(tenant, of, Share::Session).expect("within");
        }
        assert!(
            refused(last, 1).starts_with("not called: `s1` needs an instance of its own; instances of a server: 33")
        );
        assert!(refused(last, 3).contains("instances of servers for a client: 65 items"), "{}", refused(last, 3));
        uses(&within[0], 1, Share::Session).expect("it has one");
        let others: Vec<_> = ["two", "three", "four", "five"].map(|client| sessions(client, 32)).into_iter().collect();
        for (of, number) in [(3, 0), (4, 1), (5, 2), (6, 3), (7, 0), (8, 1)] {
            for tenant in &others[number] {
                uses(tenant, of, Share::Session).expect("within");
            }
        }
        let error = uses(&others[3][0], 9, Share::Session).expect_err("over the bound");
        assert!(error.message.ends_with("instances of servers: 257 items, over the limit of 256 items"), "{error:?}");
        assert!(error.hint.is_some_and(|hint| hint.contains("end sessions")));
        drop(one);
        uses(&others[3][0], 9, Share::Session).expect("there is room again");
        drop(others);
        assert!(instances.count().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_of_a_client_outlives_its_last_session_for_a_while() {
        let instances = all();
        let count = || instances.count().values().sum::<usize>();
        let (one, other) = (tenant(&instances, "one"), tenant(&instances, "one"));
        let number = uses(&one, 1, Share::Client).expect("started");
        assert_eq!(uses(&other, 1, Share::Client).expect("found"), number);
        uses(&other, 2, Share::Session).expect("started");
        drop(one);
        tokio::time::sleep(2 * LINGER).await;
        assert_eq!(count(), 2, "another session of the client may use it");
        drop(other);
        assert_eq!(count(), 1, "what the session alone had ends at once");
        tokio::time::sleep(LINGER / 2).await;
        let again = tenant(&instances, "one");
        tokio::time::sleep(LINGER).await;
        assert_eq!(uses(&again, 1, Share::Client).expect("found"), number, "a session that has not called it keeps it");
        drop(again);
        tokio::time::sleep(LINGER / 2).await;
        assert_eq!(count(), 1);
        tokio::time::sleep(LINGER).await;
        assert_eq!(count(), 0);
    }

    #[tokio::test]
    async fn a_server_that_was_replaced_starts_no_instance() {
        let instances = all();
        let one = tenant(&instances, "one");
        uses(&one, 1, Share::Session).expect("started");
        instances.keep(HashSet::from([2]));
        assert!(instances.count().is_empty());
        let error = uses(&one, 1, Share::Session).expect_err("replaced");
        assert_eq!(error.code, ErrorCode::TransportDead);
    }
}
