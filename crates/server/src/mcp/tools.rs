//! The four tools: arguments, definitions, and short handlers.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::Language;

use super::forms::misfit;
use super::shown::Own;
use super::{GRACE, SessionHandler};
use base::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use base::limits;
use base::text::{BYTES_PER_TOKEN, brief};
use catalog::manifest::{ServerEntry, ServerState};
use catalog::{Catalog, Uses};
use config::Config;
use redact::Surface;
use run::execution::{Execution, Started, Wanted};
use upstream::Caller;

/// Every request uses them, and deriving the schemas costs more than most answers.
static DEFINITIONS: LazyLock<Vec<Tool>> = LazyLock::new(define);
/// Arguments of `execute` that a resumed run has from its journal.
const OF_JOURNAL: [&str; 2] = ["language", "code"];
/// Description of `search` after its purpose.
const SEARCH: &str = "Answers stub paths with signatures.";
/// Most bytes of server names in it.
const MAX_SERVER_NAMES: usize = 120;

/// Arguments of `ls`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LsArgs {
    path: Option<String>,
    depth: Option<u32>,
}

/// Arguments of `cat`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CatArgs {
    /// Globs work
    path: OneOrMany,
    /// 10-40; -5: last five
    lines: Option<String>,
}

/// Arguments of `search`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    /// One per step of the task
    query: OneOrMany,
    limit: Option<u32>,
    path: Option<String>,
}

/// Arguments of `execute`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecuteArgs {
    #[schemars(extend("enum" = ["javascript", "starlark"]), with = "Option<String>")]
    language: Option<Language>,
    code: Option<String>,
    timeout_secs: Option<f64>,
    dry_run: Option<bool>,
    resume: Option<String>,
    fresh: Option<Vec<String>>,
    background: Option<bool>,
    /// Proposes the script as a tool of this name
    save_as: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl SessionHandler {
    async fn ls(&self, args: JsonObject) -> Result<CallToolResult> {
        let LsArgs { path, depth } = parse("ls", args)?;
        self.gateway.usable_since_start(GRACE).await;
        self.hold_labels();
        text(self.gateway.ls(&self.session, path.as_deref().unwrap_or("/"), depth).await)
    }

    async fn cat(&self, args: JsonObject, caller: Arc<dyn Caller>) -> Result<CallToolResult> {
        let CatArgs { path, lines } = parse("cat", args)?;
        self.gateway.usable_since_start(GRACE).await;
        let (paths, context) = (path.into_vec(), self.execution_context(caller));
        text(context.request("cat", async |broker| broker.cat(0, &paths, lines.as_deref()).await).await)
    }

    async fn search(&self, args: JsonObject) -> Result<CallToolResult> {
        let SearchArgs { query, limit, path } = parse("search", args)?;
        self.gateway.usable_since_start(GRACE).await;
        text(self.gateway.search(&self.session, &query.into_vec(), limit, path.as_deref()).await)
    }

    async fn execute(&self, args: JsonObject, caller: Arc<dyn Caller>) -> Result<CallToolResult> {
        match self.begin(args, caller, false).await? {
            Started::Running { run, .. } => text(Ok(in_background(&run))),
            Started::Ended(execution) => Ok(self.answer(*execution).await),
        }
    }

    /// Runs a script, or starts it in the background, where it may ask its caller if that `follows` it.
    pub(super) async fn begin(&self, args: JsonObject, caller: Arc<dyn Caller>, follows: bool) -> Result<Started> {
        let args = parse("execute", args)?;
        let ExecuteArgs { language, code, timeout_secs, dry_run, resume, fresh, background, save_as } = args;
        let timeout = timeout_secs.map(timeout).transpose()?;
        self.gateway.usable_for(language.zip(code.as_deref()), GRACE).await;
        let (dry_run, fresh) = (dry_run.unwrap_or(false), fresh.unwrap_or_default());
        let context = self.execution_context(caller);
        let request =
            context.script(Wanted { language, code, timeout, dry_run, resume, fresh, anyway: false, save_as }).await?;
        match background {
            Some(true) => context.start(request, self.gateway.background_bounds(), follows).await,
            _ => Ok(Started::Ended(Box::new(context.execute(request).await))),
        }
    }

    /// The answer to `execute`.
    pub(super) async fn answer(&self, execution: Execution) -> CallToolResult {
        let budget = self.gateway.config().sandbox.limits.result_tokens;
        let mut content = vec![ContentBlock::text(execution.answer(&self.session, budget).await)];
        content.extend(execution.attachments.into_iter().filter_map(|block| serde_json::from_value(block).ok()));
        let Some(page) = execution.page else {
            return if execution.ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
        };
        content.extend(serde_json::from_value(page.link()));
        let mut result = CallToolResult::success(content);
        (result.structured_content, result.meta) = (page.structured, Some(MetaObject(page.meta)));
        result
    }

    /// Answers a call of one of the tools; of a script, with the run to be resumed.
    pub(super) async fn call(
        &self,
        name: &str,
        mut args: JsonObject,
        resume: Option<String>,
        caller: Arc<dyn Caller>,
    ) -> CallToolResult {
        if let Some(run) = resume.as_ref().filter(|_| name == "execute") {
            // The resumed run has the others from its journal.
            OF_JOURNAL.iter().for_each(|name| drop(args.shift_remove(*name)));
            args.insert("resume".to_owned(), Value::String(run.clone()));
        }
        let shown = self.shown();
        if shown.own != Own::None
            && let Some(answer) = self.call_direct(shown, name, &args, Arc::clone(&caller)).await
        {
            return answer.unwrap_or_else(failed);
        }
        let answer = match name {
            "ls" if shown.four => self.ls(args).await,
            "cat" if shown.four => self.cat(args, caller).await,
            "search" if shown.four => self.search(args).await,
            "execute" if shown.four => self.execute(args, caller).await,
            other => {
                if shown.four
                    && let Some(answer) = self.call_own(other, &args, resume, Arc::clone(&caller)).await
                {
                    answer
                } else {
                    let answer = self.call_by_page(other, &args, caller).await;
                    answer.unwrap_or_else(|| Err(self.unknown_tool(shown, other)))
                }
            }
        };
        answer.unwrap_or_else(failed)
    }
}

