//! Form in which a client's tools are shown: the four tools, the servers' own, or both.
//!
//! A call of a server's own tool goes through the same broker as a script's. Since such a call is a run of one request,
//! labels and groups accumulate over the session.

use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ListToolsResult, PaginatedRequestParams, Tool};
use serde_json::{Map, Value, json as made_of};

use super::resources::paged;
use super::{SessionHandler, render_instructions};
use base::error::{Error, ErrorCode, Result};
use base::kept::{self, BoundedMap};
use base::task;
use base::text::{BYTES_PER_TOKEN, brief};
use catalog::manifest::Phase;
use catalog::{Catalog, Named};
use config::{Config, Expose, Matcher};
use redact::Surface;
use run::broker::{ExecutionContext, OF_PAGE, TOOL_REQUEST, address_pages};
use upstream::Caller;

/// Tokens of definitions up to which `auto` is `direct`: about what the four tools and reading stubs cost in a task.
pub const AUTO_TOKENS: usize = 1_000;

/// Instructions for clients that have the servers' own tools alone.
pub const INSTRUCTIONS: &str = "Tools of several MCP servers, as SERVER__TOOL. What one call returned of a server may \
                                       be refused as input of another: the operator's rules hold over the whole session.";

/// Bytes that definitions take as values, for each of their text.
const GROWTH: usize = 10;

/// Pages that were made.
static PAGES: LazyLock<Mutex<BoundedMap<PageOf, Arc<Page>>>> =
    LazyLock::new(|| Mutex::new(BoundedMap::new(&kept::PAGES)));

/// Inputs of a page. Catalog and configuration are addresses, which are not used again while the page is kept.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PageOf {
    catalog: usize,
    config: usize,
    edition: u64,
    profile: Option<String>,
    own: Own,
    cursor: Option<String>,
    /// True for a client that shows pages of servers.
    has_apps: bool,
}

/// A page of the servers' own tools.
struct Page {
    tools: Vec<Tool>,
    next: Option<String>,
    _of: (Weak<Catalog>, Weak<Config>),
}

/// Tools that a client is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// True for the four tools.
    pub(super) four: bool,
    /// The servers' own.
    pub(super) own: Own,
}

/// Servers' own tools that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Own {
    None,
    /// Those that the profile chooses.
    Chosen,
    All,
}

/// A client's wish within its profile. `Err` names the form that is allowed.
pub fn narrowed(allowed: Expose, asked: Option<Expose>) -> std::result::Result<Expose, Expose> {
    match (allowed, asked) {
        (allowed, None | Some(Expose::Auto)) => Ok(allowed),
        (allowed, Some(asked)) if allowed == asked => Ok(allowed),
        (Expose::Hybrid | Expose::Auto, Some(asked @ (Expose::Code | Expose::Direct))) => Ok(asked),
        (allowed, _) => Err(allowed),
    }
}

impl SessionHandler {
    /// The form in which its tools are shown now.
    pub(super) fn shown(&self) -> Shown {
        let (allowed, most) = self.gateway.exposed(self.session.principal());
        // A narrower profile came into force: what it allows.
        let expose = narrowed(allowed, self.asked).unwrap_or(allowed);
        let own = if allowed == Expose::Hybrid { Own::Chosen } else { Own::All };
        match expose {
            Expose::Code => Shown { four: true, own: Own::None },
            Expose::Direct => Shown { four: false, own },
            Expose::Hybrid => Shown { four: true, own },
            Expose::Auto => {
                let catalog = self.catalog();
                let most = most.unwrap_or(AUTO_TOKENS);
                let is_few = task::work_on(catalog.servers().len() << 14, || has_few(&catalog, most));
                // While servers start it is not decided: both, lest there be no tool at all.
                let is_open = is_few && *self.gateway.changes().borrow() < Phase::Usable;
                Shown { four: is_open || !is_few, own: if is_few { Own::All } else { Own::None } }
            }
        }
    }

    /// One page of the tools that it is shown.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a cursor of another list.
    pub(super) fn listed(&self, asked: Option<PaginatedRequestParams>, has_apps: bool) -> Result<ListToolsResult> {
        let shown = self.shown();
        let mut first = if shown.four { self.definitions() } else { Vec::new() };
        if has_apps {
            // A page of a server is no agent.
            let meta = made_of!({"ui": {"visibility": ["model"]}});
            first.iter_mut().for_each(|tool| tool.meta = serde_json::from_value(meta.clone()).ok());
        }
        if shown.own == Own::None {
            // One page, which no cursor leads to.
            return super::resources::paged(std::iter::empty::<Tool>(), asked, "", |_| 0)
                .map(|_| ListToolsResult::with_all_items(first));
        }
        if asked.as_ref().is_some_and(|asked| asked.cursor.is_some()) {
            first.clear();
        }
        let page = self.page(shown, asked, has_apps)?;
        first.extend(page.tools.iter().cloned());
        Ok(ListToolsResult { next_cursor: page.next.clone(), ..ListToolsResult::with_all_items(first) })
    }

