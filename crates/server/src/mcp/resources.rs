//! Resources, prompts and completions as MCP: the stub tree, and the resources and prompts of the servers.
//!
//! A URI is `forge://` and a path of the virtual filesystem: `forge:///github/issues/create_issue.pyi` is a stub, and
//! `forge:///github/resources/repo://owner/name` the resource `repo://owner/name` of the server `github`. So servers'
//! URIs never collide, and no URI changes when a server comes or goes. A URI without the prefix works too if exactly
//! one server lists it or has a template for it. A prompt is `github.review`: an identifier has no dot.
//!
//! Servers' lists are redacted like their answers. A resource with a secret in its URI is listed, and read, by its path
//! in the filesystem; a prompt with one in its name, by the name of its file.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, MetaObject, PaginatedRequestParams, Prompt, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, ResultType,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{SessionHandler, skills};
use base::error::{Error, ErrorCode, Result, code_name};
use base::limits;
use base::meter::{Halt, Meter, metered_as};
use base::text::brief;
use catalog::manifest::{Offer, ServerEntry};
use catalog::{Catalog, Node, Remote};
use redact::Surface;
use run::broker::{address, address_pages, resource_uri};
use stubgen::APP_SCHEME;
use upstream::{Caller, Subject};

/// Entries per page.
const PAGE: usize = 200;
/// Bytes of a page whose items differ in size.
const PAGE_BYTES: usize = 1 << 20;
/// Most servers named as owners of a resource or prompt.
const NAMED: usize = 10;
/// Step limit for finding a path, or the server of a URI.
const FIND_STEPS: u64 = 10_000_000;