/// The answer to a script that goes on in the background.
fn in_background(run: &str) -> String {
    format!("run {run} goes on in the background: cat(\"/runs/{run}\"), or forge.runs.get(\"{run}\") in a script")
}

/// Checks the size of arguments before any work on them; returns it.
pub(super) fn bounded(args: &JsonObject) -> Result<usize> {
    let size = size(args);
    limits::ARGUMENTS.check(size).map(|()| size)
}

/// Bytes of arguments, each value with 16 bytes beside its text. The decoder has bounded their nesting.
pub(super) fn size(args: &JsonObject) -> usize {
    fn of(value: &Value) -> usize {
        const EACH: usize = 16;
        EACH + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of).sum(),
            Value::Object(object) => size(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
    args.iter().map(|(key, value)| key.len() + of(value)).sum()
}

/// Definitions of the four tools for clients of a gateway with these servers, which may let them propose scripts.
pub fn definitions(servers: &[String], proposals: bool) -> Vec<Tool> {
    let mut tools = DEFINITIONS.clone();
    if let Some(execute) = tools.iter_mut().find(|tool| tool.name == "execute" && !proposals) {
        let properties = Arc::make_mut(&mut execute.input_schema).get_mut("properties");
        properties.and_then(Value::as_object_mut).and_then(|properties| properties.shift_remove("save_as"));
    }
    if let Some(search) = tools.iter_mut().find(|tool| tool.name == "search") {
        search.description = Some(format!("Find tools{} by purpose. {SEARCH}", of(servers)).into());
    }
    tools
}

/// Estimated tokens of the four tools and the instructions, without names of servers.
pub(crate) fn shown_tokens() -> usize {
    let tools = serde_json::to_string(&definitions(&[], false)).map_or(0, |text| text.len());
    (tools + render_instructions(&[]).len()) / BYTES_PER_TOKEN
}

/// Names of servers, as many as fit. Generic descriptions make models reach for a shell instead.
fn of(servers: &[String]) -> String {
    let mut named = String::new();
    for (position, server) in servers.iter().enumerate() {
        let separator = if position == 0 { " of " } else { ", " };
        if named.len() + separator.len() + server.len() > MAX_SERVER_NAMES {
            named.push_str(if position == 0 { "" } else { ", …" });
            break;
        }
        named.push_str(separator);
        named.push_str(server);
    }
    named
}

/// Definitions of the four tools of a configuration, with the limits of a run that are set lower than usual.
pub(super) fn definitions_of(servers: &[String], config: &Config) -> Vec<Tool> {
    let mut tools = definitions(servers, config.scripts.proposals);
    let execute = tools.iter_mut().find(|tool| tool.name == "execute");
    if let (Some(lowered), Some(execute)) = (config.sandbox.limits.lowered(), execute) {
        let description = execute.description.take().unwrap_or_default();
        execute.description = Some(format!("{description} {lowered}").into());
    }
    tools
}

fn define() -> Vec<Tool> {
    vec![
        tool::<LsArgs>("ls", "List tools", "List a folder: servers, categories, tools.", true),
        tool::<CatArgs>("cat", "Read tool stubs", "Read stubs, docs (.md) and /results.", true),
        tool::<SearchArgs>("search", "Search tools", SEARCH, true),
        tool::<ExecuteArgs>(
            "execute",
            "Run a script",
            "Run one script that calls any number of tools; returns its value and output. No network, files or imports.",
            false,
        ),
    ]
}

/// Identifiers of a catalog's servers: those known from files alone last, else the most used first, then the largest.
pub fn server_names(catalog: &Catalog, uses: &Uses) -> Vec<String> {
    let mut servers: Vec<&ServerEntry> = catalog.servers().iter().map(|server| &**server).collect();
    // Other states pass: they do not change what a client has shown its model already.
    let is_offline = |server: &ServerEntry| server.state == ServerState::Offline;
    let calls = |server: &ServerEntry| uses.get(&server.ident).copied().unwrap_or_default();
    servers.sort_by(|a, b| {
        let by_size = b.stubs.tools.len().cmp(&a.stubs.tools.len());
        is_offline(a).cmp(&is_offline(b)).then(calls(b).total_cmp(&calls(a))).then(by_size)
    });
    servers.into_iter().map(|server| server.ident.clone()).collect()
}

/// Instructions for clients of a gateway with these servers.
pub fn render_instructions(servers: &[String]) -> String {
    // The description of `search` names them.
    let named = match servers.len() {
        0 => "No MCP servers".to_owned(),
        1 => "An MCP server".to_owned(),
        many => format!("{many} MCP servers"),
    };
    include_str!("../../templates/instructions.txt").trim_end().replace("SERVERS", &named)
}

fn tool<A: JsonSchema>(name: &'static str, title: &str, description: &'static str, read_only: bool) -> Tool {
    let mut schema =
        schemars::SchemaGenerator::new(schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        }))
        .into_root_schema_for::<A>();
    schema.remove("title");
    schema.remove("description");
    let mut schema = schema.to_value();
    tidy(&mut schema);
    let schema: JsonObject = serde_json::from_value(schema).unwrap_or_default();
    let annotations = ToolAnnotations::new().read_only(read_only).open_world(!read_only);
    Tool::new(Cow::Borrowed(name), Cow::Borrowed(description), Arc::new(schema)).with_title(title).annotate(annotations)
}

