//! The sample MCP server of the demo: tickets, people or a calendar, kept in memory.

use parking_lot::Mutex;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Map, Value};

use super::data::{self, Data};

/// Tool lists of the three roles.
const TOOLS: &str = include_str!("tools.json");

/// Raw definitions of a role's tools; empty for an unknown role.
pub(super) fn definitions(role: &str) -> Vec<Value> {
    let all: Map<String, Value> = serde_json::from_str(TOOLS).unwrap_or_default();
    all.get(role).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Serves `role` on stdin and stdout until they are closed.
pub(super) async fn serve(role: String) -> Result<(), String> {
    let server = SampleServer { role, data: Mutex::new(Data::new()) };
    let running = server.serve(rmcp::transport::stdio()).await.map_err(|error| error.to_string())?;
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

struct SampleServer {
    role: String,
    data: Mutex<Data>,
}

impl ServerHandler for SampleServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(format!("demo-{}", self.role), env!("CARGO_PKG_VERSION")))
            .with_instructions(format!("Sample data about {}. Nothing is kept after the demo.", self.role))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = definitions(&self.role).into_iter().filter_map(|tool| serde_json::from_value(tool).ok()).collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args: JsonObject = request.arguments.unwrap_or_default();
        let mut data = self.data.lock();
        Ok(match data::call(&mut data, &request.name, &Value::Object(args)) {
            Ok(value) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
                result.structured_content = Some(value);
                result
            }
            Err(message) => CallToolResult::error(vec![ContentBlock::text(message)]),
        }
        .into())
    }

    fn get_tool(&self, _: &str) -> Option<Tool> {
        None
    }
}
