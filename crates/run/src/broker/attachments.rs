//! Content other than text: images, audio, resources and resource links. Scripts hold handles (`{"type": "image",
//! "handle": "blob:1", …}`); handles in the final value go to the client as real content.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use serde_json::{Map, Value, json};

use super::apps;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::text::brief;

/// Prefix of a handle; the number of its attachment follows.
const HANDLE: &str = "blob:";
/// Blocks that one answer may have beside its text.
const MAX_BLOCKS: usize = limits::CONTENT_BLOCKS.max;
/// Most bytes of these blocks.
const MAX_BYTES: usize = limits::CONTENT_BYTES.max;
/// Most bytes of content that one execution keeps; further content gets no handle.
const MAX_KEPT: usize = limits::CONTENT.max;
/// Most kinds of unknown content that are noted.
const MAX_UNKNOWN: usize = 3;
/// Least bytes that a block counts for.
const LEAST: usize = 1 << 10;

/// Content of one execution.
#[derive(Default)]
pub struct Attachments {
    kept: Mutex<Kept>,
    pub(super) wholes: Mutex<Vec<apps::Kept>>,
}

#[derive(Default)]
struct Kept {
    all: Vec<Attachment>,
    bytes: usize,
    /// Tools that answered with blocks of an unknown kind, and the kind.
    unknown: BTreeSet<String>,
    /// Parameters that were given a handle within other text, with the handle.
    within: BTreeSet<(String, String)>,
}

struct Attachment {
    /// The server's identifier.
    server: String,
    /// The content block, unchanged.
    block: Value,
    /// The script's handle for it.
    held: Value,
}

/// A value with its content.
#[derive(Debug, Default)]
pub struct Settled {
    /// The value, if its handles had to change.
    pub value: Option<Value>,
    /// MCP content blocks, in order of first mention.
    pub blocks: Vec<Value>,
    /// Blocks over the limits.
    pub left_out: usize,
}

impl Attachments {
    /// Keeps a content block of `server` and returns its handle.
    pub(super) fn keep(&self, server: &str, block: Value) -> Value {
        let mut kept = self.kept.lock();
        let handle = format!("{HANDLE}{}", kept.all.len() + 1);
        let bytes = kept.bytes + base::json::written(&block).max(LEAST);
        let mut held = match block {
            Value::Object(ref block) => block.clone(),
            _ => Map::new(),
        };
        unload(&mut held);
        if let Some(Value::Object(resource)) = held.get_mut("resource") {
            unload(resource);
        }
        if bytes > MAX_KEPT {
            let why = format!("not kept: over the limit of {MAX_KEPT} bytes of content a run");
            held.insert("left_out".to_owned(), Value::String(why));
            return Value::Object(held);
        }
        held.insert("handle".to_owned(), Value::String(handle));
        let held = Value::Object(held);
        kept.bytes = bytes;
        kept.all.push(Attachment { server: server.to_owned(), block, held: held.clone() });
        held
    }

    /// Positions of the content of `server` whose handles occur in `value`.
    pub(super) fn mentioned(&self, server: &str, value: &Value) -> Vec<usize> {
        let kept = self.kept.lock();
        let mut found = Mentioned { order: Vec::new(), seen: vec![false; kept.all.len()] };
        if !kept.all.is_empty() {
            collect(&mut value.clone(), &kept.all, &mut found);
        }
        found.order.retain(|position| kept.all[*position].server == server);
        found.order
    }

    /// Rewrites content but for its binary data; what is not rewritten is dropped.
    pub(super) fn rewrite(&self, positions: &[usize], mut write: impl FnMut(Value) -> Option<Value>) {
        let mut kept = self.kept.lock();
        for position in positions {
            let Some(Attachment { block, held, .. }) = kept.all.get_mut(*position) else { continue };
            let data = data_of(block).map(Value::take);
            for value in [&mut *block, held] {
                *value = write(value.take()).unwrap_or_default();
            }
            if let (Some(data), Some(place)) = (data, data_of(block)) {
                *place = data;
            }
        }
    }

