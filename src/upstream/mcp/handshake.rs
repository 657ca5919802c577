//! Handshakes with servers that refuse the offered revision, or answer oddly. A server is offered the revision that it
//! accepted last, else the newest; after a refusal those that it names, then the others. What its answer lacks is filled in.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, Implementation, JsonRpcResponse, ProtocolVersion, RequestId,
    ServerCapabilities, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::http_client::is_same;
use crate::{json, memory, task};

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

/// The revision that a server accepted after it had refused a newer one. It is offered first, and kept with the server's list.
#[derive(Debug, Clone, Default)]
pub struct Revision(Arc<Mutex<Option<String>>>);

impl Revision {
    /// The revision, if the server refused a newer one.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }

    /// Sets it.
    pub fn set(&self, revision: Option<String>) {
        *self.0.lock() = revision;
    }
}

/// A handshake under way.
pub(super) struct Handshake {
    revision: Revision,
    id: RequestId,
    /// Else it is `server/discover`.
    is_initialize: bool,
    offer: ClientJsonRpcMessage,
    offered: Vec<ProtocolVersion>,
    /// Revisions that the server named, newest first.
    named: Vec<ProtocolVersion>,
    /// The first refusal: it says more than the last.
    refusal: Option<ServerJsonRpcMessage>,
}

impl Handshake {
    /// The handshake that begins with `message`, if one does.
    pub(super) fn begin(message: &ClientJsonRpcMessage, revision: &Revision) -> Option<Self> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let accepted = revision.get().and_then(|kept| revision_of(&kept)).filter(ProtocolVersion::has_initialize);
        let (is_initialize, first) = match &request.request {
            ClientRequest::InitializeRequest(_) => (true, accepted.unwrap_or(OFFERS[0].clone())),
            ClientRequest::DiscoverRequest(_) => (false, ProtocolVersion::LATEST),
            _ => return None,
        };
        let mut handshake = Self {
            revision: revision.clone(),
            id: request.id.clone(),
            is_initialize,
            offer: message.clone(),
            offered: Vec::new(),
            named: Vec::new(),
            refusal: None,
        };
        handshake.make(first);
        Some(handshake)
    }

    /// The message to send.
    pub(super) fn offer(&self) -> &ClientJsonRpcMessage {
        &self.offer
    }

    fn make(&mut self, revision: ProtocolVersion) {
        if let ClientJsonRpcMessage::Request(request) = &mut self.offer
            && let ClientRequest::InitializeRequest(initialize) = &mut request.request
        {
            initialize.params.protocol_version = revision.clone();
        }
        self.offered.push(revision);
    }

    /// True if these words refuse the revision, and there is another offer to send.
    pub(super) fn is_refused(&mut self, code: Option<i32>, words: &str) -> bool {
        let named: Vec<ProtocolVersion> =
            words.split(|c: char| !c.is_ascii_digit() && c != '-').filter_map(revision_of).collect();
        let is_refusal = code.is_some_and(|code| REFUSALS.contains(&code))
            || !named.is_empty()
            || words.to_ascii_lowercase().contains("version");
        if !is_refusal || !self.is_initialize || self.offered.len() == MAX_OFFERS {
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
            ServerJsonRpcMessage::Response(response) => is_same(&response.id, &self.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref().is_none_or(|id| is_same(id, &self.id)),
            _ => false,
        }
    }

    /// The answer as rmcp reads it; `None` if there is another offer to send.
    pub(super) fn read(&mut self, answer: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match answer {
            ServerJsonRpcMessage::Response(JsonRpcResponse { jsonrpc, id, result }) => {
                let bytes = if let ServerResult::CustomResult(CustomResult(Value::String(text))) = &result {
                    text.len()
                } else {
                    0
                };
                let result = task::work_on(bytes, || self.filled(result));
                if let ServerResult::InitializeResult(_) = &result {
                    let accepted = self.offered.last().filter(|last| **last != OFFERS[0]);
                    self.revision.set(accepted.map(ToString::to_string));
                }
                Some(ServerJsonRpcMessage::Response(JsonRpcResponse { jsonrpc, id, result }))
            }
            ServerJsonRpcMessage::Error(error) => {
                let data = error.error.data.as_ref().map(Value::to_string).unwrap_or_default();
                let words = format!("{} {data}", error.error.message);
                let is_again = self.is_refused(Some(error.error.code.0), &words);
                let first = self.refusal.get_or_insert(ServerJsonRpcMessage::Error(error));
                (!is_again).then(|| first.clone())
            }
            other => Some(other),
        }
    }

    /// The result with what it lacks. One that is no result of a handshake stays as it is.
    fn filled(&self, result: ServerResult) -> ServerResult {
        let value = match &result {
            // A large one came as text.
            ServerResult::CustomResult(CustomResult(Value::String(text))) => {
                json::parse(text.as_bytes(), memory::list_bytes()).unwrap_or_default()
            }
            other => serde_json::to_value(other).unwrap_or_default(),
        };
        let mut found = match value {
            Value::Object(found) if self.is_initialize || found.contains_key("supportedVersions") => found,
            Value::Null if self.is_initialize => Map::new(),
            _ => return result,
        };
        found.retain(|key, value| match &**key {
            "protocolVersion" => value.as_str().is_some_and(|text| revision_of(text).is_some()),
            "supportedVersions" => read::<Vec<ProtocolVersion>>(value).is_some(),
            "instructions" | "resultType" | "cacheScope" => value.is_string(),
            "ttlMs" => value.is_u64(),
            "_meta" => value.is_object(),
            _ => true,
        });
        let info = found.shift_remove("serverInfo").unwrap_or_default();
        let text = |key| info.get(key).and_then(Value::as_str).unwrap_or_default();
        let info = read(&info).unwrap_or_else(|| Implementation::new(text("name"), text("version")));
        found.insert("serverInfo".to_owned(), json!(info));
        let declared = capabilities(found.shift_remove("capabilities").unwrap_or_default());
        found.insert("capabilities".to_owned(), json!(declared));
        // Without one of its own the server goes on in the revision that it was offered.
        let offered = json!(self.offered.last());
        for (key, value) in [
            ("protocolVersion", &offered),
            ("supportedVersions", &json!([offered])),
            ("resultType", &json!("complete")),
            ("ttlMs", &json!(0)),
            ("cacheScope", &json!("private")),
        ] {
            found.entry(key).or_insert_with(|| value.clone());
        }
        let found = Value::Object(found);
        let read = match self.is_initialize {
            true => read(&found).map(ServerResult::InitializeResult),
            false => read(&found).map(ServerResult::DiscoverResult),
        };
        read.unwrap_or(result)
    }
}

