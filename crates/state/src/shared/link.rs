//! The connection to the store: one, multiplexed, made again when it is lost, on a thread of its own. So an answer never
//! waits for a thread of the gateway that waits for this answer.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::RwLock;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, RedisError, Script, TlsCertificates};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use base::error::{Cause, Error, ErrorCode, Result};
use base::{files, task};
use config::Store;

/// Most bytes of a file of certificates.
const CERTIFICATES: u64 = 1 << 20;
/// Requests to the store at once; more wait.
const AT_ONCE: usize = 1 << 12;
/// Most changes in the background that wait for the store, attempts of each, and the longest pause between two.
const LATER: usize = 1000;
const ATTEMPTS: u32 = 128;
const AGAIN: Duration = Duration::from_secs(30);

/// A connection to the store.
#[derive(Debug)]
pub(super) struct Link {
    runtime: Option<Runtime>,
    handle: Handle,
    client: Client,
    config: ConnectionManagerConfig,
    connection: RwLock<Connection>,
    timeout: Duration,
    /// Replicas of the store that must have a write.
    replicas: usize,
    /// Places for changes in the background that wait for the store.
    later: Arc<Semaphore>,
}

struct Connection(ConnectionManager);

impl Connection {
    /// A connection that is made with its first request.
    fn new(handle: &Handle, client: &Client, config: &ConnectionManagerConfig) -> Result<Self, RedisError> {
        let _entered = handle.enter();
        ConnectionManager::new_lazy_with_config(client.clone(), config.clone()).map(Self)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

/// Ends the thread without waiting for it.
impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Link {
    /// A link to the store, which connects with its first request.
    ///
    /// # Errors
    /// `INTERNAL` when the URL or the certificates cannot be used.
    pub(super) fn new(store: &Store) -> Result<Self> {
        let unusable = |what: Cause| {
            Error::new(ErrorCode::Internal, "the store of [state] cannot be used")
                .caused_by(what)
                .hint("see to `url` and `ca` in [state]")
        };
        let client = client(store).map_err(unusable)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("forgefs-state").enable_all().build();
        let runtime = runtime.map_err(|error| unusable(error.into()))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(store.timeout))
            .set_response_timeout(Some(store.timeout))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_concurrency_limit(AT_ONCE);
        let handle = runtime.handle().clone();
        let connection = Connection::new(&handle, &client, &config).map_err(|error| unusable(error.into()))?;
        let (connection, timeout, replicas) = (RwLock::new(connection), store.timeout, store.replicas);
        let later = Arc::new(Semaphore::new(LATER));
        Ok(Self { runtime: Some(runtime), handle, client, config, connection, timeout, replicas, later })
    }

    /// Connects anew for what follows: a connection may hang whose other end is gone.
    pub(super) fn renew(&self) {
        match Connection::new(&self.handle, &self.client, &self.config) {
            Ok(connection) => *self.connection.write() = connection,
            Err(error) => tracing::warn!(%error, "the store of [state] cannot be connected to anew"),
        }
    }

    fn connection(&self) -> ConnectionManager {
        self.connection.read().0.clone()
    }

    /// Runs one command, without waiting for replicas of the store.
    ///
    /// # Errors
    /// `INTERNAL` when the store does not answer in time, or refuses.
    pub(super) async fn command<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> Result<T> {
        let mut connection = self.connection();
        let (wait, done) = (self.whole_time(), async move { command.query_async(&mut connection).await });
        flat(self.handle.spawn(tokio::time::timeout(wait, done)).await.map(in_time))
    }

    /// Runs a script.
    ///
    /// # Errors
    /// `INTERNAL` when the store does not answer in time, or refuses. Then it may have run or not.
    pub(super) async fn run<T: FromRedisValue + Send + 'static>(&self, script: Call) -> Result<T> {
        flat(self.handle.spawn(self.running(script)).await)
    }