    /// Gives a block of an unknown kind as it is, and remembers to say so.
    pub(super) fn unknown(&self, tool: &str, block: Value) -> Value {
        let unknown = &mut self.kept.lock().unknown;
        if unknown.len() < MAX_UNKNOWN {
            // Without the kind, which is the server's word: a hook may be against the answer.
            unknown.insert(tool.to_owned());
        }
        block
    }

    /// Says which content was of an unknown kind, and which handles were sent as text.
    pub fn notes(&self) -> Vec<String> {
        let note = |tool: &String| {
            format!("{tool} answered with content of a kind that MCP does not have: it is given as it came")
        };
        let within = |(name, handle): &(String, String)| {
            format!("`{name}` has `{handle}` inside other text: it was sent as it is")
        };
        let kept = self.kept.lock();
        kept.unknown.iter().map(note).chain(kept.within.iter().map(within)).collect()
    }

    /// Arguments, as JSON, with content as base64 in place of its handles: for each string that is a handle, and for each
    /// content block given for a parameter that takes text. `None` if there are none.
    ///
    /// # Errors
    /// `INVALID_ARGS` when they would have more than `most` bytes: a few bytes of script can name much content.
    pub(super) fn fill(&self, args: &str, takes_text: impl Fn(&str) -> bool, most: usize) -> Result<Option<String>> {
        if !args.contains(HANDLE) {
            return Ok(None);
        }
        // Validation refuses anything else.
        let Ok(Value::Object(mut parameters)) = serde_json::from_str(args) else { return Ok(None) };
        let Kept { all, within, .. } = &mut *self.kept.lock();
        let mut filling = Filling { all, most, left: most.saturating_sub(args.len()), is_filled: false };
        for (name, value) in &mut parameters {
            let handle = value.as_str().and_then(|text| handle_within(text, all.len()));
            if let Some(handle) = handle.filter(|_| within.len() < MAX_UNKNOWN) {
                within.insert((brief(name).into_owned(), handle.to_owned()));
            }
            match value.get("handle").and_then(|handle| filling.content(handle)).filter(|_| takes_text(name)) {
                Some(content) => filling.put(value, content)?,
                None => filling.fill(value)?,
            }
        }
        Ok(filling.is_filled.then(|| Value::Object(parameters).to_string()))
    }

    /// The content whose handles occur in `value`, each once. `is_listed` says whether any server has a resource of a
    /// URI.
    #[must_use]
    pub fn settle(&self, mut value: Value, is_listed: impl Fn(&str) -> bool) -> Settled {
        let kept = self.kept.lock();
        let all = &kept.all;
        let mut found = Mentioned { order: Vec::new(), seen: vec![false; all.len()] };
        let changed = !all.is_empty() && collect(&mut value, all, &mut found);
        let mut settled = Settled { value: changed.then_some(value), ..Settled::default() };
        let mut bytes = 0;
        for attachment in found.order.into_iter().filter_map(|position| all.get(position)) {
            bytes += base::json::written(&attachment.block);
            if settled.blocks.len() < MAX_BLOCKS && bytes <= MAX_BYTES {
                let mut block = attachment.block.clone();
                address(&attachment.server, &mut block, &is_listed);
                settled.blocks.push(block);
            } else {
                settled.left_out += 1;
            }
        }
        settled
    }
}

/// The position that a handle stands for.
fn position(handle: &str) -> Option<usize> {
    handle.strip_prefix(HANDLE)?.parse::<usize>().ok()?.checked_sub(1)
}

/// The first handle in a text that is more than that.
fn handle_within(text: &str, kept: usize) -> Option<&str> {
    let handle = |(at, _)| {
        let rest: &str = &text[at..];
        let behind = &rest[HANDLE.len()..];
        let handle = &rest[..rest.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len()];
        position(handle).filter(|position| *position < kept && handle.len() < text.len()).map(|_| handle)
    };
    text.match_indices(HANDLE).filter(|_| kept > 0).find_map(handle)
}

/// The binary data of a content block.
pub(super) fn base64_of(block: &Value) -> Option<&str> {
    block.get("data").or_else(|| block.pointer("/resource/blob")).and_then(Value::as_str)
}

/// Their place.
fn data_of(block: &mut Value) -> Option<&mut Value> {
    let path = if block.get("data").is_some() { "/data" } else { "/resource/blob" };
    block.pointer_mut(path)
}

