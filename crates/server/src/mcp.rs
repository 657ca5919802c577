//! The MCP server that agents talk to.
#![expect(deprecated, reason = "clients go on to use logging, which 2026-07-28 deprecates")]

mod admission;
mod caller;
mod changes;
mod http;
mod input_rounds;
mod late;
mod message;
mod notices;
mod own_tools;
mod resources;
mod shown;
mod skills;
mod stdio;
mod stdout;
mod tasks;
mod tools;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, InputResponses,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{
    NotificationContext, RequestContext, RoleServer, ServerInitializeError, ServiceExt as _, SubscriptionContext,
};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;
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
use caller::{is_stateless, shows_apps};
use changes::Subscribed;
use input_rounds::{InputRounds, RoundRequest};
use resources::{read_error, rpc_error};
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
/// The same for lists of tools: clients wait for them before they show anything, and hear of what comes later.
const LIST_GRACE: Duration = Duration::from_millis(100);
/// TTL of the tool list for clients, in milliseconds: only the names of servers in a description change.
const LIST_TTL: u64 = 60 * 60 * 1000;

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
        let subject = task::work_on(bytes, || stubgen::digest(&stubgen::canonical_json(&subject())));
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

/// rmcp keeps room for the largest of these futures in each session, so that what they wait for is boxed.
impl ServerHandler for ForgeServer {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("forgefs", env!("CARGO_PKG_VERSION")).with_title("ForgeFS");
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_tasks();
        // Without skills, a client does not meet the extension.
        let capabilities = match self.handler.changes_tools() {
            true => capabilities.enable_tool_list_changed(),
            false => capabilities,
        };
        let capabilities = match self.handler.gateway.serves_skills(&self.handler.catalog()) {
            true => capabilities.enable_skills().build(),
            false => capabilities.build(),
        };
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(self.handler.instructions())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let usable = self.handler.gateway.usable_since_start(GRACE);
        let searching = self.handler.gateway.searching(self.handler.session.principal());
        let _ = tokio::join!(tokio::time::timeout(LIST_GRACE, usable), searching.look_up_uses(LIST_GRACE));
        let abilities = context.client_capabilities();
        let has_apps = abilities.and_then(|abilities| abilities.extensions).is_some_and(|known| shows_apps(&known));
        let list = self.answered(async { self.handler.listed(page, has_apps) }).await?;
        let stateless = context.protocol_version().is_some_and(|version| !version.has_initialize());
        // Revision 2026-07-28 requires both; strict clients of older revisions do not know them.
        // Servers' own tools change with their servers.
        let ttl = if self.handler.shown().own == Own::None { LIST_TTL } else { 0 };
        Ok(if stateless { list.with_ttl_ms(ttl).with_cache_scope(CacheScope::Private) } else { list })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let args = arguments.unwrap_or_default();
        let bytes = match tools::bounded(&args) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(tools::failed(error).into()),
        };
        if request_state.is_none() && tasks::is_task(&name, &args, &context) && self.handler.shown().four {
            return Box::pin(self.start_task(args, &context)).await;
        }
        let round = self.round(&context, (input_responses, request_state), bytes, || json!([name, args]));
        let (round, resume) = Box::pin(self.late(round)).await?;
        let handler = self.handler.clone();
        let call = |caller| async move {
            // A script waits for its turn among scripts.
            match &*name {
                "execute" => handler.call(&name, args, resume, caller).await,
                _ => handler.taking_turns(handler.call(&name, args, resume, caller)).await,
            }
        };
        self.calls.answer(round, call, |result| Ok(result.into())).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.answered(self.handler.resources(page)).await
    }

    async fn list_skills(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.answered(self.handler.skills(page)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.answered(self.handler.skill(&request.uri)).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.answered(self.handler.templates(page)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let round = self.round(&context, (input_responses, request_state), uri.len(), || json!(uri));
        let (handler, asked) = (self.handler.clone(), uri.clone());
        let read = |caller| async move { handler.taking_turns(handler.read(&asked, caller)).await };
        let done =
            |result: Result<ReadResourceResult>| result.map(Into::into).map_err(|error| read_error(&uri, &error));
        self.reads.answer(round, read, done).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.answered(self.handler.prompts(page)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let args = arguments.unwrap_or_default();
        let size = tools::size(&args);
        let round = self.round(&context, (input_responses, request_state), size, || json!([name, args]));
        let handler = self.handler.clone();
        let get = |caller| async move { handler.taking_turns(handler.prompt(&name, args, caller)).await };
        let done = |result: Result<GetPromptResult>| result.map(Into::into).map_err(|error| rpc_error(&error));
        self.prompts.answer(round, get, done).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Box::pin(self.task(&request.task_id)).await.map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Box::pin(self.update(request)).await
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Box::pin(self.end_task(&request.task_id)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        tokio::select! {
            result = self.answered(self.handler.completion(request)) => result,
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the client cancelled the request", None)),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        let level = serde_json::to_value(request.level).and_then(serde_json::from_value);
        let level = level.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        *self.level.lock() = level;
        Ok(())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.is_initialized.swap(true, Ordering::AcqRel) {
            return Err(ErrorData::invalid_request("this session is initialized already", None));
        }
        let answer = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Some(client) = context.peer.peer_info() {
            self.handler.met(&client.client_info);
        }
        let telling = self.handler.tell(context.peer, self.subscribed.clone());
        *self.telling.lock() = Some(telling);
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.subscribed.add(request.uri)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        // The four tools never change, servers' own do.
        accepted.tools_list_changed.take_if(|_| !self.handler.changes_tools());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        Box::pin(self.handler.stream(context)).await;
        Ok(())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.definition_of(name)
    }
}
