//! Scripts that are MCP tools of their own, beside the four. A call of one is a script of one line, so that it is
//! recorded, resumed and cut to size as any other.

use std::io;
use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
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
                let code = format!("{}(**{})", script.label, literal(args));
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

/// Arguments as a literal of Starlark.
fn literal(args: &JsonObject) -> String {
    let mut out = Vec::new();
    // It fails for no JSON.
    let _ = args.serialize(&mut Serializer::with_formatter(&mut out, Starlark));
    String::from_utf8_lossy(&out).into_owned()
}

/// Form of JSON that Starlark reads.
struct Starlark;

impl Formatter for Starlark {
    fn write_null<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b"None")
    }

    fn write_bool<W: io::Write + ?Sized>(&mut self, out: &mut W, value: bool) -> io::Result<()> {
        out.write_all(if value { b"True" } else { b"False" })
    }

    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        fragment.chars().try_for_each(|c| match c {
            // Ends of lines elsewhere.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => write!(out, "\\U{:08x}", u32::from(c)),
            c => write!(out, "{c}"),
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
