//! Answers as they came, beside their values: those of tools that are called without a script, and those of tools with a
//! page (MCP Apps), for clients that show it.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::policy::PendingCall;
use super::{Attachments, Broker, ExecutionContext, resource_uri};
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::labels::Held;
use base::limits;
use redact::{Outgoing, Redaction};
use upstream::{Operation, PAGE_TYPE};

/// Requests that are the call of one tool: by its name here, and by its server's, as pages do.
pub const REQUEST: &str = "tools/call";
/// See [`REQUEST`].
pub const OF_PAGE: &str = "tools/call of a page";
/// Other requests that a host makes for a page.
const BESIDE: [&str; 3] = ["resources/read", "prompts/get", "completion/complete"];
/// Least bytes of a text that is taken for an answer.
const LEAST: usize = 16;
/// Most answers that a script's run keeps.
const MOST: usize = 4;
/// Keys of metadata that name a page: those of MCP Apps, and of hosts before it.
const PLACES: [&str; 3] = ["resourceUri", "ui/resourceUri", "openai/outputTemplate"];
/// Beginnings of keys that are no server's.
const OTHERS: [&str; 3] = ["io.modelcontextprotocol/", "forgefs/", "progressToken"];
/// Nesting to which pages are looked for in metadata.
const DEPTH: usize = json::MAX_DEPTH;

/// An answer as it came, and the script's value of it.
pub(super) struct Kept {
    server: String,
    page: Option<String>,
    value: Value,
    whole: Value,
    bytes: usize,
}

/// A value that a page shows.
#[derive(Debug)]
pub struct Shown {
    /// URI of the page for the client.
    pub page: String,
    /// Structured content of the answer.
    pub structured: Option<Value>,
    /// Its metadata, with the page.
    pub meta: Map<String, Value>,
}

impl Shown {
    /// A content block that links to the page.
    pub fn link(&self) -> Value {
        json!({"type": "resource_link", "uri": self.page, "name": self.page, "mimeType": PAGE_TYPE,
               "annotations": {"audience": ["user"]}})
    }
}

impl Outgoing for Shown {
    fn redacted<'w>(self, redaction: impl Into<Redaction<'w>>) -> Self {
        let redaction = redaction.into();
        let structured = self.structured.map(|value| value.redacted(redaction));
        let meta = match Value::Object(self.meta).redacted(redaction) {
            Value::Object(meta) => meta,
            _ => Map::new(),
        };
        Self { page: self.page.redacted(redaction), structured, meta }
    }
}

impl Broker {
    /// Calls the tool `name` of a catalog's own names, as [`Broker::call_tool`]; returns its answer as it came beside the value.
    ///
    /// # Errors
    /// As there.
    pub async fn call_named(&self, name: &str, args: &str) -> Result<(Value, Option<Value>)> {
        let gone = || Error::new(ErrorCode::ToolNotFound, "there is no such tool any more");
        let named = self.context.catalog.named_tool(name).ok_or_else(gone)?;
        let (server, tool) = (&named.server.name, &named.tool.name);
        let value = self.call_found(1, (server, tool), Ok((named.server, named.tool)), args).await?;
        Ok((value, self.attachments.take_whole()))
    }

    /// Labels and group of a request at its begin.
    pub(super) fn held_by(request: &str, context: &ExecutionContext) -> Arc<Mutex<Held>> {
        let is_for_page = [REQUEST, OF_PAGE].contains(&request) || BESIDE.contains(&request) && shows_apps(context);
        match is_for_page {
            true => context.session.held_by_pages(),
            false => context.session.held().unwrap_or_default(),
        }
    }

    /// Gives what a script holds to the pages of its session. False if a page holds what may not come together with it.
    pub fn hands_on(&self) -> bool {
        let (held, pages) = (self.taint.now(), self.context.session.held_by_pages());
        let mut pages = pages.lock();
        let fits = pages.group.is_none() || held.group.is_none() || pages.group == held.group;
        if fits {
            pages.group = pages.group.take().or(held.group);
            pages.labels.extend(held.labels);
        }
        fits
    }

    /// True if the answer to a call is wanted as it came too.
    pub(super) fn wants_whole(&self, asked: &PendingCall<'_>) -> bool {
        let (Some(stub), Operation::Tool { .. }, false) = (asked.stub, asked.operation, asked.entry.is_scripts())
        else {
            return false;
        };
        self.language.is_none() || (self.scope.is_none() && stub.page().is_some() && shows_apps(&self.context))
    }

    /// The value of a pair of both, whose other part is kept.
    pub(super) fn without_whole(&self, asked: &PendingCall<'_>, pair: Value) -> Value {
        if !self.wants_whole(asked) {
            return pair;
        }
        let Value::Array(mut pair) = pair else { return pair };
        let (Some(whole), Some(value)) = (pair.pop(), pair.pop()) else { return Value::Null };
        let page = asked.stub.and_then(|stub| stub.page()).map(str::to_owned);
        // Of a request's only call the value is at hand.
        let compared = if self.language.is_some() { value.clone() } else { Value::Null };
        self.attachments.keep_whole(&asked.entry.ident, page, compared, whole);
        value
    }
}

