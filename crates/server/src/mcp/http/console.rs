//! The console over HTTP: at the endpoint for the people of `[console]`, and on a listener of its own for the user of this
//! machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, StatusCode, header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connections::{Answers, Connections};
use super::edge::Connection;
use super::reply::{self, Reply};
use super::wrong::Wrong;
use super::{AGAIN, CLOSING, who};
use crate::console::{Access, Console, LOGIN, Rights};
use crate::gateway::Gateway;
use base::error::{Error, ErrorCode, Result};
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
    own: Own,
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
        let console = Console::new(Arc::clone(gateway), access, super::super::tools::shown_tokens());
        let wrong = Wrong::new(Arc::clone(gateway));
        let own = Own { gateway: Arc::clone(gateway), console, places: Arc::default(), wrong };
        Ok(Open { listener, own, url })
    }
}

impl Open {
    /// Serves it until `ends` is done.
    pub async fn serve(self, ends: impl Future<Output = ()>) {
        let (tell_end, told_end) = watch::channel(false);
        let connections = Connections::new(Arc::new(self.own), None, told_end);
        let accepting = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, peer)) => connections.serve(stream, peer, CONNECTIONS),
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = ends => {}
        }
        tell_end.send_replace(true);
        let _ = tokio::time::timeout(CLOSING, connections.closed()).await;
    }
}

/// Answers for the console alone.
struct Own {
    gateway: Arc<Gateway>,
    console: Arc<Console>,
    places: Arc<Mutex<HashMap<String, usize>>>,
    wrong: Wrong,
}

impl Answers for Own {
    async fn answer(&self, request: Request<Incoming>, from: Connection) -> Reply {
        let config = self.gateway.config();
        if let Some(refused) = who::misnamed(&config, request.headers(), request.uri().host(), false) {
            return refused;
        }
        match Console::has(request.uri().path()) {
            true => answered(&self.console, &self.places, &self.wrong, request, from).await,
            false => reply::text(StatusCode::NOT_FOUND, "the console is at /console/\n"),
        }
    }
}

/// Answers a request to the console. A connection of a person counts among those of the console, which are bounded, before
/// anything is done for it; others are strangers, whatever of the page they read.
pub(super) async fn answered(
    console: &Arc<Console>,
    places: &Arc<Mutex<HashMap<String, usize>>>,
    wrong: &Wrong,
    request: Request<Incoming>,
    from: Connection,
) -> Reply {
    let has_token = request.headers().contains_key(header::AUTHORIZATION) || request.uri().path() == LOGIN;
    let reply = console.answer(request, |person, rights| enter(places, &from, person, rights)).await;
    match reply.status() {
        StatusCode::UNAUTHORIZED if has_token => wrong.met("console", from.peer).await,
        StatusCode::TOO_MANY_REQUESTS => return reply::closing(reply),
        _ => {}
    }
    reply
}

/// Counts a connection among those of a person; false if there is no place for it.
fn enter(places: &Arc<Mutex<HashMap<String, usize>>>, from: &Connection, person: &str, rights: Rights) -> bool {
    let of_people = |(name, _): &(&String, &usize)| name.starts_with(PLACE);
    let taken: usize = places.lock().iter().filter(of_people).map(|(_, count)| count).sum();
    let most = if rights.may_act { CONNECTIONS } else { CONNECTIONS - RESERVE };
    let is_new = from.place.lock().is_none();
    (!is_new || taken < most) && from.enter(places, &format!("{PLACE}{person}"), SHARE)
}
