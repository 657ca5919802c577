//! Pins of a new installation: every command that writes a new configuration writes them, and what was shown is what was
//! reviewed.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Fence, Output};
use crate::faulty::has_python;

const FORGEFS: &str = env!("CARGO_BIN_EXE_forgefs");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/shifting.py");
const KEY: &str = "[manifest]\npin_first_use = true\n";

fn listed(description: &str) -> String {
    json!({"tools": [
        {"name": "send", "description": description, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
    ]})
    .to_string()
}

fn on(fence: &Fence, args: &[&str]) -> Output {
    fence.run([&["--config", "forge.toml"], args].concat())
}

#[test]
fn each_new_configuration_pins_and_an_old_one_stays_as_it_is() {
    type Write = fn(&Fence) -> Output;
    let add: Write = |fence| on(fence, &["add", "desk", "--", FORGEFS, "demo-server", "tickets"]);
    let writes: [(&str, Write); 5] = [
        ("add", add),
        ("add --no-check", |fence| on(fence, &["add", "desk", "--no-check", "--", "x"])),
        ("init", |fence| fence.run(["init", "forge.toml"])),
        ("init --import", |fence| {
            let servers = json!({"mcpServers": {"desk": {"command": FORGEFS, "args": ["demo-server", "tickets"]}}});
            fence.write("other.json", &servers.to_string());
            fence.run(["init", "forge.toml", "--import", "other.json"])
        }),
        ("clients add", |fence| on(fence, &["clients", "add", "anna"])),
    ];
    for (what, write) in writes {
        let fence = Fence::new();
        write(&fence).success();
        let text = fs::read_to_string(fence.work().join("forge.toml")).expect("written");
        assert!(text.contains(KEY), "{what}: {text}");
        on(&fence, &["ls", "/"]).success();
        let doctor = on(&fence, &["doctor"]).stdout;
        assert!(!doctor.contains("pin_first_use"), "{what}: {doctor}");
    }
    let fence = Fence::new();
    fence.write("forge.toml", "# mine\n");
    add(&fence).success();
    let text = fs::read_to_string(fence.work().join("forge.toml")).expect("written");
    assert!(!text.contains("pin_first_use"), "{text}");
    let doctor = on(&fence, &["doctor"]).success().stdout;
    let told = doctor.matches("`pin_first_use = true` in [manifest]").count();
    assert_eq!(told, 1, "{doctor}");
}

#[test]
fn what_add_showed_is_what_was_reviewed_and_one_command_shows_the_difference() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let file = fence.write("lists.json", &listed("Sends mail."));
    let (path, log) = (file.display().to_string(), file.with_extension("log").display().to_string());
    on(&fence, &["add", "s", "--", "python3", SCRIPT, &path, &log]).success();
    // Between the question and the first start.
    let changed = listed("Sends mail to everyone.")
        .replace("\"readOnlyHint\":true", "\"readOnlyHint\":true,\"destructiveHint\":false");
    fs::write(&file, &changed).expect("written");
    let held = "s.send is quarantined: it is not what was reviewed";
    let way_out = "`forgefs stubs accept s` shows the difference and accepts it";
    let called = on(&fence, &["call", "s", "send", "{}"]);
    assert!(called.stderr.contains(held) && called.stderr.contains(way_out), "{called:?}");
    let folder = on(&fence, &["ls", "/s"]).success().stdout;
    assert!(
        folder.contains(&format!("send.pyi  QUARANTINED, not callable: it is not what was reviewed; {way_out}")),
        "{folder}"
    );
    // What was reviewed is shown, and nothing of the new words.
    let stub = on(&fence, &["cat", "/s/send.pyi"]).success().stdout;
    assert!(stub.contains("Sends mail.") && !stub.contains("everyone"), "{stub}");
    let doctor = on(&fence, &["doctor"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains(way_out), "{doctor:?}");
    let object: Value = on(&fence, &["doctor", "--json"]).object();
    assert_eq!(object["quarantined"][0]["review"], way_out, "{object}");
    let accepted = on(&fence, &["stubs", "accept", "s", "--yes"]).success().stdout;
    let lines = [
        "s: 0 new, 2 changed, 0 gone",
        "  changed: tool look",
        "    annotation-risk: destructiveHint: not given → false, it looks more harmless: people and models judge the tool by it",
        "  changed: tool send",
        "    annotation-risk: destructiveHint: not given → false, it looks more harmless: people and models judge the tool by it",
        "    text-only: its description changed",
    ];
    assert_eq!(accepted.lines().collect::<Vec<_>>(), lines);
    on(&fence, &["call", "s", "send", "{}"]).success();
    // A list that is too long for definitions is pinned by digests alone.
    let long: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("t{n}"), "description": "x".repeat(40_000), "inputSchema": {"type": "object"}}))
        .collect();
    fs::write(&file, json!({ "tools": long }).to_string()).expect("written");
    on(&fence, &["stubs", "accept", "s", "--yes"]).success();
    on(&fence, &["call", "s", "t1", "{}"]).success();
    let other = json!({"tools": [{"name": "t1", "description": "y", "inputSchema": {"type": "object"}}]});
    fs::write(&file, other.to_string()).expect("written");
    let called = on(&fence, &["call", "s", "t1", "{}"]);
    assert!(called.stderr.contains("s.t1 is quarantined: it is not what was reviewed"), "{called:?}");
    let accepted = on(&fence, &["stubs", "accept", "s", "--yes"]).success().stdout;
    assert!(accepted.starts_with("s: 0 new, 1 changed, 39 gone\n  changed: tool t1\n  gone: "), "{accepted}");
}

#[test]
fn a_list_in_the_cache_is_the_first_one_and_nothing_is_accepted_by_the_way() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let file = fence.write("lists.json", &listed("Sends mail."));
    let (path, log) = (file.display().to_string(), file.with_extension("log").display().to_string());
    let server = format!("[servers.s]\ncommand = \"python3\"\nargs = {}\n", json!([SCRIPT, path, log]));
    fence.write("forge.toml", &server);
    on(&fence, &["call", "s", "send", "{}"]).success();
    // As `doctor` says.
    fence.write("forge.toml", &format!("{KEY}{server}"));
    on(&fence, &["call", "s", "send", "{}"]).success();
    fs::write(&file, listed("Sends mail to everyone.")).expect("written");
    let is_held = || {
        let called = on(&fence, &["call", "s", "send", "{}"]);
        assert!(called.stderr.contains("s.send is quarantined: it is not what was reviewed"), "{called:?}");
    };
    // As its server lists it, then as the cache keeps it.
    is_held();
    is_held();
    let shown = on(&fence, &["stubs", "accept", "s"]);
    assert!(shown.code == Some(1) && shown.stdout.contains("text-only"), "{shown:?}");
    assert!(shown.stderr.contains("`--yes` accepts it"), "{shown:?}");
    is_held();
    on(&fence, &["stubs", "accept", "s", "--yes"]).success();
    on(&fence, &["call", "s", "send", "{}"]).success();
}