/// Capabilities that a server declares, by the names that it gives in any form.
fn capabilities(declared: Value) -> ServerCapabilities {
    if let Some(read) = read(&declared) {
        return read;
    }
    let declared: Map<String, Value> = match declared {
        Value::Object(declared) => declared,
        Value::Array(names) => names.iter().filter_map(|name| Some((name.as_str()?.to_owned(), json!({})))).collect(),
        _ => Map::new(),
    };
    let plain = declared.into_iter().filter_map(|(name, value)| {
        let settings = match value {
            Value::Null | Value::Bool(false) => return None,
            Value::Object(settings) => settings.into_iter().filter(|(_, value)| value.is_boolean()).collect(),
            _ => Map::new(),
        };
        let is_known = matches!(&*name, "tools" | "resources" | "prompts" | "logging" | "completions");
        is_known.then_some((name, Value::Object(settings)))
    });
    read(&Value::Object(plain.collect())).unwrap_or_default()
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// The revision that a text names: a date.
fn revision_of(text: &str) -> Option<ProtocolVersion> {
    let is_date = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() });
    read(&Value::from(text)).filter(|_| is_date)
}

/// A transport in lines or events, with handshakes.
pub(super) struct Negotiated<T> {
    inner: T,
    revision: Revision,
    handshake: Option<Handshake>,
}

impl<T> Negotiated<T> {
    pub(super) fn new(inner: T, revision: &Revision) -> Self {
        Self { inner, revision: revision.clone(), handshake: None }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Negotiated<T> {
    type Error = T::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        match Handshake::begin(&message, &self.revision) {
            Some(handshake) => {
                let offer = handshake.offer().clone();
                self.handshake = Some(handshake);
                self.inner.send(offer)
            }
            None => self.inner.send(message),
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            let Some(mut handshake) = mem::take(&mut self.handshake) else { return Some(message) };
            if !handshake.is_answer(&message) {
                self.handshake = Some(handshake);
                return Some(message);
            }
            if let Some(answer) = handshake.read(message) {
                return Some(answer);
            }
            let offer = handshake.offer().clone();
            self.handshake = Some(handshake);
            self.inner.send(offer).await.ok()?;
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
