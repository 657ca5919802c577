//! Tasks: calls that a server answers with a task, which is asked for its state until there is a result. A server of
//! 2025-11-25 makes one where the call asks for it, and gives its questions and the result with `tasks/result`. A server of
//! 2026-07-28 (SEP-2663) makes one where it likes, and `tasks/get` has its questions and the result.

use std::collections::HashSet;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, CustomRequest, CustomResult, InputRequests, ServerResult, TaskStatus};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient};
use scopeguard::ScopeGuard;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::MAX_WORDS;
use super::client::Client;
use super::reports::Listening;
use super::request::{CANCEL, Unanswerable};
use super::results::value_of;
use crate::Progress;
use base::error::{Effect, Error, ErrorCode, Result};
use base::text::head;
use base::{json, limits};
use config::Tasks;

/// Least time between two polls, also of a server that announces changes all the time.
const LEAST: Duration = Duration::from_millis(100);
/// Interval of a server that names none.
const USUAL: Duration = Duration::from_secs(1);
/// Longest interval.
const LONGEST: Duration = Duration::from_secs(30);
/// Milliseconds that a server is asked to keep a task of 2025-11-25: a resumed run may come late.
const KEEP_MS: u64 = 24 * 60 * 60 * 1000;

/// `isError` of a task that failed.
const FAILED: &str = "of its task";

/// Key for what rmcp has no field for: among the experimental capabilities for `tasks` of 2025-11-25, and in the metadata
/// of a list for its tools that require a task.
pub(super) const KEY: &str = "forgefs/tasks";
/// Key in the metadata of messages that belong to a task.
pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The tools of a connection that are called as tasks.
pub(super) struct TaskTools {
    pub(super) setting: Tasks,
    /// Each poll that is answered is a sign of life, and has to come before the timeout.
    longest: Duration,
    /// Names of the tools that require a task.
    required: Mutex<HashSet<String>>,
}

impl TaskTools {
    /// `timeout` is that of a call without progress.
    pub(super) fn new(setting: Tasks, timeout: Duration) -> Self {
        Self { setting, longest: LONGEST.min(timeout / 3).max(LEAST), required: Mutex::default() }
    }

    /// Takes the names of a new list.
    pub(super) fn listed(&self, required: Vec<String>) {
        *self.required.lock() = required.into_iter().collect();
    }
}

/// Names of the tools of a list that require a task.
pub(super) fn required(list: &Value) -> Vec<String> {
    fn all(list: Option<&Value>) -> impl Iterator<Item = &Value> {
        list.and_then(Value::as_array).into_iter().flatten()
    }
    let noted = all(list.get("_meta").and_then(|meta| meta.get(KEY)));
    let is_required =
        |tool: &&Value| tool.pointer("/execution/taskSupport").is_some_and(|support| support == "required");
    let names = noted.chain(all(list.get("tools")).filter(is_required).filter_map(|tool| tool.get("name")));
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The answer to a request about a task.
type Exchanged = Result<ServerResult, Unanswerable>;

/// A task at a server.
struct Task {
    id: String,
    status: TaskStatus,
    /// Time until the next poll.
    interval: Duration,
    /// The server's words about its state.
    words: Option<String>,
    /// Questions, the result or the error of a task of 2026-07-28.
    more: Map<String, Value>,
}

/// A request of either revision: rmcp has types for the newer alone.
pub(super) fn request(method: &str, params: Value) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)))
}

/// A call that asks for a task.
pub(super) fn call(name: &str, arguments: &Map<String, Value>) -> ClientRequest {
    request("tools/call", json!({ "name": name, "arguments": arguments, "task": { "ttl": KEEP_MS } }))
}

fn get(id: &str) -> ClientRequest {
    request("tasks/get", json!({ "taskId": id }))
}

fn custom(result: Value) -> ServerResult {
    ServerResult::CustomResult(CustomResult(result))
}

/// True for an error in the words of the server, which is there.
fn is_said(error: &Error) -> bool {
    !error.is_transient && matches!(error.code, ErrorCode::InvalidArgs | ErrorCode::UpstreamError)
}

impl Client {
    /// True if a call of this tool has to ask for a task.
    ///
    /// # Errors
    /// `TOOL_DENIED` where the configuration has none.
    pub(super) fn wants_task(&self, tool: &str) -> Result<bool> {
        let is_wanted = self.tasks.required.lock().contains(tool) && self.declares_task("/requests/tools/call");
        if is_wanted && self.tasks.setting == Tasks::Never {
            let what = format!("{}: `{tool}` can only be called as a task, and `tasks = \"never\"`", self.name());
            return Err(Error::new(ErrorCode::ToolDenied, what)
                .hint("`tasks = \"auto\"` of the server in forge.toml calls it as one")
                .without_effect());
        }
        Ok(is_wanted)
    }

