//! Parses a line of a client into a message, measured first.

use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode as RpcCode, GetMeta as _, JsonRpcMessage, JsonRpcRequest, RequestId,
    ServerJsonRpcMessage,
};
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::admission::Held;
use base::error::{Error, ErrorCode, code_name};
use base::json;
use base::limits::{self, Limit};
use base::lines::{Kind, kind_of, number_at_end, number_at_head};

/// Id of a request; `None` for another message.
pub(super) fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Id of the request that a message answers.
pub(super) fn answered_id(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}

/// Result of parsing a line.
pub(super) enum Read {
    /// A message, and true if it is not what the line says: see [`with_arguments`].
    Message(Box<ClientJsonRpcMessage>, Held, bool),
    /// An error for its request, if the id is known.
    Refused(Option<RequestId>, ErrorData),
    /// No answer: invalid JSON without a recognisable id, or an unusable notification.
    Nothing,
}

/// Parses a line, whose bytes are held.
pub(super) fn read(line: &[u8], mut held: Held) -> Read {
    let found = match json::measure(line) {
        Ok(found) => found,
        Err(private) => {
            return Read::Refused(number(line, line), ErrorData::invalid_request(private.to_string(), None));
        }
    };
    if let Err(error) = within(&limits::CLIENT_VALUES, found.tree_bytes).and_then(|()| held.grow(found.tree_bytes)) {
        return refused(line, &error);
    }
    match serde_json::from_slice(line) {
        Ok(message) => match (names_fit(&message), unread_call(&message)) {
            (Err(error), _) => Read::Refused(None, refusal(&error)),
            (Ok(()), None) => Read::Message(Box::new(message), held, false),
            (Ok(()), Some(id)) => {
                let mended = with_arguments(line, found.tree_bytes, &mut held);
                let why = "tools/call takes `name`, a text, and `arguments`, an object with the arguments by name";
                mended.map_or_else(
                    || Read::Refused(Some(id.clone()), ErrorData::invalid_params(why, None)),
                    |message| Read::Message(Box::new(message), held, true),
                )
            }
        },
        Err(error) => odd(line, &error),
    }
}

/// The id of a call that rmcp cannot read, and takes for a request that it does not know.
fn unread_call(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(JsonRpcRequest { id, request: ClientRequest::CustomRequest(custom), .. }) => {
            (custom.method == "tools/call").then_some(id)
        }
        _ => None,
    }
}

/// A call whose arguments are an object as JSON text, as some clients send them, with that object. Its values are held
/// before they are made, beside those of the line, which are made twice.
fn with_arguments(line: &[u8], tree_bytes: usize, held: &mut Held) -> Option<ClientJsonRpcMessage> {
    held.grow(2 * tree_bytes).ok()?;
    let mut whole: Value = serde_json::from_slice(line).ok()?;
    let place = whole.pointer_mut("/params/arguments")?;
    let text = place.as_str().map(|text| if text.trim().is_empty() { "{}" } else { text })?;
    held.grow(2 * tree_bytes + json::measure(text.as_bytes()).ok()?.tree_bytes).ok()?;
    *place = Value::Object(json::parse(text.as_bytes(), limits::CLIENT_VALUES.max).ok()?);
    let message = serde_json::from_value(whole).ok()?;
    unread_call(&message).is_none().then_some(message)
}

/// Checks what is repeated in answers and reports: the id of a request, and its progress token.
fn names_fit(message: &ClientJsonRpcMessage) -> Result<(), Error> {
    let JsonRpcMessage::Request(request) = message else { return Ok(()) };
    let length = |name: &RequestId| match name {
        RequestId::String(name) => name.len(),
        RequestId::Number(_) => 0,
    };
    let token = request.request.get_meta().get_progress_token().map_or(0, |token| length(&token.0));
    within(&limits::REQUEST_ID, token.max(length(&request.id)))
}

/// Checks a size of a message itself.
fn within(limit: &Limit, size: usize) -> Result<(), Error> {
    limit.check(size).map_err(|error| error.with_code(ErrorCode::LimitExceeded))
}

/// Reply to a line over the limit.
pub(super) fn skipped(head: &[u8], tail: &[u8], bytes: usize) -> Read {
    let error = limits::CLIENT_MESSAGE.exceeded(ErrorCode::LimitExceeded, bytes);
    Read::Refused(number(head, tail), refusal(&error))
}

/// Reply to a line over the limit, as a line without its end; `None` if it was no request.
pub(crate) fn too_long(head: &[u8], tail: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let Read::Refused(id, error) = skipped(head, tail, bytes) else { return None };
    serde_json::to_vec(&ServerJsonRpcMessage::error(error, id)).ok()
}

/// Reply to a line that is not parsed.
pub(super) fn refused(line: &[u8], error: &Error) -> Read {
    Read::Refused(number(line, line), refusal(error))
}

/// Reply to an unrecognisable line.
pub(super) fn unread(error: &Error) -> Read {
    Read::Refused(None, ErrorData::internal_error(error.message.clone(), None))
}

/// A refusal as a JSON-RPC error.
pub(super) fn refusal(error: &Error) -> ErrorData {
    const SERVER_ERROR: RpcCode = RpcCode(-32000);
    let data = json!({"code": code_name(error.code), "suggestedFix": error.suggested_fix()});
    let code = match error.code {
        ErrorCode::Busy => SERVER_ERROR,
        ErrorCode::LimitExceeded => RpcCode::INVALID_REQUEST,
        _ => RpcCode::INVALID_PARAMS,
    };
    ErrorData::new(code, error.message.clone(), Some(data))
}