/// Puts content in place of its handles, within a number of bytes.
struct Filling<'k> {
    all: &'k [Attachment],
    most: usize,
    left: usize,
    is_filled: bool,
}

impl<'k> Filling<'k> {
    fn content(&self, handle: &Value) -> Option<&'k str> {
        base64_of(&self.all.get(position(handle.as_str()?)?)?.block)
    }

    fn put(&mut self, value: &mut Value, content: &str) -> Result<()> {
        let Some(left) = self.left.checked_sub(content.len()) else {
            let message =
                format!("the arguments and the content that they name are over the limit of {} bytes", self.most);
            let error = Error::new(ErrorCode::InvalidArgs, message);
            return Err(error.hint("send less, or raise `sandbox.limits.args` in the configuration"));
        };
        (self.left, self.is_filled) = (left, true);
        *value = Value::String(content.to_owned());
        Ok(())
    }

    /// Fills a value. The decoder has bounded its nesting.
    fn fill(&mut self, value: &mut Value) -> Result<()> {
        match value {
            Value::String(_) => self.content(value).map_or(Ok(()), |content| self.put(value, content)),
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill(item)),
            Value::Object(object) => object.values_mut().try_for_each(|item| self.fill(item)),
            _ => Ok(()),
        }
    }
}

/// Positions of attachments, in the order of their first mention; a value can mention thousands a hundred thousand times.
struct Mentioned {
    order: Vec<usize>,
    seen: Vec<bool>,
}

/// Finds the handles in a value and shortens the unchanged ones; true if it shortened any.
fn collect(value: &mut Value, all: &[Attachment], found: &mut Mentioned) -> bool {
    let position = value.get("handle").and_then(Value::as_str).and_then(position);
    let position = position.filter(|position| *position < all.len());
    let Some(position) = position else {
        return match value {
            Value::Array(items) => items.iter_mut().fold(false, |any, item| collect(item, all, found) | any),
            Value::Object(object) => object.values_mut().fold(false, |any, item| collect(item, all, found) | any),
            _ => false,
        };
    };
    if !std::mem::replace(&mut found.seen[position], true) {
        found.order.push(position);
    }
    let held = &all[position].held;
    if value != held {
        return false;
    }
    let brief = short(held);
    let is_longer = *held != brief;
    if is_longer {
        *value = brief;
    }
    is_longer
}

/// Replaces binary data by its size.
fn unload(content: &mut Map<String, Value>) {
    for key in ["data", "blob"] {
        if let Some(Value::String(data)) = content.get(key) {
            let bytes = bytes_of(data);
            content.shift_remove(key);
            content.insert("bytes".to_owned(), json!(bytes));
        }
    }
}

/// Decoded size of a base64 text in bytes.
pub(super) fn bytes_of(base64: &str) -> usize {
    // Some servers break it into lines.
    base64.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count() * 3 / 4
}

/// Short form of a handle in a value beside the block, so that nothing is sent twice.
fn short(held: &Value) -> Value {
    let field = |key: &str, value: Option<&Value>| Some((key.to_owned(), value?.clone()));
    let own = ["type", "uri", "mimeType", "bytes", "handle"].into_iter().filter_map(|key| field(key, held.get(key)));
    own.chain(field("uri", held.pointer("/resource/uri"))).collect()
}

/// Rewrites the resource URIs of a content block to those under which the client reads them here. Web addresses that no
/// server lists stay as they are.
pub fn address(server: &str, block: &mut Value, is_listed: impl Fn(&str) -> bool) {
    let address = |content: &mut Value| {
        if let Some(Value::String(uri)) = content.get_mut("uri") {
            let is_web = uri.starts_with("https://") || uri.starts_with("http://");
            if !is_web || is_listed(uri) {
                *uri = resource_uri(server, uri);
            }
        }
        if let Some(meta) = content.get_mut("_meta") {
            apps::address_pages(server, meta);
        }
    };
    address(block);
    if let Some(resource) = block.get_mut("resource") {
        address(resource);
    }
}

