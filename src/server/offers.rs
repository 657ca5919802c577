//! Resources, prompts and completions as MCP: the stub tree, and what the servers behind the gateway offer.
//!
//! A URI is `forge://` and a path of the virtual filesystem, so `forge:///github/issues/create_issue.pyi` is a stub and
//! `forge:///github/resources/repo://owner/name` the resource `repo://owner/name` of the server `github`: no two
//! servers can be mistaken for each other, and nothing is renamed when a server comes or goes. A URI without the
//! prefix is taken as well where exactly one server lists it or has a template for it. A prompt is `github.review`: an
//! identifier has no dot.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, PaginatedRequestParams, Prompt, ReadResourceResult, Reference, Resource, ResourceContents,
    ResourceTemplate, ResultType,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Desk;
use crate::broker::resource_uri;
use crate::catalog::{Catalog, Node, Remote};
use crate::error::{Error, ErrorCode, Result, code_name};
use crate::manifest::ServerEntry;
use crate::upstream::{Caller, Subject};

/// Entries of a page.
const PAGE: usize = 200;

impl Desk {
    pub(super) async fn resources(&self, page: Option<PaginatedRequestParams>) -> Result<ListResourcesResult> {
        let catalog = self.ready_catalog().await;
        let nodes: Vec<Node> = catalog.every_resource().chain(stub_files(&catalog)).collect();
        let (nodes, next) = paged(nodes, page, catalog.digest())?;
        let mut result =
            ListResourcesResult::with_all_items(nodes.into_iter().map(|node| resource(&catalog, node)).collect());
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) async fn templates(&self, page: Option<PaginatedRequestParams>) -> Result<ListResourceTemplatesResult> {
        let catalog = self.ready_catalog().await;
        let own = ResourceTemplate::new("forge:///{+path}", "forge")
            .with_description("Any path that `ls` lists, and any resource of a server as /server/resources/URI");
        let mut templates = vec![own];
        for entry in catalog.servers() {
            templates.extend(entry.offers.templates.iter().map(|offer| {
                let plain = || ResourceTemplate::new(&*offer.id, &*offer.file);
                let mut template: ResourceTemplate = typed(&offer.definition).unwrap_or_else(plain);
                template.uri_template = qualified(entry, &offer.id);
                template.name = format!("{}/{}", entry.ident, template.name);
                template
            }));
        }
        let (templates, next) = paged(templates, page, catalog.digest())?;
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) async fn prompts(&self, page: Option<PaginatedRequestParams>) -> Result<ListPromptsResult> {
        let catalog = self.ready_catalog().await;
        let mut prompts = Vec::new();
        for entry in catalog.servers() {
            prompts.extend(entry.offers.prompts.iter().map(|offer| {
                let plain = || Prompt::new(&*offer.id, offer.text("description"), None);
                let mut prompt: Prompt = typed(&offer.definition).unwrap_or_else(plain);
                prompt.name = format!("{}.{}", entry.ident, offer.id);
                prompt
            }));
        }
        let (prompts, next) = paged(prompts, page, catalog.digest())?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) async fn read(&self, uri: &str, caller: Arc<dyn Caller>) -> Result<ReadResourceResult> {
        let catalog = self.ready_catalog().await;
        if let Some(remote) = remote(&catalog, uri)? {
            let Remote { server, uri: own, .. } = &remote;
            let answer = self
                .scene(caller)
                .request("resources/read", async |broker| broker.read_resource(0, server, own.clone()).await)
                .await?;
            let mut result: ReadResourceResult = decoded(answer, server)?;
            result.result_type = Some(ResultType::COMPLETE);
            let entry = catalog.server(server)?;
            for content in &mut result.contents {
                let (ResourceContents::TextResourceContents { uri: shown, .. }
                | ResourceContents::BlobResourceContents { uri: shown, .. }) = content
                else {
                    continue;
                };
                // The client finds what it asked for under the name it asked by.
                *shown = if shown == own { uri.to_owned() } else { qualified(entry, shown) };
            }
            return Ok(result);
        }
        let Some(path) = uri.strip_prefix("forge://") else {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("no server lists {uri}"))
                .hint("name its server: forge:///server/resources/URI"));
        };
        let text = match catalog.resolve(path) {
            Ok(node) if !path.contains("/results") && catalog.read(node).is_none() => {
                self.gateway.ls(&self.session, path, None)?
            }
            _ => {
                let paths = [path.to_owned()];
                self.scene(caller).request("resources/read", async |broker| broker.cat(0, &paths, None).await).await?
            }
        };
        let mut contents = ResourceContents::text(text, uri);
        if let ResourceContents::TextResourceContents { mime_type, .. } = &mut contents {
            *mime_type = Some(media_type(path).to_owned());
        }
        Ok(ReadResourceResult::new(vec![contents]))
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        args: Map<String, Value>,
        caller: Arc<dyn Caller>,
    ) -> Result<GetPromptResult> {
        let catalog = self.ready_catalog().await;
        let (server, name) = split(&catalog, name)?;
        let args = Value::Object(args).to_string();
        let scene = self.scene(caller);
        let answer = scene.request("prompts/get", async |broker| broker.prompt(0, server, name, &args).await).await?;
        let mut result: GetPromptResult = decoded(answer, server)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }

    pub(super) async fn completion(&self, params: CompleteRequestParams) -> Result<CompleteResult> {
        let catalog = self.ready_catalog().await;
        let (server, subject) = match &params.r#ref {
            Reference::Prompt(prompt) => {
                let (server, name) = split(&catalog, &prompt.name)?;
                (server.to_owned(), Subject::Prompt(name.to_owned()))
            }
            Reference::Resource(template) => match remote(&catalog, &template.uri)? {
                Some(Remote { server, uri, .. }) => (server, Subject::Template(uri)),
                // Our own template: paths are found by `ls` and `search`.
                None => return Ok(CompleteResult::default()),
            },
            _ => return Ok(CompleteResult::default()),
        };
        let mut asked = Map::new();
        asked.insert("argument".to_owned(), json!(params.argument));
        if let Some(context) = &params.context {
            asked.insert("context".to_owned(), json!(context));
        }
        let scene = self.gateway.scene(&self.session);
        let answer =
            scene.request("completion/complete", async |broker| broker.complete(&server, subject, asked).await).await?;
        let mut result: CompleteResult = decoded(answer, &server)?;
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }
}

