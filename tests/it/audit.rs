//! Records of what ran: complete, private, rotated, and enough to see what an agent saw.
#![expect(clippy::print_stdout, reason = "a test that measures says what")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::StreamExt as _;
use nix::sys::signal::{Signal, kill as kill_process};
use nix::unistd::Pid;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use super::client::{Era, Fence, Session};
use super::faulty::samples;

fn lines(fence: &Fence) -> Vec<Value> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[tokio::test]
async fn a_file_that_there_was_no_room_for_has_not_been_read() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people", "tickets", "calendar"]).await;
    let kinds = ["md", "json", "d.ts", "pyi"];
    let paths: Vec<String> =
        ["people", "tickets", "calendar"].iter().flat_map(|s| kinds.map(|kind| format!("/{s}/*.{kind}"))).collect();
    let text = session.call("cat", json!({"path": paths})).await.text;
    let left = text.lines().last().and_then(|line| line.split_once("not read: ")).expect("more than fits").1;
    session.execute("starlark", "1").await;
    session.close().await;
    let records = lines(&fence);
    let read = records[0]["read"].as_object().expect("what was read");
    assert!(!read.is_empty());
    for path in read.keys() {
        assert!(text.contains(&format!("# {path}\n")), "{path} was not shown");
    }
    assert!(left.split(' ').filter(|path| path.starts_with('/')).all(|path| !read.contains_key(path)), "{left}");
}

#[tokio::test]
async fn a_record_says_who_ran_what_where_and_after_reading_what() {
    for era in [Era::Legacy, Era::Modern] {
        let fence = Fence::new();
        let session = fence.serve_in(era, &samples()).await;
        session.ready(&["people"]).await;
        let seen = session.call("cat", json!({"path": "/people/list_teams.pyi"})).await.text;
        session.execute("starlark", "people.list_teams()[\"teams\"][0]").await;
        session.execute_err("starlark", "people.get_user(name=\"nobody\")").await;
        session.execute_err("starlark", "this is no script").await;
        session.close().await;
        let records = lines(&fence);
        assert_eq!(
            records.iter().map(|r| r["outcome"].clone()).collect::<Vec<_>>(),
            ["ok", "TOOL_ERROR", "SYNTAX_ERROR"]
        );
        let ids: BTreeSet<&str> = records.iter().filter_map(|record| record["id"].as_str()).collect();
        let sessions: BTreeSet<&str> = records.iter().filter_map(|record| record["session"].as_str()).collect();
        assert_eq!((ids.len(), sessions.len()), (3, 1));
        let first = &records[0];
        assert!(first["client"].as_str().is_some_and(|client| client.starts_with("rmcp ")), "{first}");
        assert!(first["time"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{first}");
        assert_eq!(first["language"], "starlark");
        assert_eq!(first["code"], "people.list_teams()[\"teams\"][0]");
        assert!(first["engine"].as_str().is_some_and(|engine| engine.starts_with("starlark")), "{first}");
        assert!(first["confined"].as_array().is_some_and(|layers| layers.contains(&json!("seccomp"))), "{first}");
        assert_eq!(first["calls"][0]["tool"], "list_teams");
        assert_eq!(first["calls"][0]["outcome"], "ok");
        // What the agent saw is what is kept.
        let id = first["id"].as_str().expect("an id");
        let stubs = fence.run(["audit", "stubs", id]).success().stdout;
        assert_eq!(stubs.trim_end(), format!("# /people/list_teams.pyi\n{}", seen.trim_end()));
        let shown = fence.run(["audit", "show", &id[..8], "--json"]).success().stdout;
        assert_eq!(&serde_json::from_str::<Value>(&shown).expect("JSON"), first);
        let listed = fence.run(["audit", "list", "--limit", "2"]).success().stdout;
        assert_eq!(listed.lines().count(), 2);
        assert!(listed.contains("people.get_user TOOL_ERROR"), "{listed}");
    }
}

#[test]
fn every_entry_point_is_on_record() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    assert!(fence.run(["audit", "list"]).success().stderr.contains("nothing is on record"));
    fence.run_with_input(["run", "-", "--lang", "starlark"], "people.list_teams()").success();
    fence.run(["call", "people", "list_teams", "{}"]).success();
    let what: Vec<Value> = lines(&fence).iter().map(|record| json!([record["language"], record["request"]])).collect();
    assert_eq!(what, [json!(["starlark", null]), json!([null, "call"])]);
    let unknown = fence.run(["audit", "show", "zzz"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("no record has an id"), "{unknown:?}");
}

#[cfg(unix)]
#[test]
fn the_file_is_private_and_rotated_and_loses_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{}[audit]\nmax_size = \"64KiB\"\nkeep = 3\n", samples()));
    let script = format!("# {}\npeople.list_teams()", "x".repeat(4000));
    // Four processes at once, each of them several times: they share the file.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..12 {
                    fence.run_with_input(["run", "-", "--lang", "starlark"], &script).success();
                }
            });
        }
    });
    let folder = fence.audit().parent().expect("a folder").to_owned();
    assert_eq!(fs::metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(fence.audit()).expect("a file").permissions().mode() & 0o777, 0o600);
    let rotated = fs::read_dir(&folder).expect("a folder").filter_map(Result::ok);
    let rotated: Vec<_> = rotated.filter(|entry| entry.file_name().to_string_lossy() != "audit.objects").collect();
    assert!(rotated.len() > 1 && rotated.iter().all(|file| file.metadata().is_ok_and(|m| m.len() <= 64 << 10)));
    let listed = fence.run(["audit", "list", "--limit", "1000"]).success().stdout;
    assert_eq!(listed.lines().count(), 48);
}