/// The client's URI for a resource of a server: `ui://SERVER/…` for a page, since clients show no other. Clients may
/// resolve `..` in it and drop characters that are invalid in a URI: neither turns it into another server's URI.
pub fn resource_uri(server: &str, uri: &str) -> String {
    let page = uri.strip_prefix(stubgen::APP_SCHEME);
    let uri = page.unwrap_or(uri);
    let mut own = String::with_capacity(uri.len());
    for c in uri.chars() {
        match c {
            c if c.is_control() || c == ' ' || c == '\\' => own.push_str(&format!("%{:02X}", u32::from(c))),
            c => own.push(c),
        }
    }
    let is_dots = |segment: &str| {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        dots == "." || dots == ".."
    };
    if own.split(['/', '?', '#']).any(is_dots) {
        own = own.replace('/', "%2F");
    }
    if own.split(['?', '#']).next().is_some_and(is_dots) {
        own.insert_str(0, "%2F");
    }
    match page {
        Some(_) => format!("{}{server}/{own}", stubgen::APP_SCHEME),
        None => format!("forge:///{server}/resources/{own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_filled_within_the_limit_of_arguments() {
        const MOST: usize = 10_000;
        let attachments = Attachments::default();
        let block = attachments.keep("s", json!({ "type": "image", "data": "A".repeat(1000) }));
        let fill = |args: &Value| attachments.fill(&args.to_string(), |name| name == "text", MOST);
        for (args, filled) in [
            (json!({ "a": ["blob:1", { "b": "blob:1" }] }), Some(2)),
            (json!({ "text": &block }), Some(1)),
            (json!({ "other": { "handle": "blob:2" }, "a": "see blob:1" }), None),
            (json!({ "a": vec!["blob:1"; 9] }), Some(9)),
        ] {
            let text = fill(&args).expect("it fits");
            assert_eq!(text.map(|text| text.matches(&"A".repeat(1000)).count()), filled, "{args}");
        }
        assert_eq!(attachments.notes(), ["`a` has `blob:1` inside other text: it was sent as it is"]);
        for args in [json!({ "a": vec!["blob:1"; 10] }), json!({ "a": vec!["blob:1"; 1000], "text": block })] {
            let error = fill(&args).expect_err("too much");
            assert!(error.message.contains("over the limit of 10000 bytes"), "{error}");
        }
    }

    #[test]
    fn no_uri_of_a_server_leads_to_another() {
        for uri in [
            "../../vault/resources/v://x",
            "..\\..\\vault\\x",
            "x:../../../vault/resources/y",
            "%2e%2E/%2e./vault/x",
            "a/../../../vault/x",
            ".\t./.\n./vault/x",
            "x://a/../../../../vault/resources/z?q#f",
            "..",
            "./../..",
            "\u{1}../../../vault",
            " ../../vault",
            "x://y/..",
            "x://a/b?c=../../..",
        ] {
            let shown = resource_uri("chat", uri);
            // `forge` has no rules of its own, so a browser treats it like any other scheme.
            for shown in [shown.clone(), shown.replacen("forge:", "https:", 1).replacen("https:///", "https://h/", 1)] {
                let parsed = url::Url::parse(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert!(parsed.path().starts_with("/chat/resources/"), "{uri:?}: {shown} is {parsed}");
            }
        }
        assert_eq!(resource_uri("chat", "x://a/b.c?d=e#f"), "forge:///chat/resources/x://a/b.c?d=e#f");
        assert_eq!(resource_uri("chat", "file:///a/...b/c"), "forge:///chat/resources/file:///a/...b/c");
    }

    #[test]
    fn content_over_the_limit_of_a_run_has_no_handle() {
        let attachments = Attachments::default();
        let image = || json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(8 << 20)});
        let kept: Vec<Value> = (0..5).map(|_| attachments.keep("x", image())).collect();
        assert!(kept[..3].iter().all(|held| held["handle"].is_string() && held["bytes"] == 6 << 20), "{kept:?}");
        assert!(kept[3..].iter().all(|held| held.get("handle").is_none() && held["bytes"] == 6 << 20), "{kept:?}");
        assert!(kept[4]["left_out"].as_str().is_some_and(|why| why.contains("33554432 bytes")), "{kept:?}");
    }
}
