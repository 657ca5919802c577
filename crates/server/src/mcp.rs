//! The MCP server that agents talk to.
#![expect(deprecated, reason = "clients go on to use logging, which 2026-07-28 deprecates")]

mod admission;
mod caller;
mod changes;
mod forms;
mod http;
mod input_rounds;
mod late;
mod message;
mod notices;
mod own_tools;
mod requests;
mod resources;
mod shown;
mod skills;
mod stdio;
mod stdout;
mod tasks;
mod tools;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, GetPromptResult, Implementation, InputResponses, ReadResourceResult, Tool};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError, ServiceExt as _};
use tokio::io::AsyncWrite;

use crate::gateway::Gateway;
use base::error::{Cause, Error, ErrorCode, Result};
use base::panics;
use base::principal::Principal;
use base::turns;
use catalog::Catalog;
use config::Expose;
use run::broker::ExecutionContext;
use run::session::Session;
use upstream::{Caller, Level};

use admission::{Admission, Counter};
use base::task::{self, Task};
use caller::is_stateless;
use changes::Subscribed;
use input_rounds::{InputRounds, RoundRequest};
use resources::rpc_error;
use stdio::LineTransport;
use tasks::Tasks;
use waiting::Waiting;

pub use http::Opening;
pub use http::{HttpListener, serve_http};
pub(crate) use message::too_long;
use shown::Own;
pub use shown::narrowed;
pub use shown::{AUTO_TOKENS, INSTRUCTIONS as DIRECT_INSTRUCTIONS, has_few};
pub use stdio::{Closing, GOODBYE};
pub use stdout::Output;
pub use tools::{definitions, render_instructions, server_names};

/// Time after the start in which requests wait for starting servers. Nine of ten are up by then; a slower one blocks
/// nothing after that.
const GRACE: Duration = Duration::from_secs(5);

/// Serves MCP on stdin and stdout to a client until it closes them. `asked` is the form in which it wants its tools
/// shown, within what its profile allows.
///
/// # Errors
/// `INTERNAL` when the transport fails in a way other than ending.
pub async fn serve_stdio(gateway: Arc<Gateway>, principal: Principal, asked: Option<Expose>) -> Result<()> {
    let (_switch, closing) = Closing::switch();
    let session = gateway.open_only_session(principal);
    serve_lines(gateway, (session, asked), std::io::stdin(), Output::default(), closing).await
}

/// Serves MCP to one client in lines of any stream, until it ends or `closing` wants it to.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve_lines(
    gateway: Arc<Gateway>,
    (session, asked): (Arc<Session>, Option<Expose>),
    input: impl std::io::Read + Send + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    closing: Closing,
) -> Result<()> {
    let admission = Admission::default();
    let service = ForgeServer::new(SessionHandler { gateway, session, asked }, &admission);
    let broken = |error: Cause| Error::new(ErrorCode::Internal, "the MCP connection failed").caused_by(error);
    let transport = LineTransport::open(input, output, closing, admission).map_err(|error| broken(error.into()))?;
    match Box::pin(service.serve(transport)).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| broken(error.into())),
        // A client that leaves before the handshake needs no error.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(ServerInitializeError::TransportError { error, .. }) if is_gone(&*error.error) => Ok(()),
        Err(error) => Err(broken(error.into())),
    }
}

