//! Handshakes with servers that refuse the offered revision or capabilities, or answer oddly. A server is offered the
//! revision that it accepted last, else the newest; after a refusal those that it names, then the others. What its answer
//! lacks is filled in.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientRequest, CustomResult, ElicitationCapability, Implementation,
    JsonRpcError, JsonRpcRequest, ProtocolVersion, ServerCapabilities, ServerJsonRpcMessage, ServerResult,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::http_client::is_same;
use super::tasks;
use base::{json, memory, task};

/// Revisions with a handshake, newest first.
const OFFERS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2024_11_05,
];
/// Most offers of one handshake.
const MAX_OFFERS: usize = 8;
/// Codes of JSON-RPC with which servers refuse a revision: invalid parameters, request or method, and the code for it.
const REFUSALS: [i32; 4] = [-32_602, -32_600, -32_601, -32_022];

/// Number of the offer without capabilities.
const NO_CAPABILITIES: u8 = 2;

/// The offer that a server accepted after it had refused more, or kept silent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// The revision, if it refused a newer one.
    revision: Option<String>,
    /// It needs `initialize`, without `server/discover` before.
    is_initialize: bool,
    /// Number of times that capabilities were taken away.
    fewer: u8,
}

/// The offer that a server accepted. It is made first, and kept with the server's list.
#[derive(Debug, Clone, Default)]
pub struct Revision(Arc<Mutex<Offer>>);

impl Revision {
    /// The offer, if it is not the usual one.
    pub fn get(&self) -> Option<Offer> {
        Some(self.0.lock().clone()).filter(|offer| *offer != Offer::default())
    }

    /// Sets it.
    pub fn set(&self, offer: Option<Offer>) {
        *self.0.lock() = offer.unwrap_or_default();
    }

    /// True if the next connection begins with `initialize`.
    pub(super) fn is_initialize(&self) -> bool {
        self.0.lock().is_initialize
    }

    /// Sets whether the next connection begins with `initialize`.
    pub(super) fn set_initialize(&self, is_initialize: bool) {
        self.0.lock().is_initialize = is_initialize;
    }

    /// Offers no capabilities; false if none were offered before.
    pub(super) fn offer_none(&self) -> bool {
        std::mem::replace(&mut self.0.lock().fewer, NO_CAPABILITIES) < NO_CAPABILITIES
    }
}

