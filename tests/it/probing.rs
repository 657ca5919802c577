//! Probes: the gateway itself calls tools that only read, once, for the shapes of their answers.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::client::{Fence, Session};
use crate::faulty::python;

const PROBE: &str = "[manifest]\nprobe = true\n";
/// Longest wait for what happens in the background.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of tests/servers/answers.py with these answers and further fields of its tools.
fn server(fence: &Fence, name: &str, answers: &Value, more: &Value) -> Option<String> {
    let answers = fence.write(format!("{name}.json"), &answers.to_string());
    let more = fence.write(format!("{name}.more.json"), &more.to_string());
    python(name, "answers.py", &[&answers.to_string_lossy(), &more.to_string_lossy()])
}

fn taking(properties: &Value, required: &[&str]) -> Value {
    json!({"inputSchema": {"type": "object", "properties": properties, "required": required}})
}

/// Records of probes: server and tool, verdict, outcome.
fn probes(fence: &Fence) -> Vec<[String; 3]> {
    let text = fs::read_to_string(fence.audit()).unwrap_or_default();
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = records.filter(|record| record["request"] == "probe");
    let calls = own.flat_map(|record| {
        assert!(record["client"] == "probe" && record["principal"] == "forgefs/probe", "{record}");
        record["calls"].as_array().cloned().unwrap_or_default()
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = |call: Value| {
        let label = format!("{}.{} {}", text(&call["server"]), text(&call["tool"]), text(&call["args"]));
        [label, text(&call["verdict"]), text(&call["outcome"])]
    };
    calls.map(shown).collect()
}

/// Waits for a number of probes.
async fn probed(fence: &Fence, count: usize) -> Vec<[String; 3]> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = probes(fence);
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < until, "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn stub(session: &Session, path: &str) -> String {
    session.call("cat", json!({ "path": path })).await.text
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_reads_and_needs_nothing_is_called_once_and_on_record() {
    let fence = Fence::new();
    let answer = json!([{"content": [{"type": "text", "text": "{\"id\": 7}"}]}]);
    let names =
        ["asked", "by_id", "by_state", "denied", "failing", "orders", "put_order", "secret", "typed", "wiped", "zoned"];
    let mut answers: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), answer.clone())).collect();
    answers["failing"] = json!([{"isError": true, "content": [{"type": "text", "text": "no"}]}]);
    let given = json!({"state": {"enum": ["open", "done"]}, "limit": {"type": "integer", "default": 3}, "kind": {"const": "a"}});
    let more = json!({
        "by_id": taking(&json!({"id": {"type": "integer"}}), &["id"]),
        "by_state": taking(&given, &["state", "limit", "kind"]),
        "typed": {"outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "wiped": {"annotations": {"readOnlyHint": true, "destructiveHint": true}},
        // Another one takes what this one needs.
        "zoned": taking(&json!({"zone": {"type": "string"}}), &[]),
    });
    let Some(shop) = server(&fence, "shop", &answers.into(), &more) else { return };
    let rules = "deny = [\"denied\"]\n[servers.shop.tools.asked]\napproval = \"always\"\n";
    let each = server(&fence, "each", &json!({"orders": answer}), &json!({})).expect("there is Python");
    let config = format!("{shop}{rules}{each}share = \"session\"\n");

    // Off by default.
    let session = fence.serve(&config).await;
    session.ready(&["each", "shop"]).await;
    session.close().await;
    assert!(probes(&fence).is_empty(), "{:?}", probes(&fence));

    let session = fence.serve(&format!("{config}{PROBE}")).await;
    session.ready(&["each", "shop"]).await;
    let expected = [
        ("shop.asked {}", "would be asked: ", "planned"),
        ("shop.by_state {\"kind\":\"a\",\"limit\":3,\"state\":\"open\"}", "allowed", "ok"),
        ("shop.failing {}", "allowed", "TOOL_ERROR"),
        ("shop.orders {}", "allowed", "ok"),
        ("shop.secret {}", "allowed", "ok"),
        ("shop.zoned {}", "allowed", "ok"),
    ];
    let found = probed(&fence, expected.len()).await;
    for (found, (label, verdict, outcome)) in found.iter().zip(expected) {
        assert!(found[0] == label && found[1].starts_with(verdict) && found[2] == outcome, "{found:?}, not {label}");
    }
    assert!(stub(&session, "/shop/by_state.pyi").await.contains("# result observed in 1 answer\n"));
    assert!(stub(&session, "/shop/asked.pyi").await.contains("# result not observed yet"), "it was not called");
    assert!(stub(&session, "/shop/put_order.pyi").await.contains("# result not observed yet"));
    session.close().await;
    assert_eq!(probes(&fence).len(), expected.len());

    // What is known stays known.
    let session = fence.serve(&format!("{config}{PROBE}")).await;
    session.ready(&["each", "shop"]).await;
    let again = probed(&fence, expected.len() + 2).await;
    session.close().await;
    let labels: Vec<&str> = again[expected.len()..].iter().map(|probe| probe[0].as_str()).collect();
    assert_eq!(labels, ["shop.asked {}", "shop.failing {}"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lists_anew_for_ever_or_never_answers_is_called_a_few_times() {
    let fence = Fence::new();
    let answer = json!([{"content": [{"type": "text", "text": "1"}]}]);
    let silent = json!({"a": [], "b": answer.clone()});
    let Some(changing) = server(&fence, "changing", &json!({}), &json!({"*": 15})) else { return };
    let silent = server(&fence, "silent", &silent, &json!({})).expect("there is Python");
    let tail = server(&fence, "tail", &json!({"orders": answer}), &json!({})).expect("there is Python");
    let session = fence.serve(&format!("{changing}{silent}{tail}{PROBE}")).await;
    session.ready(&["changing", "silent", "tail"]).await;
    let of = |found: &[[String; 3]], server: &str| found.iter().filter(|probe| probe[0].starts_with(server)).count();
    // Both lists of the first server, one call of the second that is given up, and the third.
    let found = probed(&fence, 22).await;
    assert_eq!([of(&found, "changing."), of(&found, "silent.a "), of(&found, "tail.")], [20, 1, 1], "{found:?}");
    // It goes on to change its list.
    let root = session.call("ls", json!({"path": "/changing"})).await.text;
    let until = Instant::now() + PATIENCE;
    while session.call("ls", json!({"path": "/changing"})).await.text == root {
        assert!(Instant::now() < until, "{root}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    session.close().await;
    let found = probes(&fence);
    assert_eq!([found.len(), of(&found, "changing."), of(&found, "silent.b ")], [22, 20, 0], "{found:?}");
}
