//! One request to a server: progress is forwarded, dropping cancels the request, and questions of the server get
//! answers.

#![expect(deprecated, reason = "servers go on to use logging, which 2026-07-28 deprecates")]

use std::borrow::Cow;
use std::time::Duration;

use futures::future::join_all;
use rmcp::ClientHandler as _;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientCapabilities,
    ClientRequest, CompleteRequest, CompleteRequestParams, CustomResult, GetPromptRequest, GetPromptRequestParams,
    InputRequest, InputRequests, InputResponses, JsonObject, ListToolsRequest, LoggingLevel, ReadResourceRequest,
    ReadResourceRequestParams, RequestId, RequestMetaObject, ServerResult, SetLevelRequest, SetLevelRequestParams,
    TASKS_EXTENSION_ID,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use scopeguard::ScopeGuard;
use serde_json::{Map, Value, json};

use super::client::Client;
use super::failure::{too_much, unreadable};
use super::reports::Listening;
use super::tasks;
use crate::link::Rounds;
use crate::{Ask, Level, Operation, Progress, Question, Subject, TraceContext};
use base::error::{Effect, Error, ErrorCode, Result};
use base::json;
use base::limits;
use base::memory;
use base::task;
use config::Tasks;

/// Most rounds of questions that a server may ask within one request.
const MAX_ROUNDS: usize = limits::ROUNDS.max;
/// Delay before a retry when the server gave neither answer nor question.
const NOT_READY: Duration = Duration::from_millis(200);
/// Timeout for sending a cancellation.
pub(super) const CANCEL: Duration = Duration::from_secs(5);

/// Answers to a server's questions, and its own state.
#[derive(Default)]
struct Round {
    responses: Option<InputResponses>,
    state: Option<String>,
}

/// An unanswered request, and whether it left.
pub(super) struct Unanswerable {
    pub(super) error: ServiceError,
    pub(super) sent: bool,
}

impl Client {
    /// Sends the request of an operation. While the server asks questions and `rounds` allows it, sends it again with the
    /// answers. Follows a task that the server makes, or has made for the call before.
    pub(super) async fn request(
        &self,
        operation: &Operation,
        progress: &Progress,
        rounds: &dyn Rounds,
    ) -> Result<ServerResult> {
        let is_task = match operation {
            Operation::Tool { name, .. } => self.wants_task(name)?,
            _ => false,
        };
        let in_doubt = |error: Error| error.with_effect(Effect::Unknown);
        let mut request = message(operation, is_task, Round::default())?;
        // Before sending: a quick server may ask back before this task runs again.
        let mut listening = self.service.service().reports.listen(progress);
        if let Some(task) = progress.task() {
            let known = json!({ "taskId": task, "status": "working", "pollInterval": 1 });
            match self.follow(known, progress, &mut listening).await {
                Err(error) if error.code == ErrorCode::MaybeDone && operation.is_repeatable() => progress.forget_task(),
                answer => return answer,
            }
        }
        for number in 0..MAX_ROUNDS {
            if number > 0 {
                rounds.go_on().await.map_err(in_doubt)?;
            }
            // With its first questions a server has done nothing yet; what it did between later ones is unknown.
            let sent = self.send(&mut listening, request, progress).await;
            let asked = match if number > 1 { sent.map_err(in_doubt) } else { sent }? {
                ServerResult::InputRequiredResult(asked) => asked,
                answer if !matches!(operation, Operation::Tool { .. }) => return Ok(answer),
                answer => match self.task_in(answer, is_task).map_err(in_doubt)? {
                    Ok(task) => return self.follow(task, progress, &mut listening).await,
                    Err(answer) => return Ok(answer),
                },
            };
            let questions = asked.input_requests.unwrap_or_default();
            if questions.is_empty() {
                // The server is not ready: it wants the request again, with its own state.
                tokio::time::sleep(NOT_READY).await;
            }
            let responses = self.answers(questions, progress, number == 0).await?;
            let responses = (!responses.is_empty()).then_some(responses);
            request = message(operation, is_task, Round { responses, state: asked.request_state })?;
        }
        Err(self.upstream(format!("it asked back more than {MAX_ROUNDS} times")))
    }