impl SessionHandler {
    pub(super) async fn resources(&self, page: Option<PaginatedRequestParams>) -> Result<ListResourcesResult> {
        let catalog = self.ready_catalog().await;
        let nodes = catalog.every_resource().chain(catalog.every_skill_file()).chain(stub_files(&catalog));
        let (nodes, next) = paged(nodes, page, catalog.digest(), |_| 0)?;
        let surface = self.surface();
        let resources = nodes.into_iter().map(|node| resource(&catalog, node, surface)).collect();
        Ok(ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(resources) })
    }

    pub(super) async fn templates(&self, page: Option<PaginatedRequestParams>) -> Result<ListResourceTemplatesResult> {
        let catalog = self.ready_catalog().await;
        let own = ResourceTemplate::new("forge:///{+path}", "forge")
            .with_description("Any path that `ls` lists, and any resource of a server as /server/resources/URI");
        let listed = catalog.servers().iter().flat_map(|entry| entry.offers.templates.iter().map(move |o| (entry, o)));
        let all = std::iter::once(None).chain(listed.map(Some));
        let (page, next) = paged(all, page, catalog.digest(), |_| 0)?;
        let surface = self.surface();
        let template = |listed: Option<(&Arc<ServerEntry>, &Offer)>| {
            let Some((entry, offer)) = listed else { return own.clone() };
            let plain = || ResourceTemplate::new(&*offer.id, &*offer.file);
            let mut template: ResourceTemplate = typed(offer, surface).unwrap_or_else(plain);
            template.uri_template = resource_uri(&entry.ident, &redact::text(surface, &offer.id));
            template.name = format!("{}/{}", entry.ident, template.name);
            template
        };
        let templates = page.into_iter().map(template).collect();
        Ok(ListResourceTemplatesResult { next_cursor: next, ..ListResourceTemplatesResult::with_all_items(templates) })
    }

    pub(super) async fn prompts(&self, page: Option<PaginatedRequestParams>) -> Result<ListPromptsResult> {
        let catalog = self.ready_catalog().await;
        let all = catalog.servers().iter().flat_map(|entry| entry.offers.prompts.iter().map(move |o| (entry, o)));
        let (page, next) = paged(all, page, catalog.digest(), |_| 0)?;
        let surface = self.surface();
        let prompt = |(entry, offer): (&Arc<ServerEntry>, &Offer)| {
            let name = match redact::text(surface, &offer.id) {
                Cow::Borrowed(name) => name,
                Cow::Owned(_) => offer.file.trim_end_matches(".md"),
            };
            let mut prompt: Prompt = typed(offer, surface).unwrap_or_else(|| Prompt::new(name, None::<&str>, None));
            prompt.name = format!("{}.{name}", entry.ident);
            prompt
        };
        let prompts = page.into_iter().map(prompt).collect();
        Ok(ListPromptsResult { next_cursor: next, ..ListPromptsResult::with_all_items(prompts) })
    }

    /// Surface of servers' lists.
    pub(super) fn surface(&self) -> Surface {
        Surface::Answer(self.gateway.config().redaction)
    }

    pub(super) async fn read(&self, uri: &str, caller: Arc<dyn Caller>) -> Result<ReadResourceResult> {
        limits::URI.check(uri.len())?;
        let catalog = self.ready_catalog().await;
        if let Some(read) = self.skill_resource(&catalog, uri, Arc::clone(&caller)).await? {
            return Ok(read);
        }
        if let Some(remote) = remote(&catalog, uri).await? {
            let Remote { server, uri: own, .. } = &remote;
            let answer = self
                .execution_context(caller)
                .request("resources/read", async |broker| broker.read_resource(0, server, own.clone()).await)
                .await?;
            let mut result: ReadResourceResult = decoded(answer, server)?;
            result.result_type = Some(ResultType::COMPLETE);
            let entry = catalog.server(server)?;
            let redacted = redact::text(self.surface(), own);
            for content in &mut result.contents {
                let (ResourceContents::TextResourceContents { uri: shown, meta, .. }
                | ResourceContents::BlobResourceContents { uri: shown, meta, .. }) = content
                else {
                    continue;
                };
                address_meta(entry, meta);
                // The client gets back the URI that it asked for.
                *shown = if *shown == redacted { uri.to_owned() } else { resource_uri(&entry.ident, shown) };
            }
            return Ok(result);
        }
        let Some(path) = uri.strip_prefix("forge://") else {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("no server lists {}", brief(uri)))
                .hint("name its server: forge:///server/resources/URI"));
        };
        let is_folder = resolved(&catalog, path, |_, node| node.is_folder()).await?.unwrap_or(false);
        let text = match is_folder {
            true => self.gateway.ls(&self.session, path, None).await?,
            false => {
                let paths = [path.to_owned()];
                self.execution_context(caller)
                    .request("resources/read", async |broker| broker.cat(0, &paths, None).await)
                    .await?
            }
        };
        let contents = ResourceContents::text(text, uri).with_mime_type(media_type(path));
        Ok(ReadResourceResult::new(vec![contents]))
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        args: Map<String, Value>,
        caller: Arc<dyn Caller>,
    ) -> Result<GetPromptResult> {
        limits::NAME.check(name.len())?;
        let catalog = self.ready_catalog().await;
        let (server, name) = split(&catalog, name)?;
        let args = Value::Object(args).to_string();
        let context = self.execution_context(caller);
        let mut answer =
            context.request("prompts/get", async |broker| broker.prompt(0, server, name, &args).await).await?;
        let entry = catalog.server(server)?;
        for message in answer.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(content) = message.get_mut("content") {
                address(&entry.ident, content, |uri| catalog.may_list(uri));
            }
        }
        let mut result: GetPromptResult = decoded(answer, server)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }

    pub(super) async fn completion(&self, params: CompleteRequestParams) -> Result<CompleteResult> {
        let catalog = self.ready_catalog().await;
        let (server, subject) = match &params.r#ref {
            Reference::Prompt(prompt) => {
                limits::NAME.check(prompt.name.len())?;
                let (server, name) = split(&catalog, &prompt.name)?;
                (server.to_owned(), Subject::Prompt(name.to_owned()))
            }
            Reference::Resource(template) => {
                limits::URI.check(template.uri.len())?;
                match remote(&catalog, &template.uri).await? {
                    Some(Remote { server, uri, .. }) => (server, Subject::Template(uri)),
                    // Our own template: paths are found by `ls` and `search`.
                    None => return Ok(CompleteResult::default()),
                }
            }
            _ => return Ok(CompleteResult::default()),
        };
        let mut asked = Map::new();
        asked.insert("argument".to_owned(), json!(params.argument));
        if let Some(context) = &params.context {
            asked.insert("context".to_owned(), json!(context));
        }
        limits::COMPLETION.check(asked.values().map(|value| value.to_string().len()).sum())?;
        let context = self.context();
        let answer = context
            .request("completion/complete", async |broker| broker.complete(&server, subject, asked).await)
            .await?;
        let mut result: CompleteResult = decoded(answer, &server)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }
}

