//! One live connection: what an operation gets from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, DiscoverRequest, DiscoverRequestParams, PingRequest, ProtocolVersion, ServerResult};
use rmcp::service::{PeerRequestOptions, RoleClient, RunningService, ServiceError};
use serde_json::Value;

use super::failure::{self, excerpt};
use super::handler::Handler;
use super::handshake::Revision;
use super::tasks::TaskTools;
use super::{MAX_WORDS, others, results};
use crate::events::Changes;
use crate::link::{Link, Rounds};
use crate::stderr::Stderr;
use crate::{Answer, Listing, Operation, Progress, ToolAnswer};
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::task::{self, Task};
use base::text::head;
use config::secrets::Resolved;

/// Words of SDKs about a question to the client, in a revision where only answers carry questions.
const CANNOT_ASK: &str = "no back-channel";
const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// A live connection.
pub(super) struct Client {
    pub(super) name: String,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) stderr: Stderr,
    /// The offer that the next handshake begins with.
    pub(super) revision: Revision,
    /// It is replaced when it ends.
    pub(super) reconnects: bool,
    /// The transport has ended, although not every request has seen it yet.
    pub(super) ended: Arc<AtomicBool>,
    pub(super) in_session: Option<Arc<AtomicBool>>,
    /// Timeout of the lists besides the tools.
    pub(super) patience: Duration,
    pub(super) others: Mutex<others::Asked>,
    pub(super) tasks: TaskTools,
    pub(super) _subscription: Option<Task>,
    /// Keeps the secrets of a process redacted.
    pub(super) _env: Option<Arc<Resolved>>,
}

impl Client {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn upstream(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorCode::UpstreamError, format!("{}: {what}", self.name))
    }

    pub(super) fn fault(&self, error: ServiceError) -> Error {
        match error {
            ServiceError::McpError(data) if self.is_in_session() && failure::is_about_session(&data) => {
                failure::of_lost_session(&self.name, &data.message)
            }
            error => failure::of_request(&self.name, error),
        }
    }

    /// True for a revision with a handshake, or while none is known.
    pub(super) fn is_old(&self) -> bool {
        self.service.peer_info().is_none_or(|info| info.protocol_version.has_initialize())
    }

    fn is_in_session(&self) -> bool {
        self.in_session.as_ref().is_some_and(|in_session| in_session.load(Ordering::Acquire))
    }

    /// Adds its last words to the error of a server that died.
    async fn with_last_words<T>(&self, answer: Result<T>) -> Result<T> {
        match answer {
            Err(error) if error.code == ErrorCode::TransportDead && self.ended.load(Ordering::Acquire) => {
                Err(self.stderr.with_last_words(error).await)
            }
            answer => answer,
        }
    }

    /// The words for a server that could not ask in its revision, if these say so: the next connection uses an older one.
    fn needs_initialize(&self, words: &str) -> Option<String> {
        if self.is_old() || !words.contains(CANNOT_ASK) {
            return None;
        }
        self.revision.set_initialize(true);
        self.ended.store(self.reconnects, Ordering::Release);
        self.service.service().events.tools_changed();
        let next = if self.reconnects { "now" } else { "after a restart" };
        Some(format!(
            "the server cannot ask its client in revision {NEWEST}; it is connected with an older one {next}: call again, \
             unless the call has done its work"
        ))
    }

    async fn answer_to(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<Answer> {
        let answer = self.request(operation, progress, rounds).await.map_err(|error| {
            // The server's error seldom names why its question stayed unanswered.
            match progress.refusal().or_else(|| self.needs_initialize(&error.message)) {
                Some(refusal) => error.hint(refusal),
                None => error,
            }
        })?;
        let result = match (operation, answer) {
            (Operation::Resource { .. }, whole @ ServerResult::ReadResourceResult(_))
            | (Operation::Prompt { .. }, whole @ ServerResult::GetPromptResult(_))
            | (Operation::Complete { .. }, whole @ ServerResult::CompleteResult(_)) => {
                return Ok(Answer::Raw(strip_protocol(serde_json::to_value(&whole).unwrap_or_default())));
            }
            (_, other) => results::value_of(other),
        };
        if let Operation::Tool { .. } = operation {
            let answer = results::tool(result, !self.is_old());
            let cannot_ask = || answer.failed.and_then(|_| self.needs_initialize(&results::said(&answer)));
            return Ok(Answer::Tool(ToolAnswer { refusal: progress.refusal().or_else(cannot_ask), ..answer }));
        }
        task::work_on(usize::MAX, || {
            // Only for an answer that cannot be read.
            let came = |result: &Value| match json::words(result) {
                Some(words) => head(words, MAX_WORDS).to_owned(),
                None => format!("its answer is not MCP: {}", excerpt(result.to_string().as_bytes())),
            };
            let read = match operation {
                Operation::Resource { uri, .. } => results::resource(result, uri),
                Operation::Prompt { .. } => results::prompt(result),
                _ => Err(result),
            };
            read.map(strip_protocol).map(Answer::Raw).map_err(|result| self.upstream(came(&result)))
        })
    }
}

#[async_trait]
impl Link for Arc<Client> {
    async fn list(&self, progress: &Progress) -> Result<Listing> {
        self.with_last_words(Client::list(self, progress).await).await
    }

    async fn call(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<Answer> {
        self.with_last_words(self.answer_to(operation, progress, rounds).await).await
    }

    fn is_closed(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.service.is_closed() || self.service.is_transport_closed()
    }

    fn is_stateless(&self) -> bool {
        self.in_session.is_some() && !self.is_in_session()
    }

    fn changes(&self) -> Changes {
        self.service.service().events.changes()
    }

    async fn listed(&self) {
        self.others_listed().await;
    }

    /// Pings the server: any answer will do, even a refusal.
    async fn answers(&self) -> bool {
        let request = match self.is_old() {
            true => ClientRequest::PingRequest(PingRequest::default()),
            false => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {})),
        };
        let Ok(sent) = self.service.send_request_with_option(request, PeerRequestOptions::no_options()).await else {
            return false;
        };
        matches!(sent.await_response().await, Ok(_) | Err(ServiceError::McpError(_)))
    }
}

/// Removes fields that belong to the protocol between gateway and server, not to the script.
fn strip_protocol(mut value: Value) -> Value {
    if let Value::Object(object) = &mut value {
        for key in ["resultType", "ttlMs", "cacheScope"] {
            object.shift_remove(key);
        }
    }
    value
}
