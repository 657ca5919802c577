//! The console over HTTP: at the endpoint for the people of `[console]`, and on a listener of its own for the user of this
//! machine.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::checked::connections;
use super::reply::{self, Reply, ReplyBody};
use crate::console::{Access, Console, Rights};
use crate::gateway::Gateway;
use base::error::{Error, ErrorCode, Result};
use base::listener::{Answers, Connection};
use catalog::people;

/// Most connections of a listener, and of the console at the endpoint.
const CONNECTIONS: usize = 64;
/// Most of one person.
const SHARE: usize = CONNECTIONS / 2;
/// Connections that are left to people who decide.
const RESERVE: usize = CONNECTIONS / 4;
/// Beginning of the console's people among the clients of the endpoint: no client can have it.
const PLACE: &str = "/console/";

/// A console for the user of this machine, as it is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Opening {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// True for a link whose session changes nothing.
    pub read_only: bool,
}

/// A console that listens.
pub struct Open {
    listener: TcpListener,
    gateway: Arc<Gateway>,
    console: Arc<Console>,
    /// Its URL, which signs in once. The token is in the part that browsers keep to themselves.
    pub url: String,
}

impl Opening {
    /// Opens the console of a gateway.
    ///
    /// # Errors
    /// `INVALID_ARGS` when others could reach the address, or it is taken.
    pub async fn open(&self, gateway: &Arc<Gateway>) -> Result<Open> {
        let address = self.listen;
        let wrong = |what: String, hint: &str| Error::new(ErrorCode::InvalidArgs, what).hint(hint);
        if !address.ip().is_loopback() {
            let hint = "use 127.0.0.1; for other machines `forgefs serve --http` has /console, with TLS and the tokens of \
                        `forgefs console add`";
            return Err(wrong(format!("other machines could reach the console at {address}"), hint));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| {
            wrong(format!("cannot listen at {address}"), "give another address, such as 127.0.0.1:0").caused_by(error)
        })?;
        let address = listener.local_addr().unwrap_or(address);
        let access = Arc::new(Access::default());
        let token = access.once(people::user(), Rights { may_act: !self.read_only });
        let url = format!("http://{address}{}/#{token}", crate::console::PAGE);
        let console = Console::new(Arc::clone(gateway), access, super::super::tools::shown_tokens(), true);
        Ok(Open { listener, gateway: Arc::clone(gateway), console, url })
    }
}

impl Open {
    /// Serves it until `ends` is done.
    pub async fn serve(self, ends: impl Future<Output = ()>) {
        let connections = connections(&self.gateway, Own(self.console), None);
        connections.accept(&self.listener, || CONNECTIONS, ends).await;
        connections.end();
        connections.closed().await;
    }
}

/// Answers for the console alone.
struct Own(Arc<Console>);

impl Answers for Own {
    type Body = ReplyBody;

    async fn answer(&self, request: Request<Incoming>, from: &Connection) -> Reply {
        match Console::has(request.uri().path()) {
            true => answered(&self.0, request, from).await,
            false => reply::text(StatusCode::NOT_FOUND, "the console is at /console/\n"),
        }
    }
}

/// Answers a request to the console. A connection of a person counts among those of the console, which are bounded, before
/// anything is done for it; others are strangers, whatever of the page they read.
pub(super) async fn answered(console: &Arc<Console>, request: Request<Incoming>, from: &Connection) -> Reply {
    let reply = console.answer(request, |person, rights| enter(from, person, rights)).await;
    if reply.status() == StatusCode::TOO_MANY_REQUESTS { reply::closing(reply) } else { reply }
}

/// Counts a connection among those of a person; false if there is no place for it.
fn enter(from: &Connection, person: &str, rights: Rights) -> bool {
    let taken = from.connections(|name| name.starts_with(PLACE));
    let most = if rights.may_act { CONNECTIONS } else { CONNECTIONS - RESERVE };
    (!from.is_stranger() || taken < most) && from.enter(&format!("{PLACE}{person}"), SHARE)
}
