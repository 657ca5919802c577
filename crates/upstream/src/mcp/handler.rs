//! Declares the client's capabilities to servers, and handles their requests and notifications.
#![expect(deprecated, reason = "servers go on to use sampling, roots and logging, which 2026-07-28 deprecates")]

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomNotification,
    CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode as RpcCode,
    FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, RootsCapabilities, SamplingCapability, TaskStatusNotificationParams,
    UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::Progress;
use crate::caller::{APPS, Ask, LogEntry, PAGE_TYPE, Question};
use crate::events::EventSender;
use crate::mcp::forms;
use crate::mcp::reports::Reports;
use crate::mcp::tasks::RELATED;
use base::limits;
use config::{Relay, Relays};

/// Handler of one connection.
pub(super) struct Handler {
    pub(super) reports: Reports,
    pub(super) events: EventSender,
    relays: Relays,
    /// Permits for unanswered questions.
    places: Semaphore,
}

impl Handler {
    pub(super) fn new(events: EventSender, relays: Relays) -> Self {
        Self { reports: Reports::default(), events, relays, places: Semaphore::new(limits::QUESTIONS.max) }
    }

    /// Forwards a question to the client whose call is in flight on this connection. That client must be beyond doubt:
    /// a question without a call, or with calls of several sessions, is refused.
    async fn ask<T: DeserializeOwned>(
        &self,
        ask: Ask,
        params: impl Serialize,
        context: RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let refused = |why: &str| ErrorData::new(RpcCode::METHOD_NOT_FOUND, format!("`{}`: {why}", ask.method()), None);
        let _place = self.places.try_acquire().map_err(|_| {
            refused(&format!(
                "{} questions of this server are not answered yet, which is the limit",
                limits::QUESTIONS.max
            ))
        })?;
        let params = serde_json::to_value(params).unwrap_or(Value::Null);
        let calls = self.calls(&context).map_err(refused)?;
        let Some(latest) = calls.last() else { return Err(refused("no call of a client is in flight")) };
        let question = Question { ask, params, name: None, about: latest.about(), put_off: None };
        // The server may wait with any of these calls.
        let _held: Vec<_> = calls.iter().map(|call| call.pause().hold()).collect();
        let answer = tokio::select! {
            answer = latest.ask(question) => answer.map_err(|error| refused(&error.message))?,
            () = context.ct.cancelled() => return Err(refused("the server has withdrawn it")),
        };
        serde_json::from_value(answer).map_err(|error| refused(&format!("the client's answer is not valid: {error}")))
    }

    /// Calls that a question can belong to, oldest first.
    fn calls(&self, context: &RequestContext<RoleClient>) -> Result<Vec<Progress>, &'static str> {
        let request = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
            _ => None,
        };
        let related = context.meta.0.get(RELATED).and_then(|related| related.get("taskId")?.as_str());
        self.reports.in_flight(related, request)
    }

    /// Forwards a question that rmcp has not read, if its meaning is plain.
    async fn ask_odd<T: DeserializeOwned + Serialize>(
        &self,
        ask: Ask,
        params: Value,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        match forms::read::<T>(params) {
            Ok(params) => self.ask(ask, params, context).await.map(CustomResult),
            Err(why) => {
                if let Some(latest) = self.calls(&context).ok().as_deref().and_then(<[Progress]>::last) {
                    latest.refuse(ask.method(), &why);
                }
                Err(ErrorData::invalid_params(why, None))
            }
        }
    }
}

impl ClientHandler for Handler {
    /// Servers of the older revisions ask for capabilities once, at the handshake. The client of a later call is not
    /// known then, and tools must not come and go with it, so every capability is declared that the configuration
    /// passes on. Newer servers get them with each call.
    fn get_info(&self) -> ClientConfig {
        let mut abilities = ClientCapabilities::default();
        let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let elicitation = elicitation.with_url(UrlElicitationCapability::new());
        abilities.elicitation = (self.relays.elicitation == Relay::Ask).then_some(elicitation);
        abilities.sampling = (self.relays.sampling == Relay::Ask).then(SamplingCapability::default);
        abilities.roots = Some(RootsCapabilities::default());
        let pages = [("mimeTypes".to_owned(), json!([PAGE_TYPE]))];
        abilities.extensions = Some([(APPS.to_owned(), pages.into_iter().collect())].into());
        let config = ClientConfig::new(abilities, Implementation::new("forgefs", env!("CARGO_PKG_VERSION")));
        // Sent in `initialize` alone, which the latest revision no longer has.
        config.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.ask(Ask::Elicitation, params, context).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.ask(Ask::Sampling, params, context).await
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.ask(Ask::Roots, Value::Null, context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let params = params.unwrap_or_default();
        match &*method {
            "elicitation/create" => self.ask_odd::<ElicitRequestParams>(Ask::Elicitation, params, context).await,
            "sampling/createMessage" => {
                self.ask_odd::<CreateMessageRequestParams>(Ask::Sampling, params, context).await
            }
            _ => Err(ErrorData::new(RpcCode::METHOD_NOT_FOUND, method, None)),
        }
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.reports.pass_on(report);
    }

    async fn on_custom_notification(&self, notice: CustomNotification, _: NotificationContext<RoleClient>) {
        let task = notice.params.as_ref().and_then(|params| params.get("taskId")?.as_str());
        if let (Some(task), "notifications/tasks/status" | "notifications/tasks") = (task, &*notice.method) {
            self.reports.has_changed(task);
        }
    }

    async fn on_task_status(&self, status: TaskStatusNotificationParams, _: NotificationContext<RoleClient>) {
        self.reports.has_changed(&status.task.task.task_id);
    }

    async fn on_logging_message(&self, entry: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let Ok(level) = serde_json::to_value(entry.level).and_then(serde_json::from_value) else { return };
        // The notification names no call: with calls of several clients it has no recipient.
        let Ok(calls) = self.reports.recent() else { return };
        if let Some(latest) = calls.last() {
            latest.log(LogEntry { level, logger: entry.logger, data: entry.data });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.tools_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.others_changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.others_changed();
    }
}