/// The error as JSON-RPC, for requests that have no other way to say it.
pub(super) fn rpc_error(error: &Error) -> ErrorData {
    let data = json!({"code": code_name(error.code), "suggestedFix": error.suggested_fix(), "data": error.data});
    match error.code {
        ErrorCode::InvalidArgs | ErrorCode::ServerNotFound | ErrorCode::ToolNotFound => {
            ErrorData::invalid_params(error.message.clone(), Some(data))
        }
        _ => ErrorData::internal_error(error.to_string(), Some(data)),
    }
}

/// As [`rpc_error`] for `resources/read`, where a resource that is not there has a code of its own.
pub(super) fn read_error(uri: &str, error: &Error) -> ErrorData {
    match error.code {
        ErrorCode::InvalidArgs | ErrorCode::ServerNotFound => {
            let data = json!({"uri": uri, "code": code_name(error.code), "suggestedFix": error.suggested_fix()});
            ErrorData::resource_not_found(error.message.clone(), Some(data))
        }
        _ => rpc_error(error),
    }
}

/// The URI by which clients know a resource of a server.
fn qualified(entry: &ServerEntry, uri: &str) -> String {
    resource_uri(&entry.ident, uri)
}

/// The resource that a client means by `uri`; `None` for a path of the stub tree or an unknown URI.
fn remote(catalog: &Catalog, uri: &str) -> Result<Option<Remote>> {
    if let Some(path) = uri.strip_prefix("forge://") {
        let listed = || catalog.resolve(path).ok().and_then(|node| catalog.remote(node));
        return Ok(catalog.resource_by_uri(path).or_else(listed));
    }
    match catalog.servers_with_resource(uri).as_slice() {
        [] => Ok(None),
        [entry] => Ok(catalog.resource_by_uri(&qualified(entry, uri))),
        several => {
            let names: Vec<String> = several.iter().map(|entry| qualified(entry, uri)).collect();
            Err(Error::new(ErrorCode::InvalidArgs, format!("several servers have {uri}"))
                .hint(format!("say which: {}", names.join(", "))))
        }
    }
}

