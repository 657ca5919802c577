//! One request to a server: its progress is passed on, it is cancelled when it is given up, and questions that the
//! server asks before it answers are answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, InputRequest, InputResponses,
    ProgressNotificationParam, ProgressToken, RequestId, ServerRequest, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleClient, Service as _, ServiceError};
use serde_json::Value;

use super::mcp::Client;
use super::reconnect::Fault;
use super::{Progress, Report};

/// Rounds of questions that a server may ask before it answers one request.
const MAX_ROUNDS: usize = 10;
/// How long the notice that a request was given up may take to be sent.
const CANCEL: Duration = Duration::from_secs(5);

/// What a server asked for, answered, and its own note of where it was.
#[derive(Default)]
pub(super) struct Round {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// Why a request has no answer, and whether it left.
pub(super) struct Unanswerable {
    pub(super) error: ServiceError,
    pub(super) sent: bool,
}

impl Client {
    /// Sends what `make` makes, again with the answers to the server's questions as long as it asks some.
    pub(super) async fn request(
        &self,
        progress: &Progress,
        make: impl Fn(Round) -> ClientRequest,
    ) -> Result<ServerResult, Fault> {
        let mut round = Round::default();
        for _ in 0..MAX_ROUNDS {
            let asked = match self.send(make(round), progress).await? {
                ServerResult::InputRequiredResult(asked) => asked,
                answer => return Ok(answer),
            };
            let mut responses = InputResponses::new();
            for (key, request) in asked.input_requests.unwrap_or_default() {
                let response = self.answer(&key, request).await?;
                responses.insert(key, response);
            }
            let responses = (!responses.is_empty()).then_some(responses);
            round = Round { responses, state: asked.request_state };
        }
        Err(self.upstream(format!("it asked back more than {MAX_ROUNDS} times")).into())
    }

    async fn send(&self, request: ClientRequest, progress: &Progress) -> Result<ServerResult, Fault> {
        self.exchange(request, progress).await.map_err(|failed| match failed {
            Unanswerable { error, sent: true } => self.fault(error),
            Unanswerable { error, sent: false } => Fault { delivered: false, ..self.fault(error) },
        })
    }

    /// Sends one request and waits for its answer. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn exchange(
        &self,
        request: ClientRequest,
        progress: &Progress,
    ) -> Result<ServerResult, Unanswerable> {
        let sent = self.service.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let handle = sent.map_err(|error| Unanswerable { error, sent: false })?;
        let _listening = self.service.service().reports.listen(handle.progress_token.clone(), progress.clone());
        let mut unanswered = Unanswered { peer: handle.peer.clone(), id: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        unanswered.id = None;
        answer.map_err(|error| Unanswerable { error, sent: true })
    }

    /// What this client says to a question of the server.
    async fn answer(&self, key: &str, request: InputRequest) -> Result<Value, Fault> {
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(self.upstream("it asked back for something unknown").into()),
        };
        let context = RequestContext::new(RequestId::String(key.into()), self.service.peer().clone());
        let answered = self.service.service().handle_request(request, context).await;
        let response = answered.map_err(|error| self.fault(ServiceError::McpError(error)))?;
        serde_json::to_value(response).map_err(|error| self.upstream(error).into())
    }
}

/// Tells the server, when it is dropped, that a request was given up.
struct Unanswered {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        let reason = Some("nobody waits for the answer any more".to_owned());
        let notice = CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason));
        runtime.spawn(async move {
            let _ = tokio::time::timeout(CANCEL, peer.send_notification(notice.into())).await;
        });
    }
}

/// Who wants to hear of the progress of which request.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<HashMap<ProgressToken, Progress>>>);

impl Reports {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, token: ProgressToken, progress: Progress) -> Listening<'_> {
        self.lock().insert(token.clone(), progress);
        Listening { reports: self, token }
    }

    /// Passes a report on to whoever waits for the request.
    pub(super) fn pass_on(&self, report: ProgressNotificationParam) {
        if let Some(progress) = self.lock().get(&report.progress_token) {
            let ProgressNotificationParam { progress: so_far, total, message, .. } = report;
            progress.report(Report { progress: so_far, total, message });
        }
    }
}

struct Listening<'a> {
    reports: &'a Reports,
    token: ProgressToken,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.reports.lock().remove(&self.token);
    }
}