    async fn send(
        &self,
        listening: &mut Listening<'_>,
        request: ClientRequest,
        progress: &Progress,
    ) -> Result<ServerResult> {
        self.exchange_on(listening, request, progress).await.map_err(|failed| match failed {
            Unanswerable { error, sent: true } => self.fault(error),
            Unanswerable { error, sent: false } => self.fault(error).without_effect(),
        })
    }

    /// Sends one request and waits for its answer. Dropping the future cancels the request at the server.
    pub(super) async fn exchange(
        &self,
        request: ClientRequest,
        progress: &Progress,
    ) -> Result<ServerResult, Unanswerable> {
        let mut listening = self.service.service().reports.listen(progress);
        self.exchange_on(&mut listening, request, progress).await
    }

    /// The same for a call that is listened to until `listening` is dropped.
    pub(super) async fn exchange_on(
        &self,
        listening: &mut Listening<'_>,
        request: ClientRequest,
        progress: &Progress,
    ) -> Result<ServerResult, Unanswerable> {
        let options = self.options(progress).await;
        listening.is_answered = false;
        let sent = self.service.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| Unanswerable { error, sent: false })?;
        listening.is_called(&handle.progress_token, &handle.id);
        let unanswered = scopeguard::guard((handle.peer.clone(), handle.id.clone()), give_up);
        let answer = handle.await_response().await;
        ScopeGuard::into_inner(unanswered);
        listening.is_answered = true;
        let answer = match answer {
            Ok(ServerResult::CustomResult(CustomResult(Value::String(text)))) if json::is_composed(&text) => {
                values(text, progress).await
            }
            answer => answer,
        };
        answer.map_err(|error| Unanswerable { error, sent: true })
    }

    /// Asks the client behind the call several questions of the server.
    pub(super) async fn answers(
        &self,
        questions: InputRequests,
        progress: &Progress,
        is_first: bool,
    ) -> Result<InputResponses> {
        let answers = join_all(questions.into_iter().map(|(key, request)| async move {
            let answer = self.answer(&key, request, progress, is_first).await;
            answer.map(|answer| (key, answer))
        }));
        answers.await.into_iter().collect()
    }

    /// Asks the client behind the call a question of the server. With its first questions it has done nothing yet.
    async fn answer(&self, name: &str, request: InputRequest, progress: &Progress, is_first: bool) -> Result<Value> {
        let (ask, params) = match request {
            InputRequest::CreateMessage(request) => (Ask::Sampling, serde_json::to_value(request.params)),
            InputRequest::Elicitation(request) => (Ask::Elicitation, serde_json::to_value(request.params)),
            InputRequest::ListRoots(_) => (Ask::Roots, Ok(Value::Null)),
            _ => return Err(self.upstream("it asked back for something unknown")),
        };
        let params = params.map_err(|error| self.upstream(error))?;
        let refused = |error: Error| error.context(format_args!("{} asked for `{}`", self.name(), ask.method()));
        let (name, about) = (Some(name.to_owned()), progress.about());
        let put_off = progress.call().filter(|_| is_first);
        progress.ask(Question { ask, params, name, about, put_off }).await.map_err(refused)
    }

    /// Metadata of a request: the caller's capabilities and log level, if the server's revision takes them.
    pub(super) async fn options(&self, progress: &Progress) -> PeerRequestOptions {
        let options = PeerRequestOptions::no_options();
        let mut meta = RequestMetaObject::new();
        if let Some(TraceContext { parent, state }) = progress.trace.as_deref() {
            meta.set_traceparent(parent);
            state.iter().for_each(|state| meta.set_tracestate(state));
        }
        let Some(info) = self.service.peer_info() else {
            return if progress.trace.is_some() { options.with_meta(meta) } else { options };
        };
        let level = progress.caller().and_then(|caller| caller.log_level());
        if info.protocol_version.has_initialize() {
            if let (Some(level), Some(_)) = (level, &info.capabilities.logging) {
                self.lower_log_level(level).await;
            }
            return if progress.trace.is_some() { options.with_meta(meta) } else { options };
        }
        let of_caller = progress.abilities().and_then(|abilities| serde_json::from_value(abilities).ok());
        let mut abilities: ClientCapabilities =
            of_caller.unwrap_or_else(|| self.service.service().get_info().capabilities);
        if info.capabilities.supports_tasks() && self.tasks.setting == Tasks::Auto {
            let extensions = abilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        meta.set_client_capabilities(abilities);
        if let Some(level) = level.and_then(rpc_level) {
            meta.set_log_level(level);
        }
        options.with_meta(meta)
    }

    /// Lowers the log level of a server of the older revisions to the least that any caller wants. Forwarding filters
    /// entries for each caller.
    async fn lower_log_level(&self, level: Level) {
        let reports = &self.service.service().reports;
        if let (true, Some(level)) = (reports.lower(level), rpc_level(level)) {
            let request = SetLevelRequest::new(SetLevelRequestParams::new(level));
            let sent = self.service.send_request(ClientRequest::SetLevelRequest(request));
            if let Ok(Err(error)) = tokio::time::timeout(CANCEL, sent).await {
                tracing::debug!(server = self.name(), %error, "logging/setLevel failed");
            }
        }
    }
}

