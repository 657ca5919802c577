//! Metrics. A label is a word of a fixed set, the identifier of a configured server, or the name of a client: never text
//! of an agent, a script or a server.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::{Ended, EndedCall};
use crate::sandbox;
use base::kept::Usage;
use config::Amount;
use state::audit::CallRecord;

/// Most clients with series of their own.
const MOST_CLIENTS: usize = 1_000;
/// Upper bounds of the latency buckets, in seconds.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

type Labels<const N: usize> = [(&'static str, String); N];
type Seconds<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// The counters of a gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    executions: Family<Labels<3>, Counter>,
    execution_seconds: Seconds<1>,
    requests: Family<Labels<2>, Counter>,
    calls: Family<Labels<2>, Counter>,
    call_seconds: Seconds<1>,
    bytes: Family<Labels<2>, Counter>,
    refused: Family<Labels<1>, Counter>,
    cost: Family<Labels<1>, Counter<f64, AtomicU64>>,
    by_client: Family<Labels<3>, Counter>,
    calls_by_client: Family<Labels<2>, Counter>,
    wrong_tokens: Family<Labels<1>, Counter>,
    /// Clients that have series of their own.
    clients: Mutex<BTreeSet<String>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("forgefs");
        let all = &mut registry;
        Self {
            executions: counter(all, "executions", "Scripts that ended"),
            execution_seconds: seconds(all, "execution", "Time from request to answer of scripts"),
            requests: counter(all, "requests", "Other requests that reached a server"),
            calls: counter(all, "calls", "Calls to servers, refused ones included"),
            call_seconds: seconds(all, "call", "Time from dispatch to answer of calls that were sent"),
            bytes: counter(all, "call_bytes", "Bytes of arguments and answers"),
            refused: counter(all, "refused", "Calls that the gateway refused, by what refused them"),
            by_client: counter(all, "client_requests", "Scripts and other requests, by client"),
            calls_by_client: counter(all, "client_calls", "Calls to servers, by client"),
            wrong_tokens: counter(all, "wrong_tokens", "Tokens that let nobody in, by where they were sent"),
            cost: counter(all, "cost", "What calls cost, in the unit of the configuration"),
            clients: Mutex::default(),
            registry,
        }
    }
}

/// Counters of a registry, one for each combination of labels.
fn counter<const N: usize, C>(registry: &mut Registry, name: &str, help: &str) -> Family<Labels<N>, C>
where
    Family<Labels<N>, C>: Metric + Default + Clone,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

/// Times of a registry.
fn seconds<const N: usize>(registry: &mut Registry, name: &str, help: &str) -> Seconds<N> {
    let family = Seconds::new_with_constructor(|| Histogram::new(SECONDS));
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

impl Metrics {
    /// Counts an execution with its calls.
    pub(super) fn count(&self, ended: &Ended<'_>) {
        let word = str::to_owned;
        match ended.language {
            Some(language) => {
                let engine = ended.engine.unwrap_or("none");
                let labels =
                    [("language", word(language)), ("engine", word(engine)), ("outcome", ended.outcome.to_string())];
                self.executions.get_or_create(&labels).inc();
                let labels = [("language", word(language))];
                self.execution_seconds.get_or_create(&labels).observe(ended.took.as_secs_f64());
            }
            None => {
                let labels = [("request", word(ended.what)), ("outcome", ended.outcome.to_string())];
                self.requests.get_or_create(&labels).inc();
            }
        }
        let client = ("client", self.client(ended.client));
        let profile = ("profile", ended.profile.unwrap_or_default().to_owned());
        let outcome = ("outcome", ended.outcome.to_string());
        self.by_client.get_or_create(&[client.clone(), profile.clone(), outcome]).inc();
        if !ended.calls.is_empty() {
            self.calls_by_client.get_or_create(&[client, profile]).inc_by(ended.calls.len() as u64);
        }
        // A series is looked up once for calls that are alike, as those of a loop are.
        for calls in
            ended.calls.chunk_by(|one, other| one.server == other.server && one.record.outcome == other.record.outcome)
        {
            calls.first().into_iter().for_each(|call| self.count_calls(call, calls));
        }
    }

    /// Counts a token that let no client in.
    pub fn refused_token(&self, place: &'static str) {
        self.wrong_tokens.get_or_create(&[("place", place.to_owned())]).inc();
    }

    /// Name of a client among the series; tokens of an issuer name any number of clients.
    fn client(&self, client: &str) -> String {
        let mut clients = self.clients.lock();
        if clients.len() < MOST_CLIENTS && !clients.contains(client) {
            clients.insert(client.to_owned());
        }
        if clients.contains(client) { client } else { "other" }.to_owned()
    }

    /// Counts calls to one server with one outcome.
    fn count_calls(&self, EndedCall { server, record }: &EndedCall<'_>, calls: &[EndedCall<'_>]) {
        // A name outside the configuration is not shown.
        let server = ("server", server.unwrap_or("unknown").to_owned());
        let outcome = record.outcome.to_string();
        self.calls.get_or_create(&[server.clone(), ("outcome", outcome.clone())]).inc_by(calls.len() as u64);
        let (made, refused): (Vec<&CallRecord>, Vec<_>) =
            calls.iter().map(|call| call.record).partition(|call| call.sent);
        if !refused.is_empty() {
            self.refused.get_or_create(&[("rule", outcome)]).inc_by(refused.len() as u64);
        }
        if made.is_empty() {
            return;
        }
        let seconds = self.call_seconds.get_or_create_owned(std::array::from_ref(&server));
        calls.iter().filter(|call| call.record.sent).for_each(|call| seconds.observe(call.took().as_secs_f64()));
        let bytes = |of: fn(&CallRecord) -> usize| made.iter().map(|call| of(call) as u64).sum::<u64>();
        for (direction, bytes) in
            [("sent", bytes(|call| call.args_bytes)), ("received", bytes(|call| call.answer_bytes))]
        {
            let labels = [server.clone(), ("direction", direction.to_owned())];
            self.bytes.get_or_create(&labels).inc_by(bytes);
        }
        let cost: f64 = made.iter().map(|call| call.cost.number()).sum();
        if cost > 0.0 {
            self.cost.get_or_create(&[server]).inc_by(cost);
        }
    }

    /// All metrics, with the current state, in OpenMetrics text format.
    ///
    /// # Errors
    /// Never in practice: writing to text does not fail.
    pub fn text(&self, now: Snapshot) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &now.registry())?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Current state of the gateway.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Worker pool.
    pub pool: sandbox::Metrics,
    /// Servers.
    pub servers: Vec<ServerState>,
    /// Spent today, and the budget.
    pub day: Option<(Amount, Amount)>,
    /// Number of redactions by kind.
    pub redactions: Vec<(&'static str, u64)>,
    /// Open sessions of clients that share the gateway.
    pub sessions: usize,
    /// Panics since the start.
    pub panics: u64,
    /// Bounded maps that outlive a request.
    pub kept: Vec<Usage>,
    /// Bytes of stored results and the stash.
    pub results: usize,
    /// Live tasks of the runtime.
    pub tasks: usize,
}