/// Reply to a line that is not a message.
fn odd(line: &[u8], error: &serde_json::Error) -> Read {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        method: Option<IgnoredAny>,
    }
    if matches!(error.classify(), Category::Syntax | Category::Eof) {
        tracing::debug!(%error, "a line of the client is no JSON");
        // Without an id an answer has no recipient, and could come back as the next such line.
        return number(line, line).map_or(Read::Nothing, |id| {
            Read::Refused(Some(id), ErrorData::parse_error(format!("the line is no JSON: {error}"), None))
        });
    }
    let invalid = |why: &str| ErrorData::invalid_request(why.to_owned(), None);
    if line.starts_with(b"[") {
        return Read::Refused(None, invalid("batches are not supported: send each message on a line of its own"));
    }
    match serde_json::from_slice(line) {
        Ok(Envelope { id: None, method: Some(_) }) => Read::Nothing,
        Ok(Envelope { id: Some(id), method: Some(_) }) => {
            let why = invalid("not a JSON-RPC request: it needs `jsonrpc`, `id`, `method` and no `result` or `error`");
            Read::Refused(serde_json::from_str(id.get()).ok(), why)
        }
        _ => Read::Refused(None, invalid("not a JSON-RPC message")),
    }
}

/// Id of the request with this beginning and end. Our answers carry an id too.
fn number(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let found = number_at_head(head).or_else(|| number_at_end(tail))?;
    (kind_of(head, tail) == Some(Kind::Question)).then(|| serde_json::from_slice(found).ok())?
}

#[cfg(test)]
mod tests {
    use super::super::admission::Admission;
    use super::*;

    /// Describes a line: the method of a message, or the id and text of a refusal.
    fn told(line: &[u8]) -> String {
        let held = Admission::default().bytes.hold(line.len()).expect("there is room");
        match read(line, held) {
            Read::Message(message, ..) => serde_json::to_string(&message).expect("it is JSON"),
            Read::Refused(id, error) => {
                let id = id.map_or_else(|| "-".to_owned(), |id| id.to_string());
                format!("{id} {} {}", error.code.0, error.message)
            }
            Read::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn every_line_is_a_message_or_is_told_why_not() {
        let deep = format!("{{\"id\":3,\"method\":\"x\",\"params\":{}1{}}}", "[".repeat(300), "]".repeat(300));
        let lists = format!("{{\"id\":4,\"method\":\"x\",\"params\":[{}]}}", vec!["[[]]"; 100_000].join(","));
        for (line, says) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\"method\":\"ping\""),
            (r#"{"id":1,"method":"x",,}"#, "1 -32700 the line is no JSON"),
            (r#"{"method":"x",,,"jsonrpc":"2.0","id":1}"#, "1 -32700"),
            (r#"{"method":"#, "nothing"),
            (r#"{"id":1,"result":{]}"#, "nothing"),
            ("Hello", "nothing"),
            ("{\"id\":1,\"method\":\"a\0b\"}", "1 -32700"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "- -32600 batches are not supported"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, "1 -32600 not a JSON-RPC request"),
            (r#"{"id":"a","method":"ping"}"#, "a -32600 not a JSON-RPC request"),
            (r#"{"jsonrpc":"1.0","method":"notifications/x"}"#, "nothing"),
            ("7", "- -32600 not a JSON-RPC message"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","arguments":"{\"path\":\"/\"}"}}"#,
                r#""arguments":{"path":"/"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","arguments":" "}}"#,
                r#""arguments":{}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","arguments":"[1]"}}"#,
                "1 -32602 tools/call takes",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","arguments":[1]}}"#,
                "1 -32602 tools/call takes",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#,
                "1 -32602 tools/call takes",
            ),
            (r#"{"id":2,"method":"x","params":{"$serde_json::private::Number":"1"}}"#, "2 -32600 it has a key"),
            (r#"{"id":2,"result":{"$serde_json::private::Number":"1"}}"#, "- -32600 it has a key"),
            (&deep, "3 -32700"),
            (&lists, "4 -32600 values of a message of a client: "),
        ] {
            let told = told(line.as_bytes());
            assert!(told.contains(says), "{}: no {says:?} in {told}", &line[..line.len().min(80)]);
        }
        assert!(told(b"{\"id\":5,\"method\":\"\xff\"}").starts_with("5 -32700"), "no UTF-8");
    }

    #[test]
    fn only_requests_are_told_by_their_number() {
        for (head, tail, number) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"xx"#, "xx", Some(7)),
            (r#"{"method":"tools/call","params":{"result":"xx"#, r#"xx"},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"method":"xx"#, "xx", None),
            (r#"{"result":{"text":"xx"#, r#""method":"x"},"jsonrpc":"2.0","id":7}"#, None),
            (r#"{"params":{"a":"xx"#, r#"xx"},"method":"tools/call","id":7}"#, Some(7)),
        ] {
            let found = super::number(head.as_bytes(), tail.as_bytes());
            assert_eq!(found, number.map(RequestId::Number), "{head}…{tail}");
        }
    }
}
