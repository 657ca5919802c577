//! Scripts that are MCP tools of their own, beside the four. A call of one is a script of one line, so that it is
//! recorded, resumed and cut to size as any other.

use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use wire::Language;

use super::SessionHandler;
use crate::error::Result;
use crate::execution::Wanted;
use crate::scripts::Callable;
use crate::upstream::Caller;

impl SessionHandler {
    /// Definitions of the scripts that are tools of their own.
    pub(super) fn own_tools(&self) -> Vec<Tool> {
        self.gateway.scripts().iter().filter(|script| script.as_tool).map(|script| definition(script)).collect()
    }

    /// Calls one of them, or resumes such a call; `None` if there is none of this name.
    pub(super) async fn call_own(
        &self,
        name: &str,
        args: &JsonObject,
        resume: Option<String>,
        caller: Arc<dyn Caller>,
    ) -> Option<Result<CallToolResult>> {
        let scripts = self.gateway.scripts();
        let script = scripts.iter().find(|script| script.as_tool && script.ident == name)?;
        let context = self.execution_context(caller);
        let wanted = match resume {
            Some(_) => Wanted { resume, ..Wanted::default() },
            None => {
                let args = Value::Object(args.clone()).to_string();
                let code = format!("return await {}({args})", script.label);
                Wanted { language: Some(Language::Javascript), code: Some(code), ..Wanted::default() }
            }
        };
        Some(match context.script(wanted).await {
            Ok(request) => Ok(self.answer(context.execute(request).await).await),
            Err(error) => Err(error),
        })
    }
}

/// The definition for `tools/list`. Its answer is text, as that of `execute`.
fn definition(script: &Callable) -> Tool {
    let field = |name: &str| script.definition.get(name);
    let schema = field("inputSchema").and_then(Value::as_object).cloned().unwrap_or_default();
    let says = |hint: &str| field("annotations").and_then(|notes| notes.get(hint)?.as_bool());
    let description = field("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let reads = says("readOnlyHint").unwrap_or_default();
    Tool::new(script.ident.clone(), description, Arc::new(schema))
        .annotate(ToolAnnotations::new().read_only(reads).open_world(true))
}
