//! Parses bytes from a server into messages, measured first. rmcp's own types make values of a message more than once, and
//! drop fields that they do not know, so a large answer and the result of a tool go through rmcp as text and become values
//! only where they are awaited. An answer whose envelope is not that of JSON-RPC is read where it has one meaning.

use std::fmt;

use rmcp::model::{
    CustomResult, ErrorCode as RpcCode, ErrorData, JsonRpcError, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::failure::{excerpt, told, too_much, unreadable};
use super::lines::id_at_head;
use super::pending::Pending;
use super::tasks;
use base::json::{self, Unfit};
use base::limits;
use base::lines::trim;
use base::memory;
use base::text::head;

/// Most bytes kept of an error's message.
const MAX_ERROR: usize = 4000;

/// Result of parsing a line, a body or an event.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A message, or our error in place of an answer.
    Message(Box<ServerJsonRpcMessage>),
    /// Invalid JSON, or JSON over a limit, that names no request.
    Broken(ErrorData),
    /// JSON that is not a message.
    Other(String),
    /// A message other than an answer, over the limit.
    Large(String),
}

/// Number of messages in a line, a body or an event, as every transport reads them. Their bounds are measured by it.
pub fn count_messages(text: &[u8]) -> usize {
    parse(text, &Pending::default()).len()
}

/// Parses the messages of a text: one, or a batch. `pending` are the requests that it may answer.
pub(super) fn parse(text: &[u8], pending: &Pending) -> Vec<Parsed> {
    let text = &*json::readable(trim(text));
    if text.first() != Some(&b'[') {
        return vec![one(text, pending)];
    }
    // Measured as a whole: a batch over a limit is refused before its messages are looked at.
    match json::measure(text).map(|_| serde_json::from_slice::<Batch<'_>>(text)) {
        Ok(Ok(Batch(items))) => items.into_iter().map(|item| one(item.get().as_bytes(), pending)).collect(),
        Ok(Err(error)) => vec![no_json(&error, text, pending)],
        Err(private) => vec![broken(private, text, pending)],
    }
}

/// Of the messages of a body or an event, the answer to `id`, else the first.
pub(super) fn chosen(mut all: Vec<Parsed>, id: &RequestId) -> Option<Parsed> {
    let is_own = |parsed: &Parsed| matches!(parsed, Parsed::Message(message) if answered(message) == Some(id));
    let first = || all.iter().position(|parsed| !matches!(parsed, Parsed::Other(_)));
    let position = all.iter().position(is_own).or_else(first).unwrap_or(0);
    (position < all.len()).then(|| all.swap_remove(position))
}

/// The request that a message answers.
pub(super) fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// A refusal in the form of JSON-RPC, whatever request it is about.
pub(super) fn refusal(text: &[u8]) -> Option<JsonRpcError> {
    match json::parse(text, memory::SMALL).ok()? {
        ServerJsonRpcMessage::Error(error) => Some(error),
        _ => None,
    }
}

/// Fields of a message as unparsed JSON.
#[derive(serde::Deserialize)]
struct Envelope<'a> {
    jsonrpc: Option<IgnoredAny>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    /// Of a tool's result, which may stand without an envelope.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// `null` is a value too.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads one message.
fn one(text: &[u8], pending: &Pending) -> Parsed {
    let is_small = match json::measure(text) {
        Ok(found) => found.tree_bytes <= memory::SMALL,
        Err(private) => return broken(private, text, pending),
    };
    let other = || Parsed::Other(String::from_utf8_lossy(&text[..text.len().min(MAX_ERROR)]).into_owned());
    let Envelope { jsonrpc, id: given, result, error, method, content } = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return other(),
        Err(error) => return no_json(&error, text, pending),
    };
    let message = |message| Parsed::Message(Box::new(message));
    let own = given.and_then(|given| id(&json::parse(given.get().as_bytes(), memory::SMALL).ok()?));
    if let Some(method) = method {
        // Ours, which no server sends.
        let is_echo = matches!(method.get(), "\"initialize\"" | "\"server/discover\"");
        if let Some(own) = own.filter(|own| is_echo && pending.has(own)) {
            let why = "it sends back what it is sent: it is no MCP server".to_owned();
            return message(ServerJsonRpcMessage::error(told(why, None), Some(own)));
        }
        let asked = match is_small {
            true => serde_json::from_slice(text).ok().or_else(|| without_version(text, method.get())),
            false => match question(text) {
                Ok(message) => Some(message),
                Err(why) => return Parsed::Large(why),
            },
        };
        return asked.map_or_else(other, message);
    }
    // Some have a key for an error in every answer.
    let is_error = error.is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\"" | "{}"));
    // Lines of a log are objects too, also with results and errors: what names no request must have a version or a list of
    // content.
    let is_result = |content: &&RawValue| result.is_none() && (own.is_some() || content.get().starts_with('['));
    let whole = content.filter(is_result).and_then(|_| std::str::from_utf8(text).ok());
    let result = result.map(RawValue::get).or(whole);
    let guessed = match given {
        // No notification is answered so.
        None if whole.is_some() => pending.only(),
        None if jsonrpc.is_some() && (result.is_some() || error.is_some()) => pending.guess(result.is_some()),
        _ => None,
    };
    let is_odd = own.is_none() || result.is_some_and(|result| result != "null");
    match (own.or(guessed), error, result) {
        (Some(id), Some(error), result) if is_error || result.is_none() => {
            message(ServerJsonRpcMessage::error(refused(error.get(), is_small, is_odd), Some(id)))
        }
        (Some(id), _, Some(result)) => message(answer(id, result, is_small)),
        (None, Some(error), _) if given.is_none() && jsonrpc.is_some() => {
            message(ServerJsonRpcMessage::error(refused(error.get(), is_small, false), None))
        }
        (Some(id), None, None) if jsonrpc.is_some() && pending.has(&id) => {
            message(ServerJsonRpcMessage::error(unreadable("neither a result nor an error", text), Some(id)))
        }
        _ => other(),
    }
}

