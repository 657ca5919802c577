//! The rmcp client. Only this folder names rmcp's client types.

pub(super) mod authorized;
mod client;
mod connection;
mod event_stream;
pub(super) mod failure;
mod forms;
mod handler;
mod handshake;
pub(super) mod http;
pub(super) mod http_client;
pub(super) mod http_post;
mod inbox;
mod lines;
mod listing;
mod message;
mod others;
mod pending;
pub(super) mod refusal;
mod reports;
pub(super) mod request;
mod results;
pub(crate) mod sent_headers;
mod sse;
mod stdio;
mod subscription;
mod tasks;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use tokio::time::timeout;

use self::authorized::Authorization;
use self::client::Client;
use self::failure::{HttpError, of_start};
use self::handler::Handler;
use self::inbox::PassedOver;
use self::sent_headers::SentHeaders;
use self::subscription::subscribe;
use self::tasks::TaskTools;
use super::events::EventSender;
use super::stderr::Stderr;
use crate::auth::Account;
use crate::confined::Examined;
use crate::link::{Connect, Link};
use crate::program::Program;
use base::address::Reach;
use base::error::{Error, ErrorCode, Result};
use config::secrets::{self, Resolved};
use config::{HttpKind, Transport};
use state::LoginVersion;

pub use handshake::{Offer, Revision};
pub use message::count_messages;

/// Timeout for the address of posts of a server that may speak HTTP+SSE.
const ENDPOINT: Duration = Duration::from_secs(5);
/// Most bytes of a server's words in place of an answer.
const MAX_WORDS: usize = 4000;

/// Confinement of a server's process on this machine, for `forgefs doctor`; `None` if it has none.
pub async fn examine(name: &str, server: &config::Server) -> Option<Result<Examined>> {
    let (Transport::Stdio { command, args, env, cwd }, Some(sandbox)) = (&server.transport, &server.sandbox) else {
        return None;
    };
    let env = match secrets::resolve(env).await {
        Ok(env) => env,
        Err(error) => return Some(Err(error)),
    };
    let (env, cwd, sandbox) = (env.values(), cwd.as_deref(), Some(sandbox));
    Some(Program { name, program: command, args, env, cwd, sandbox }.examine().await)
}

/// Connects to one server.
pub(super) struct Connector {
    pub(super) name: String,
    pub(super) server: config::Server,
    /// The server's login.
    pub(super) account: Option<Arc<Account>>,
    /// Keeps a process's stderr, and what is no message of a stream.
    pub(super) stderr: Stderr,
    /// Handshakes offer it first.
    pub(super) revision: Revision,
    /// Takes the events of connections.
    pub(super) events: EventSender,
}

#[async_trait]
impl Connect for Connector {
    fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    async fn connect(&self) -> Result<Box<dyn Link>> {
        match self.connected(&self.place().await?).await {
            Ok(client) => Ok(Box::new(Arc::new(client))),
            Err(failed) => Err(self.describe(failed).await),
        }
    }

    async fn with_last_words(&self, error: Error) -> Error {
        match self.server.transport {
            Transport::Stdio { .. } => self.stderr.with_last_words(error).await,
            Transport::Http { .. } | Transport::OpenApi { .. } => error,
        }
    }
}