    /// True if the server declares a part of the capability `tasks` of 2025-11-25.
    fn declares_task(&self, part: &str) -> bool {
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let declared = self.service.peer_info().and_then(|info| {
            let tasks = info.capabilities.experimental.as_ref()?.get(KEY)?;
            Value::Object(tasks.clone()).pointer(part).map(is_set)
        });
        declared == Some(true)
    }

    /// The task in the answer to a call; else the answer. `is_wanted` if the call asked for one.
    pub(super) fn task_in(&self, answer: ServerResult, is_wanted: bool) -> Result<Result<Value, ServerResult>> {
        let ServerResult::CustomResult(CustomResult(Value::Object(mut fields))) = answer else {
            return Ok(Err(answer));
        };
        let is_task = fields.get("resultType").is_some_and(|kind| kind == "task");
        if is_task && self.tasks.setting == Tasks::Never {
            let what = "it answered with a task, which was not asked for since `tasks = \"never\"`";
            return Err(self.upstream(what));
        }
        let inner = fields.get_mut("task").filter(|task| is_wanted && task.is_object()).map(Value::take);
        Ok(match (inner, is_task) {
            (Some(task), _) => Ok(task),
            (None, true) => Ok(Value::Object(fields)),
            (None, false) => Err(custom(Value::Object(fields))),
        })
    }

    /// Follows a task of the call of `listening` to its result. Dropping the future cancels it.
    ///
    /// # Errors
    /// `MAYBE_DONE` if the server does not know it.
    pub(super) async fn follow(
        &self,
        made: Value,
        progress: &Progress,
        listening: &mut Listening<'_>,
    ) -> Result<ServerResult> {
        let in_doubt = |error: Error| error.with_effect(Effect::Unknown);
        let task = self.read(made).map_err(in_doubt)?;
        progress.made_task(&task.id);
        let changed = listening.is_task(&task.id);
        let can_cancel = !self.is_old() || self.declares_task("/cancel");
        let (peer, options) = (self.service.peer().clone(), self.options(progress).await);
        let unfinished = scopeguard::guard((peer, can_cancel.then(|| (task.id.clone(), options))), cancel);
        let result = self.result(task, progress, &changed).await.map_err(in_doubt);
        if result.is_ok() {
            listening.is_answered = true;
        }
        // After these errors it may still be asked; after any other, nothing waits for it.
        let is_left =
            |error: &Error| error.is_transient || matches!(error.code, ErrorCode::TransportDead | ErrorCode::MaybeDone);
        if result.as_ref().map_or_else(is_left, |_| true) {
            ScopeGuard::into_inner(unfinished);
        }
        result
    }

