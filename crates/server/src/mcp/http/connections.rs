//! Connections: bounded in number, in the time that each step may take, and in what a stranger can hold.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use super::reply::{self, Reply};
use super::who;
use super::wrong::Wrong;
use crate::console::{Console, LOGIN};
use crate::gateway::Gateway;
use base::limits;
use base::listener;
use base::panics;
use config::Config;

/// Time for the head of a request, and between two requests.
const HEAD: Duration = Duration::from_secs(15);
/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time in which a client must read all that waits for it, or as much as [`PACE`].
const WRITE: Duration = Duration::from_secs(60);
/// Bytes that a client must read in that time.
const PACE: usize = 1 << 20;
/// Time for connections to end after their requests have.
const CLOSING: Duration = Duration::from_millis(500);

/// Answers the requests of connections.
pub(super) trait Answers: Send + Sync + 'static {
    /// Answers a request. The names by which it was sent are checked.
    fn answer(
        &self,
        config: &Config,
        request: Request<Incoming>,
        from: &Connection,
    ) -> impl Future<Output = Reply> + Send;
}

/// The connections of one listener.
pub(super) struct Connections<A> {
    edge: Arc<A>,
    shared: Arc<Shared>,
    /// Connections without an accepted request, oldest first.
    strangers: Mutex<VecDeque<Stranger>>,
    /// Cloned for each open connection.
    open: Arc<()>,
}

/// State that the connections of one listener share.
struct Shared {
    gateway: Arc<Gateway>,
    tls: Option<TlsAcceptor>,
    /// Connections of each client.
    clients: Mutex<HashMap<String, usize>>,
    /// Tokens that let no client in.
    wrong: Wrong,
    /// True once each ends after the request under way.
    ends: watch::Sender<bool>,
}

/// A connection, for its requests.
#[derive(Clone)]
pub(super) struct Connection {
    /// Address of the peer.
    pub(super) peer: IpAddr,
    shared: Arc<Shared>,
    place: Place,
}

/// Place of a connection among those of its client; none before its first accepted request.
type Place = Arc<Mutex<Option<ClientPlace>>>;

/// A connection of a client, until dropped.
struct ClientPlace {
    shared: Arc<Shared>,
    client: String,
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut clients = self.shared.clients.lock();
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

impl Connection {
    /// True if it is encrypted here.
    pub(super) fn is_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// True once the gateway ends.
    pub(super) fn is_ending(&self) -> bool {
        *self.shared.ends.borrow()
    }

    /// True before its first accepted request.
    pub(super) fn is_stranger(&self) -> bool {
        self.place.lock().is_none()
    }

    /// Number of connections of the clients that are counted.
    pub(super) fn others(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        self.shared.clients.lock().iter().filter(|(name, _)| is_counted(name)).map(|(_, count)| count).sum()
    }

    /// Counts the connection among those of its client; false if these are too many.
    pub(super) fn enter(&self, client: &str, most: usize) -> bool {
        let mut place = self.place.lock();
        if place.as_ref().is_some_and(|place| place.client == client) {
            return true;
        }
        {
            let mut clients = self.shared.clients.lock();
            let count = clients.entry(client.to_owned()).or_default();
            if *count >= most {
                return false;
            }
            *count += 1;
        }
        *place = Some(ClientPlace { shared: Arc::clone(&self.shared), client: client.to_owned() });
        true
    }
}

/// A connection without an accepted request.
struct Stranger {
    network: IpAddr,
    task: AbortHandle,
    place: Place,
}

/// Takes the oldest of those from the network with most of them.
fn take_one(strangers: &mut VecDeque<Stranger>) -> Option<Stranger> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for stranger in &*strangers {
        *counts.entry(stranger.network).or_default() += 1;
    }
    let most = counts.values().max()?;
    let position = strangers.iter().position(|stranger| counts[&stranger.network] == *most)?;
    strangers.remove(position)
}

/// Network of a peer: an IPv4 address, or what one subscriber has of IPv6.
pub(super) fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

impl<A: Answers> Connections<A> {
    pub(super) fn new(gateway: Arc<Gateway>, edge: A, tls: Option<TlsAcceptor>) -> Self {
        let (wrong, ends) = (Wrong::new(Arc::clone(&gateway)), watch::Sender::new(false));
        let shared = Arc::new(Shared { gateway, tls, clients: Mutex::default(), wrong, ends });
        Self { edge: Arc::new(edge), shared, strangers: Mutex::default(), open: Arc::default() }
    }

    /// Serves the connections of a listener, at most `most` at once, until `ends` is done.
    pub(super) async fn accept(
        &self,
        listener: &TcpListener,
        most: impl Fn(&Config) -> usize,
        ends: impl Future<Output = ()>,
    ) {
        let accepting = async {
            loop {
                let (stream, peer) = listener::accepted(listener).await;
                self.serve(stream, peer, most(&self.shared.gateway.config()));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = ends => {}
        }
    }

    /// Serves a connection in the background, unless there are `most` already. One without an accepted request makes
    /// room for the next such one, so that strangers cannot keep clients out, nor those of one network others.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, most: usize) {
        let place = Place::default();
        let mut strangers = self.strangers.lock();
        strangers.retain(|stranger| !stranger.task.is_finished() && stranger.place.lock().is_none());
        if self.open() >= most || strangers.len() >= limits::STRANGERS.max {
            match take_one(&mut strangers) {
                Some(stranger) => stranger.task.abort(),
                // Closed without a word: all are clients in use.
                None => return,
            }
        }
        // Answers are small, and waited for.
        let _ = stream.set_nodelay(true);
        let peer = peer.ip().to_canonical();
        let from = Connection { peer, shared: Arc::clone(&self.shared), place: Arc::clone(&place) };
        let (edge, tls, open) = (Arc::clone(&self.edge), self.shared.tls.clone(), Arc::clone(&self.open));
        let task = tokio::spawn(async move {
            let _open = open;
            match tls {
                None => converse(stream, edge, from).await,
                // A stranger's handshake is not worth a word.
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                        converse(stream, edge, from).await;
                    }
                }
            }
        });
        strangers.push_back(Stranger { network: network(peer), task: task.abort_handle(), place });
    }

    /// Number of open connections.
    fn open(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    /// Ends each after the request under way.
    pub(super) fn end(&self) {
        self.shared.ends.send_replace(true);
    }

    /// Waits a moment until all are closed.
    pub(super) async fn closed(&self) {
        let closed = async {
            while self.open() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSING, closed).await;
    }
}