impl Connector {
    /// Tries `server/discover`, then the handshake of the older revisions, in the other order for a server that needs it, and
    /// over HTTP the oldest transport (HTTP+SSE) if the address takes no messages.
    async fn connected(&self, place: &Place<'_>) -> Result<Client, Failed> {
        let kept = self.revision.get();
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let mut ways = [auto, ClientLifecycleMode::Initialize];
        let is_initialize = self.revision.is_initialize();
        if is_initialize {
            ways.reverse();
        }
        let [first, second] = ways;
        let mut tried = self.attempt(first, place).await;
        if let Err(Failed::Handshake(error)) = &tried
            && let Some(connected) = self.named_sse(error, place, kept.clone()).await
        {
            return connected;
        }
        if let Err(Failed::Handshake(error)) = &tried
            && !matches!(place, Place::Http(HttpKind::Sse, ..))
            && !is_about_login(error)
            && (is_initialize || !matches!(status_of(error), 400 | 404 | 405))
        {
            // Some servers of the older revisions die of an unknown request: they get a second chance on a fresh
            // transport, with the handshake alone.
            tracing::debug!(server = self.name, %error, "the handshake failed, trying another");
            tried = self.attempt(second, place).await;
        }
        let mut is_kept = true;
        if let (Err(Failed::Handshake(error)), Place::Process(..)) = (&tried, place)
            && of_start(error) == failure::CLOSED
        {
            let words = self.stderr.all_words().await;
            // It may have died of a capability that it does not know. Silence proves nothing for the next start.
            is_kept = !words.is_empty();
            if (!is_kept || handshake::is_about_fields(&words)) && self.revision.offer_none() {
                tried = self.attempt(ClientLifecycleMode::Initialize, place).await;
            }
        }
        if tried.is_err() || !is_kept {
            self.revision.set(kept);
        }
        match (tried, place) {
            (Err(Failed::Handshake(error)), Place::Http(HttpKind::Streamable, url, authorization))
                if takes_no_messages(&error) && !is_named_sse(url) =>
            {
                // The first transport's error says more than most failures of the second.
                let connected = self.find_sse(url, authorization).await;
                connected.map_err(|failed| if failed.is_about_endpoint() { failed } else { Failed::Handshake(error) })
            }
            (tried, _) => tried,
        }
    }

    /// Connects over HTTP+SSE where the address has its name, after another way failed; `None` if it speaks something else.
    async fn named_sse(
        &self,
        error: &ClientInitializeError,
        place: &Place<'_>,
        kept: Option<Offer>,
    ) -> Option<Result<Client, Failed>> {
        let Place::Http(HttpKind::Streamable, url, authorization) = place else { return None };
        if !is_named_sse(url) || is_about_login(error) || status_of(error) == 401 {
            return None;
        }
        let offered = self.revision.get();
        self.revision.set(kept);
        let connected = self.find_sse(url, authorization).await;
        if connected.as_ref().is_err_and(|failed| !failed.is_about_endpoint()) {
            self.revision.set(offered);
            return None;
        }
        Some(connected)
    }

