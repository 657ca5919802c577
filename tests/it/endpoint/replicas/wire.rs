//! A TCP proxy that does to its connections what networks do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Connections break, and new ones are refused.
    Cut,
    /// Nothing passes, and nothing breaks.
    Stalled,
    /// What is sent arrives, and no answer comes back until the connection breaks.
    Deaf,
    /// Connections that are there hang for good; new ones work.
    Hung,
    /// Each piece takes this long.
    Slow(Duration),
}

/// A proxy to one of several ports, in turn.
pub(super) struct Wire {
    pub(super) port: u16,
    targets: Arc<Mutex<Vec<u16>>>,
    fault: watch::Sender<Fault>,
}

impl Wire {
    pub(super) async fn to(targets: &[u16]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (fault, seen) = watch::channel(Fault::None);
        let targets = Arc::new(Mutex::new(targets.to_vec()));
        let (all, next) = (Arc::clone(&targets), AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = {
                    let all = all.lock();
                    all[next.fetch_add(1, Ordering::Relaxed) % all.len()]
                };
                tokio::spawn(connected(client, target, seen.clone()));
            }
        });
        Self { port, targets, fault }
    }

    /// From now on it behaves like this.
    pub(super) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Breaks all connections; new ones go to another port.
    pub(super) async fn lead_to(&self, target: u16) {
        *self.targets.lock() = vec![target];
        self.set(Fault::Cut);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.set(Fault::None);
    }
}

async fn connected(client: TcpStream, target: u16, mut fault: watch::Receiver<Fault>) {
    let unharmed = watch::Sender::new(Fault::None);
    let now = *fault.borrow();
    match now {
        Fault::Cut => return,
        Fault::Hung => fault = unharmed.subscribe(),
        _ => {}
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = pass(from_client, to_server, fault.clone(), false) => {}
        () = pass(from_server, to_client, fault, true) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut fault: watch::Receiver<Fault>, is_answer: bool) {
    let mut piece = vec![0; 1 << 16];
    let mut cut = fault.clone();
    loop {
        let read = tokio::select! {
            read = from.read(&mut piece) => read,
            _ = cut.wait_for(|fault| *fault == Fault::Cut) => return,
        };
        let Ok(size @ 1..) = read else { return };
        let Ok(now) = fault.wait_for(|fault| *fault != Fault::Stalled).await.map(|fault| *fault) else { return };
        match now {
            Fault::Cut => return,
            Fault::Hung => std::future::pending().await,
            Fault::Deaf if is_answer => {
                let _ = fault.wait_for(|fault| *fault != Fault::Deaf).await;
                return;
            }
            Fault::Slow(delay) => tokio::time::sleep(delay).await,
            Fault::None | Fault::Stalled | Fault::Deaf => {}
        }
        if to.write_all(&piece[..size]).await.is_err() {
            return;
        }
    }
}