/// Reads a small request or notification that lacks its version. Only of a method of MCP: logs have methods too.
fn without_version(text: &[u8], method: &str) -> Option<ServerJsonRpcMessage> {
    const METHODS: [&str; 5] = ["\"notifications/", "\"sampling/", "\"elicitation/", "\"roots/", "\"ping\""];
    let mut message: Value = serde_json::from_slice(text).ok()?;
    METHODS.iter().any(|known| method.starts_with(known)).then_some(())?;
    message.as_object_mut()?.insert("jsonrpc".to_owned(), "2.0".into());
    serde_json::from_value(message).ok()
}

/// A text that is no JSON.
fn no_json(error: &serde_json::Error, text: &[u8], pending: &Pending) -> Parsed {
    match error.classify() {
        serde_json::error::Category::Eof => broken("its JSON breaks off", text, pending),
        serde_json::error::Category::Data => broken(error, text, pending),
        _ => broken(format_args!("no JSON from line {}, column {} on", error.line(), error.column()), text, pending),
    }
}

/// A text that cannot be parsed, as the error of the request that it names.
fn broken(why: impl fmt::Display, text: &[u8], pending: &Pending) -> Parsed {
    let error = unreadable(why, text);
    match id_at_head(text).filter(|id| pending.has(id)) {
        Some(id) => Parsed::Message(Box::new(ServerJsonRpcMessage::error(error, Some(id)))),
        None => Parsed::Broken(error),
    }
}

/// An answer. A large result stays text, if its values can ever fit in memory, and so does that of a tool.
fn answer(id: RequestId, text: &str, is_small: bool) -> ServerJsonRpcMessage {
    let most = memory::ANSWERS.size() / 2;
    if !is_small
        && let Ok(measure) = json::measure(text.as_bytes())
        && measure.tree_bytes > most
    {
        let why = Unfit::TooMuch { measure, limit: most };
        return ServerJsonRpcMessage::error(too_much(format_args!("{why} (half of `memory.answers`)")), Some(id));
    }
    let typed = if is_small && !is_kept(text) { typed(text) } else { None };
    let result = typed.filter(|result| !matches!(result, ServerResult::CallToolResult(_)));
    let result = result.unwrap_or_else(|| ServerResult::CustomResult(CustomResult(Value::String(text.to_owned()))));
    ServerJsonRpcMessage::response(result, id)
}

/// A result as rmcp has it. Tools that require a task are noted in the metadata of their list, since rmcp has no field for it.
fn typed(text: &str) -> Option<ServerResult> {
    if !text.contains("\"taskSupport\"") {
        return serde_json::from_str(text).ok();
    }
    let mut result: Value = serde_json::from_str(text).ok()?;
    let required = tasks::required(&result);
    let meta = result.as_object_mut()?.entry("_meta").or_insert(Value::Null);
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta[tasks::KEY] = required.into();
    serde_json::from_value(result).ok()
}

/// True for a result that rmcp's types would lose parts of: of a tool, of a task, or of a handshake.
fn is_kept(result: &str) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        content: Option<IgnoredAny>,
        task: Option<IgnoredAny>,
        task_id: Option<IgnoredAny>,
        capabilities: Option<IgnoredAny>,
    }
    serde_json::from_str::<Fields>(result).is_ok_and(|Fields { content, task, task_id, capabilities }| {
        [content, task, task_id, capabilities].iter().any(Option::is_some)
    })
}

/// Parses a request or notification that is not small, or says why not.
fn question(text: &[u8]) -> Result<ServerJsonRpcMessage, String> {
    limits::QUESTION.check(text.len()).map_err(|error| error.message)?;
    json::parse(text, 2 * limits::QUESTION.max).map_err(|unfit| unfit.to_string())
}