/// The error as JSON-RPC, for requests without another form of errors.
pub(super) fn rpc_error(error: &Error) -> ErrorData {
    let error = &redact::error(Surface::ToolError, error.clone());
    let data = json!({"code": code_name(error.code), "suggestedFix": error.suggested_fix(), "data": error.data});
    match error.code {
        ErrorCode::InvalidArgs | ErrorCode::ServerNotFound | ErrorCode::ToolNotFound => {
            ErrorData::invalid_params(error.message.clone(), Some(data))
        }
        _ => ErrorData::internal_error(error.to_string(), Some(data)),
    }
}

/// Like [`rpc_error`] for `resources/read`, which has its own code for an unknown resource.
pub(super) fn read_error(uri: &str, error: &Error) -> ErrorData {
    match error.code {
        ErrorCode::InvalidArgs | ErrorCode::ServerNotFound => {
            let error = redact::error(Surface::ToolError, error.clone());
            let data = json!({"uri": brief(uri), "code": code_name(error.code), "suggestedFix": error.suggested_fix()});
            ErrorData::resource_not_found(error.message.clone(), Some(data))
        }
        _ => rpc_error(error),
    }
}

/// Rewrites URIs of pages in the metadata of a resource.
fn address_meta(entry: &ServerEntry, meta: &mut Option<MetaObject>) {
    if let Some(MetaObject(fields)) = meta {
        let mut value = Value::Object(std::mem::take(fields));
        address_pages(&entry.ident, &mut value);
        *fields = if let Value::Object(fields) = value { fields } else { Map::new() };
    }
}

/// Resolves a client's `uri`; `None` for a path of the stub tree or an unknown URI.
async fn remote(catalog: &Arc<Catalog>, uri: &str) -> Result<Option<Remote>> {
    if uri.starts_with(APP_SCHEME)
        && let Some(remote) = catalog.resource_by_uri(uri)
    {
        return Ok(Some(remote));
    }
    if let Some(path) = uri.strip_prefix("forge://") {
        if let Some(remote) = catalog.resource_by_uri(path) {
            return Ok(Some(remote));
        }
        let listed = |catalog: &Catalog, node| catalog.remote(node);
        return Ok(resolved(catalog, path, listed).await?.flatten());
    }
    let (catalog, uri) = (Arc::clone(catalog), uri.to_owned());
    let find = move |meter: &Meter| match catalog.servers_with_resource(&uri, meter)?.as_slice() {
        [] => Ok(None),
        [entry] => Ok(catalog.resource_by_uri(&resource_uri(&entry.ident, &uri))),
        several => {
            let names: Vec<String> = several.iter().take(NAMED).map(|entry| resource_uri(&entry.ident, &uri)).collect();
            Err(Error::new(ErrorCode::InvalidArgs, format!("several servers have {}", brief(&uri)))
                .hint(format!("say which: {}", names.join(", ")))
                .into())
        }
    };
    metered_as("find the server of a URI", FIND_STEPS, find).await
}

/// Applies `of` to the node at a path; `None` if there is none, since the reader's error is better.
async fn resolved<T: Send + 'static>(
    catalog: &Arc<Catalog>,
    path: &str,
    of: impl Fn(&Catalog, Node) -> T + Send + 'static,
) -> Result<Option<T>> {
    let (catalog, path) = (Arc::clone(catalog), path.to_owned());
    let find = move |meter: &Meter| match catalog.resolve_metered(&path, meter) {
        Ok(node) => Ok(Some(of(&catalog, node))),
        Err(Halt::Failed(_)) => Ok(None),
        Err(stopped) => Err(stopped),
    };
    metered_as("find the path", FIND_STEPS, find).await
}

fn stub_files(catalog: &Catalog) -> impl Iterator<Item = Node> {
    let is_main = |node: &Node| !matches!(node, Node::Tool(_, _, view) if !matches!(view, catalog::View::Pyi));
    catalog.every_file().filter(is_main)
}

