//! HTTP server: connections are bounded in number, in the heads of their requests, in the time that each step may take, and
//! in what a stranger can hold.

mod headers;
mod paced;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

pub use headers::{bearer, host_name, is_own_name};
use paced::Paced;

/// Time for the head of a request, and between two requests.
const HEAD: Duration = Duration::from_secs(15);
/// Time of a connection that has one request.
const ONCE: Duration = Duration::from_secs(5);
/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for connections to end after their requests have.
const CLOSING: Duration = Duration::from_millis(500);
/// Delay after which accepting is tried again: out of descriptors, or similar.
const AGAIN: Duration = Duration::from_millis(100);

/// Limits of a listener.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Most connections without an accepted request.
    pub strangers: usize,
    /// Most bytes of a head, 8 KiB or more.
    pub head: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// True for one request of a connection, within a few seconds.
    pub once: bool,
}

/// Answers the requests of connections.
pub trait Answers: Send + Sync + 'static {
    /// Body of an answer.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + 'static;

    /// Answers a request.
    fn answer(
        &self,
        request: Request<Incoming>,
        from: &Connection,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl<F: Fn(&Request<Incoming>) -> Response<String> + Send + Sync + 'static> Answers for F {
    type Body = String;

    async fn answer(&self, request: Request<Incoming>, _: &Connection) -> Response<String> {
        self(&request)
    }
}

/// The connections of one listener.
pub struct Connections<A> {
    answers: Arc<A>,
    bounds: Bounds,
    shared: Arc<Shared>,
    /// Connections without an accepted request, oldest first.
    strangers: Mutex<VecDeque<Stranger>>,
    /// Cloned for each open connection.
    open: Arc<()>,
}

/// State that the connections of one listener share.
struct Shared {
    tls: Option<TlsAcceptor>,
    /// Connections of each client.
    clients: Mutex<HashMap<String, usize>>,
    /// True once each ends after the request under way.
    ends: watch::Sender<bool>,
}

/// A connection, for its requests.
#[derive(Clone)]
pub struct Connection {
    /// Address of the peer.
    pub peer: IpAddr,
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
    pub fn is_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// True once the gateway ends.
    pub fn is_ending(&self) -> bool {
        *self.shared.ends.borrow()
    }

    /// True before its first accepted request.
    pub fn is_stranger(&self) -> bool {
        self.place.lock().is_none()
    }

    /// Number of connections of those clients of the listener that are counted.
    pub fn connections(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        self.shared.clients.lock().iter().filter(|(name, _)| is_counted(name)).map(|(_, count)| count).sum()
    }

    /// Counts the connection among those of its client; false if these are too many.
    pub fn enter(&self, client: &str, most: usize) -> bool {
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
pub fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

impl<A: Answers> Connections<A> {
    /// None yet.
    pub fn new(answers: A, tls: Option<TlsAcceptor>, bounds: Bounds) -> Self {
        let shared = Shared { tls, clients: Mutex::default(), ends: watch::Sender::new(false) };
        Self {
            answers: Arc::new(answers),
            bounds,
            shared: Arc::new(shared),
            strangers: Mutex::default(),
            open: Arc::default(),
        }
    }

    /// Serves the connections of a listener, at most `most` at once, until `ends` is done.
    pub async fn accept<T>(
        &self,
        listener: &TcpListener,
        most: impl Fn() -> usize,
        ends: impl Future<Output = T>,
    ) -> T {
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => self.serve(stream, peer, most()),
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            }
        };
        tokio::select! {
            never = accepting => never,
            end = ends => end,
        }
    }

    /// Serves a connection in the background, unless there are `most` already. One without an accepted request makes
    /// room for the next such one, so that strangers cannot keep clients out, nor those of one network others.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, most: usize) {
        let place = Place::default();
        let mut strangers = self.strangers.lock();
        strangers.retain(|stranger| !stranger.task.is_finished() && stranger.place.lock().is_none());
        if self.open() >= most || strangers.len() >= self.bounds.strangers {
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
        let (answers, tls, bounds) = (Arc::clone(&self.answers), self.shared.tls.clone(), self.bounds);
        let open = Arc::clone(&self.open);
        let task = tokio::spawn(async move {
            let _open = open;
            match tls {
                None => converse(stream, answers, from, bounds).await,
                // A stranger's handshake is not worth a word.
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                        converse(stream, answers, from, bounds).await;
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
    pub fn end(&self) {
        self.shared.ends.send_replace(true);
    }

    /// Waits a moment until all are closed.
    pub async fn closed(&self) {
        let closed = async {
            while self.open() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSING, closed).await;
    }
}

/// Answers the requests of one connection.
async fn converse<A: Answers>(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    answers: Arc<A>,
    from: Connection,
    bounds: Bounds,
) {
    let mut ends = from.shared.ends.subscribe();
    let service = service_fn(move |request| {
        let (answers, from) = (Arc::clone(&answers), from.clone());
        // hyper keeps room for it as long as the connection is open.
        Box::pin(async move { Ok::<_, Infallible>(answers.answer(request, &from).await) })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(!bounds.once)
        .max_buf_size(bounds.head)
        .max_headers(bounds.headers)
        .serve_connection(TokioIo::new(Paced::new(stream)), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken connection cannot be told.
        _ = connection.as_mut() => return,
        // A slow one gets no answer.
        () = tokio::time::sleep(ONCE), if bounds.once => return,
        _ = ends.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

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