#[tokio::test]
async fn a_record_reads_well_with_verdicts_bytes_and_costs() {
    let fence = Fence::new();
    let rules = "[servers.people.tools.list_teams]\ncost = 2.5\nrate = { calls = 1, per = \"1h\" }\n";
    let session = fence.serve(&format!("{}\n{rules}", samples())).await;
    session.ready(&["people"]).await;
    session.execute_err("starlark", "people.list_teams()\npeople.list_teams() # \u{1b}[31m").await;
    session.close().await;
    let id = lines(&fence)[0]["id"].as_str().expect("an id").to_owned();
    let shown = fence.run(["audit", "show", &id]).success().stdout;
    for part in [
        "language   starlark\n",
        "outcome    RATE_LIMIT in ",
        "cost       2.5\n",
        "  |        people.list_teams()\n",
        "\\u{1b}[31m",
        "call 1     people.list_teams({})\n",
        " 2 bytes sent, ",
        " received, cost 2.5\n",
        "  verdict  allowed\n",
        "call 2     people.list_teams({})\n           RATE_LIMIT in ",
        "  verdict  refused: RATE_LIMIT: people.list_teams is not called: people's `list_teams` takes 1 calls in 1h",
        "  holding  people\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

#[tokio::test]
async fn half_a_record_takes_no_other_with_it() {
    let fence = Fence::new();
    for half in ["{\"id\":\"half", "{\"id\":\"ha\u{e9}"] {
        let session = fence.serve("").await;
        session.execute("starlark", "1").await;
        session.close().await;
        let mut file = fs::OpenOptions::new().append(true).open(fence.audit()).expect("an audit file");
        // A disk that is full may end in the middle of a character.
        file.write_all(&half.as_bytes()[..half.len() - 1]).expect("written");
    }
    let session = fence.serve("").await;
    session.execute("starlark", "2").await;
    session.close().await;
    assert_eq!(fence.run(["audit", "list"]).success().stdout.lines().count(), 3);
}

/// Runs `1`, `2` … `count` eight at a time, and gives those that were answered. The gateway is killed after `kill`.
async fn run_many(session: &Session, count: u64, kill: Option<u64>) -> BTreeSet<u64> {
    let answered = AtomicU64::new(0);
    let runs = (1..=count).map(|number| {
        let (answered, peer) = (&answered, session.peer());
        async move {
            let arguments = json!({"language": "starlark", "code": number.to_string()});
            let arguments = arguments.as_object().expect("an object").clone();
            let result = peer.call_tool(CallToolRequestParams::new("execute").with_arguments(arguments)).await.ok()?;
            let text = result.content.first().and_then(|content| content.as_text()).map(|text| text.text.clone())?;
            assert_eq!(text.lines().next(), Some(number.to_string().as_str()));
            if kill == Some(answered.fetch_add(1, Ordering::Relaxed) + 1) {
                let pid = i32::try_from(session.pid).expect("a process number");
                kill_process(Pid::from_raw(pid), Signal::SIGKILL).expect("the gateway runs");
            }
            Some(number)
        }
    });
    futures::stream::iter(runs).buffer_unordered(8).filter_map(std::future::ready).collect().await
}

/// Every execution that was answered has its record, and one only; also when the gateway is killed among them.
#[tokio::test]
async fn ten_thousand_executions_lose_no_record() {
    let count = 10_000;
    let fence = Fence::new();
    let session = fence.serve_quietly("").await;
    let started = Instant::now();
    assert_eq!(run_many(&session, count, None).await.len() as u64, count);
    println!("{count} executions with audit on: {:?}", started.elapsed());
    assert_eq!(numbers(&fence), (1..=count).collect::<Vec<_>>());
    let answered = run_many(&session, count, Some(count / 2)).await;
    assert!(answered.len() as u64 >= count / 2 && (answered.len() as u64) < count, "{}", answered.len());
    let recorded = numbers(&fence);
    let twice = |number: &u64| recorded.iter().filter(|recorded| *recorded == number).count() == 2;
    assert!(answered.iter().all(twice), "an execution that was answered has no record");
    let listed = fence.run(["audit", "list", "--limit", &(2 * count).to_string()]).success().stdout;
    assert_eq!(listed.lines().count(), recorded.len());
}

/// What the scripts on record were, sorted.
fn numbers(fence: &Fence) -> Vec<u64> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    // The kill may have come in the middle of a line.
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut numbers: Vec<u64> = records.filter_map(|record| record["code"].as_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