    /// Polls a task until it has a result.
    async fn result(&self, mut task: Task, progress: &Progress, changed: &Notify) -> Result<ServerResult> {
        let is_old = self.is_old();
        let mut asked = HashSet::new();
        // Of 2025-11-25: under way from the first question on, which it brings.
        let mut result: Option<BoxFuture<'_, Exchanged>> = None;
        loop {
            progress.is_alive(task.words.as_deref());
            match task.status {
                TaskStatus::Working => {}
                TaskStatus::InputRequired if !is_old => self.give(&task, &mut asked, progress).await?,
                _ if !is_old => return self.ended(task),
                _ => {
                    let of = json!({ "taskId": task.id });
                    result.get_or_insert_with(|| self.exchange(request("tasks/result", of), progress).boxed());
                }
            }
            let poll = async {
                tokio::time::sleep(LEAST).await;
                let _ = tokio::time::timeout(task.interval.saturating_sub(LEAST), changed.notified()).await;
                self.exchange(get(&task.id), progress).await
            };
            let fetched = async {
                match &mut result {
                    Some(result) => result.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = fetched => return self.fetched(&task, answer),
                answer = poll, if !task.status.is_terminal() => task = self.state(&task.id, answer)?,
            }
        }
    }

    /// Answers the questions of a task of 2026-07-28, each once.
    async fn give(&self, task: &Task, asked: &mut HashSet<String>, progress: &Progress) -> Result<()> {
        let questions = task.more.get("inputRequests").cloned().unwrap_or_default();
        let questions: InputRequests = serde_json::from_value(questions)
            .map_err(|error| self.upstream(format!("the questions of its task cannot be read: {error}")))?;
        let new: InputRequests = questions.into_iter().filter(|(key, _)| asked.insert(key.clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        let responses = self.answers(new, progress, false).await?;
        let update = request("tasks/update", json!({ "taskId": task.id, "inputResponses": responses }));
        self.exchange(update, progress).await.map_err(|failed| self.fault(failed.error)).map(drop)
    }

    /// The result of a task of 2026-07-28 that has ended.
    fn ended(&self, mut task: Task) -> Result<ServerResult> {
        if is_failed(task.status) {
            let error = task.more.get("error").and_then(json::words).map(str::to_owned);
            return Ok(failed(task.words.or(error)));
        }
        let result = task.more.shift_remove("result").filter(Value::is_object);
        result.map(custom).ok_or_else(|| self.upstream("its task is completed and has no result"))
    }

    /// The result of a task of 2025-11-25, in answer to `tasks/result`.
    fn fetched(&self, task: &Task, answer: Exchanged) -> Result<ServerResult> {
        match answer.map(value_of) {
            Ok(mut result) => {
                let is_result = result.is_object() && result.get("task").is_none() && result.get("taskId").is_none();
                if !is_result || result.get("resultType").is_some_and(|kind| kind != "complete") {
                    return Err(self.upstream("the result of its task is not that of a tool"));
                }
                if is_failed(task.status) && result.get("isError").is_none_or(|is| *is == Value::Bool(false)) {
                    result["isError"] = FAILED.into();
                }
                Ok(custom(result))
            }
            Err(refused) => match self.fault(refused.error) {
                error if is_said(&error) => {
                    Ok(failed(task.words.clone().filter(|_| is_failed(task.status)).or(Some(error.message))))
                }
                error => Err(error),
            },
        }
    }

    /// The state of the task `id`, in answer to `tasks/get`.
    fn state(&self, id: &str, answer: Exchanged) -> Result<Task> {
        let answer = answer.map_err(|refused| match self.fault(refused.error) {
            error if is_said(&error) => {
                let what = "the task that it made for the call is not to be asked for its result";
                Error::new(ErrorCode::MaybeDone, format!("{what}: {}", error.message))
            }
            error => error,
        })?;
        let task = self.read(value_of(answer))?;
        match task.id == id {
            true => Ok(task),
            false => Err(self.upstream("it was asked for the state of one task, and told of another")),
        }
    }

    fn read(&self, task: Value) -> Result<Task> {
        let text = |key: &str| task.get(key).and_then(Value::as_str);
        let Some(id) = text("taskId").filter(|id| !id.is_empty()) else {
            return Err(self.upstream("its task has no id"));
        };
        if id.len() > limits::TASK_ID.max {
            let error = limits::TASK_ID.exceeded(ErrorCode::UpstreamError, id.len());
            return Err(error.context(self.name()));
        }
        let status = text("status").unwrap_or_default();
        let Ok(status) = serde_json::from_value::<TaskStatus>(status.into()) else {
            return Err(self.upstream(format!("its task has the unknown status `{}`", head(status, 100))));
        };
        let interval = ["pollInterval", "pollIntervalMs"].iter().find_map(|key| task.get(key)?.as_f64());
        let interval = interval.filter(|ms| *ms > 0.0).map_or(USUAL, |ms| Duration::from_millis(ms as u64));
        let (id, interval) = (id.to_owned(), interval.clamp(LEAST, self.tasks.longest));
        let words = text("statusMessage").filter(|words| !words.trim().is_empty());
        let words = words.map(|words| head(words, MAX_WORDS).to_owned());
        let more = if let Value::Object(more) = task { more } else { Map::new() };
        Ok(Task { id, status, interval, words, more })
    }
}

fn is_failed(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Failed | TaskStatus::Cancelled)
}

/// Of a task that failed: the answer of such a tool. Its `isError` is no word of the protocol, and so proves nothing of what was
/// done before.
fn failed(words: Option<String>) -> ServerResult {
    let words = words.unwrap_or_else(|| "the task failed, or was cancelled".to_owned());
    custom(json!({ "content": [{ "type": "text", "text": words }], "isError": FAILED }))
}

/// Cancels a task whose call is dropped before its end.
fn cancel((peer, task): (Peer<RoleClient>, Option<(String, PeerRequestOptions)>)) {
    let (Some((id, options)), Ok(runtime)) = (task, tokio::runtime::Handle::try_current()) else { return };
    runtime.spawn(tokio::time::timeout(CANCEL, async move {
        let cancel = request("tasks/cancel", json!({ "taskId": id }));
        if let Ok(sent) = peer.send_request_with_option(cancel, options).await {
            let _ = sent.await_response().await;
        }
    }));
}