    /// One page of the servers' own tools. It is kept by what it is made of: catalog, configuration, listed secrets, profile
    /// and form.
    fn page(&self, shown: Shown, asked: Option<PaginatedRequestParams>, has_apps: bool) -> Result<Arc<Page>> {
        let (catalog, config) = (self.catalog(), self.gateway.config());
        let (of_catalog, of_config) = (Arc::downgrade(&catalog), Arc::downgrade(&config));
        let key = PageOf {
            catalog: of_catalog.as_ptr() as usize,
            config: of_config.as_ptr() as usize,
            edition: redact::secret::edition(),
            profile: self.gateway.profile_of(self.session.principal()),
            own: shown.own,
            cursor: asked.as_ref().and_then(|asked| asked.cursor.clone()),
            has_apps,
        };
        if let Some(page) = PAGES.lock().get(&key) {
            return Ok(Arc::clone(page));
        }
        let is_shown = self.shows(shown);
        let is_its = |named: &Named<'_>| (has_apps || !named.tool.is_for_pages()) && is_shown(named);
        let size = |named: &Named<'_>| named.tool.definition.text_bytes();
        let (page, next) = paged(catalog.named_tools().filter(is_its), asked, catalog.digest(), size)?;
        let bytes = page.iter().map(size).sum::<usize>();
        let surface = Surface::Answer(config.redaction);
        let tools = task::work_on(bytes, || page.iter().map(|named| definition(named, surface, has_apps)).collect());
        let page = Arc::new(Page { tools, next, _of: (of_catalog, of_config) });
        PAGES.lock().insert(key, Arc::clone(&page), bytes * GROWTH);
        Ok(page)
    }

    /// Digest of what it is shown, but for the descriptions of the four.
    pub(super) fn shown_digest(&self) -> String {
        let (shown, catalog) = (self.shown(), self.catalog());
        let mut all = format!("{shown:?}\n");
        if shown.four {
            let own = self.own_tools();
            all.push_str(&serde_json::to_string(&own).unwrap_or_default());
        }
        if shown.own != Own::None {
            for named in catalog.named_tools().filter(self.shows(shown)) {
                all.push_str(&format!("{} {}\n", named.name, named.tool.full_digest()));
            }
        }
        stubgen::digest(&all)
    }

    /// Instructions in the form that it is shown. `auto` is decided once the servers have listed their tools: until then
    /// they say both.
    pub(super) fn instructions(&self) -> String {
        let four = || render_instructions(&self.server_names());
        let is_open = self.gateway.exposed(self.session.principal()).0 == Expose::Auto && self.asked.is_none();
        match self.shown().four {
            _ if is_open && *self.gateway.changes().borrow() < Phase::Usable => format!("{}\n\n{INSTRUCTIONS}", four()),
            true => four(),
            false => INSTRUCTIONS.to_owned(),
        }
    }

    /// True if the tools that it is shown may change while it is connected.
    pub(super) fn changes_tools(&self) -> bool {
        let (allowed, _) = self.gateway.exposed(self.session.principal());
        let has_own = || self.gateway.config().scripts.tools.values().any(|rule| rule.as_tool);
        allowed != Expose::Code || has_own()
    }