/// Current state of a server.
#[derive(Debug)]
pub struct ServerState {
    /// Identifier.
    pub server: String,
    /// State in one word.
    pub state: &'static str,
    /// Instances beside the first.
    pub instances: usize,
    /// State of its circuit breaker in one word.
    pub breaker: &'static str,
    /// Number of tools that agents see.
    pub tools: usize,
}

impl Snapshot {
    fn registry(self) -> Registry {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut registry = Registry::with_prefix("forgefs");
        let state = Family::<Labels<2>, Gauge>::default();
        let breaker = Family::<Labels<2>, Gauge>::default();
        let tools = Family::<Labels<1>, Gauge>::default();
        let instances = Family::<Labels<1>, Gauge>::default();
        for server in &self.servers {
            let name = || ("server", server.server.clone());
            state.get_or_create(&[name(), ("state", server.state.to_owned())]).set(1);
            breaker.get_or_create(&[name(), ("state", server.breaker.to_owned())]).set(1);
            tools.get_or_create(&[name()]).set(number(server.tools as u64));
            instances.get_or_create(&[name()]).set(number(server.instances as u64));
        }
        registry.register("server_instances", "Instances of a server beside the first", instances);
        registry.register("server_state", "The state that a server is in", state);
        registry.register("server_breaker", "The state that a server's breaker is in", breaker);
        registry.register("catalog_tools", "Tools that agents see", tools);
        let count = |count: u64| ConstGauge::new(number(count));
        let sessions = count(self.sessions as u64);
        registry.register("sessions", "Open sessions of clients that share the gateway", sessions);
        registry.register("workers_idle", "Workers that wait for a script", count(self.pool.idle));
        registry.register("checkers_idle", "Checkers that wait for a script", count(self.pool.idle_checkers));
        registry.register("workers_busy", "Workers that run a script", count(self.pool.busy));
        registry.register("scripts_waiting", "Scripts that wait for a place", count(self.pool.waiting));
        let pool = [
            ("pool_waited", "Scripts that had to wait for a place", self.pool.waited),
            ("pool_refused", "Scripts that were refused as BUSY", self.pool.refused),
            ("workers_started", "Workers that were started", self.pool.started),
            ("workers_failed_starts", "Workers that could not be started", self.pool.failed_starts),
            ("workers_recycled", "Workers replaced for their age, use or memory", self.pool.recycled),
            ("workers_discarded", "Workers replaced because they could not be trusted any more", self.pool.discarded),
            ("workers_killed", "Workers killed for a deadline, a crash or a breach of the protocol", self.pool.killed),
            ("checkers_killed", "Checkers killed for a deadline, a crash or a breach", self.pool.killed_checkers),
            ("workers_cancelled", "Workers killed since their request was given up", self.pool.cancelled),
        ];
        for (name, help, number) in pool {
            registry.register(name, help, ConstCounter::new(number));
        }
        let help = "Panics, each a defect that ended one request; the log names their places";
        registry.register("panics", help, ConstCounter::new(self.panics));
        let (entries, bytes) = (Family::<Labels<1>, Gauge>::default(), Family::<Labels<1>, Gauge>::default());
        for held in &self.kept {
            let what = || [("what", held.what.to_owned())];
            entries.get_or_create(&what()).set(number(held.entries as u64));
            bytes.get_or_create(&what()).set(number(held.bytes as u64));
        }
        bytes.get_or_create(&[("what", "results".to_owned())]).set(number(self.results as u64));
        registry.register("kept_entries", "What is kept for longer than a request", entries);
        registry.register("kept_bytes", "Bytes of it, about", bytes);
        registry.register("tasks", "Tasks of the runtime that have not ended", count(self.tasks as u64));
        let redactions = Family::<Labels<1>, Counter>::default();
        for (kind, number) in self.redactions {
            redactions.get_or_create(&[("kind", kind.to_owned())]).inc_by(number);
        }
        registry.register("redactions", "Values that were taken out of text, on any way out", redactions);
        if let Some((spent, limit)) = self.day {
            registry.register("budget_day_spent", "Spent of today's budget", ConstGauge::new(spent.number()));
            registry.register("budget_day_limit", "Today's budget", ConstGauge::new(limit.number()));
        }
        registry
    }
}
