//! The daemon: accepts connections on the socket, serves each as a client of its own, and ends when it is told to or
//! has no clients for a time.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::console::Opened;
use super::handshake::{self, Hello, PATIENCE, Purpose, VERSION, Welcome};
use super::place::{Place, check_peer};
use crate::gateway::Gateway;
use crate::mcp::{self, Closing, Opening};
use base::limits;
use base::panics;
use config::Expose;
use redact::{Outgoing as _, Surface};
use run::session::Session;

/// Time for clients to get their last answers.
pub const DRAIN: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be accepted, for lack of descriptors for example.
const AGAIN: Duration = Duration::from_millis(100);

/// Answers one request of the command line.
pub type Answering =
    Arc<dyn Fn(Arc<Gateway>, Arc<Session>, Value) -> Pin<Box<dyn Future<Output = Value> + Send>> + Send + Sync>;

/// The daemon.
pub struct Host {
    gateway: Arc<Gateway>,
    place: Place,
    answering: Answering,
    started: Instant,
    /// Connections that count as use, by number, with the client of one that is attached.
    uses: watch::Sender<BTreeMap<u64, Option<Client>>>,
    stop: Notify,
    switch: watch::Sender<bool>,
    closing: Closing,
}

/// An attached client.
struct Client {
    pid: u32,
    version: String,
    since: Instant,
    session: Weak<Session>,
}

/// Reason for the end of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Idle,
    Stopped,
    Signal,
}

impl Host {
    /// A daemon around a gateway. `answering` answers the requests of the command line.
    pub fn new(gateway: Arc<Gateway>, place: Place, answering: Answering) -> Arc<Self> {
        let (switch, closing) = Closing::switch();
        Arc::new(Self {
            gateway,
            place,
            answering,
            started: Instant::now(),
            uses: watch::Sender::default(),
            stop: Notify::new(),
            switch,
            closing,
        })
    }

