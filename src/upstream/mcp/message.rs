//! Parses bytes from a server into messages, measured first. rmcp's own types make values of a message more than once,
//! so a large answer goes through rmcp as text and becomes values only where it is awaited.

use std::fmt;

use rmcp::model::{
    CallToolResult, ContentBlock, CustomResult, ErrorData, JsonRpcResponse, JsonRpcVersion2_0, MetaObject, RequestId,
    ResultType, ServerJsonRpcMessage, ServerResult,
};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::{too_much, unreadable};
use crate::json::{self, Unfit};
use crate::limits;
use crate::memory;
use crate::text::head;

/// Most bytes kept of a large error's message.
const MAX_ERROR: usize = 4000;

/// Result of parsing a line, a body or an event.
#[derive(Debug)]
pub(super) enum Parsed {
    Message(Box<ServerJsonRpcMessage>),
    /// An unusable answer to this request.
    Answer(RequestId, ErrorData),
    /// Invalid JSON, or JSON over a limit: an answer, if it is one.
    Broken(ErrorData),
    /// JSON that is not a message.
    Other(String),
    /// A message other than an answer, over the limit.
    Large(String),
}

/// Parses the messages of a text: one, or a batch.
pub(super) fn parse(text: &[u8]) -> Vec<Parsed> {
    let found = match json::measure(text) {
        Ok(found) => found,
        Err(private) => return vec![Parsed::Broken(unreadable(private))],
    };
    if found.tree_bytes > memory::SMALL {
        return match text.first() {
            Some(b'[') => match serde_json::from_slice::<Batch<'_>>(text) {
                Ok(Batch(items)) => items.into_iter().map(|item| one_of_batch(item.get().as_bytes())).collect(),
                Err(error) => vec![Parsed::Broken(unreadable(error))],
            },
            _ => vec![one(text)],
        };
    }
    if let Some(message) = tool_answer(text).or_else(|| serde_json::from_slice(text).ok()) {
        return vec![Parsed::Message(Box::new(message))];
    }
    match serde_json::from_slice::<Value>(text) {
        Ok(Value::Array(batch)) => batch.into_iter().map(odd).collect(),
        Ok(value) => vec![odd(value)],
        Err(error) => vec![Parsed::Broken(unreadable(error))],
    }
}

/// Parses the answer to a tool call in one pass. rmcp's type of all messages keeps a copy of the values while it tries
/// one shape after the other. `None` for any other message, and for an answer with fields of its own.
fn tool_answer(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Message {
        jsonrpc: JsonRpcVersion2_0,
        id: RequestId,
        result: Tool,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Tool {
        result_type: Option<ResultType>,
        content: Vec<ContentBlock>,
        #[serde(default, deserialize_with = "present")]
        structured_content: Option<Value>,
        is_error: Option<bool>,
        #[serde(rename = "_meta")]
        meta: Option<MetaObject>,
    }
    /// `null` is a value too.
    fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }
    let Message { jsonrpc, id, result: tool } = serde_json::from_slice(text).ok()?;
    if tool.result_type.as_ref().is_some_and(|kind| *kind != ResultType::COMPLETE) {
        return None;
    }
    let mut result = CallToolResult::default();
    (result.result_type, result.is_error, result.meta) = (tool.result_type, tool.is_error, tool.meta);
    (result.content, result.structured_content) = (tool.content, tool.structured_content);
    let result = ServerResult::CallToolResult(result);
    Some(ServerJsonRpcMessage::Response(JsonRpcResponse { jsonrpc, id, result }))
}

/// Classifies JSON that is not a message by itself: an item of a batch, an answer of a strange shape, or something
/// else.
fn odd(value: Value) -> Parsed {
    let text = value.to_string();
    let answers = value.get("result").is_some() || value.get("error").is_some();
    let id = value.get("id").and_then(id).filter(|_| answers);
    match (serde_json::from_value(value), id) {
        (Ok(message), _) => Parsed::Message(Box::new(message)),
        (Err(error), Some(id)) => Parsed::Answer(id, unreadable(error)),
        (Err(_), None) => Parsed::Other(text),
    }
}

/// Fields of a message as unparsed JSON.
#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
}

/// Parses one message of a large batch.
fn one_of_batch(text: &[u8]) -> Parsed {
    match json::parse(text, memory::SMALL) {
        Ok(message) => Parsed::Message(Box::new(message)),
        Err(Unfit::TooMuch { .. }) => one(text),
        Err(other) => Parsed::Broken(unreadable(other)),
    }
}

/// Parses one large message, which has no private keys.
fn one(text: &[u8]) -> Parsed {
    let Envelope { id: number, result, error, method } = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(error) => return Parsed::Broken(unreadable(error)),
    };
    let number = number.and_then(|number| id(&json::parse(number.get().as_bytes(), memory::SMALL).ok()?));
    match (number, result, error, method) {
        (Some(id), Some(result), None, None) => answer(id, result.get()),
        (Some(id), None, Some(error), None) => Parsed::Answer(id, large_error(error.get())),
        (_, _, _, Some(_)) => match limits::QUESTION.check(text.len()).and_then(|()| question(text)) {
            Ok(message) => Parsed::Message(Box::new(message)),
            Err(error) => Parsed::Large(error.message),
        },
        _ => Parsed::Other(String::from_utf8_lossy(&text[..text.len().min(MAX_ERROR)]).into_owned()),
    }
}