/// A field of an answer, when it can be read, and its value otherwise.
type Field = (&'static str, fn(&Value) -> bool, Value);

/// A handshake under way: `initialize`, or `server/discover`.
pub(super) struct Handshake {
    revision: Revision,
    offer: JsonRpcRequest<ClientRequest>,
    /// Number of times that capabilities were taken away.
    fewer: u8,
    offered: Vec<ProtocolVersion>,
    /// Revisions that the server named, newest first.
    named: Vec<ProtocolVersion>,
    /// The first refusal: it says more than the last.
    refusal: Option<JsonRpcError>,
}

impl Handshake {
    /// The handshake that begins with `message`, if one does.
    pub(super) fn begin(message: &ClientJsonRpcMessage, revision: &Revision) -> Option<Self> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let Offer { revision: kept, fewer, .. } = revision.get().unwrap_or_default();
        let accepted = kept.and_then(|kept| revision_of(&kept)).filter(ProtocolVersion::has_initialize);
        let first = match &request.request {
            ClientRequest::InitializeRequest(_) => accepted.unwrap_or(OFFERS[0].clone()),
            ClientRequest::DiscoverRequest(_) => ProtocolVersion::LATEST,
            _ => return None,
        };
        let (revision, offer) = (revision.clone(), request.clone());
        let mut handshake = Self { revision, offer, fewer: 0, offered: Vec::new(), named: Vec::new(), refusal: None };
        while handshake.fewer < fewer.min(NO_CAPABILITIES) {
            handshake.take_capabilities();
        }
        handshake.make(first);
        Some(handshake)
    }

    /// The message to send.
    pub(super) fn offer(&self) -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::Request(self.offer.clone())
    }

    /// True for `initialize`.
    pub(super) fn is_initialize(&self) -> bool {
        matches!(self.offer.request, ClientRequest::InitializeRequest(_))
    }

    fn make(&mut self, revision: ProtocolVersion) {
        if let ClientRequest::InitializeRequest(initialize) = &mut self.offer.request {
            initialize.params.protocol_version = revision.clone();
        }
        self.offered.push(revision);
    }

    /// Takes away what early SDKs do not know, then all.
    fn take_capabilities(&mut self) {
        self.fewer += 1;
        let ClientRequest::InitializeRequest(initialize) = &mut self.offer.request else { return };
        let offered = &mut initialize.params.capabilities;
        match self.fewer {
            1 => {
                offered.extensions = None;
                offered.elicitation = offered.elicitation.take().map(|_| ElicitationCapability::default());
            }
            _ => *offered = ClientCapabilities::default(),
        }
    }

    /// True if these words refuse the offer, and there is another one to send.
    pub(super) fn is_refused(&mut self, code: Option<i32>, words: &str) -> bool {
        if self.is_initialize() && self.fewer < NO_CAPABILITIES && is_about_fields(words) {
            self.take_capabilities();
            return true;
        }
        let named: Vec<ProtocolVersion> =
            words.split(|c: char| !c.is_ascii_digit() && c != '-').filter_map(revision_of).collect();
        let is_refusal = code.is_some_and(|code| REFUSALS.contains(&code))
            || !named.is_empty()
            || words.to_ascii_lowercase().contains("version");
        if !is_refusal || !self.is_initialize() || self.offered.len() == MAX_OFFERS {
            return false;
        }
        self.named.extend(named.into_iter().filter(ProtocolVersion::has_initialize).take(MAX_OFFERS));
        // Revisions are dates. Dates of something else come after those that are known.
        self.named.sort_by(|a, b| (OFFERS.contains(b), b.as_str()).cmp(&(OFFERS.contains(a), a.as_str())));
        let next = self.named.iter().chain(&OFFERS).find(|revision| !self.offered.contains(revision)).cloned();
        next.map(|next| self.make(next)).is_some()
    }

    /// True for an answer to the handshake.
    pub(super) fn is_answer(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            ServerJsonRpcMessage::Response(response) => is_same(&response.id, &self.offer.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref().is_none_or(|id| is_same(id, &self.offer.id)),
            _ => false,
        }
    }

    /// The answer as rmcp reads it; `None` if there is another offer to send.
    pub(super) fn read(&mut self, answer: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match answer {
            ServerJsonRpcMessage::Response(response) => {
                let result = self.filled(response.result);
                match &result {
                    ServerResult::InitializeResult(_) => {
                        let accepted = self.offered.last().filter(|last| **last != OFFERS[0]);
                        let mut kept = self.revision.0.lock();
                        (kept.revision, kept.fewer) = (accepted.map(ToString::to_string), self.fewer);
                    }
                    ServerResult::DiscoverResult(_) => self.revision.set_initialize(false),
                    _ => {}
                }
                Some(ServerJsonRpcMessage::response(result, response.id))
            }
            ServerJsonRpcMessage::Error(error) => {
                let data = error.error.data.as_ref().map(Value::to_string).unwrap_or_default();
                let words = format!("{} {data}", error.error.message);
                let is_again = self.is_refused(Some(error.error.code.0), &words);
                let first = self.refusal.get_or_insert(error);
                (!is_again).then(|| ServerJsonRpcMessage::Error(first.clone()))
            }
            other => Some(other),
        }
    }

    /// The result with what it lacks. One that is no result of a handshake stays as it is.
    fn filled(&self, result: ServerResult) -> ServerResult {
        let value = match &result {
            // A large one came as text.
            ServerResult::CustomResult(CustomResult(Value::String(text))) => {
                let parsed = task::work_on(text.len(), || json::parse(text.as_bytes(), memory::list_bytes()));
                parsed.unwrap_or_default()
            }
            other => serde_json::to_value(other).unwrap_or_default(),
        };
        let mut found = match value {
            Value::Object(found) if self.is_initialize() || found.contains_key("supportedVersions") => found,
            Value::Null if self.is_initialize() => Map::new(),
            _ => return result,
        };
        let info = found.get("serverInfo").cloned().unwrap_or_default();
        let text = |key| info.get(key).and_then(Value::as_str).unwrap_or_default();
        let info = read(&info).unwrap_or_else(|| Implementation::new(text("name"), text("version")));
        let declared = capabilities(found.shift_remove("capabilities").unwrap_or_default());
        found.extend([("serverInfo".to_owned(), json!(info)), ("capabilities".to_owned(), json!(declared))]);
        // Without a revision of its own the server goes on in the one that it was offered.
        let offered = json!(self.offered.last());
        let fields: [Field; 7] = [
            ("protocolVersion", |value| value.as_str().and_then(revision_of).is_some(), offered.clone()),
            ("supportedVersions", |value| read::<Vec<ProtocolVersion>>(value).is_some(), json!([offered])),
            ("instructions", Value::is_string, Value::Null),
            ("resultType", Value::is_string, json!("complete")),
            ("cacheScope", Value::is_string, json!("private")),
            ("ttlMs", Value::is_u64, json!(0)),
            ("_meta", Value::is_object, Value::Null),
        ];
        for (key, is_readable, otherwise) in fields {
            if !found.get(key).is_some_and(is_readable) {
                found.insert(key.to_owned(), otherwise);
            }
        }
        let found = Value::Object(found);
        let read = match self.is_initialize() {
            true => read(&found).map(ServerResult::InitializeResult),
            false => read(&found).map(ServerResult::DiscoverResult),
        };
        read.unwrap_or(result)
    }
}