    /// Serves until it is idle for too long, `forgefs daemon stop` or `signal`; then the clients get their last answers.
    pub async fn serve(self: Arc<Self>, listener: UnixListener, signal: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let why = tokio::select! {
            why = Arc::clone(&self).accept(&listener, &mut connections) => why,
            () = signal => End::Signal,
        };
        tracing::info!(target: "forgefs::daemon", ?why, "the daemon ends");
        // In this order: who finds no socket starts a daemon, which waits for this one's lock.
        self.place.unlink();
        drop(listener);
        self.switch.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::warn!("{} connections are ended with requests under way", connections.len());
        }
        connections.shutdown().await;
    }

    async fn accept(self: Arc<Self>, listener: &UnixListener, connections: &mut JoinSet<()>) -> End {
        let slots = Arc::new(Semaphore::new(limits::DAEMON_CONNECTIONS.max));
        let mut idle = std::pin::pin!(self.idle());
        loop {
            tokio::select! {
                accepted = listener.accept() => match (accepted, Arc::clone(&slots).try_acquire_owned()) {
                    (Ok((stream, _)), Ok(slot)) => {
                        let host = Arc::clone(&self);
                        connections.spawn(async move {
                            let _slot = slot;
                            host.meet(stream).await;
                        });
                    }
                    (Ok(_), Err(_)) => tracing::warn!("refused a connection: {} are open", limits::DAEMON_CONNECTIONS.max),
                    (Err(error), _) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(AGAIN).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = &mut idle => return End::Idle,
                () = self.stop.notified() => return End::Stopped,
            }
        }
    }

    /// Waits until no client was attached for `daemon.idle_exit` of the configuration in force, and no run is in the
    /// background.
    async fn idle(&self) {
        let mut uses = self.uses.subscribe();
        loop {
            let none = uses.wait_for(BTreeMap::is_empty).await.is_ok();
            let limit = self.gateway.config().daemon.idle_exit;
            let used = tokio::time::timeout(limit, uses.wait_for(|uses| !uses.is_empty())).await;
            if none && used.is_err() && self.gateway.background_runs() == 0 {
                return;
            }
        }
    }

    /// Serves one connection.
    async fn meet(self: Arc<Self>, stream: UnixStream) {
        if let Err(error) = check_peer(&stream) {
            return tracing::warn!("refused a connection: {error}");
        }
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let hello = match handshake::read::<Hello>(&mut read, &limits::HANDSHAKE, PATIENCE).await {
            Ok(hello) => hello,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
            Err(error) => {
                tracing::warn!("refused a connection: its first line is no handshake: {error}");
                let refused = Welcome::new(Some(format!("the first line is no handshake: {error}")));
                let _ = handshake::write(&mut write, &refused).await;
                return;
            }
        };
        let refusal = hello.refusal();
        let is_refused = refusal.is_some();
        if handshake::write(&mut write, &Welcome::new(refusal)).await.is_err() || is_refused {
            return;
        }
        if hello.version != VERSION {
            tracing::warn!("process {} is forgefs {}, this daemon is {VERSION}", hello.pid, hello.version);
        }
        let ended = match hello.purpose {
            Purpose::Attach => self.attach(hello, read, write).await,
            Purpose::Ask => self.answer(hello, read, write).await,
            Purpose::Console => self.console(read, write).await,
            Purpose::Status => handshake::write(&mut write, &self.status()).await,
            Purpose::Stop => {
                self.stop.notify_one();
                handshake::write(&mut write, &json!({})).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection has ended");
        }
    }

    /// Serves MCP to a client.
    async fn attach(&self, hello: Hello, read: BufReader<OwnedReadHalf>, write: OwnedWriteHalf) -> io::Result<()> {
        let asked = hello.speaker.expose.as_deref().and_then(Expose::named);
        let session = self.gateway.open_attached(hello.speaker.principal(), hello.speaker.environment.into());
        let client =
            Client { pid: hello.pid, version: hello.version, since: Instant::now(), session: Arc::downgrade(&session) };
        let _attached = Attached::new(self, Some(client));
        // The thread that reads ends with the socket, however this ends.
        let stream: &UnixStream = read.get_ref().as_ref();
        let stream = std::os::unix::net::UnixStream::from(stream.as_fd().try_clone_to_owned()?);
        let _cut = scopeguard::guard(stream, |stream| drop(stream.shutdown(Shutdown::Both)));
        let input = Blocking { half: read, runtime: Handle::current() };
        let served =
            mcp::serve_lines(Arc::clone(&self.gateway), (session, asked), input, write, self.closing.clone()).await;
        served.map_err(io::Error::other)
    }

    /// Answers one request; the end of the connection cancels it.
    async fn answer(
        &self,
        hello: Hello,
        mut read: BufReader<OwnedReadHalf>,
        mut write: OwnedWriteHalf,
    ) -> io::Result<()> {
        let _attached = Attached::new(self, None);
        let request = handshake::read(&mut read, &limits::DAEMON_REQUEST, PATIENCE).await?;
        let session = self.gateway.open_attached(hello.speaker.principal(), hello.speaker.environment.into());
        let answering = panics::caught((self.answering)(Arc::clone(&self.gateway), session, request));
        tokio::select! {
            answer = answering => handshake::write(&mut write, &answer.map_err(io::Error::other)?).await,
            () = handshake::gone(&mut read) => Ok(()),
        }
    }

    /// Serves the console to the user until the other end goes, or this daemon ends.
    async fn console(&self, mut read: BufReader<OwnedReadHalf>, mut write: OwnedWriteHalf) -> io::Result<()> {
        let _attached = Attached::new(self, None);
        let asked: Opening = handshake::read(&mut read, &limits::HANDSHAKE, PATIENCE).await?;
        let opened = match asked.open(&self.gateway).await {
            Ok(opened) => opened,
            Err(error) => {
                let error = Some((error.message.clone(), error.suggested_fix().to_owned()));
                return handshake::write(&mut write, &Opened { url: None, error }).await;
            }
        };
        handshake::write(&mut write, &Opened { url: Some(opened.url.clone()), error: None }).await?;
        let mut closing = self.closing.clone();
        let ends = async {
            tokio::select! {
                () = handshake::gone(&mut read) => {}
                () = closing.wanted() => {}
            }
        };
        opened.serve(ends).await;
        Ok(())
    }

    /// The daemon's state, as docs/json.md shows it.
    fn status(&self) -> Value {
        let clients: Vec<Value> = self.uses.borrow().values().flatten().map(Client::state).collect();
        let (catalog, instances) = (self.gateway.catalog(), self.gateway.instances());
        let servers = catalog.servers().iter().map(|entry| {
            let (state, detail) = (entry.state.word(), entry.describe());
            let (tools, instances) = (entry.stubs.tools.len(), instances.get(&entry.name).copied().unwrap_or_default());
            json!({ "name": entry.name, "state": state, "detail": detail, "tools": tools, "instances": instances })
        });
        let config = self.gateway.config();
        let status = json!({
            "pid": std::process::id(),
            "version": VERSION,
            "uptime_secs": self.started.elapsed().as_secs(),
            "idle_exit_secs": config.daemon.idle_exit.as_secs(),
            "clients": clients,
            "servers": servers.collect::<Vec<_>>(),
        });
        status.redacted(Surface::Answer(config.redaction))
    }
}

impl Client {
    fn state(&self) -> Value {
        let session = self.session.upgrade();
        json!({
            "name": session.as_ref().and_then(|session| session.client()),
            "pid": self.pid,
            "version": self.version,
            "since_secs": self.since.elapsed().as_secs(),
            "session": session.map(|session| session.id().to_owned()),
        })
    }
}

/// Use of the daemon, until dropped.
struct Attached<'h> {
    host: &'h Host,
    number: u64,
}

impl<'h> Attached<'h> {
    fn new(host: &'h Host, client: Option<Client>) -> Self {
        let mut number = 0;
        host.uses.send_modify(|uses| {
            number = uses.last_key_value().map_or(0, |(last, _)| last + 1);
            uses.insert(number, client);
        });
        Self { host, number }
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.host.uses.send_modify(|uses| drop(uses.remove(&self.number)));
    }
}

/// Reads a socket in a thread of its own.
struct Blocking {
    half: BufReader<OwnedReadHalf>,
    runtime: Handle,
}

impl io::Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.half.read(buffer))
    }
}
