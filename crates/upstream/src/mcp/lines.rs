//! Lines of a server's stdout. No answer is lost: if one cannot be read, its request fails.

use futures::{Stream, stream};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::io::AsyncBufRead;

use super::inbox::Inbox;
use super::message;
use base::limits;
use base::lines::{self, Kind, kind_of, number_at_head};

/// Most bytes of one message. A longer one is skipped while it is read, so it never takes twice this memory.
pub(super) const MAX_MESSAGE: usize = limits::MESSAGE_OF_SERVER.max;

/// Messages of each line, several for a batch.
pub(super) fn messages(read: impl AsyncBufRead + Unpin, inbox: Inbox) -> impl Stream<Item = Vec<ServerJsonRpcMessage>> {
    stream::unfold((read, inbox), |(mut read, mut inbox)| async {
        let line = lines::next(&mut read, MAX_MESSAGE).await?;
        Some((inbox.line(line), (read, inbox)))
    })
}

/// Id of the request that the beginning of an answer belongs to. A request of the server has a number of the server's own.
pub(super) fn id_at_head(text: &[u8]) -> Option<RequestId> {
    id(number_at_head(text).filter(|_| kind_of(text, text) != Some(Kind::Question)))
}

/// The id that a number stands for.
pub(super) fn id(found: Option<&[u8]>) -> Option<RequestId> {
    message::id(&serde_json::from_slice(found?).ok()?)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest, PingRequest};
    use serde_json::Value;

    use super::*;
    use crate::mcp::inbox::PassedOver;
    use crate::mcp::pending::Pending;
    use crate::stderr::Stderr;

    /// Parses `text` while the requests 1 and 2 are pending: messages as JSON, and the part kept with stderr.
    async fn read(text: &[u8]) -> (Vec<Value>, String) {
        read_for(&[1, 2], text).await
    }

    async fn read_for(waiting: &[i64], text: &[u8]) -> (Vec<Value>, String) {
        let (pending, stderr) = (Pending::default(), Stderr::default());
        let ping = |id| {
            ClientJsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(id))
        };
        waiting.iter().for_each(|id| pending.sent(&ping(*id)));
        let inbox = Inbox::of_connection(pending, PassedOver::new("x", "stdout", stderr.clone()));
        let messages = messages(text, inbox).concat().await;
        let found = messages.iter().map(|message| serde_json::to_value(message).expect("it is JSON"));
        (found.collect(), stderr.text())
    }

    /// Id and error code of each message.
    async fn errors(text: &str) -> Vec<(i64, i64)> {
        read(text.as_bytes()).await.0.iter().filter_map(error).collect()
    }

    fn error(message: &Value) -> Option<(i64, i64)> {
        Some((message["id"].as_i64()?, message["error"]["code"].as_i64().unwrap_or(0)))
    }

    #[tokio::test]
    async fn junk_is_kept_and_messages_come_through() {
        let text = "Welcome!\n\n{\"level\":\"info\"}\n[1,2]\n7\n\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n{\"jsonrpc\"";
        let (found, stderr) = read(text.as_bytes()).await;
        assert_eq!(found.len(), 1, "{found:?}");
        for words in ["Welcome!", "{\"level\":\"info\"}", "(stdout, not MCP) 7"] {
            assert!(stderr.contains(words), "no {words} in {stderr}");
        }
        let (_, stderr) = read(b"\xff\xfe binary\n").await;
        assert!(stderr.contains("binary"), "{stderr}");
    }

    #[tokio::test]
    async fn a_broken_answer_fails_its_request_and_only_that() {
        assert_eq!(errors("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\": [garbage\n").await, [(2, -32049)]);
        assert_eq!(errors("{\"id\":1,\"result\":7}\n").await, [(1, 0)], "the version is missing, and nothing else");
        assert_eq!(errors("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":garbage\n").await, []);
        assert_eq!(errors("{\"id\":1,\"level\":\"info\"}\n").await, []);
        assert_eq!(errors("{\"jsonrpc\":\"2.0\",\"id\":1}\n{\"jsonrpc\":\"2.0\",\"id\":9}\n").await, [(1, -32049)]);
        let (found, _) = read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"caf\xe9\"]}\n").await;
        assert_eq!(found[0]["result"], serde_json::json!(["caf\u{fffd}"]), "{found:?}");
    }

    #[tokio::test]
    async fn a_batch_is_read_item_by_item() {
        let batch = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]\n";
        assert_eq!(errors(batch).await, [(1, 0), (2, 0)]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_fails_its_request_wherever_its_number_stands() {
        let long = "x".repeat(MAX_MESSAGE);
        for text in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"{long}\"}}\n"),
            format!("{{ \"id\": 2, \"result\":\"{long}\"}}\n"),
            format!("{{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":2}}\n"),
            format!("{{\"result\":\"{long}\",\"id\":\"2\",\"jsonrpc\":\"2.0\"}}\r\n"),
        ] {
            let after = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
            assert_eq!(errors(&format!("{text}{after}")).await, [(2, -32049), (1, 0)], "{}", &text[..40]);
        }
        let inner = format!("{{\"result\":{{\"text\":\"{long}\",\"id\":2}}}}\n");
        assert_eq!(errors(&inner).await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_fails_the_only_request_if_it_is_an_answer_that_names_none() {
        let long = "x".repeat(MAX_MESSAGE);
        for (begins, ends, fails) in [
            ("{\"result\":\"", "\",\"jsonrpc\":\"2.0\"}", true),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"message\":\"", "\"}}", true),
            ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", "\"}]", true),
            ("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":\"", "\"}", false),
            ("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"", "\"}}", false),
            ("{\"params\":{\"data\":\"", "\"},\"method\":\"notifications/message\",\"jsonrpc\":\"2.0\"}", false),
            // A request of the server, whose number is its own.
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{\"x\":\"", "\"}}", false),
            ("{\"method\":\"roots/list\",\"params\":{\"x\":\"", "\"},\"jsonrpc\":\"2.0\",\"id\":1}", false),
            ("\u{feff}{\"_meta\":{},\"jsonrpc\":\"2.0\",\"result\":\"", "\"}", true),
            ("[{\"method\":\"x\",\"jsonrpc\":\"2.0\"},{\"id\":1,\"result\":\"", "\"}]", true),
            ("{\"level\":\"error\",\"message\":\"", "\"}", false),
            ("no JSON ", "", false),
        ] {
            let (found, stderr) = read_for(&[1], format!("{begins}{long}{ends}\n").as_bytes()).await;
            assert_eq!(found.iter().find_map(error), fails.then_some((1, -32049)), "{begins}");
            assert!(stderr.contains("a line of ") && stderr.contains("was skipped"), "{stderr}");
        }
        let broken = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{garbage\n";
        assert!(read_for(&[1], broken).await.0.is_empty());
    }
}