fn resource(catalog: &Catalog, node: Node, surface: Surface) -> Resource {
    if let Some(resource) = skills::listed(catalog, node, surface) {
        return resource;
    }
    let path = catalog.path(node);
    let path = redact::text(surface, &path);
    if let Some(remote) = catalog.remote(node)
        && let Ok(entry) = catalog.server(&remote.server)
        && let Some(offer) = entry.offers.resource(&remote.uri)
    {
        let uri = match redact::text(surface, &offer.id) {
            Cow::Borrowed(uri) => resource_uri(&entry.ident, uri),
            Cow::Owned(_) => format!("forge://{path}"),
        };
        let mut resource: Resource =
            typed(offer, surface).unwrap_or_else(|| Resource::new(&*uri, redact::text(surface, &offer.file)));
        resource.uri = uri;
        address_meta(entry, &mut resource.meta);
        resource.name = format!("{}/{}", entry.ident, resource.name);
        return resource;
    }
    let mut resource = Resource::new(format!("forge://{path}"), path.trim_start_matches('/'));
    resource.mime_type = Some(media_type(&path).to_owned());
    resource
}

pub(super) fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "pyi")) => "text/x-python",
        Some((_, "ts")) => "text/typescript",
        Some((_, "md")) => "text/markdown",
        Some((_, "json")) => "application/json",
        _ => "text/plain",
    }
}

/// Server and name of `github.review`; of `review` alone if exactly one server has it.
fn split<'a>(catalog: &'a Catalog, name: &'a str) -> Result<(&'a str, &'a str)> {
    if let Some((server, rest)) = name.split_once('.')
        && catalog.server(server).is_ok()
    {
        return Ok((server, rest));
    }
    match catalog.servers_with_prompt(name).as_slice() {
        [entry] => Ok((&entry.ident, name)),
        several => {
            let names: Vec<String> =
                several.iter().take(NAMED).map(|entry| format!("{}.{name}", entry.ident)).collect();
            let hint = match names.is_empty() {
                true => "a prompt is named server.prompt; prompts/list has them all".to_owned(),
                false => format!("say which: {}", names.join(", ")),
            };
            Err(Error::new(ErrorCode::InvalidArgs, format!("there is no prompt `{}`", brief(name))).hint(hint))
        }
    }
}

/// The definition of an offer, redacted.
fn typed<T: DeserializeOwned>(offer: &Offer, surface: Surface) -> Option<T> {
    serde_json::from_value(redact::json(surface, offer.definition.clone())).ok()
}

fn decoded<T: DeserializeOwned>(answer: Value, server: &str) -> Result<T> {
    serde_json::from_value(answer)
        .map_err(|_| Error::new(ErrorCode::UpstreamError, format!("{server} answered what MCP does not know")))
}

/// One page, and the cursor of the next, which is valid for the catalog that it was made from. A page ends before its items
/// have more than [`PAGE_BYTES`] bytes, by `size`, but has one.
pub(super) fn paged<T>(
    all: impl Iterator<Item = T>,
    asked: Option<PaginatedRequestParams>,
    digest: &str,
    size: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>)> {
    let stale = || {
        Error::new(ErrorCode::InvalidArgs, "this cursor is not valid: the list has changed since")
            .hint("list again from the beginning")
    };
    let cursor = asked.and_then(|asked| asked.cursor);
    let start = match &cursor {
        None => 0,
        Some(cursor) => {
            limits::CURSOR.check(cursor.len())?;
            let (start, of) = cursor.split_once(':').ok_or_else(stale)?;
            start.parse().ok().filter(|_| of == digest).ok_or_else(stale)?
        }
    };
    let mut page: Vec<T> = all.skip(start).take(PAGE + 1).collect();
    if page.is_empty() && cursor.is_some() {
        return Err(stale());
    }
    let mut bytes = 0;
    let mut fits = |item: &T| {
        bytes += size(item);
        bytes <= PAGE_BYTES
    };
    let whole = page.iter().take(PAGE).take_while(|item| fits(item)).count().max(1);
    let next = (page.len() > whole).then(|| format!("{}:{digest}", start + whole));
    page.truncate(whole);
    Ok((page, next))
}