/// An error: code, the beginning of its message, and the data of a small one. Of another form, or if `is_odd`, it proves
/// nothing but what it says.
fn refused(error: &str, is_small: bool, is_odd: bool) -> ErrorData {
    #[derive(serde::Deserialize)]
    struct Brief<'a> {
        code: i32,
        #[serde(borrow)]
        message: std::borrow::Cow<'a, str>,
    }
    let mut value = is_small.then(|| serde_json::from_str::<Value>(error).ok()).flatten().unwrap_or_default();
    let data = value.get_mut("data").map(Value::take).filter(|data| !data.is_null());
    let cut = |text: &str| head(text, if is_small { usize::MAX } else { MAX_ERROR }).to_owned();
    match serde_json::from_str::<Brief<'_>>(error) {
        Ok(Brief { code, message }) if !is_odd => ErrorData::new(RpcCode(code), cut(&message), data),
        Ok(Brief { code, message }) => told(format!("{} (JSON-RPC {code})", cut(&message)), data),
        Err(_) => match (json::words(&value), value.get("code")) {
            (Some(words), Some(code @ (Value::String(_) | Value::Number(_)))) => {
                let code = code.as_str().map_or_else(|| code.to_string(), str::to_owned);
                told(format!("{} (code {})", cut(words), head(&code, 100)), data)
            }
            (Some(words), _) => told(cut(words), data),
            (None, _) => told(format!("an error that says no more than {}", excerpt(error.as_bytes())), data),
        },
    }
}

/// Parses our request ids, also from servers that write them as texts or with decimals.
pub(super) fn id(value: &Value) -> Option<RequestId> {
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
    match value {
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)).map(RequestId::Number),
        Value::String(text) => {
            Some(text.parse().map_or_else(|_| RequestId::String(text.as_str().into()), RequestId::Number))
        }
        _ => None,
    }
}

/// Messages of a batch, unparsed.
struct Batch<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Batch<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    if items.len() == limits::BATCH.max {
                        return Err(A::Error::custom(format!("a batch of more than {} messages", limits::BATCH.max)));
                    }
                    items.push(item);
                }
                Ok(Batch(items))
            }
        }
        deserializer.deserialize_seq(Items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Parsed {
        let mut all = parse(text.as_bytes(), &Pending::default());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// The result of an answer, if it stays text.
    fn text_of(message: &str) -> Option<String> {
        let Parsed::Message(message) = only(message) else { panic!("it is a message: {message}") };
        let ServerJsonRpcMessage::Response(answer) = *message else { panic!("it is an answer: {message:?}") };
        assert_eq!(answer.id, RequestId::Number(7));
        if let ServerResult::CustomResult(CustomResult(Value::String(text))) = answer.result {
            Some(text)
        } else {
            None
        }
    }

    #[test]
    fn a_large_answer_stays_text_and_a_small_one_does_not() {
        for (items, large) in [(10, false), (20_000, true)] {
            let result = format!("{{\"tools\":[{}]}}", vec!["{\"name\":\"a\",\"inputSchema\":{}}"; items].join(","));
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{result}}}");
            assert_eq!(text_of(&text), large.then_some(result));
        }
    }

    #[test]
    fn the_answer_to_a_tool_call_keeps_what_rmcp_would_drop() {
        for (result, is_tool) in [
            (r#"{"content":[]}"#, true),
            (r#"{"content":[{"type":"text","text":"a\n"}],"structuredContent":{"a":[1.50,1e400,null]}}"#, true),
            (r#"{"resultType":"complete","content":[],"structuredContent":null,"isError":true,"_meta":{"a":1}}"#, true),
            (r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":null}"#, true),
            (r#"{"content":[],"nextCursor":"a"}"#, true),
            (r#"{"content":[],"resultType":"task"}"#, true),
            (r#"{"content":[{"type":"hologram"}]}"#, true),
            (r#"{"structuredContent":{}}"#, true),
            (r#"{"tools":[]}"#, false),
            ("{}", false),
            ("7", false),
        ] {
            for id in ["7", "\"7\""] {
                let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
                assert_eq!(text_of(&text), is_tool.then(|| result.to_owned()), "{text}");
            }
        }
    }

    #[test]
    fn what_is_large_and_no_answer_is_bounded() {
        let zeros = vec!["0"; 100_000].join(",");
        let text = "x".repeat(2 << 20);
        for (message, says) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{{\"a\":[{zeros}]}}}}"), "Large"),
            (
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":3,\"message\":\"m\",\"data\":[{zeros}]}}}}"
                ),
                "\"m\"",
            ),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":[{zeros}]}}"), "[0,0,0"),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":[{zeros}],\"result\":{{}}}}"), "Other"),
            (format!("{{\"a\":[{zeros}]}}"), "Other"),
            (format!("[{zeros}]"), "a batch of more than"),
            (
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"$serde_json::private::Number\":\"1\"}},\"x\":\"{text}\"}}"
                ),
                "reserved",
            ),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{zeros}"), "breaks off"),
        ] {
            let parsed = format!("{:?}", only(&message));
            assert!(parsed.contains(says) && parsed.len() < 20_000, "{says}: {}", head(&parsed, 300));
        }
    }
}