    /// Reads the credentials that the configuration names.
    async fn place(&self) -> Result<Place<'_>> {
        match &self.server.transport {
            Transport::Stdio { command, args, env, cwd } => {
                Ok(Place::Process(command, args, cwd.as_deref(), Arc::new(secrets::resolve(env).await?)))
            }
            Transport::Http { kind, url, headers, .. } => {
                let headers = Arc::new(SentHeaders::read(headers, &BTreeMap::new()).await?);
                Ok(Place::Http(*kind, url, Authorization { headers, account: self.account.clone() }))
            }
            Transport::OpenApi { .. } => {
                Err(Error::new(ErrorCode::Internal, format!("{} is no server of MCP", self.name)))
            }
        }
    }

    async fn attempt(&self, lifecycle: ClientLifecycleMode, place: &Place<'_>) -> Result<Client, Failed> {
        match place {
            Place::Process(program, args, cwd, env) => {
                let (name, sandbox) = (&*self.name, self.server.sandbox.as_ref());
                let program = Program { name, program, args, env: env.values(), cwd: *cwd, sandbox };
                let transport = stdio::start(program, &self.stderr, &self.revision).await.map_err(Failed::Start)?;
                let ended = transport.ended();
                let service = self.handler().serve_with_lifecycle(transport, lifecycle).await?;
                Ok(Client { _env: Some(Arc::clone(env)), ..self.client(service, ended, None) })
            }
            Place::Http(HttpKind::Sse, url, authorization) => self.connect_sse(url, authorization, Duration::MAX).await,
            Place::Http(HttpKind::Streamable, url, authorization) => {
                let in_session = Arc::default();
                let (authorization, session) = (authorization.clone(), Arc::clone(&in_session));
                let (over, limit) = (self.passed_over(), self.server.timeout);
                let transport = http::transport(url, authorization, session, over, limit, &self.revision);
                let transport = transport.map_err(Failed::Start)?;
                let service = self.handler().serve_with_lifecycle(transport, lifecycle).await?;
                Ok(self.client(service, Arc::default(), Some(in_session)))
            }
        }
    }

    /// Connects over HTTP+SSE, if the server soon names the address for posts.
    async fn find_sse(&self, url: &str, by: &Authorization) -> Result<Client, Failed> {
        self.connect_sse(url, by, ENDPOINT.min(self.server.connect_timeout / 2)).await
    }

    /// Connects over HTTP+SSE, if the server names the address for posts within `patience`.
    async fn connect_sse(&self, url: &str, by: &Authorization, patience: Duration) -> Result<Client, Failed> {
        let client = http::client(url, Reach::configured()).map_err(Failed::Start)?;
        let transport = sse::connect(client, url, by.clone(), self.passed_over(), &self.revision);
        let transport = timeout(patience, transport).await.unwrap_or(Err(HttpError::UnexpectedEndOfStream));
        let transport = transport.map_err(Failed::Http)?;
        let ended = transport.ended();
        let service = self.handler().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await?;
        Ok(self.client(service, ended, None))
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver::new(&self.name, "stream", self.stderr.clone())
    }

    fn handler(&self) -> Handler {
        Handler::new(self.events.of_connection(), self.server.relays)
    }

    /// `in_session` becomes true once a Streamable HTTP server opens a session; until then each request stands alone.
    fn client(
        &self,
        service: RunningService<RoleClient, Handler>,
        ended: Arc<AtomicBool>,
        in_session: Option<Arc<AtomicBool>>,
    ) -> Client {
        let _subscription = subscribe(&self.name, service.peer(), &service.service().events);
        let (name, stderr) = (self.name.clone(), self.stderr.clone());
        // The lists count for the time to connect, and must leave some of it.
        let patience = listing::PATIENCE.min(self.server.connect_timeout / 2);
        let (revision, reconnects, others) = (self.revision.clone(), self.server.reconnect, Mutex::default());
        let tasks = TaskTools::new(self.server.tasks, self.server.timeout);
        Client {
            name,
            service,
            stderr,
            revision,
            reconnects,
            ended,
            in_session,
            patience,
            others,
            tasks,
            _subscription,
            _env: None,
        }
    }

    async fn describe(&self, failed: Failed) -> Error {
        let error = match failed {
            Failed::Start(error) => return error,
            Failed::Http(error) => return failure::of_http(&self.name, &error),
            Failed::Handshake(error) => error,
        };
        let told =
            failure::http_of_start(&error).map(|http| (failure::wants_login(http), failure::of_http(&self.name, http)));
        let hint = match told {
            Some((true, told)) => return told,
            Some((false, told)) => told.hint,
            None => None,
        };
        let is_program = matches!(self.server.transport, Transport::Stdio { .. });
        let word = if is_program { "did not start" } else { "is not connected" };
        let what = format!("{} {word}: {}", self.name, of_start(&error));
        let mut dead = Error::new(ErrorCode::TransportDead, what);
        dead.hint = hint;
        self.with_last_words(dead).await
    }
}

/// True if the server refuses posts at this address, as one that speaks the transport of 2024-11-05 does: by any status of the
/// request, unless it is about credentials or the moment, or by one for unknown methods.
fn takes_no_messages(error: &ClientInitializeError) -> bool {
    let status = status_of(error);
    matches!(status, 400..=499 | 501) && !matches!(status, 401 | 403 | 408 | 429)
}

/// True for an address that servers have for HTTP+SSE, whatever they answer to a post.
fn is_named_sse(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| url.path().trim_end_matches('/').ends_with("/sse"))
}

/// The status with which the server refused, or 0.
fn status_of(error: &ClientInitializeError) -> u16 {
    failure::http_of_start(error).and_then(refusal::status).unwrap_or_default()
}

/// True if only a login helps: another handshake would get the same error, or one that hides it.
fn is_about_login(error: &ClientInitializeError) -> bool {
    error.is_authorization_required() || failure::http_of_start(error).is_some_and(failure::wants_login)
}

/// A server, with the credentials of one connection.
enum Place<'a> {
    /// Program, arguments, folder and environment of a process.
    Process(&'a str, &'a [String], Option<&'a Path>, Arc<Resolved>),
    /// Transport, address, headers and login.
    Http(HttpKind, &'a str, Authorization),
}

/// Reason why one attempt to connect failed.
enum Failed {
    /// The process or client could not be started.
    Start(Error),
    /// The server refused over HTTP.
    Http(HttpError),
    /// The handshake failed.
    Handshake(Box<ClientInitializeError>),
}

impl Failed {
    /// True for the stream of HTTP+SSE with an address that cannot be used.
    fn is_about_endpoint(&self) -> bool {
        matches!(self, Self::Http(HttpError::UnexpectedServerResponse(_)))
    }
}

impl From<ClientInitializeError> for Failed {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}