    /// Runs a script, and blocks this thread until it is done.
    ///
    /// # Errors
    /// As of [`Link::run`].
    pub(super) fn run_now<T: FromRedisValue + Send + 'static>(&self, script: Call) -> Result<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let running = self.running(script);
        self.handle.spawn(async move {
            let _ = answer.send(running.await);
        });
        let ended = || RedisError::from(std::io::Error::other("the gateway is ending"));
        let done = task::work_on(usize::MAX, || answered.recv().unwrap_or_else(|_| Err(ended())));
        done.map_err(|error| away(&error))
    }

    /// Runs a script in the background, again while the store is away, up to an hour.
    pub(super) fn run_later(self: &Arc<Self>, script: Call) {
        let (link, mut running) = (Arc::downgrade(self), self.running::<redis::Value>(script.clone()));
        let place = Arc::clone(&self.later).try_acquire_owned();
        self.handle.spawn(async move {
            let attempts = if place.is_ok() { ATTEMPTS } else { 1 };
            for attempt in 1..=attempts {
                let Err(error) = running.await else { return };
                if attempt == 1 {
                    tracing::warn!(%error, again = place.is_ok(), "a change did not reach the store");
                }
                tokio::time::sleep(AGAIN.min(Duration::from_secs(1 << attempt.min(6)) / 2)).await;
                let Some(link) = link.upgrade() else { return };
                running = link.running(script.clone());
            }
        });
    }

    /// Spawns work on the link's thread.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    fn running<T: FromRedisValue + Send + 'static>(
        &self,
        call: Call,
    ) -> impl Future<Output = Result<T, RedisError>> + Send + use<T> {
        let (mut connection, replicas, timeout) = (self.connection(), self.replicas, self.timeout);
        let wait = self.whole_time();
        async move {
            let done = async move {
                let mut invocation = call.script.prepare_invoke();
                for key in call.keys {
                    invocation.key(key);
                }
                for arg in call.args {
                    invocation.arg(arg);
                }
                let answer: T = invocation.invoke_async(&mut connection).await?;
                if replicas > 0 && call.writes {
                    let mut wait = redis::cmd("WAIT");
                    wait.arg(replicas).arg(timeout.as_millis() as u64 / 2 + 1);
                    let have: usize = wait.query_async(&mut connection).await?;
                    if have < replicas {
                        let what = format!("{have} of {replicas} replicas of the store have the change");
                        return Err(RedisError::from(std::io::Error::other(what)));
                    }
                }
                Ok(answer)
            };
            in_time(tokio::time::timeout(wait, done).await)
        }
    }

    /// Time for an operation, with the time to connect.
    fn whole_time(&self) -> Duration {
        self.timeout.saturating_mul(2)
    }
}

fn in_time<T>(done: Result<Result<T, RedisError>, tokio::time::error::Elapsed>) -> Result<T, RedisError> {
    done.unwrap_or_else(|_| Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))))
}

fn flat<T>(done: Result<Result<T, RedisError>, tokio::task::JoinError>) -> Result<T> {
    match done {
        Ok(done) => done.map_err(|error| away(&error)),
        Err(error) => Err(Error::new(ErrorCode::Internal, "the store was not asked").caused_by(error)),
    }
}

/// A script with what it gets.
#[derive(Clone)]
pub(super) struct Call {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
    writes: bool,
}

impl Call {
    /// A script that changes these keys.
    pub(super) fn of(script: &'static Script, keys: Vec<String>) -> Self {
        Self { script, keys, args: Vec::new(), writes: true }
    }

    /// The same, which only reads.
    pub(super) fn reads(mut self) -> Self {
        self.writes = false;
        self
    }

    /// Adds an argument.
    pub(super) fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a number.
    pub(super) fn number(self, number: impl Into<u64>) -> Self {
        self.arg(number.into().to_string())
    }
}

fn client(store: &Store) -> Result<Client, Cause> {
    let url = store.url.expose();
    let Some(ca) = &store.ca else { return Ok(Client::open(url)?) };
    let root_cert = Some(certificates(ca)?);
    Ok(Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert })?)
}

fn certificates(path: &Path) -> Result<Vec<u8>, String> {
    files::read_named(path, CERTIFICATES).map_err(|error| format!("{}: {error}", path.display()))
}

/// The error of a store that does not do what it should. Its words may quote the URL, and are for the log.
pub(super) fn away(error: &RedisError) -> Error {
    tracing::warn!(%error, "the store of [state] failed");
    let (what, hint) = match error.code() {
        Some("OOM") => ("is full", "the operator has to give it more memory, or remove journals; then try again"),
        Some("READONLY") => ("takes no writes: it is a replica", "try again when the failover is over"),
        Some("LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN") => {
            ("is not ready", "try again in a moment")
        }
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => {
            ("refuses this gateway", "the operator has to see to `url` in [state]")
        }
        _ => ("does not answer", "try again when the store is back, which needs no restart"),
    };
    Error::new(ErrorCode::Internal, format!("the store that replicas share {what}")).hint(hint)
}
