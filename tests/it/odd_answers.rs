//! Answers as careless servers write them, over every transport: what has one meaning is read, anything else is told in the
//! server's words, is an error of that call alone, and proves nothing of what became of the call.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::{has_python, python};

const HTTP: [&str; 3] = ["json", "events", "sse"];

/// A server over HTTP; it ends with its standard input.
struct Server(Child);

impl Server {
    fn start(mode: &str) -> (Self, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/as_told.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut port).expect("it says its port");
        let path = if mode == "sse" { "sse" } else { "mcp" };
        let transport = if mode == "sse" { "transport = \"sse\"\n" } else { "" };
        let url = format!("http://127.0.0.1:{}/{path}", port.trim());
        (Self(child), format!("[servers.on_{mode}]\nurl = \"{url}\"\ntimeout = \"60s\"\n{transport}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session with a server for each transport; `None`, visibly, without Python.
async fn every_transport() -> Option<(Fence, Vec<Server>, Session)> {
    let fence = has_python("tests/servers/as_told.py")?;
    let (servers, entries): (Vec<_>, Vec<_>) = HTTP.map(Server::start).into_iter().unzip();
    let session = fence.serve(&format!("{}{}", python("stdio", "as_told.py", &["stdio"])?, entries.concat())).await;
    session.ready(&["stdio", "on_json", "on_events", "on_sse"]).await;
    Some((fence, servers, session))
}

/// The value of a call that is answered with `raw`, or the error's code and message.
async fn asked(session: &Session, call: &str, raw: &str) -> Value {
    let arguments = json!({ "raw": raw });
    let code = format!(
        "try {{ return {{ value: (await {call}({arguments})) ?? null }} }}
         catch (e) {{ return {{ code: e.code, message: e.message, fix: e.suggested_fix, retryable: e.retryable }} }}"
    );
    session.execute("javascript", &code).await
}

fn result(result: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}")
}

fn fine() -> Value {
    json!({ "content": [{ "type": "text", "text": "fine" }] })
}

/// Answers that have one meaning, and the value of the call.
fn readable() -> Vec<(String, Value)> {
    let around = |envelope: &str| (envelope.replace("$FINE", &fine().to_string()), json!("fine"));
    let of = |of: Value, value: Value| (result(&of), value);
    let hologram = json!({ "type": "hologram", "data": "?" });
    vec![
        around(r#"{"jsonrpc":"2.0","id":$ID,"result":$FINE,"error":null}"#),
        around(r#"{"jsonrpc":"2.0","id":$ID,"result":$FINE,"error":{}}"#),
        around(r#"{"jsonrpc":"2.0","id":"$ID","result":$FINE}"#),
        around(r#"{"jsonrpc":"2.0","id":$ID.0,"result":$FINE}"#),
        around(r#"{"id":$ID,"result":$FINE}"#),
        around(r#"{"jsonrpc":"1.0","id":$ID,"result":$FINE}"#),
        around(r#"{"jsonrpc":"2.0","id":null,"result":$FINE}"#),
        around(r#"{"jsonrpc":"2.0","result":$FINE}"#),
        around("$FINE"),
        (
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#.to_owned(),
            json!("cut \u{fffd}"),
        ),
        around(r#"{"id":$ID,"content":"fine"}"#),
        around(
            r#"[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":$ID,"result":$FINE}]"#,
        ),
        around(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"fine"}],"took":5},"trace":1}"#),
        of(json!("just text"), json!("just text")),
        of(json!(null), json!(null)),
        of(json!({}), json!(null)),
        of(json!([1, 2]), json!([1, 2])),
        of(json!({ "rows": [1, 2] }), json!({ "rows": [1, 2] })),
        of(json!({ "rows": [1, 2], "isError": false }), json!({ "rows": [1, 2] })),
        of(json!({ "content": "just text" }), json!("just text")),
        of(json!({ "content": null, "structuredContent": { "a": 1 } }), json!({ "a": 1 })),
        of(json!({ "structuredContent": { "a": 1 } }), json!({ "a": 1 })),
        of(json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": null }), json!("x")),
        of(json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": {} }), json!("x")),
        of(json!({ "content": { "type": "text", "text": "one" } }), json!("one")),
        of(json!({ "content": { "rows": 2 } }), json!({ "rows": 2 })),
        of(json!({ "content": ["a", { "text": "b" }, null] }), json!(["a", "b"])),
        of(json!({ "content": [{ "type": "text", "text": 42 }] }), json!("42")),
        of(json!({ "content": [{ "type": "text", "text": true }] }), json!("true")),
        of(json!({ "content": [{ "type": "text", "text": null }] }), json!("null")),
        of(json!({ "content": [hologram, { "type": "text", "text": "beside" }] }), json!([hologram, "beside"])),
        of(
            json!({ "content": [hologram, { "type": "text", "text": "x" }], "structuredContent": { "a": 1 } }),
            json!({ "a": 1, "_content": [hologram] }),
        ),
        of(json!({ "content": [{ "type": "text", "text": "x" }], "isError": "false" }), json!("x")),
        of(json!({ "content": [{ "type": "text", "text": "x" }], "isError": 0 }), json!("x")),
        of(json!({ "toolResult": fine() }), json!("fine")),
        of(json!({ "toolResult": { "rows": 2 }, "isError": false }), json!({ "rows": 2 })),
        of(json!({ "toolResult": "just text" }), json!("just text")),
        of(json!({ "content": [], "toolResult": "x" }), json!(null)),
    ]
}

#[tokio::test]
async fn what_has_one_meaning_is_read_on_every_transport() {
    let Some((_fence, _servers, session)) = every_transport().await else { return };
    for (raw, value) in readable() {
        for server in ["stdio", "on_json", "on_events", "on_sse"] {
            let answer = asked(&session, &format!("{server}.act"), &raw).await;
            assert_eq!(answer, json!({ "value": value }), "{server}: {raw}");
        }
    }
    // A line of a log with an error, while a call waits, is no answer.
    let logged = format!("{}\n{}", json!({ "level": "error", "error": "lost" }), result(&fine()));
    assert_eq!(asked(&session, "stdio.act", &logged).await, json!({ "value": "fine" }));
    // A second answer to one request is left out, and told.
    let twice = format!("{}\n{}", result(&fine()), result(&json!({ "content": "second" })));
    assert_eq!(asked(&session, "stdio.act", &twice).await, json!({ "value": "fine" }));
    assert_eq!(asked(&session, "stdio.act", &result(&fine())).await, json!({ "value": "fine" }));
    let said = session.call("cat", json!({ "path": "/stdio/stderr" })).await.text;
    assert!(said.contains("an answer to no request") && said.contains("second"), "{said}");
}

#[tokio::test]
async fn an_unknown_kind_of_content_is_noted_and_media_without_a_type_are_media() {
    let Some((_fence, _servers, session)) = every_transport().await else { return };
    let run = |content: Value| {
        let raw = result(&json!({ "content": content }));
        format!("return await stdio.act({})", json!({ "raw": raw }))
    };
    let unknown = run(json!([{ "type": "hologram", "data": "?" }]));
    let answer = session.call("execute", json!({ "language": "javascript", "code": unknown })).await;
    assert!(
        answer.text.contains("note: stdio.act answered with content of a kind that MCP does not have"),
        "{}",
        answer.text
    );
    let image = run(json!([{ "type": "image", "data": "aGk=" }]));
    let answer = session.call("execute", json!({ "language": "javascript", "code": image })).await;
    assert_eq!(answer.others[0]["mimeType"], "application/octet-stream", "{answer:?}");
}

/// Answers that cannot be read, the code of the error, and a part of its message.
fn refused() -> Vec<(String, &'static str, &'static str)> {
    let error = |error: Value| format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{error}}}");
    let failed = |fields: Value| {
        let mut fields = fields;
        fields["isError"] = json!(true);
        result(&fields)
    };
    let quota = "quota is used up";
    let resource = json!({ "type": "resource", "resource": { "uri": "x://e", "text": quota } });
    vec![
        (error(json!(quota)), "UPSTREAM_ERROR", quota),
        (error(json!([quota])), "UPSTREAM_ERROR", quota),
        (error(json!({ "code": "E_QUOTA", "message": quota })), "UPSTREAM_ERROR", "quota is used up (code E_QUOTA)"),
        (error(json!({ "code": "-32602", "message": quota })), "UPSTREAM_ERROR", quota),
        (error(json!({ "code": 5_000_000_000_i64, "message": quota })), "UPSTREAM_ERROR", quota),
        (error(json!({ "message": quota })), "UPSTREAM_ERROR", quota),
        (error(json!({ "code": -1, "message": { "text": quota } })), "UPSTREAM_ERROR", quota),
        (error(json!({ "code": -1, "detail": quota })), "UPSTREAM_ERROR", quota),
        (error(json!({ "code": -1 })), "UPSTREAM_ERROR", "{\"code\":-1}"),
        (error(json!(null)), "UPSTREAM_ERROR", "null"),
        (error(json!({ "code": -32603, "message": quota })), "UPSTREAM_ERROR", "quota is used up (JSON-RPC -32603)"),
        (
            format!("{{\"id\":$ID,\"result\":{},\"error\":{{\"code\":-32602,\"message\":\"{quota}\"}}}}", fine()),
            "UPSTREAM_ERROR",
            "quota is used up (JSON-RPC -32602)",
        ),
        (
            format!("{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32602,\"message\":\"{quota}\"}}}}"),
            "UPSTREAM_ERROR",
            quota,
        ),
        (result(&fine()).replace("}]}}", "}]%%%"), "UPSTREAM_ERROR", "no JSON from line 1"),
        (result(&json!({ "content": "failed!", "isError": "true" })), "TOOL_ERROR", "failed!"),
        (result(&json!({ "content": "failed!", "isError": 1 })), "TOOL_ERROR", "failed!"),
        (failed(json!({ "content": [], "structuredContent": { "error": quota } })), "TOOL_ERROR", quota),
        (failed(json!({ "structuredContent": { "error": { "message": quota } } })), "TOOL_ERROR", quota),
        (failed(json!({ "detail": quota })), "TOOL_ERROR", quota),
        (failed(json!({ "toolResult": quota })), "TOOL_ERROR", quota),
        (failed(json!({ "content": [resource] })), "TOOL_ERROR", "stdio.act: quota is used up"),
    ]
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_is_no_fault_of_the_server() {
    let Some((_fence, _servers, session)) = every_transport().await else { return };
    for server in ["stdio", "on_json", "on_events", "on_sse"] {
        for (raw, code, says) in refused() {
            let says = says.replace("stdio.", &format!("{server}."));
            // Over SSE what is no JSON may be anybody's.
            if server == "on_sse" && says.contains("no JSON") || server == "on_events" && says.contains("no JSON") {
                continue;
            }
            let answer = asked(&session, &format!("{server}.act"), &raw).await;
            assert_eq!(
                (&answer["code"], &answer["retryable"]),
                (&json!(code), &json!(false)),
                "{server}: {raw}: {answer}"
            );
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(message.contains(&says), "{server}: {raw}: {message}");
            for words in ["CustomResult", "expected", "invalid type", "EOF"] {
                assert!(!message.contains(words), "{server}: {raw}: {message}");
            }
            // Only a tool that reports its own failure says what became of the call.
            let warns = answer["fix"].as_str().is_some_and(|fix| fix.contains("may have been carried out"));
            let is_clear = code == "TOOL_ERROR" && !raw.contains("\"isError\":1");
            assert_eq!(warns, !is_clear, "{server}: {raw}: {answer}");
        }
        assert!(session.line(server, "ready").await.contains("ready"));
        assert_eq!(asked(&session, &format!("{server}.act"), &result(&fine())).await, json!({ "value": "fine" }));
    }
}

#[tokio::test]
async fn the_excerpt_is_short_and_has_no_secret() {
    let Some((_fence, _servers, session)) = every_transport().await else { return };
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let raw = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{{\"code\":1,\"token\":\"{secret}\",\"more\":\"{}\"}}}}",
        "x".repeat(5000)
    );
    let answer = asked(&session, "stdio.look", &raw).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("[redacted") && !message.contains(&secret[..12]), "{message}");
    assert!(message.contains('…') && message.len() < 400, "{message}");
}

#[tokio::test]
async fn nothing_is_guessed_while_two_calls_wait() {
    let Some(config) = python("stdio", "as_told.py", &["stdio"]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&format!("{config}timeout = \"3s\"\n")).await;
    session.ready(&["stdio"]).await;
    // The first call is never answered, so that the nameless answer to the second may be its own.
    let calls = format!(
        "const all = await forge.parallel([() => stdio.act({}), () => stdio.act({})]);
         return all.results ?? all.errors ?? all",
        json!({ "raw": "" }),
        json!({ "raw": fine().to_string() })
    );
    let answer = session.call("execute", json!({ "language": "javascript", "code": calls })).await;
    assert!(!answer.text.contains("\"fine\"") && answer.text.contains("did not answer"), "{}", answer.text);
    let said = session.call("cat", json!({ "path": "/stdio/stderr" })).await.text;
    assert!(said.contains("(stdout, not MCP)") && said.contains("fine"), "{said}");
    // Nor later: an answer that was given up may still come.
    let late = asked(&session, "stdio.act", &fine().to_string()).await;
    assert_eq!(late["code"], "TIMEOUT", "{late}");
    assert_eq!(asked(&session, "stdio.act", &result(&fine())).await, json!({ "value": "fine" }));
}

#[tokio::test]
async fn odd_resources_and_prompts_are_read() {
    let Some((_fence, _servers, session)) = every_transport().await else { return };
    let hex = |raw: &str| raw.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (contents, texts) in [
        (json!("plain"), json!(["plain"])),
        (json!({ "text": "one" }), json!(["one"])),
        (json!([{ "text": 7 }, "b"]), json!(["7", "b"])),
    ] {
        let uri = format!("odd:{}", hex(&result(&json!({ "contents": contents }))));
        let code = format!("return (await forge.readResource('stdio', '{uri}')).contents.map(c => c.text)");
        assert_eq!(session.execute("javascript", &code).await, texts, "{contents}");
    }
    let uri = format!("odd:{}", hex(&result(&json!({ "error": "no such file" }))));
    let error = session.execute_err("javascript", &format!("return await forge.readResource('stdio', '{uri}')")).await;
    assert!(error.contains("UPSTREAM_ERROR") && error.contains("no such file"), "{error}");
    for (messages, texts) in [
        (json!("plain"), json!(["plain"])),
        (json!({ "role": "user", "content": "one" }), json!(["one"])),
        (json!([{ "content": { "type": "text", "text": 7 } }, { "content": ["a", "b"] }]), json!(["7", "a", "b"])),
    ] {
        let raw = json!({ "raw": result(&json!({ "messages": messages })) });
        let code = format!("return (await forge.prompt('stdio', 'ask', {raw})).messages.map(m => m.content.text)");
        assert_eq!(session.execute("javascript", &code).await, texts, "{messages}");
    }
}
