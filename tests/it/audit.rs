//! Records of what ran: complete, private, rotated, and enough to see what an agent saw.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::client::{Era, Fence};
use super::faulty::samples;

fn lines(fence: &Fence) -> Vec<Value> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
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
        let shown = fence.run(["audit", "show", &id[..8]]).success().stdout;
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

/// Whatever was answered is on record, also when the gateway is killed right after.
#[tokio::test]
async fn a_killed_gateway_has_lost_no_record() {
    let fence = Fence::new();
    let session = fence.serve("").await;
    for number in 0..200 {
        assert_eq!(session.execute("starlark", &number.to_string()).await, json!(number));
    }
    session.kill();
    assert_eq!(lines(&fence).len(), 200);
}
