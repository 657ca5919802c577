//! Lists a server's tools, resources, resource templates and prompts, all pages of each.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ErrorCode as RpcCode, PaginatedRequestParams, RequestOptionalParam, ServerCapabilities,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::Client;
use super::failure::{excerpt, is_about_session};
use super::others::Found;
use super::results::value_of;
use super::tasks;
use crate::mcp::request::Unanswerable;
use crate::{Listing, NO_TOOLS, Progress};
use base::error::{Error, ErrorCode, Result};
use base::text::brief;
use base::{json, limits, memory, task};

/// Least bytes that an entry counts for: the values made of it take more than its text.
const LEAST_ENTRY: usize = 512;
/// Memory that the values of a definition may take per byte of JSON before the surplus counts.
const TREE_BYTES_A_BYTE: usize = 16;
/// Most entries of each list other than the tools.
const MAX_ENTRIES: usize = limits::OFFERS.max;
/// How long the lists besides the tools may take, so that a server that never answers one still has its tools.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The four lists.
#[derive(Clone, Copy)]
enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    /// The request of a page. A cursor that is no text goes back as it came, which rmcp has no type for.
    fn request(self, cursor: Option<Value>) -> ClientRequest {
        fn page<M: Default>(cursor: Option<String>) -> RequestOptionalParam<M, PaginatedRequestParams> {
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            RequestOptionalParam { params, ..RequestOptionalParam::default() }
        }
        let cursor = match cursor {
            None => None,
            Some(Value::String(cursor)) => Some(cursor),
            Some(cursor) => return tasks::request(self.names().0, json!({ "cursor": cursor })),
        };
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(page(cursor)),
            Self::Resources => ClientRequest::ListResourcesRequest(page(cursor)),
            Self::Templates => ClientRequest::ListResourceTemplatesRequest(page(cursor)),
            Self::Prompts => ClientRequest::ListPromptsRequest(page(cursor)),
        }
    }

    /// Method, and the key of the list in its answer.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools/list", "tools"),
            Self::Resources => ("resources/list", "resources"),
            Self::Templates => ("resources/templates/list", "resourceTemplates"),
            Self::Prompts => ("prompts/list", "prompts"),
        }
    }
}

impl Client {
    /// Lists everything that the server declares.
    ///
    /// # Errors
    /// When the tools cannot be listed.
    pub(super) async fn list(self: &Arc<Self>, progress: &Progress) -> Result<Listing> {
        let mut listing = Listing { offered: self.revision.get(), ..Listing::default() };
        let (mut tools, mut resources, mut prompts, mut declares) = (true, true, true, true);
        if let Some(info) = self.service.peer_info() {
            listing.protocol = info.protocol_version.to_string();
            listing.instructions.clone_from(&info.instructions);
            let declared = &info.capabilities;
            (tools, resources, prompts) =
                (declared.tools.is_some(), declared.resources.is_some(), declared.prompts.is_some());
            declares = *declared != ServerCapabilities::default();
            listing.tells_changes = declared.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        }
        // No other list takes the room of the tools.
        let for_tools = Allowance::default();
        let others = (resources || prompts).then(|| self.ask_others(resources, prompts));
        let began = Instant::now();
        let mut refusal = None;
        if tools || !declares {
            let tools = self.all_tools(declares, progress, &for_tools).await?;
            (listing.tools, listing.ttl_ms, refusal) = (tools.entries, tools.ttl_ms, tools.refusal);
            listing.notes.extend(tools.breaks_off);
            self.tasks.listed(tools.tasks);
        }
        if listing.tools.is_empty() {
            let why = match (refusal, tools) {
                (Some(why), _) => format!("it declares nothing, and was asked in vain: {why}"),
                (None, true) => "its list is empty".to_owned(),
                (None, false) => "it declares none".to_owned(),
            };
            listing.notes.push(format!("{NO_TOOLS}: {why}"));
        }
        let mut found = Arc::default();
        if let Some(others) = others {
            (found, listing.is_partial) = self.others_soon(others, began.elapsed()).await;
            if found.lists.is_empty() {
                listing.notes.push("its resources and prompts are not listed yet".to_owned());
            }
        }
        let lists = [&mut listing.resources, &mut listing.templates, &mut listing.prompts];
        for (list, found) in lists.into_iter().zip(&found.lists) {
            match found {
                Ok(Entries { entries, breaks_off, .. }) => {
                    listing.notes.extend(breaks_off.clone());
                    if entries.len() > MAX_ENTRIES {
                        listing.notes.push(format!("only {MAX_ENTRIES} of {} entries are shown", entries.len()));
                    }
                    list.extend(entries.iter().take(MAX_ENTRIES).cloned());
                }
                Err(note) => listing.notes.push(note.clone()),
            }
        }
        let taken = for_tools.taken() + found.taken + listing.instructions.as_ref().map_or(0, String::len);
        let room = memory::Listed::take(self.name(), taken);
        listing.room = Some(Arc::new(room.map_err(|full| self.upstream(format!("{full}; {}", full.hint())))?));
        Ok(listing)
    }