    /// True for one of the servers' own tools that is shown, where any is.
    fn shows(&self, shown: Shown) -> impl Fn(&Named<'_>) -> bool {
        let chosen = (shown.own == Own::Chosen).then(|| self.gateway.directly(self.session.principal()));
        move |Named { server, tool, .. }: &Named<'_>| {
            let is_chosen = |chosen: &Matcher| chosen.is_match(&format!("{}.{}", server.name, tool.name));
            !self.gateway.is_left_to_scripts(&server.name, &tool.name) && chosen.as_ref().is_none_or(is_chosen)
        }
    }

    /// Definition of a tool that is shown.
    pub(super) fn definition_of(&self, name: &str) -> Option<Tool> {
        let shown = self.shown();
        let of_four = || self.definitions().into_iter().find(|tool| tool.name == name);
        shown.four.then(of_four).flatten().or_else(|| {
            let catalog = self.catalog();
            let named = self.find(&catalog, shown, name)?;
            Some(definition(&named, Surface::Answer(self.gateway.config().redaction), false))
        })
    }

    fn find<'a>(&self, catalog: &'a Catalog, shown: Shown, name: &str) -> Option<Named<'a>> {
        let named = catalog.named_tool(name).filter(|_| shown.own != Own::None);
        named.filter(self.shows(shown))
    }

    /// Calls one of the servers' own tools; `None` if none of this name is shown.
    pub(super) async fn call_direct(
        &self,
        shown: Shown,
        name: &str,
        args: &JsonObject,
        caller: Arc<dyn Caller>,
    ) -> Option<Result<CallToolResult>> {
        if self.find(&self.catalog(), shown, name).is_none() {
            self.gateway.usable_since_start(super::GRACE).await;
        }
        let catalog = self.catalog();
        let named =
            self.find(&catalog, shown, name).filter(|named| !named.tool.is_for_pages() || caller.shows_apps())?;
        Some(self.call_named(TOOL_REQUEST, &catalog, &named, args, caller).await)
    }

    /// Calls a tool that a page calls by its server's own name for it; `None` for a client without pages.
    pub(super) async fn call_by_page(
        &self,
        name: &str,
        args: &JsonObject,
        caller: Arc<dyn Caller>,
    ) -> Option<Result<CallToolResult>> {
        if !caller.shows_apps() {
            return None;
        }
        self.gateway.usable_since_start(super::GRACE).await;
        let (catalog, whole, config) = (self.catalog(), self.gateway.catalog(), self.gateway.config());
        let server = match whole.server_for_pages(name) {
            Ok(server) => &server?.name,
            Err(error) => return Some(Err(error)),
        };
        let is_callable = |named: &Named<'_>| !self.gateway.is_left_to_scripts(&named.server.name, &named.tool.name);
        let named = catalog.tool_for_pages(server, name).filter(is_callable)?;
        if config.state.is_some() && config.has_labels() {
            let message = "pages call no tools here: what they hold for flows and strict groups is known to one process, and \
                           there is a store for several";
            return Some(Err(Error::new(ErrorCode::ToolDenied, message).hint("call it in a script")));
        }
        Some(self.call_named(OF_PAGE, &catalog, &named, args, caller).await)
    }

    async fn call_named(
        &self,
        request: &'static str,
        catalog: &Arc<Catalog>,
        named: &Named<'_>,
        args: &JsonObject,
        caller: Arc<dyn Caller>,
    ) -> Result<CallToolResult> {
        let is_structured = output_schema(named.tool.definition.tree().as_object()).is_some();
        let context = ExecutionContext { catalog: Arc::clone(catalog), ..self.execution_context(caller) };
        let args = Value::Object(args.clone()).to_string();
        let called = context.request(request, async |broker| {
            let (value, whole) = broker.call_named(named.name, &args).await?;
            let Some(mut whole) = whole else {
                let settled = broker.attachments().settle(value.clone(), |uri| catalog.may_list(uri));
                let value = settled.value.unwrap_or(value);
                return Ok(made_of!([value, null, settled.blocks, settled.left_out]));
            };
            if let Some(meta) = whole.get_mut("_meta") {
                address_pages(&named.server.ident, meta);
            }
            let content = whole["content"].take();
            let settled = broker.attachments().settle(content.clone(), |uri| catalog.may_list(uri));
            whole["content"] = settled.value.unwrap_or(content);
            let value = if whole.get("structuredContent").is_some() { Value::Null } else { value };
            Ok(made_of!([value, whole, settled.blocks, settled.left_out]))
        });
        called.await.map(|answer| result(answer, is_structured))
    }

    /// The error for a tool that is not there.
    pub(super) fn unknown_tool(&self, shown: Shown, name: &str) -> Error {
        let hint = match (shown.four, shown.own) {
            (true, Own::None) => {
                "there are `ls`, `cat`, `search` and `execute`; tools of servers are called inside `execute`"
            }
            (true, _) => "`tools/list` has the tools; those that it does not have are called inside `execute`",
            (false, _) => "`tools/list` has the tools",
        };
        Error::new(ErrorCode::ToolNotFound, format!("there is no tool `{}`", brief(name))).hint(hint)
    }
}

/// True if the definitions of all tools have at most this many tokens, estimated.
pub fn has_few(catalog: &Catalog, tokens: usize) -> bool {
    catalog.definition_bytes() / BYTES_PER_TOKEN <= tokens
}

/// Value of a tool's answer, the answer as it came, blocks of content behind handles, and the number of those left out.
type Answer = (Value, Option<JsonObject>, Vec<Value>, Value);