/// The request of an operation, with the answers to the server's questions.
fn message(operation: &Operation, is_task: bool, Round { responses, state }: Round) -> Result<ClientRequest> {
    Ok(match operation {
        // A revision without rounds.
        Operation::Tool { name, arguments, .. } if is_task => tasks::call(name, arguments),
        Operation::Tool { name, arguments, .. } => {
            let mut params = CallToolRequestParams::new(Cow::Owned(name.clone()));
            params.arguments = Some(arguments.clone());
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        }
        Operation::Prompt { name, arguments, .. } => {
            let mut params = GetPromptRequestParams::new(name.clone());
            params.arguments = Some(arguments.clone());
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        }
        Operation::Resource { uri, .. } => {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        }
        Operation::Complete { subject, params, .. } => {
            ClientRequest::CompleteRequest(CompleteRequest::new(complete_params(subject, params)?))
        }
        Operation::List | Operation::Connect => ClientRequest::ListToolsRequest(ListToolsRequest::default()),
    })
}

fn complete_params(subject: &Subject, params: &Map<String, Value>) -> Result<CompleteRequestParams> {
    let reference = match subject {
        Subject::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
        Subject::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
    };
    let mut params = params.clone();
    params.insert("ref".to_owned(), reference);
    serde_json::from_value(Value::Object(params))
        .map_err(|error| Error::new(ErrorCode::InvalidArgs, "the completion request is not valid").caused_by(error))
}

/// Parses JSON once its values fit in memory; `None` for what is no JSON.
///
/// # Errors
/// Why they do not fit.
pub(crate) async fn parsed(text: &[u8], progress: &Progress) -> Result<Option<Value>, String> {
    let Ok(found) = task::work_on(text.len(), || json::measure(text)) else { return Ok(None) };
    if found.tree_bytes > memory::SMALL {
        let room = memory::ANSWERS.wait_for(found.tree_bytes).await;
        progress.room.hold(room.map_err(|full| format!("{full}; {}", full.hint()))?);
    }
    Ok(task::work_on(text.len(), || serde_json::from_slice(text).ok()))
}

/// Parses a large answer once its values fit in memory.
async fn values(text: String, progress: &Progress) -> Result<ServerResult, ServiceError> {
    let value = match parsed(text.as_bytes(), progress).await {
        Ok(Some(value)) => value,
        Ok(None) => return Err(ServiceError::McpError(unreadable("no JSON", text.as_bytes()))),
        Err(why) => return Err(ServiceError::McpError(too_much(why))),
    };
    match value.get("resultType").and_then(Value::as_str) {
        Some("input_required") => {
            let asked = serde_json::from_value(value).map(ServerResult::InputRequiredResult);
            asked.map_err(|_| ServiceError::McpError(unreadable("no questions that it could have", text.as_bytes())))
        }
        _ => Ok(ServerResult::CustomResult(CustomResult(value))),
    }
}

fn rpc_level(level: Level) -> Option<LoggingLevel> {
    serde_json::to_value(level).and_then(serde_json::from_value).ok()
}

/// Cancels a request at the server that is given up before its answer.
fn give_up((peer, id): (Peer<RoleClient>, RequestId)) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let reason = Some("the request was given up".to_owned());
    let notice = CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason));
    runtime.spawn(async move {
        let _ = tokio::time::timeout(CANCEL, peer.send_notification(notice.into())).await;
    });
}