/// Keeps the result as text, if its values can ever fit in memory.
fn answer(id: RequestId, result: &str) -> Parsed {
    let most = memory::ANSWERS.size() / 2;
    match json::measure(result.as_bytes()) {
        Ok(found) if found.tree_bytes > most => {
            let why = Unfit::TooMuch { measure: found, limit: most };
            Parsed::Answer(id, too_much(format_args!("{why} (half of `memory.answers`)")))
        }
        _ => {
            let result = ServerResult::CustomResult(CustomResult(Value::String(result.to_owned())));
            let answer = JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result };
            Parsed::Message(Box::new(ServerJsonRpcMessage::Response(answer)))
        }
    }
}

/// Parses a request or notification that is not small.
fn question(text: &[u8]) -> crate::error::Result<ServerJsonRpcMessage> {
    let parsed = json::parse(text, 2 * limits::QUESTION.max);
    parsed.map_err(|unfit| crate::error::Error::new(crate::error::ErrorCode::LimitExceeded, unfit.to_string()))
}

/// Keeps the code and the beginning of the message of an error; drops its data.
fn large_error(error: &str) -> ErrorData {
    #[derive(serde::Deserialize)]
    struct Brief<'a> {
        code: i32,
        #[serde(borrow)]
        message: std::borrow::Cow<'a, str>,
    }
    match serde_json::from_str::<Brief<'_>>(error) {
        Ok(Brief { code, message }) => {
            ErrorData::new(rmcp::model::ErrorCode(code), head(&message, MAX_ERROR).to_owned(), None)
        }
        Err(error) => unreadable(error),
    }
}

/// True if an answer went through rmcp as text.
pub(super) fn is_large(answer: &JsonRpcResponse<ServerResult>) -> bool {
    matches!(&answer.result, ServerResult::CustomResult(CustomResult(Value::String(_))))
}

/// Parses our request ids, also from servers that write them as strings.
pub(super) fn id(value: &Value) -> Option<RequestId> {
    match value {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => {
            Some(text.parse().map_or_else(|_| RequestId::String(text.as_str().into()), RequestId::Number))
        }
        _ => None,
    }
}

/// Messages of a large batch, unparsed.
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
        let mut all = parse(text.as_bytes());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_large_answer_stays_text_and_a_small_one_does_not() {
        for (items, large) in [(10, false), (20_000, true)] {
            let result = format!("{{\"content\":[],\"structuredContent\":[{}]}}", vec!["0"; items].join(","));
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{result}}}");
            let Parsed::Message(message) = only(&text) else { panic!("it is a message") };
            let ServerJsonRpcMessage::Response(answer) = *message else { panic!("it is an answer") };
            assert_eq!(is_large(&answer), large, "{items}");
            if let ServerResult::CustomResult(CustomResult(Value::String(text))) = answer.result {
                assert_eq!(text, result);
            }
        }
    }

    #[test]
    fn the_answer_to_a_tool_call_is_read_as_rmcp_reads_it() {
        for (result, is_tool) in [
            (r#"{"content":[]}"#, true),
            (r#"{"content":[{"type":"text","text":"a\n"}],"structuredContent":{"a":[1.50,1e400,null]}}"#, true),
            (r#"{"resultType":"complete","content":[],"structuredContent":null,"isError":true,"_meta":{"a":1}}"#, true),
            (r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":null}"#, true),
            (r#"{"content":[],"nextCursor":"a"}"#, false),
            (r#"{"content":[],"resultType":"task"}"#, false),
            (r#"{"content":[{"type":"hologram"}]}"#, false),
            (r#"{"structuredContent":{}}"#, false),
            (r#"{"tools":[]}"#, false),
            ("{}", false),
            ("7", false),
        ] {
            for id in ["7", "\"a\""] {
                let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
                let (own, theirs) =
                    (tool_answer(text.as_bytes()), serde_json::from_str::<ServerJsonRpcMessage>(&text).ok());
                assert_eq!(own.is_some(), is_tool, "{text}");
                assert!(
                    own.is_none() || format!("{own:?}") == format!("{theirs:?}"),
                    "{text}: not {own:?}, but {theirs:?}"
                );
            }
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"method":"x"}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{"content":[]}}"#,
            r#"{"id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[]}}"#,
        ] {
            assert!(tool_answer(text.as_bytes()).is_none(), "{text}");
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
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":[{zeros}]}}"), "not MCP"),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":[{zeros}],\"result\":{{}}}}"), "Other"),
            (format!("{{\"a\":[{zeros}]}}"), "Other"),
            (format!("[{zeros}]"), "a batch of more than"),
            (
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"$serde_json::private::Number\":\"1\"}},\"x\":\"{text}\"}}"
                ),
                "reserved",
            ),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{zeros}"), "EOF"),
        ] {
            let parsed = format!("{:?}", only(&message));
            assert!(parsed.contains(says) && parsed.len() < 20_000, "{says}: {}", head(&parsed, 300));
        }
    }
}