/// True for the error of a pipe whose reader has left.
fn is_gone(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// State that a session's requests are answered from.
#[derive(Clone)]
struct SessionHandler {
    gateway: Arc<Gateway>,
    session: Arc<Session>,
    /// Form that the client asked for its tools to be shown in.
    asked: Option<Expose>,
}

impl SessionHandler {
    /// The catalog, after servers had time to start.
    async fn ready_catalog(&self) -> Arc<Catalog> {
        self.gateway.usable_since_start(GRACE).await;
        self.catalog()
    }

    /// The catalog that the client has.
    fn catalog(&self) -> Arc<Catalog> {
        self.gateway.catalog_of(self.session.principal())
    }

    /// Definitions of the four tools, and of scripts that are tools of their own.
    fn definitions(&self) -> Vec<Tool> {
        let mut tools = tools::definitions_of(&self.server_names(), &self.gateway.config());
        tools.extend(self.own_tools());
        tools
    }

    /// Identifiers of the servers that the client has.
    fn server_names(&self) -> Vec<String> {
        let uses = self.gateway.searching(self.session.principal()).uses().unwrap_or_default();
        tools::server_names(&self.catalog(), &uses)
    }

    /// Does work in turn with that of other clients, or of other sessions of this machine's user.
    async fn taking_turns<T>(&self, work: impl Future<Output = T>) -> T {
        turns::taking(self.session.principal().party(), work).await
    }

    /// Notes the client's name.
    fn met(&self, client: &Implementation) {
        self.session.met(base::text::head(&format!("{} {}", client.name, client.version), 200).to_owned());
    }

    /// Has labels accumulate over the session of a client that calls servers' tools itself.
    fn hold_labels(&self) {
        if self.shown().own != Own::None {
            self.session.accumulate();
        }
    }

    /// A snapshot for one request of `caller`.
    fn execution_context(&self, caller: Arc<dyn Caller>) -> ExecutionContext {
        ExecutionContext { caller: Some(caller), ..self.context() }
    }

    /// The same, of a request that asks its client nothing.
    fn context(&self) -> ExecutionContext {
        self.hold_labels();
        self.gateway.execution_context(&self.session)
    }
}

/// One connection.
struct ForgeServer {
    handler: SessionHandler,
    /// True once a client of the older revisions introduced itself.
    is_initialized: AtomicBool,
    /// Log level of the client, if it set one for the connection.
    level: Mutex<Level>,
    calls: InputRounds<CallToolResult>,
    prompts: InputRounds<Result<GetPromptResult>>,
    reads: InputRounds<Result<ReadResourceResult>>,
    /// Questions of its tasks.
    tasks: Tasks,
    /// Its requests that wait for the client.
    waiting: Waiting,
    /// Answers that the client has not read.
    unread: Counter,
    /// Subscriptions of a client of the older revisions, and the task that notifies it.
    subscribed: Subscribed,
    telling: Mutex<Option<Task>>,
}

impl ForgeServer {
    fn new(handler: SessionHandler, admission: &Admission) -> Self {
        let level = Mutex::new(Level::Warning);
        Self {
            handler,
            is_initialized: AtomicBool::new(false),
            level,
            calls: InputRounds::default(),
            prompts: InputRounds::default(),
            reads: InputRounds::default(),
            tasks: Tasks::default(),
            waiting: Waiting::default(),
            unread: admission.unread.clone(),
            subscribed: Subscribed::new(&admission.uris),
            telling: Mutex::default(),
        }
    }

    /// One round of the request for `subject`, of `bytes` bytes, with the client's answers to the previous round's
    /// questions.
    fn round<'a>(
        &self,
        context: &'a RequestContext<RoleServer>,
        inputs: (Option<InputResponses>, Option<String>),
        bytes: usize,
        subject: impl FnOnce() -> serde_json::Value,
    ) -> RoundRequest<'a> {
        if let Some(client) = context.client_info() {
            self.handler.met(&client);
        }
        let level = match is_stateless(context) {
            true => serde_json::to_value(context.meta.log_level()).and_then(serde_json::from_value).unwrap_or_default(),
            false => Some(*self.level.lock()),
        };
        let principal = self.handler.session.principal().clone();
        let subject = task::work_on(bytes, || stubgen::digest(stubgen::canonical_json(&subject())));
        let (responses, state) = inputs;
        let (waiting, unread) = (self.waiting.clone(), self.unread.clone());
        let kept = Arc::clone(self.handler.gateway.state());
        RoundRequest { context, principal, level, subject, waiting, unread, responses, state, answers: None, kept }
    }

    /// Answer to a request without rounds, made in turn with those of other clients, also after a panic.
    async fn answered<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T, ErrorData> {
        let answer = panics::caught(Box::pin(self.handler.taking_turns(work))).await;
        answer.and_then(|answer| answer).map_err(|error| rpc_error(&error))
    }
}
