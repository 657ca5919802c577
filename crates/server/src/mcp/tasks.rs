//! Tasks of 2026-07-28 (SEP-2663): a run in the background that a client follows by `tasks/get`. The run has the state
//! and its journal the result; here are only the questions that it waits for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, InputRequests, JsonObject,
    TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::caller::{Asked, ClientCaller, is_stateless};
use super::resources::rpc_error;
use super::{ForgeServer, tools};
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::outcome::Outcome;
use base::panics;
use base::task::Task;
use base::time::{now_ms, rfc3339_millis};
use run::execution::Started;
use run::runs::{Live, Run};

/// Suggested interval between two `tasks/get`, in milliseconds.
const POLL: u64 = 1_000;

/// Questions of the tasks that a client of this server has started, by run.
#[derive(Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<HashMap<String, Questions>>>);

struct Questions {
    open: BTreeMap<String, Asked>,
    /// Questions so far.
    count: usize,
    _collecting: Task,
}

impl Tasks {
    /// Collects the questions of a run until it ends.
    fn follow(&self, run: &str, live: Arc<Live>, mut questions: mpsc::Receiver<Asked>) {
        let (all, own) = (Arc::downgrade(&self.0), run.to_owned());
        let mut tasks = self.0.lock();
        let collecting = Task::spawn(async move {
            loop {
                let asked = tokio::select! {
                    () = live.ended() => break,
                    Some(asked) = questions.recv() => asked,
                };
                let Some(all) = all.upgrade() else { return };
                if let Some(task) = all.lock().get_mut(&own) {
                    task.count += 1;
                    // A key is never used twice.
                    let name = asked.name.clone().unwrap_or_else(|| "question".to_owned());
                    task.open.insert(format!("{name}-{}", task.count), asked);
                }
            }
            if let Some(all) = all.upgrade() {
                all.lock().remove(&own);
            }
        });
        tasks.insert(run.to_owned(), Questions { open: BTreeMap::new(), count: 0, _collecting: collecting });
    }

    /// Questions of a run without an answer.
    fn open(&self, run: &str) -> InputRequests {
        let mut tasks = self.0.lock();
        let Some(task) = tasks.get_mut(run) else { return InputRequests::default() };
        task.open.retain(|_, asked| !asked.answer.is_closed());
        task.open.iter().map(|(key, asked)| (key.clone(), asked.request.clone())).collect()
    }

    /// Passes answers on; unknown keys are ignored.
    fn answer(&self, run: &str, responses: impl IntoIterator<Item = (String, Value)>) {
        let mut tasks = self.0.lock();
        let Some(task) = tasks.get_mut(run) else { return };
        for (key, response) in responses {
            if let Some(asked) = task.open.remove(&key) {
                // The run may have given up its question.
                let _ = asked.answer.send(response);
            }
        }
    }
}

/// True for a call that becomes a task: a script for the background, of a client that can follow one.
pub(super) fn is_task(name: &str, args: &JsonObject, context: &RequestContext<RoleServer>) -> bool {
    name == "execute"
        && args.get("background") == Some(&Value::Bool(true))
        && is_stateless(context)
        && context.client_capabilities().is_some_and(|client| client.supports_tasks())
}

impl ForgeServer {
    /// Starts a script as a task. One that has ended before it began is answered like any other.
    pub(super) async fn start_task(
        &self,
        args: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(client) = context.client_info() {
            self.handler.met(&client);
        }
        let principal = self.handler.session.principal().clone();
        let client = (self.waiting.clone(), self.unread.clone());
        let (caller, questions) = ClientCaller::new(principal, context, None, client, None);
        let started = panics::caught(self.handler.begin(args, Arc::<ClientCaller>::clone(&caller) as _, true)).await;
        // Notices belong to the request, which is answered now.
        caller.pause().await;
        match started.and_then(|started| started) {
            Ok(Started::Running { run, live }) => {
                self.tasks.follow(&run, live, questions);
                let run = self.run(&run).await?;
                Ok(CreateTaskResult::new(self.seed(&run, TaskStatus::Working)).into())
            }
            Ok(Started::Ended(execution)) => Ok(self.handler.answer(*execution).await.into()),
            Err(error) => Ok(tools::failed(error).into()),
        }
    }

    /// The task now.
    pub(super) async fn task(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        let run = self.run(id).await?;
        let payload = match &run.state {
            Outcome::Running => match self.tasks.open(id) {
                open if open.is_empty() => TaskPayload::Working,
                input_requests => TaskPayload::InputRequired { input_requests },
            },
            Outcome::Failed(ErrorCode::Cancelled) => TaskPayload::Cancelled,
            Outcome::Unfinished => TaskPayload::Failed { error: self.failure(&run).await },
            // An error of a protocol, a server's or the gateway's, is no result of the script.
            Outcome::Failed(ErrorCode::UpstreamError | ErrorCode::Internal) => {
                TaskPayload::Failed { error: self.failure(&run).await }
            }
            _ => {
                let content = vec![ContentBlock::text(self.text(&run).await)];
                let is_ok = run.state == Outcome::Ok;
                let result = if is_ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
                TaskPayload::Completed { result: object(result) }
            }
        };
        Ok(DetailedTask::new(self.seed(&run, payload.status()), payload))
    }

    /// Passes answers to questions on.
    pub(super) async fn update(&self, update: UpdateTaskParams) -> Result<(), ErrorData> {
        self.run(&update.task_id).await?;
        self.tasks.answer(&update.task_id, update.input_responses);
        Ok(())
    }

    /// Ends a task.
    pub(super) async fn end_task(&self, id: &str) -> Result<(), ErrorData> {
        let cancelled = self.handler.gateway.runs(&self.handler.session).cancel(id, &Labels::new()).await;
        cancelled.map(drop).map_err(|error| wrong(&error))
    }

    /// The client's run with this id, redacted.
    async fn run(&self, id: &str) -> Result<Run, ErrorData> {
        let session = &self.handler.session;
        let runs = self.handler.gateway.runs(session);
        let run = panics::caught(runs.get(id)).await.and_then(|run| run).map_err(|error| wrong(&error))?;
        Ok(runs.redacted(run, session.placeholders()))
    }

    /// The agent's answer.
    async fn text(&self, run: &Run) -> String {
        let session = &self.handler.session;
        self.handler.gateway.runs(session).text(run, session, false, None).await
    }

    async fn failure(&self, run: &Run) -> JsonObject {
        object(ErrorData::internal_error(self.text(run).await, None))
    }

    /// A run's facts as a task has them.
    fn seed(&self, run: &Run, status: TaskStatus) -> rmcp::model::Task {
        let updated = run.elapsed_ms.map_or_else(now_ms, |elapsed| run.at_ms.saturating_add(elapsed));
        let task = rmcp::model::Task::new(&run.id, status, rfc3339_millis(run.at_ms), rfc3339_millis(updated));
        let runs = self.handler.gateway.runs(&self.handler.session);
        let keep = runs.journals.map_or(Duration::ZERO, |journals| journals.keep());
        let task = task.with_poll_interval_ms(POLL).with_ttl_ms(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        match &run.progress {
            Some(progress) => task.with_status_message(progress),
            None => task,
        }
    }
}

/// The error of a request for a task.
fn wrong(error: &Error) -> ErrorData {
    match error.code {
        ErrorCode::InvalidArgs => ErrorData::invalid_params(error.to_string(), None),
        _ => rpc_error(error),
    }
}

fn object(value: impl Serialize) -> JsonObject {
    serde_json::to_value(value).and_then(serde_json::from_value).unwrap_or_default()
}
