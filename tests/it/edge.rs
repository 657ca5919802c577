//! Arbitrary lines of a client: each is answered or skipped, and the connection continues.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission::Wire;
use crate::client::Fence;
use crate::faulty::{python, samples};

/// A request for a folder with a name of `bytes` bytes, as a line without its end.
fn large(id: u64, bytes: usize) -> String {
    let params = json!({"name": "ls", "arguments": {"path": "x".repeat(bytes)}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// Id and text of the error that answers a line.
type Told<'a> = Option<(Option<u64>, &'a str)>;

#[test]
fn what_is_no_message_is_told_where_it_can_be_and_passed_over_where_it_cannot() {
    let deep = format!("{{\"id\":9,\"method\":\"x\",\"params\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let wide = format!("{{\"id\":10,\"method\":\"x\",\"params\":[{}]}}", vec!["[[]]"; 1_000_000].join(","));
    // As many values as allowed.
    let most = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"x\",\"params\":{{\"a\":[{}]}}}}",
        vec!["0"; 220_000].join(",")
    );
    // Lines, and the id and text of the error that answers each, if any.
    let cases: &[(&[u8], Told)] = &[
        (b"{\"id\":1,\"method\":\"ping\",,}\n", Some((Some(1), "the line is no JSON"))),
        (b"{\"id\":2,\"method\":\"p\0ing\"}\n", Some((Some(2), "the line is no JSON"))),
        (b"{\"id\":3,\"method\":\"\xff\xfe\"}\r\n", Some((Some(3), "the line is no JSON"))),
        (b"\0\0\0\n\r\n\n  \n\xef\xbb\xbf\nHello\n{\"\n", None),
        (b"{\"id\":4,\"result\":{]\n", None),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\",\"params\":7}\n", None),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}]\n", Some((None, "batches are not supported"))),
        (b"{\"id\":6,\"method\":\"ping\"}\n", Some((Some(6), "not a JSON-RPC request"))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{\"$serde_json::private::Number\":\"1\"}}\n",
            Some((Some(7), "reserved")),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"x\",\"params\":{\"\\u0024serde_json::private::RawValue\":\"1\"}}\n",
            Some((Some(8), "reserved")),
        ),
        (&[deep.as_bytes(), b"\n"].concat(), Some((Some(9), "values of a message of a client"))),
        (&[wide.as_bytes(), b"\n"].concat(), Some((Some(10), "values of a message of a client"))),
        (&[most.as_bytes(), b"\n"].concat(), Some((Some(11), ""))),
    ];
    for modern in [false, true] {
        let fence = Fence::new();
        let mut wire = Wire::new(&fence, &samples(), modern);
        for (number, (line, told)) in cases.iter().enumerate() {
            wire.raw(line);
            if let Some((id, says)) = told {
                let answer = wire.next(|line| line.get("error").is_some());
                assert_eq!(answer.get("id").and_then(Value::as_u64), *id, "{answer}");
                assert!(answer["error"]["message"].as_str().is_some_and(|said| said.contains(says)), "{answer}");
            }
            wire.is_well(100 + number as u64);
        }
        assert!(wire.peak() <= (100 + 256) << 10, "{} KiB", wire.peak());
    }
}

#[test]
fn a_line_over_the_limit_is_answered_and_the_connection_lives() {
    let fence = Fence::new();
    for modern in [false, true] {
        let mut wire = Wire::new(&fence, &samples(), modern);
        let text = "x".repeat(17 << 20);
        for (id, line) in [
            (Some(1), large(1, 17 << 20)),
            (Some(2), format!("{{\"method\":\"x\",\"params\":\"{text}\",\"jsonrpc\":\"2.0\",\"id\":2}}")),
            (None, text.clone()),
        ] {
            wire.raw(line.as_bytes());
            wire.raw(b"\r\n");
            let answer = wire.next(|line| line.get("error").is_some());
            assert_eq!(answer.get("id").and_then(Value::as_u64), id, "{answer}");
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(said.starts_with("message of a client: ") && said.contains("over the limit of 16777216"), "{said}");
        }
        // An answer carries the id of one of our questions, not of a request.
        wire.raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"x\":\"{text}\"}}}}\n").as_bytes());
        assert!(wire.next(|line| line.get("error").is_some()).get("id").is_none());
        wire.is_well(100);
    }
}