/// Answers the requests of one connection.
async fn converse(stream: impl AsyncRead + AsyncWrite + Send + 'static, edge: Arc<impl Answers>, from: Connection) {
    let (stream, mut ends) = (Paced { stream: Box::pin(stream), behind: None }, from.shared.ends.subscribe());
    let service = service_fn(move |request: Request<Incoming>| {
        let (edge, from) = (Arc::clone(&edge), from.clone());
        async move {
            let answer = panics::caught(answered(&*edge, request, &from)).await;
            Ok::<_, Infallible>(answer.unwrap_or_else(|defect| reply::defect(&defect)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(limits::HTTP_HEAD.max)
        .max_headers(limits::HTTP_HEADERS.max)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken connection cannot be told.
        _ = connection.as_mut() => return,
        _ = ends.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection that ends when its client reads too slowly.
struct Paced<S> {
    stream: Pin<Box<S>>,
    /// While something waits to be read: the end of the time for it, and the bytes read of it.
    behind: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S: AsyncWrite> Paced<S> {
    /// The result of a write, or an error where too little was read.
    fn paced(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some((_, read))) = (&written, &mut self.behind) {
            *read += bytes;
        }
        while written.is_pending() {
            let (end, read) = self.behind.get_or_insert_with(|| (Box::pin(tokio::time::sleep(WRITE)), 0));
            match end.as_mut().poll(context) {
                Poll::Pending => break,
                Poll::Ready(()) if *read < PACE => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Ready(()) => self.behind = None,
            }
        }
        written
    }

    /// The same, of what waits for all that was written before.
    fn caught_up(&mut self, context: &mut Context<'_>, done: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if done.is_ready() {
            self.behind = None;
            return done;
        }
        self.paced(context, Poll::Pending).map_ok(drop)
    }
}

impl<S: AsyncWrite> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write_vectored(context, parts);
        self.paced(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.as_mut().poll_flush(context);
        self.caught_up(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.stream.as_mut().poll_shutdown(context);
        self.caught_up(context, ended)
    }
}

impl<S: AsyncRead> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, into)
    }
}

/// Answers a request that was sent by an allowed name.
async fn answered(edge: &impl Answers, request: Request<Incoming>, from: &Connection) -> Reply {
    let (config, path) = (from.shared.gateway.config(), request.uri().path());
    if let Some(refused) = who::misnamed(&config, request.headers(), request.uri().host(), from.is_tls()) {
        return refused;
    }
    let has_token = request.headers().contains_key(header::AUTHORIZATION) || path == LOGIN;
    let place = if Console::has(path) { "console" } else { "endpoint" };
    let reply = edge.answer(&config, request, from).await;
    if has_token && reply.status() == StatusCode::UNAUTHORIZED {
        from.shared.wrong.met(place, from.peer).await;
    }
    reply
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Reads `bytes` in each second of what is sent to it, and says when the connection ends.
    async fn read_at(bytes: usize) -> Option<Duration> {
        let (near, mut far) = tokio::io::duplex(64 << 10);
        let mut stream = Paced { stream: Box::pin(near), behind: None };
        let began = tokio::time::Instant::now();
        let reading = async {
            let mut some = vec![0; bytes];
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if far.read_exact(&mut some).await.is_err() {
                    return;
                }
            }
        };
        let text = vec![b'x'; 4 << 20];
        tokio::select! {
            written = stream.write_all(&text) => written.is_err().then(|| began.elapsed()),
            () = reading => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_reads_at_a_least_pace() {
        assert_eq!(read_at(30_000).await, None, "it takes its time");
        assert!(read_at(10_000).await.is_some_and(|end| end < WRITE * 2), "a trickle");
        assert!(read_at(0).await.is_some_and(|end| end < WRITE * 2), "nothing at all");
    }

    #[tokio::test]
    async fn the_network_with_most_strangers_makes_room() {
        let mut strangers = VecDeque::new();
        for peer in ["192.0.2.1", "2001:db8::1", "198.51.100.7", "2001:db8::2", "198.51.100.7", "2001:db8::3"] {
            let task = tokio::spawn(async {}).abort_handle();
            let network = network(peer.parse().expect("an address"));
            strangers.push_back(Stranger { network, task, place: Place::default() });
        }
        let gone: Vec<String> =
            std::iter::from_fn(|| take_one(&mut strangers)).map(|gone| gone.network.to_string()).collect();
        let (six, four) = ("2001:db8::", "198.51.100.7");
        assert_eq!(gone, [six, four, six, "192.0.2.1", four, six]);
    }
}