    /// Lists the tools. A server that declares nothing may have forgotten to, and is asked once.
    async fn all_tools(&self, declares: bool, progress: &Progress, left: &Allowance) -> Result<Entries> {
        let answer = self.all(List::Tools, progress, left);
        if declares {
            return answer.await.map_err(|failed| failed.into_fault(self));
        }
        match tokio::time::timeout(self.patience, answer).await {
            Ok(Err(failed)) if failed.is_answer() => Ok(Entries::refused(&failed.describe(self))),
            Ok(answer) => answer.map_err(|failed| failed.into_fault(self)),
            Err(_) => Ok(Entries::refused("no answer to `tools/list`")),
        }
    }

    /// Lists everything but the tools. A failed list is left out with a note.
    pub(super) async fn list_others(&self, resources: bool, prompts: bool) -> Found {
        let (left, progress) = (Allowance::default(), Progress::default());
        let (left, progress, patience) = (&left, &progress, self.patience);
        let patiently = |list, declared: bool| async move {
            if !declared {
                return Ok(Entries::default());
            }
            match tokio::time::timeout(patience, self.all(list, progress, left)).await {
                Ok(answer) => answer.map_err(|failed| failed.describe(self)),
                Err(_) => Err(format!("no answer to `{}` within {patience:?}", list.names().0)),
            }
        };
        let (resources, templates, prompts) = tokio::join!(
            patiently(List::Resources, resources),
            patiently(List::Templates, resources),
            patiently(List::Prompts, prompts),
        );
        Found { lists: vec![resources, templates, prompts], taken: left.taken() }
    }

    async fn all(&self, list: List, progress: &Progress, left: &Allowance) -> Result<Entries, Failed> {
        let (method, mut all) = (list.names().0, Entries::default());
        let mut cursors: Vec<Value> = Vec::new();
        for _ in 0..limits::PAGES.max {
            let mut answer = self.page(list, cursors.last().cloned(), progress).await;
            if !cursors.is_empty() && answer.as_ref().is_err_and(Failed::is_answer) {
                // It may be for the moment.
                answer = self.page(list, cursors.last().cloned(), progress).await;
            }
            let (mut page, next) = match answer {
                Ok(page) => page,
                // For most servers an empty cursor is none.
                Err(_) if cursors.last().is_some_and(|last| last == "") => return Ok(all),
                Err(failed) if cursors.is_empty() || !failed.is_answer() => return Err(failed),
                Err(failed) => {
                    let (pages, why) = (cursors.len(), failed.describe(self));
                    all.breaks_off = Some(format!("its `{method}` breaks off after page {pages}: {}", brief(&why)));
                    return Ok(all);
                }
            };
            if cursors.last().is_some_and(|last| last == "") {
                // For most servers this is the first page.
                let known: HashSet<String> = all.entries.iter().map(identity).collect();
                page.entries.retain(|entry| !known.contains(&identity(entry)));
                if page.entries.is_empty() {
                    return Ok(all);
                }
            }
            task::work_on(usize::MAX, || left.take(&page.entries)).map_err(Failed::Odd)?;
            all.entries.extend(page.entries);
            all.ttl_ms = page.ttl_ms;
            all.tasks.extend(page.tasks);
            let Some(next) = next.filter(|next| cursors.last() != Some(next)) else { return Ok(all) };
            let bytes = next.as_str().map_or_else(|| next.to_string().len(), str::len);
            if bytes > limits::NEXT_CURSOR.max {
                return Err(Failed::Odd(limits::NEXT_CURSOR.exceeded(ErrorCode::UpstreamError, bytes).message));
            }
            if cursors.contains(&next) {
                if cursors.iter().any(|cursor| cursor == "") {
                    return Ok(all);
                }
                return Err(Failed::Odd(format!("its pages of `{method}` lead in a circle: one cursor came twice")));
            }
            cursors.push(next);
        }
        let pages = limits::PAGES.max;
        Err(Failed::Odd(format!("its answer to `{method}` has more than {pages} pages, which is the limit")))
    }