/// Every agent pays for these bytes on every turn: number formats and "or null" carry nothing that it needs.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.shift_remove("format");
            object.shift_remove("minimum");
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn parse<A: DeserializeOwned + JsonSchema>(tool: &str, mut args: JsonObject) -> Result<A> {
    let schema = DEFINITIONS.iter().find(|it| it.name == tool).map(|it| &*it.input_schema);
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    let known: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    // Some models fill what they leave out.
    let is_empty = |value: &Value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    let required = schema.and_then(|schema| schema.get("required"));
    let needs = |key: &str| required.and_then(Value::as_array).is_some_and(|all| all.iter().any(|it| it == key));
    let is_new = args.get("resume").is_none_or(is_empty);
    args.retain(|key, value| needs(key) || (key == "code" && is_new) || !is_empty(value));
    let takes = || format!("`{tool}` takes {}", known.join(", "));
    if let Some(key) = args.keys().find(|key| !known.contains(&key.as_str())) {
        let hint = did_you_mean(&nearest(key, known.iter().copied())).unwrap_or_else(takes);
        return Err(Error::new(ErrorCode::InvalidArgs, format!("`{tool}` has no argument `{}`", brief(key))).hint(hint));
    }
    for (key, value) in &mut args {
        let schema = properties.and_then(|properties| properties.get(key));
        if let Some(form) = schema.and_then(|schema| misfit(schema, value)) {
            let message = format!("`{tool}`: `{key}` is {}, and takes {form}", brief(&value.to_string()));
            return Err(Error::new(ErrorCode::InvalidArgs, message).hint(takes()));
        }
    }
    serde_json::from_value(Value::Object(args)).map_err(|error| {
        Error::new(ErrorCode::InvalidArgs, format!("`{tool}`: {}", brief(&error.to_string()))).hint(takes())
    })
}

/// Parses a client's timeout.
fn timeout(seconds: f64) -> Result<Duration> {
    let wrong =
        || Error::new(ErrorCode::InvalidArgs, format!("`timeout_secs` is {seconds}")).hint("give seconds, more than 0");
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if timeout > Duration::ZERO => Ok(timeout),
        _ => Err(wrong()),
    }
}

fn text(answer: Result<String>) -> Result<CallToolResult> {
    Ok(CallToolResult::success(vec![ContentBlock::text(answer?)]))
}

/// A request's error and its suggestions may contain servers' words.
pub(super) fn failed(error: Error) -> CallToolResult {
    let error = redact::error(Surface::ToolError, error);
    CallToolResult::error(vec![ContentBlock::text(format!("{error}\nfix: {}", error.suggested_fix()))])
}