/// Capabilities that a server declares, by the names that it gives in any form.
fn capabilities(declared: Value) -> ServerCapabilities {
    let declared_tasks = declared.get("tasks").and_then(Value::as_object).cloned();
    let mut capabilities = read(&declared).unwrap_or_else(|| plain(declared));
    if let Some(declared_tasks) = declared_tasks {
        capabilities.experimental.get_or_insert_default().insert(tasks::KEY.to_owned(), declared_tasks);
    }
    capabilities
}

fn plain(declared: Value) -> ServerCapabilities {
    const KNOWN: [&str; 5] = ["tools", "resources", "prompts", "logging", "completions"];
    let declared: Map<String, Value> = match declared {
        Value::Object(declared) => declared,
        Value::Array(names) => names.iter().filter_map(|name| Some((name.as_str()?.to_owned(), json!({})))).collect(),
        _ => Map::new(),
    };
    let plain = declared
        .into_iter()
        .filter(|(name, value)| KNOWN.contains(&&**name) && !matches!(value, Value::Null | Value::Bool(false)));
    let plain = plain.map(|(name, value)| {
        let settings = value.as_object().into_iter().flatten().filter(|(_, value)| value.is_boolean());
        (name, settings.map(|(key, value)| (key.clone(), value.clone())).collect())
    });
    read(&Value::Object(plain.collect())).unwrap_or_default()
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// True for words about a field that is not known, as strict parsers say of a newer capability.
pub(super) fn is_about_fields(words: &str) -> bool {
    const UNKNOWN: [&str; 6] = ["unrecognized", "unrecognised", "unknown", "additional", "unexpected", "not permitted"];
    const FIELD: [&str; 5] = ["field", "propert", "key", "input", "member"];
    let words = words.to_ascii_lowercase();
    [&UNKNOWN[..], &FIELD].iter().all(|some| some.iter().any(|word| words.contains(word)))
}

/// The revision that a text names: a date.
fn revision_of(text: &str) -> Option<ProtocolVersion> {
    let is_date = text.split('-').map(str::len).eq([4, 2, 2]) && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    read(&Value::from(text)).filter(|_| is_date)
}