/// The answer of a tool: its value as text, then the content that has handles in it.
fn result(answer: Value, is_structured: bool) -> CallToolResult {
    let Ok((value, whole, blocks, left_out)) = serde_json::from_value::<Answer>(answer) else {
        return CallToolResult::success(Vec::new());
    };
    let (mut whole, mut blocks) = (whole.unwrap_or_default(), blocks.into_iter());
    // A block of a kind that MCP does not have is a text.
    let decoded = |block: Value| {
        let text = ContentBlock::text(block.to_string());
        serde_json::from_value::<ContentBlock>(block).unwrap_or(text)
    };
    let parts = whole.shift_remove("content").and_then(|parts| serde_json::from_value::<Vec<Value>>(parts).ok());
    let structured = whole.shift_remove("structuredContent");
    let mut content: Vec<ContentBlock> = parts
        .unwrap_or_default()
        .into_iter()
        // Behind those over the limit there is none.
        .filter_map(|part| if part.get("handle").is_some() { blocks.next() } else { Some(part) })
        .map(decoded)
        .collect();
    // Structured content that is no object has no other place for most clients.
    if content.is_empty() || structured.as_ref().is_some_and(|structured| !structured.is_object()) {
        content.push(ContentBlock::text(match structured.as_ref().unwrap_or(&value) {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }));
    }
    content.extend(blocks.map(decoded));
    if let Some(left_out) = left_out.as_u64().filter(|number| *number > 0) {
        content.push(ContentBlock::text(format!("{left_out} images or files are left out: too much content")));
    }
    let mut result = CallToolResult::success(content);
    // A client with a schema of results wants one that the text alone has.
    let fitting = Some(value).filter(|value| is_structured && value.is_object());
    result.structured_content = structured.filter(Value::is_object).or(fitting);
    result.meta = whole.shift_remove("_meta").and_then(|meta| serde_json::from_value(meta).ok());
    result
}

/// Its schema of results, if clients know it: of an object.
fn output_schema(definition: Option<&Map<String, Value>>) -> Option<&Map<String, Value>> {
    let schema = definition?.get("outputSchema")?.as_object()?;
    (schema.get("type").and_then(Value::as_str) == Some("object")).then_some(schema)
}

/// The definition for `tools/list`: the server's own, under its own name, with its metadata for a client that `has_apps`.
/// Fields that MCP does not know are left out.
fn definition(named: &Named<'_>, surface: Surface, has_apps: bool) -> Tool {
    let own = named.tool.definition.tree();
    let own = own.as_object();
    let field = |key: &str| own.and_then(|own| own.get(key));
    let mut schema = field("inputSchema").and_then(Value::as_object).cloned().unwrap_or_default();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        schema.shift_insert(0, "type".to_owned(), "object".into());
    }
    let mut made = Map::new();
    made.insert("name".to_owned(), named.name.into());
    made.insert("inputSchema".to_owned(), Value::Object(schema.clone()));
    for key in ["title", "description"] {
        if let Some(text) = field(key).and_then(Value::as_str) {
            made.insert(key.to_owned(), text.into());
        }
    }
    if let Some(schema) = output_schema(own) {
        made.insert("outputSchema".to_owned(), Value::Object(schema.clone()));
    }
    if let Some(notes) = field("annotations").filter(|notes| notes.is_object()) {
        made.insert("annotations".to_owned(), notes.clone());
    }
    if let Some(meta) = field("_meta").filter(|_| has_apps && named.tool.app.is_some()) {
        let mut meta = meta.clone();
        address_pages(&named.server.ident, &mut meta);
        made.insert("_meta".to_owned(), meta);
    }
    let plain = || Tool::new(named.name.to_owned(), String::new(), Arc::new(schema));
    let made = redact::json(surface, Value::Object(made));
    serde_json::from_value(made).unwrap_or_else(|_| plain())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_narrows_what_its_profile_allows_and_nothing_else() {
        use Expose::{Auto, Code, Direct, Hybrid};
        let all = [None, Some(Code), Some(Direct), Some(Hybrid), Some(Auto)];
        for (allowed, results) in [
            (Code, [Some(Code), Some(Code), None, None, Some(Code)]),
            (Direct, [Some(Direct), None, Some(Direct), None, Some(Direct)]),
            (Hybrid, [Some(Hybrid), Some(Code), Some(Direct), Some(Hybrid), Some(Hybrid)]),
            (Auto, [Some(Auto), Some(Code), Some(Direct), None, Some(Auto)]),
        ] {
            for (asked, result) in all.into_iter().zip(results) {
                assert_eq!(narrowed(allowed, asked).ok(), result, "{allowed:?} {asked:?}");
            }
        }
    }
}
