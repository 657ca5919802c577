//! Content that is more than text: images, sounds, resources and links to them. Scripts hold handles
//! (`{"type": "image", "handle": "blob:1", …}`); what is still in the final value goes to the client as real content.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// Blocks that one answer may have beside its text.
const MAX_BLOCKS: usize = 30;
/// Bytes of them all.
const MAX_BYTES: usize = 12 << 20;

/// The content of one execution.
#[derive(Default)]
pub struct Attachments(Mutex<Vec<Attachment>>);

struct Attachment {
    /// The content block as the client gets it.
    block: Value,
    /// What the script holds in its place.
    held: Value,
    /// What the value says beside the block, so that nothing is said twice.
    brief: Value,
}

/// A value, and the content that belongs to it.
#[derive(Debug, Default)]
pub struct Settled {
    /// The value, where handles in it had to be changed.
    pub value: Option<Value>,
    /// Content blocks in the form of MCP, in order of their first mention.
    pub blocks: Vec<Value>,
    /// Blocks that were left out, being too many or too large.
    pub left_out: usize,
}

impl Attachments {
    /// Keeps a content block of `server`, and gives what a script holds in its place.
    pub(super) fn keep(&self, server: &str, block: Value) -> Value {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = format!("blob:{}", all.len() + 1);
        let mut held = match block {
            Value::Object(ref block) => block.clone(),
            _ => Map::new(),
        };
        unload(&mut held);
        if let Some(Value::Object(resource)) = held.get_mut("resource") {
            unload(resource);
        }
        held.insert("handle".to_owned(), Value::String(handle));
        let attachment = Attachment { block: addressed(server, block), brief: brief(&held), held: Value::Object(held) };
        let held = attachment.held.clone();
        all.push(attachment);
        held
    }

    /// The content whose handles occur in `value`, each once.
    #[must_use]
    pub fn settle(&self, mut value: Value) -> Settled {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        let changed = !all.is_empty() && collect(&mut value, &all, &mut found);
        let mut settled = Settled { value: changed.then_some(value), ..Settled::default() };
        let mut bytes = 0;
        for attachment in found.into_iter().filter_map(|position| all.get(position)) {
            bytes += attachment.block.to_string().len();
            if settled.blocks.len() < MAX_BLOCKS && bytes <= MAX_BYTES {
                settled.blocks.push(attachment.block.clone());
            } else {
                settled.left_out += 1;
            }
        }
        settled
    }
}

/// Finds the handles in a value, and shortens those that are still as they were given; whether there were any such.
fn collect(value: &mut Value, all: &[Attachment], found: &mut Vec<usize>) -> bool {
    let position = value.get("handle").and_then(Value::as_str).and_then(|handle| {
        let number: usize = handle.strip_prefix("blob:")?.parse().ok()?;
        number.checked_sub(1).filter(|position| *position < all.len())
    });
    let Some(position) = position else {
        return match value {
            Value::Array(items) => items.iter_mut().fold(false, |any, item| collect(item, all, found) | any),
            Value::Object(object) => object.values_mut().fold(false, |any, item| collect(item, all, found) | any),
            _ => false,
        };
    };
    if !found.contains(&position) {
        found.push(position);
    }
    let Attachment { held, brief, .. } = &all[position];
    let is_longer = value == held && held != brief;
    if is_longer {
        *value = brief.clone();
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

/// Bytes that a text in base64 stands for.
pub(super) fn bytes_of(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

fn brief(held: &Map<String, Value>) -> Value {
    let mut brief = Map::new();
    for key in ["type", "uri", "mimeType", "bytes", "handle"] {
        if let Some(value) = held.get(key) {
            brief.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(uri) = held.get("resource").and_then(|resource| resource.get("uri")) {
        brief.insert("uri".to_owned(), uri.clone());
    }
    Value::Object(brief)
}

/// The block with URIs under which the client can read them here. What is on the web, it reads there.
fn addressed(server: &str, mut block: Value) -> Value {
    let address = |content: &mut Value| {
        if let Some(Value::String(uri)) = content.get_mut("uri")
            && !uri.starts_with("https://")
            && !uri.starts_with("http://")
        {
            *uri = resource_uri(server, uri);
        }
    };
    address(&mut block);
    if let Some(resource) = block.get_mut("resource") {
        address(resource);
    }
    block
}

/// The URI by which clients know a resource of a server.
#[must_use]
pub fn resource_uri(server: &str, uri: &str) -> String {
    format!("forge:///{server}/resources/{uri}")
}