fn stub_files(catalog: &Catalog) -> impl Iterator<Item = Node> {
    let is_main = |node: &Node| !matches!(node, Node::Tool(_, _, view) if !matches!(view, crate::catalog::View::Pyi));
    catalog.every_file().filter(is_main)
}

fn resource(catalog: &Catalog, node: Node) -> Resource {
    let path = catalog.path(node);
    if let Some(remote) = catalog.remote(node)
        && let Ok(entry) = catalog.server(&remote.server)
        && let Some(offer) = entry.offers.resource(&remote.uri)
    {
        let mut resource: Resource =
            typed(&offer.definition).unwrap_or_else(|| Resource::new(&*offer.id, &*offer.file));
        resource.uri = qualified(entry, &offer.id);
        resource.name = format!("{}/{}", entry.ident, resource.name);
        return resource;
    }
    let mut resource = Resource::new(format!("forge://{path}"), path.trim_start_matches('/'));
    resource.mime_type = Some(media_type(&path).to_owned());
    resource
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "pyi")) => "text/x-python",
        Some((_, "ts")) => "text/typescript",
        Some((_, "md")) => "text/markdown",
        Some((_, "json")) => "application/json",
        _ => "text/plain",
    }
}

/// Server and name of `github.review`; of `review` alone where exactly one server has it.
fn split<'a>(catalog: &'a Catalog, name: &'a str) -> Result<(&'a str, &'a str)> {
    if let Some((server, rest)) = name.split_once('.')
        && catalog.server(server).is_ok()
    {
        return Ok((server, rest));
    }
    match catalog.servers_with_prompt(name).as_slice() {
        [entry] => Ok((&entry.ident, name)),
        several => {
            let names: Vec<String> = several.iter().map(|entry| format!("{}.{name}", entry.ident)).collect();
            let hint = match names.is_empty() {
                true => "a prompt is named server.prompt; prompts/list has them all".to_owned(),
                false => format!("say which: {}", names.join(", ")),
            };
            Err(Error::new(ErrorCode::InvalidArgs, format!("there is no prompt `{name}`")).hint(hint))
        }
    }
}

fn typed<T: DeserializeOwned>(definition: &Value) -> Option<T> {
    T::deserialize(definition).ok()
}

fn decoded<T: DeserializeOwned>(answer: Value, server: &str) -> Result<T> {
    serde_json::from_value(answer).map_err(|error| {
        Error::new(ErrorCode::UpstreamError, format!("{server} answered what MCP does not know: {error}"))
    })
}

/// One page, and the cursor of the next. A cursor holds for the catalog that it was given with.
fn paged<T>(all: Vec<T>, asked: Option<PaginatedRequestParams>, digest: &str) -> Result<(Vec<T>, Option<String>)> {
    let stale = || {
        Error::new(ErrorCode::InvalidArgs, "this cursor is not valid: the list has changed since")
            .hint("list again from the beginning")
    };
    let start = match asked.and_then(|asked| asked.cursor) {
        None => 0,
        Some(cursor) => {
            let (start, of) = cursor.split_once(':').ok_or_else(stale)?;
            let start = start.parse().ok().filter(|start| of == digest && *start < all.len());
            start.ok_or_else(stale)?
        }
    };
    let next = (all.len() - start > PAGE).then(|| format!("{}:{digest}", start + PAGE));
    Ok((all.into_iter().skip(start).take(PAGE).collect(), next))
}