impl Attachments {
    fn keep_whole(&self, server: &str, page: Option<String>, value: Value, whole: Value) {
        let bytes = json::written(&whole) + json::written(&value);
        let mut kept = self.wholes.lock();
        kept.push(Kept { server: server.to_owned(), page, value, whole, bytes });
        while kept.len() > MOST || kept.iter().map(|kept| kept.bytes).sum::<usize>() > limits::CONTENT.max {
            kept.remove(0);
        }
    }

    /// The last answer as it came.
    fn take_whole(&self) -> Option<Value> {
        self.wholes.lock().pop().map(|kept| kept.whole)
    }

    /// The page for a script's value, if that is the answer of a tool that has one.
    pub fn shown(&self, value: &str) -> Option<Shown> {
        let mut kept = self.wholes.lock();
        if kept.is_empty() {
            return None;
        }
        let value: Value = serde_json::from_str(value).ok()?;
        let same = |kept: &Kept| is_same(&kept.value, &value);
        let at = kept.iter().rposition(same).filter(|_| is_telling(&value))?;
        let (server, page) = (kept[at].server.clone(), kept[at].page.clone());
        if kept.iter().any(|kept| same(kept) && (kept.server != server || kept.page != page)) {
            return None;
        }
        let Kept { mut whole, .. } = kept.remove(at);
        let page = resource_uri(&server, &page?);
        let structured = whole.get_mut("structuredContent").map(Value::take).filter(Value::is_object);
        let mut meta = whole.get_mut("_meta").map(Value::take).unwrap_or_default();
        address_pages(&server, &mut meta);
        let mut meta = if let Value::Object(meta) = meta { meta } else { Map::new() };
        match meta.entry("ui").or_insert_with(|| json!({})) {
            Value::Object(ui) => _ = ui.insert("resourceUri".to_owned(), page.clone().into()),
            other => *other = json!({"resourceUri": page}),
        }
        Some(Shown { page, structured, meta })
    }
}

fn shows_apps(context: &ExecutionContext) -> bool {
    context.caller.as_ref().is_some_and(|caller| caller.shows_apps())
}

/// True for a value that hardly comes from elsewhere.
fn is_telling(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() >= LEAST,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// True for equal values. Engines write `20.0` as `20`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        (one, other) => one == other,
    }
}

/// Rewrites URIs of pages in metadata to those under which the client reads them here. What stands in a page's place and is
/// none is dropped: it may be another server's. Keys of one connection, or of the gateway's own, are dropped too.
pub fn address_pages(server: &str, value: &mut Value) {
    if let Value::Object(meta) = value {
        meta.retain(|key, _| !OTHERS.iter().any(|begin| key.starts_with(begin)));
    }
    fn address(server: &str, value: &mut Value, depth: usize) {
        match value {
            Value::String(uri) if uri.starts_with(stubgen::APP_SCHEME) => *uri = resource_uri(server, uri),
            Value::Array(items) if depth > 0 => items.iter_mut().for_each(|item| address(server, item, depth - 1)),
            Value::Object(fields) if depth > 0 => {
                let is_page = |value: &Value| value.as_str().is_some_and(|uri| uri.starts_with(stubgen::APP_SCHEME));
                fields.retain(|key, value| !PLACES.contains(&key.as_str()) || is_page(value));
                fields.values_mut().for_each(|item| address(server, item, depth - 1));
            }
            _ => {}
        }
    }
    address(server, value, DEPTH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_one_of_its_server() {
        for (meta, expected) in [
            (
                json!({"ui": {"resourceUri": "ui://a/b", "visibility": ["app"]}, "x": ["ui://c", {"y": "ui://d"}], "z": 1.0}),
                json!({"ui": {"resourceUri": "ui://own/a/b", "visibility": ["app"]},
                       "x": ["ui://own/c", {"y": "ui://own/d"}], "z": 1.0}),
            ),
            (json!({"ui": {"resourceUri": "ui://victim/a"}}), json!({"ui": {"resourceUri": "ui://own/victim/a"}})),
            (
                json!({"ui": {"resourceUri": "ui://../victim/a"}}),
                json!({"ui": {"resourceUri": "ui://own/..%2Fvictim%2Fa"}}),
            ),
            (json!({"ui": {"resourceUri": "forge:///victim/resources/ui://a"}}), json!({"ui": {}})),
            (json!({"ui": {"resourceUri": " ui://victim/a"}}), json!({"ui": {}})),
            (json!({"ui": {"resourceUri": ["ui://a"]}}), json!({"ui": {}})),
            (
                json!({"ui/resourceUri": "UI://victim/a", "openai/outputTemplate": "file:///etc/passwd", "more": "UI://x"}),
                json!({"more": "UI://x"}),
            ),
        ] {
            let mut seen = meta.clone();
            address_pages("own", &mut seen);
            assert_eq!(seen, expected, "{meta}");
        }
    }

    #[test]
    fn numbers_may_be_written_otherwise_and_nothing_else() {
        for (one, other, same) in [
            (json!({"a": 20.0, "b": [1]}), json!({"b": [1.0], "a": 20}), true),
            (json!([1, 2]), json!([1]), false),
            (json!({"a": null}), json!({}), false),
            (json!("20"), json!(20), false),
        ] {
            assert_eq!(is_same(&one, &other), same, "{one} {other}");
        }
    }
}