#[test]
fn requests_overtake_lines_of_many_megabytes() {
    let fence = Fence::new();
    let mut wire = Wire::new(&fence, &samples(), false);
    // The last of them is parsed only when the others are done.
    for id in 1..=4 {
        wire.raw(large(id, 15_000_000).as_bytes());
        wire.raw(b"\n");
    }
    wire.call(5, "ls", json!({}));
    let mut order = Vec::new();
    while order.len() < 5 {
        order.extend(wire.next(|line| line.get("id").is_some())["id"].as_u64());
    }
    let place = |id: u64| order.iter().position(|other| *other == id);
    assert!(place(5) < place(4), "{order:?}");
    assert_eq!(order.iter().sum::<u64>(), 15, "each is answered: {order:?}");
}

#[test]
fn a_number_is_used_by_one_request_at_a_time() {
    let Some(config) = python("hostile", "hostile_words.py", &["\"x\""]) else { return };
    let fence = Fence::new();
    let mut wire = Wire::new(&fence, &config, false);
    let slow = json!({"id": 1, "method": "resources/read", "params": {"uri": "forge:///hostile/resources/slow://1"}});
    wire.send(slow.clone());
    wire.send(slow);
    let answer = wire.answer(1);
    assert!(answer["error"]["message"].as_str().is_some_and(|said| said.contains("the id 1 is under way")), "{answer}");
    wire.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    // A new number is served at once. The old one is, when its cancelled request has ended.
    wire.is_well(2);
    let started = Instant::now();
    loop {
        wire.call(1, "ls", json!({}));
        if wire.answer(1)["result"].is_object() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the number is never free again");
    }
}

#[test]
fn bytes_under_way_are_bounded_and_what_is_over_is_told() {
    let Some(config) = python("hostile", "hostile_words.py", &["\"x\""]) else { return };
    let fence = Fence::new();
    let mut wire = Wire::new(&fence, &config, false);
    let slow = |id: u64| {
        let params = json!({"uri": format!("forge:///hostile/resources/slow://{id}"), "more": "x".repeat(2_000_000)});
        json!({"id": id, "method": "resources/read", "params": params})
    };
    // 64 MiB hold 33 of them.
    for id in 1..=40 {
        wire.send(slow(id));
    }
    for _ in 0..7 {
        let answer = wire.next(|line| line.get("error").is_some());
        assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["code"]), (&json!(-32000), &json!("BUSY")));
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.starts_with("bytes under way: ") && said.contains("over the limit of 67108864"), "{said}");
        assert!(answer["error"]["data"]["suggestedFix"].as_str().is_some_and(|fix| fix.contains("read the answers")));
    }
    wire.is_well(100);
    for id in 1..=40 {
        wire.send(json!({"method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    wire.is_well(101);
    wire.raw(format!("{}\n", large(102, 15_000_000)).as_bytes());
    // Limits of docs/operations.md for the process and a client.
    assert!(wire.peak() <= (100 + 256) << 10, "{} KiB", wire.peak());
    assert!(wire.answer(102)["result"]["isError"].as_bool().is_some_and(|failed| failed), "there is room again");
}

#[test]
fn a_client_that_reads_nothing_is_not_read_from_and_loses_nothing() {
    const REQUESTS: usize = 5_000;
    let fence = Fence::new();
    let file = fence.write("forge.toml", "");
    let mut command = fence.forgefs([Path::new("--config"), &file, Path::new("serve")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let writing = std::thread::spawn(move || {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        writeln!(stdin, "{hello}").expect("it reads");
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).expect("it reads");
        for id in 1..=REQUESTS {
            writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).expect("it reads");
        }
        // Not a line: it has no end.
        write!(stdin, "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}}", REQUESTS + 1).expect("it reads");
    });
    std::thread::sleep(Duration::from_secs(2));
    assert!(!writing.is_finished(), "all was read, with the answers in memory");
    let mut answered = vec![0; REQUESTS + 2];
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        let is_one = answer.get("result").is_some() || answer["error"]["data"]["code"] == "BUSY";
        assert!(is_one, "{answer}");
        answered[usize::try_from(answer["id"].as_u64().expect("a number")).expect("small")] += 1;
    }
    writing.join().expect("all was written");
    assert_eq!(answered.pop(), Some(0), "half a line is no request");
    assert!(answered.iter().all(|times| *times == 1), "each has one answer");
    assert!(child.wait().expect("it ends").success());
}
