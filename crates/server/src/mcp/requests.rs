//! The requests of MCP as rmcp has them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetSkillRequestParams, GetSkillResult, GetTaskParams,
    GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;

use super::caller::{is_stateless, shows_apps};
use super::resources::{read_error, rpc_error};
use super::shown::Own;
use super::{ForgeServer, GRACE, tasks, tools};
use base::error::Result;

/// As [`GRACE`], for lists of tools: clients wait for them before they show anything, and hear of what comes later.
const LIST_GRACE: Duration = Duration::from_millis(100);
/// TTL of the tool list for clients, in milliseconds: only the names of servers in a description change.
const LIST_TTL: u64 = 60 * 60 * 1000;

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
