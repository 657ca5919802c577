//! One request to a server: progress is forwarded, dropping cancels the request, and questions of the server get
//! answers.

#![expect(deprecated, reason = "servers go on to use logging, which 2026-07-28 deprecates")]

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use rmcp::ClientHandler as _;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientRequest, CustomResult, InputRequest,
    InputRequests, InputResponses, JsonObject, LoggingLevel, ProgressNotificationParam, ProgressToken, RequestId,
    RequestMetaObject, ServerResult, SetLevelRequest, SetLevelRequestParams, TASKS_EXTENSION_ID,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use scopeguard::ScopeGuard;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Client;
use super::failure::{too_much, unreadable};
use crate::reconnect::Rounds;
use crate::{Ask, Level, Operation, Progress, Question, Report, ReservedMemory, TraceContext};
use base::error::{Effect, Error, ErrorCode, Result};
use base::json;
use base::limits;
use base::memory;
use base::principal::Principal;
use base::task;
use config::Tasks;

/// Most rounds of questions that a server may ask within one request.
const MAX_ROUNDS: usize = limits::ROUNDS.max;
/// Delay before a retry when the server gave neither answer nor question.
const NOT_READY: Duration = Duration::from_millis(200);
/// Time that an answered request is remembered, since messages sent before the answer are handled concurrently.
const RECENT: Duration = Duration::from_millis(200);
/// Time that a request which was given up is remembered: the server may go on with it, and ask or tell something.
const GIVEN_UP: Duration = Duration::from_secs(60);
/// Timeout for sending a cancellation.
pub(super) const CANCEL: Duration = Duration::from_secs(5);