    /// Fetches one page as raw JSON. rmcp's own types refuse a whole list for one odd entry, so what they cannot parse
    /// arrives as a custom result and is used as it is.
    async fn page(
        &self,
        list: List,
        cursor: Option<Value>,
        progress: &Progress,
    ) -> Result<(Entries, Option<Value>), Failed> {
        let (method, key) = list.names();
        let answer = match self.exchange(list.request(cursor), progress).await {
            Ok(answer) => answer,
            // Libraries declare capabilities, their users implement lists: method not found means an empty list.
            Err(Unanswerable { error: ServiceError::McpError(data), .. })
                if data.code == RpcCode::METHOD_NOT_FOUND && !matches!(list, List::Tools) =>
            {
                return Ok((Entries::default(), None));
            }
            Err(Unanswerable { error, .. }) => return Err(Failed::Service(error, method)),
        };
        let mut answer = value_of(answer);
        let is_cursor = |next: &Value| !matches!(next, Value::Null | Value::Bool(false));
        let next = answer.get_mut("nextCursor").map(Value::take).filter(is_cursor);
        let ttl_ms = answer.get("ttlMs").and_then(Value::as_u64);
        let tasks = tasks::required(&answer);
        match answer.get_mut(key).map(Value::take) {
            Some(Value::Array(entries)) => Ok((Entries { entries, ttl_ms, tasks, ..Entries::default() }, next)),
            // An empty list in Go.
            Some(Value::Null) => Ok((Entries::default(), next)),
            _ => {
                let came = excerpt(answer.to_string().as_bytes());
                Err(Failed::Odd(format!("it answered `{method}` without a list of {key}: {came}")))
            }
        }
    }
}

/// Remaining bytes of JSON for one server's lists. A page is counted before it is kept.
#[derive(Default)]
struct Allowance(AtomicUsize);

impl Allowance {
    /// Counts the entries of a page. Each counts for at least [`LEAST_ENTRY`] and for part of the memory of its values,
    /// so that tiny entries or values cannot make a list larger than its bytes.
    fn take(&self, entries: &[Value]) -> Result<(), String> {
        let count = |entry: &Value| {
            let text = entry.to_string();
            let tree = json::measure(text.as_bytes()).map_or(usize::MAX, |found| found.tree_bytes / TREE_BYTES_A_BYTE);
            text.len().max(tree).max(LEAST_ENTRY)
        };
        let most = memory::list_bytes();
        for entry in entries {
            let bytes = count(entry);
            let taken = self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            if taken > most {
                return Err(format!(
                    "its list has more than {most} bytes, the limit for one server; raise `memory.list` if that is right"
                ));
            }
        }
        Ok(())
    }

    fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Entries of a list, and the time in milliseconds that the server says they stay valid.
#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<Value>,
    ttl_ms: Option<u64>,
    /// Why a server that declares nothing has no list.
    refusal: Option<String>,
    /// Why the list has only the first pages.
    breaks_off: Option<String>,
    /// Names of tools that require a task.
    tasks: Vec<String>,
}

impl Entries {
    fn refused(why: &str) -> Self {
        Self { refusal: Some(brief(why).into_owned()), ..Self::default() }
    }
}

/// Reason for a missing list.
enum Failed {
    Service(ServiceError, &'static str),
    Odd(String),
}

/// The name or address of an entry, which tells it from the others.
fn identity(entry: &Value) -> String {
    let name = ["name", "uri", "uriTemplate"].iter().find_map(|key| entry.get(*key)?.as_str());
    name.map_or_else(|| entry.to_string(), str::to_owned)
}

impl Failed {
    /// True if the server answered, and is there.
    fn is_answer(&self) -> bool {
        match self {
            Self::Service(ServiceError::McpError(data), _) => !is_about_session(data),
            Self::Service(..) => false,
            Self::Odd(_) => true,
        }
    }

    fn into_fault(self, client: &Client) -> Error {
        match self {
            Self::Service(error, _) => {
                let mut fault = client.fault(error);
                if fault.code == ErrorCode::InvalidArgs {
                    // They are not those of a call.
                    fault.code = ErrorCode::UpstreamError;
                }
                fault
            }
            Self::Odd(what) => client.upstream(what),
        }
    }

    /// A note for listings.
    fn describe(self, client: &Client) -> String {
        match self {
            Self::Service(error, method) => format!("`{method}` failed: {}", client.fault(error).message),
            Self::Odd(what) => what,
        }
    }
}
