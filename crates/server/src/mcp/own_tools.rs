//! Scripts that are MCP tools of their own, beside the four. A call of one is a script of one line, so that it is
//! recorded, resumed and cut to size as any other.

use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use wire::Language;

use super::SessionHandler;
use base::error::{Error, ErrorCode, Result};
use catalog::Catalog;
use run::execution::Wanted;
use run::scripts::Callable;
use upstream::Caller;

impl SessionHandler {
    /// Definitions of the scripts that are tools of their own.
    pub(super) fn own_tools(&self) -> Vec<Tool> {
        let (scripts, catalog) = (self.gateway.scripts(), self.catalog());
        scripts.iter().filter(|script| is_own(script, &catalog)).map(|script| definition(script)).collect()
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
        let catalog = self.catalog();
        let script = scripts.iter().find(|script| is_own(script, &catalog) && script.ident == name)?;
        let context = self.execution_context(caller);
        let wanted = match resume {
            Some(_) => Wanted { resume, ..Wanted::default() },
            None => {
                // Starlark has numbers of any size, and no names with a meaning of their own, such as `__proto__`.
                let mut code = format!("{}(**", script.label);
                literal(&Value::Object(args.clone()), &mut code);
                code.push(')');
                let most = context.limits.code_bytes;
                if code.len() > most {
                    let message =
                        format!("{name}: the arguments have {} bytes, over the limit of {most} bytes", code.len());
                    let hint = "give it less, such as the key of something in the stash; the operator raises \
                                `sandbox.limits.code`";
                    return Some(Err(Error::new(ErrorCode::InvalidArgs, message).hint(hint)));
                }
                Wanted { language: Some(Language::Starlark), code: Some(code), ..Wanted::default() }
            }
        };
        Some(match context.script(wanted).await {
            Ok(request) => Ok(self.answer(context.execute(request).await).await),
            Err(error) => Err(error),
        })
    }
}

/// True for a script that is a tool of its own, and that the client's profile has.
fn is_own(script: &Callable, catalog: &Catalog) -> bool {
    let entries = || catalog.servers().iter().filter(|entry| entry.is_scripts());
    let has = || entries().any(|entry| entry.stubs.position(&script.source.name).is_some());
    script.as_tool && (!catalog.is_narrowed() || has())
}

/// Writes JSON as a literal of Starlark.
fn literal(value: &Value, code: &mut String) {
    match value {
        Value::Null => code.push_str("None"),
        Value::Bool(true) => code.push_str("True"),
        Value::Bool(false) => code.push_str("False"),
        Value::Number(number) => code.push_str(&number.to_string()),
        Value::String(text) => string(text, code),
        Value::Array(items) => {
            code.push('[');
            for item in items {
                literal(item, code);
                code.push(',');
            }
            code.push(']');
        }
        Value::Object(entries) => {
            code.push('{');
            for (key, value) in entries {
                string(key, code);
                code.push(':');
                literal(value, code);
                code.push(',');
            }
            code.push('}');
        }
    }
}

fn string(text: &str, code: &mut String) {
    code.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => code.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                code.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => code.push(c),
        }
    }
    code.push('"');
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