/// A server's questions, the answers, and its own state.
#[derive(Default)]
pub(super) struct Round {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// An unanswered request, and whether it left.
pub(super) struct Unanswerable {
    pub(super) error: ServiceError,
    pub(super) sent: bool,
}

impl Client {
    /// Sends the request that `make` makes. While the server asks questions and `rounds` allows it, sends it again with
    /// the answers. Follows a task that the server makes, or has made for the call before; `is_task` asks for one.
    pub(super) async fn request(
        &self,
        (operation, is_task): (&Operation, bool),
        progress: &Progress,
        rounds: &dyn Rounds,
        make: impl Fn(Round) -> ClientRequest,
    ) -> Result<ServerResult> {
        let in_doubt = |error: Error| error.with_effect(Effect::Unknown);
        // Before sending: a quick server may ask back before this task runs again.
        let mut listening = self.service.service().reports.listen(progress);
        if let Some(task) = progress.task() {
            let known = json!({ "taskId": task, "status": "working", "pollInterval": 1 });
            match self.follow(known, progress, &mut listening).await {
                Err(error) if error.code == ErrorCode::MaybeDone && operation.is_repeatable() => progress.forget_task(),
                answer => return answer,
            }
        }
        let mut round = Round::default();
        for number in 0..MAX_ROUNDS {
            if number > 0 {
                rounds.go_on().await.map_err(in_doubt)?;
            }
            // With its first questions a server has done nothing yet; what it did between later ones is unknown.
            let sent = self.send(&mut listening, make(round), progress).await;
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
            round = Round { responses, state: asked.request_state };
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

/// Reason why a text has no values.
pub(crate) enum Unparsed {
    /// They do not fit in memory.
    TooMuch(String),
    /// It is no JSON.
    Unreadable,
}

/// Parses JSON once its values fit in memory.
pub(crate) async fn parsed(text: &[u8], progress: &Progress) -> Result<Value, Unparsed> {
    let measured = task::work_on(text.len(), || json::measure(text));
    let found = measured.map_err(|_| Unparsed::Unreadable)?;
    if found.tree_bytes > memory::SMALL {
        let room = memory::ANSWERS.wait_for(found.tree_bytes).await;
        let room = room.map_err(|full| Unparsed::TooMuch(format!("{full}; {}", full.hint())))?;
        progress.room.hold(room);
    }
    let parsed = task::work_on(text.len(), || serde_json::from_slice::<Value>(text));
    parsed.map_err(|_| Unparsed::Unreadable)
}

/// Parses a large answer once its values fit in memory.
async fn values(text: String, progress: &Progress) -> Result<ServerResult, ServiceError> {
    let value = parsed(text.as_bytes(), progress).await.map_err(|unparsed| {
        ServiceError::McpError(match unparsed {
            Unparsed::TooMuch(why) => too_much(why),
            Unparsed::Unreadable => unreadable("no JSON", text.as_bytes()),
        })
    })?;
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

/// Requests in flight on a connection, with the calls behind them.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<InFlight>>);

#[derive(Default)]
struct InFlight {
    /// In the order of sending.
    requests: Vec<Entry>,
    /// Number of requests at which those too long ago are dropped: quick calls make many in little time.
    crowd: usize,
    /// Number of requests so far.
    count: u64,
    /// Clients of requests that ended, each until the server can have nothing more to say of them.
    former: Vec<(Principal, Instant)>,
    /// Least severe log level requested from the server.
    log_level: Option<Level>,
}

struct Entry {
    number: u64,
    /// Progress token and id of the request; `None` until it is sent.
    names: Option<(ProgressToken, RequestId)>,
    progress: Progress,
    /// The task that the server made for it, and a bell for its changes.
    task: Option<(String, Arc<Notify>)>,
    /// Time of the end; notifications sent before it may still be on their way.
    ended: Option<Instant>,
}

/// Requests that are kept without looking for those too long ago.
const CROWD: usize = 32;

/// Reason why a message of a server reaches no client.
const AMBIGUOUS: &str = "calls of several clients are in flight, and it does not say which one it belongs to";

impl InFlight {
    /// Drops what is too long ago.
    fn forget(&mut self) {
        let now = Instant::now();
        self.requests.retain(|entry| entry.ended.is_none_or(|ended| now - ended < RECENT));
        self.former.retain(|(_, until)| now < *until);
    }

    /// Ends a request. One that was given up may go on at the server.
    fn end(&mut self, number: u64, is_answered: bool) {
        let now = Instant::now();
        let Some(entry) = self.entry(number) else { return };
        entry.ended = Some(now);
        let asker = entry.progress.caller().map(|caller| caller.principal().clone());
        if let Some(asker) = asker {
            let until = now + if is_answered { RECENT } else { GIVEN_UP };
            match self.former.iter_mut().find(|(known, _)| *known == asker) {
                Some((_, known)) => *known = until.max(*known),
                None => self.former.push((asker, until)),
            }
        }
        if self.requests.len() >= self.crowd {
            self.forget();
            self.crowd = CROWD + 2 * self.requests.len();
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let position = self.requests.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.requests.get_mut(position)
    }

    /// Entries that a message can belong to, oldest first: they must be of one session, and no other may
    /// have had a call a moment ago.
    fn of_one_session<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Result<Vec<Progress>, &'static str> {
        let mut asker: Option<Principal> = None;
        let (mut calls, mut others) = (Vec::new(), Vec::new());
        for Entry { progress, .. } in entries {
            let Some(caller) = progress.caller() else {
                others.push(progress.clone());
                continue;
            };
            if asker.get_or_insert_with(|| caller.principal().clone()) != caller.principal() {
                return Err(AMBIGUOUS);
            }
            calls.push(progress.clone());
        }
        if asker.is_some_and(|asker| self.former.iter().any(|(former, _)| *former != asker)) {
            return Err(AMBIGUOUS);
        }
        // Calls of the gateway itself and of the command line have no client, and refuse questions for that reason.
        Ok(if calls.is_empty() { others } else { calls })
    }
}

impl Reports {
    fn listen(&self, progress: &Progress) -> Listening<'_> {
        let mut in_flight = self.0.lock();
        in_flight.count += 1;
        let number = in_flight.count;
        // Kept beyond the call, whose answer is not.
        let mut progress = progress.clone();
        progress.room = ReservedMemory::default();
        in_flight.requests.push(Entry { number, names: None, progress, task: None, ended: None });
        Listening { reports: self, number, is_answered: false }
    }

    /// Forwards a progress report to the call of its request. A quick server reports on a request that has no token
    /// here yet.
    pub(super) fn pass_on(&self, report: ProgressNotificationParam) {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        let is_named = |entry: &&Entry| entry.names.as_ref().is_some_and(|(token, _)| *token == report.progress_token);
        let call = match in_flight.requests.iter().find(is_named) {
            Some(entry) => Some(entry.progress.clone()),
            None => {
                let unnamed = in_flight.requests.iter().filter(|entry| entry.names.is_none());
                in_flight.of_one_session(unnamed).ok().and_then(|calls| calls.into_iter().next())
            }
        };
        drop(in_flight);
        if let Some(call) = call {
            let ProgressNotificationParam { progress: so_far, total, message, .. } = report;
            call.report(Report { progress: so_far, total, message });
        }
    }

    /// Polls the task of this id now, since it has changed.
    pub(super) fn has_changed(&self, task: &str) {
        let in_flight = self.0.lock();
        let bells = in_flight.requests.iter().filter_map(|entry| entry.task.as_ref());
        bells.filter(|(id, _)| id == task).for_each(|(_, bell)| bell.notify_one());
    }

    /// Calls that a message of the server can belong to, oldest first: the call of `task` or `request` if given, else the
    /// calls of the only session that has any. The error gives the reason for none.
    pub(super) fn in_flight(
        &self,
        task: Option<&str>,
        request: Option<&RequestId>,
    ) -> Result<Vec<Progress>, &'static str> {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        let going = || in_flight.requests.iter().filter(|entry| entry.ended.is_none());
        let is_of = |entry: &&Entry| entry.task.as_ref().is_some_and(|(id, _)| Some(&**id) == task);
        if let Some(entry) = going().find(is_of) {
            return Ok(vec![entry.progress.clone()]);
        }
        // A message about the task of a call that is over reaches no other call.
        if task.is_some() {
            return Err("the task that it belongs to is of no call in flight");
        }
        let Some(request) = request else { return in_flight.of_one_session(going()) };
        let is_named = |entry: &&Entry| entry.names.as_ref().is_some_and(|(_, own)| own == request);
        match going().find(is_named) {
            Some(entry) => Ok(vec![entry.progress.clone()]),
            None => in_flight.of_one_session(going().filter(|entry| entry.names.is_none())),
        }
    }

    /// Like [`Reports::in_flight`] without a request, with calls that ended a moment ago.
    pub(super) fn recent(&self) -> Result<Vec<Progress>, &'static str> {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        in_flight.of_one_session(in_flight.requests.iter())
    }

    /// True if `level` is below the level requested so far.
    fn lower(&self, level: Level) -> bool {
        let mut in_flight = self.0.lock();
        let is_lower = in_flight.log_level.is_none_or(|known| level < known);
        if is_lower {
            in_flight.log_level = Some(level);
        }
        is_lower
    }
}

/// A call that is listened to until this is dropped.
pub(super) struct Listening<'a> {
    reports: &'a Reports,
    number: u64,
    is_answered: bool,
}

impl Listening<'_> {
    /// Notes the task of the call, and returns the bell for its changes.
    pub(super) fn is_task(&mut self, id: &str) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        if let Some(entry) = self.reports.0.lock().entry(self.number) {
            entry.task = Some((id.to_owned(), Arc::clone(&bell)));
        }
        // Given up before its result, it may go on at the server.
        self.is_answered = false;
        bell
    }

    /// Notes that its task has a result.
    pub(super) fn has_result(&mut self) {
        self.is_answered = true;
    }

    fn is_called(&mut self, token: &ProgressToken, id: &RequestId) {
        let mut in_flight = self.reports.0.lock();
        if let Some(entry) = in_flight.entry(self.number) {
            entry.names = Some((token.clone(), id.clone()));
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.reports.0.lock().end(self.number, self.is_answered);
    }
}
