//! `examples/scripts/`, checked as the CI of a repository with scripts would, with the sample servers alone.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Fence, Output};

/// Scripts, arguments, and their values.
const CALLS: &[(&str, &str, &str)] = &[
    ("on_call", r#"{"team": "web"}"#, r#""lee""#),
    (
        "book_meeting",
        r#"{"title": "Plans", "day": "2026-03-02", "attendees": ["amara", "jonas"]}"#,
        r#"{"id": 4, "start": "2026-03-02T12:00:00Z"}"#,
    ),
    ("triage_orphans", "{}", "[5, 1]"),
    ("triage_orphans", r#"{"label": "search"}"#, "[4]"),
    ("triage_workload", "{}", r#"{"nobody": 3, "amara": 1, "lee": 1}"#),
    (
        "triage_assign",
        r#"{"team": "payments", "day": "2026-03-02"}"#,
        r#"{"owner": "jonas", "assigned": [5, 1], "start": "2026-03-02T11:00:00Z"}"#,
    ),
];

/// A copy of the folder, with the executable of these tests as the servers.
pub(super) fn copied() -> Fence {
    let fence = Fence::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scripts");
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the examples are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a text");
            fence.write(path.strip_prefix(&source).expect("it is below"), &text);
        }
    }
    let config = fs::read_to_string(fence.work().join("forge.toml")).expect("its configuration");
    let here = config.replace("command = \"forgefs\"", &format!("command = {:?}", env!("CARGO_BIN_EXE_forgefs")));
    assert_ne!(config, here, "the samples are started by name");
    fence.write("forge.toml", &here);
    fence
}

fn call(fence: &Fence, script: &str, args: &str) -> Output {
    fence.run(["call", "--yes", "scripts", script, args])
}

#[test]
fn the_example_scripts_are_as_their_lock_says_and_pass_their_tests() {
    let fence = copied();
    let checked = fence.run(["scripts", "check"]).success();
    assert!(checked.stdout.contains("5 tests: 5 passed, 0 failed\n5 scripts: as scripts.lock says\n"), "{checked:?}");
    assert!(!checked.stdout.contains("warning"), "{checked:?}");
    let locked = fence.run(["scripts", "lock"]).success();
    assert_eq!(locked.stdout, "scripts.lock is up to date: 5 scripts\n");
}

#[test]
fn each_example_script_is_callable() {
    let fence = copied();
    let listed = fence.run(["scripts", "list", "--json"]).success().object();
    let names: Vec<String> = listed["scripts"].as_array().expect("scripts").iter().filter_map(ident).collect();
    for name in &names {
        assert!(CALLS.iter().any(|(script, ..)| script == name), "{name} is not called here");
    }
    for (script, args, expected) in CALLS {
        let called = call(&fence, script, args).success();
        let value: Value = called.object();
        assert_eq!(value, serde_json::from_str::<Value>(expected).expect("JSON"), "{script} {args}");
    }
}

fn ident(script: &Value) -> Option<String> {
    Some(script["name"].as_str()?.replace('/', "_"))
}

#[test]
fn the_rights_of_the_example_hold() {
    let fence = copied();
    let triage = r#"{"team": "payments", "day": "2026-03-02"}"#;
    let unasked = fence.run(["call", "scripts", "triage_assign", triage]);
    assert!(unasked.code == Some(1) && unasked.stderr.contains("triage_assign needs approval"), "{unasked:?}");
    let around = fence.run(["call", "--yes", "tickets", "assign_ticket", r#"{"id": 1, "assignee": "lee"}"#]);
    assert!(around.code == Some(1) && around.stderr.contains("callable only from scripts.triage_assign"), "{around:?}");
    let to_calendar = |owner: &str| {
        let owner = format!("const owner = {owner};\n");
        let code = "return (await calendar.find_free_slot({ day: '2026-03-02', attendees: [owner] })).start;";
        fence.write("run.js", &format!("{owner}{code}"));
        fence.run(["run", "--json", "run.js"]).object()
    };
    let clean = to_calendar("await scripts.on_call({ team: 'payments' })");
    assert_eq!(clean["value"], json!("2026-03-02T11:00:00Z"), "{clean}");
    let direct = to_calendar("(await people.list_on_call({ team: 'payments' })).on_call.payments");
    assert_eq!(direct["error"]["code"], "GROUP_POLICY_DENIED", "{direct}");
}

/// Files, edits, and a part of what `check` says.
const EDITS: &[(&str, &str, &str, &str)] = &[
    ("scripts/triage/orphans.star", "\"open\"", "\"closed\"", "triage/orphans:\n  another text"),
    (
        "scripts/triage/orphans.star",
        "\"open\"",
        "\"closed\"",
        "scripts.triage/orphans, which it calls, has another text",
    ),
    ("scripts/triage/orphans.star", "\"open\"", "\"closed\"", "4 passed, 1 failed"),
    ("scripts/book_meeting.js", "calendar.find_free_slot", "calendar.list_events", "may call calendar.list_events"),
    ("scripts/on_call.ts", "{ team });", "{ group: team });", "scripts/on_call.ts:3:29: error: INVALID_ARGS"),
];

#[test]
fn an_edited_example_script_fails_the_check_with_its_difference() {
    let fence = copied();
    for (file, from, to, told) in EDITS {
        let path = fence.work().join(file);
        let before = fs::read_to_string(&path).expect("a file");
        let edited = before.replacen(from, to, 1);
        assert_ne!(edited, before, "{from} is not in {file}:\n{before}");
        fence.write(file, &edited);
        let checked = fence.run(["scripts", "check"]);
        assert!(checked.code == Some(1) && checked.stdout.contains(told), "{file}, {to}: {told}\n{checked:?}");
        fence.write(file, &before);
    }
    fence.run(["scripts", "check"]).success();
}
