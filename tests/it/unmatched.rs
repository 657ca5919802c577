//! Rules that match nothing: every kind of rule, as it is written and as it is misspelt, against a server whose tools are
//! known. Told by `doctor`, `list --check`, `ls /` and `reload`; in a rule that narrows the server's tools are held.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Fence;
use crate::faulty::has_python;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/shifting.py");

/// What the server lists.
fn tickets() -> Value {
    let tool = |name: &str, reads: bool| json!({"name": name, "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}, "annotations": {"readOnlyHint": reads}});
    json!({"tools": [tool("list_tickets", true), tool("assign_ticket", false), tool("delete_ticket", false)]})
}

fn entry(name: &str, file: &Path, keys: &str) -> String {
    let args = [SCRIPT.to_owned(), file.display().to_string(), file.with_extension("log").display().to_string()];
    // Its own keys first: tables below them would take others.
    format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args:?}\n{}\n", keys.replace('@', name))
}

struct Row {
    /// Keys of the server, whose name is `@`.
    keys: &'static str,
    /// Key below the server, what it names, and a name that is meant.
    told: Option<(&'static str, &'static str, &'static str)>,
    /// How a call of `list_tickets` ends.
    call: &'static str,
}

const HELD: &str = "TOOL_DENIED";

const fn row(keys: &'static str, told: Option<(&'static str, &'static str, &'static str)>, call: &'static str) -> Row {
    Row { keys, told, call }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("", None, "ok"),
    row("deny = [\"delete_ticket\"]", None, "ok"),
    row("deny = [\"delete_tickets\"]", Some(("deny", "delete_tickets", "delete_ticket")), HELD),
    row("deny = [\"delete_ticket\", \"delete_tickets\"]", Some(("deny", "delete_tickets", "delete_ticket")), HELD),
    row("deny = [\"Delete_ticket\"]", Some(("deny", "Delete_ticket", "delete_ticket")), HELD),
    row("deny = [\"delete_*\"]", None, "ok"),
    row("deny = [\"drop_*\"]", Some(("deny", "drop_*", "")), HELD),
    row("allow_unmatched = true\ndeny = [\"drop_*\"]", Some(("deny", "drop_*", "")), "ok"),
    row("enabled = false\ndeny = [\"drop_*\"]", None, "SERVER_NOT_FOUND"),
    row("allow = [\"list_tickets\", \"list_tickts\"]", Some(("allow", "list_tickts", "list_tickets")), "ok"),
    row("allow = [\"nothing_*\"]", Some(("allow", "nothing_*", "")), "TOOL_NOT_FOUND"),
    row("categories = { tools = [\"lst_*\"] }", Some(("categories.tools", "lst_*", "")), "ok"),
    row("categories = { a = [\"list_*\", \"lst_*\"] }", Some(("categories.a", "lst_*", "")), "ok"),
    row("[servers.@.tools.assign_ticket]\napproval = \"always\"", None, "ok"),
    row("[servers.@.tools.asign_ticket]\napproval = \"always\"", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), HELD),
    row("[servers.@.tools.\"*_ticket\"]\napproval = \"writes\"", None, "ok"),
    row("[servers.@.tools.\"*_tiket\"]\napproval = \"writes\"", Some(("tools.\"*_tiket\"", "*_tiket", "")), HELD),
    row("approval = \"writes\"\n[servers.@.tools.asign_ticket]\napproval = \"never\"", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
    row("[servers.@.tools.asign_ticket]\nonly_from = [\"scripts.assign\"]", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), HELD),
    row("[servers.@.tools.asign_ticket]\nhide = [\"a\"]", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), HELD),
    row("[servers.@.tools.asign_ticket]\nfixed = { a = \"x\" }", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), HELD),
    row("allow_unmatched = true\n[servers.@.tools.asign_ticket]\nhide = [\"a\"]", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
    row("[servers.@.tools.asign_ticket]\nname = \"take\"", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
    row("[servers.@.tools.asign_ticket]\nname = \"take\"\napproval = \"always\"", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), HELD),
    row("[servers.@.tools.assign_ticket]\nname = \"take\"\napproval = \"always\"", None, "ok"),
    row("[servers.@.tools.asign_ticket]\nrate = { calls = 9, per = \"1m\" }", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
    row("[servers.@.tools.asign_ticket]\ncost = 2", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
    row("[servers.@.tools.asign_ticket]", Some(("tools.asign_ticket", "asign_ticket", "assign_ticket")), "ok"),
];

/// One call a server; its code.
fn calls(fence: &Fence, servers: impl Iterator<Item = String>) -> Vec<String> {
    let tries = servers.map(|server| {
        format!("try {{ await {server}.list_tickets({{}}); codes.push('ok') }} catch (error) {{ codes.push(error.code ?? 'SERVER_NOT_FOUND') }}\n")
    });
    let code = format!("const codes = []\n{}return codes", tries.collect::<String>());
    let output = fence.run_with_input(["--config", "forge.toml", "run", "--lang", "javascript", "-"], &code).success();
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn every_rule_that_matches_nothing_is_told_and_holds_where_it_narrows() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let file = fence.write("lists.json", &tickets().to_string());
    let config: String =
        ROWS.iter().enumerate().map(|(index, row)| entry(&format!("s{index}"), &file, row.keys)).collect();
    fence.write("forge.toml", &config);
    let output = fence.run(["--config", "forge.toml", "doctor", "--json"]);
    let doctor: Value = output.object();
    assert_eq!((output.code, &doctor["healthy"]), (Some(1), &json!(false)), "{doctor}");
    let told = doctor["unmatched"].as_array().expect("a list").clone();
    let codes = calls(&fence, (0..ROWS.len()).map(|index| format!("s{index}")));
    for (index, (Row { keys, told: expected, call }, code)) in ROWS.iter().zip(&codes).enumerate() {
        let name = format!("s{index}");
        let key = format!("servers.{name}.");
        let own: Vec<&Value> =
            told.iter().filter(|rule| rule["key"].as_str().is_some_and(|found| found.starts_with(&key))).collect();
        let Some((below, entry, meant)) = expected else {
            assert!(own.is_empty(), "{keys}: {own:?}");
            assert_eq!(code, call, "{keys}");
            continue;
        };
        let nearest = own[0]["nearest"].as_array().expect("a list");
        assert!(meant.is_empty() || nearest.contains(&json!(meant)), "{keys}: {own:?}");
        let held = if *call == HELD { json!([name]) } else { json!([]) };
        let rule =
            json!({"key": format!("{key}{below}"), "entry": entry, "is_known": true, "nearest": nearest, "held": held});
        assert_eq!(own, [&rule], "{keys}");
        assert_eq!(code, call, "{keys}");
    }
}

#[test]
fn a_held_tool_names_the_rule_and_the_way_out_and_so_does_each_surface() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let file = fence.write("lists.json", &tickets().to_string());
    fence.write("forge.toml", &entry("s", &file, "deny = [\"delete_tickets\"]"));
    let run = |args: &[&str]| fence.run(["--config", "forge.toml"].iter().chain(args));
    let rule =
        "servers.s.deny: `delete_tickets` matches no tool; did you mean `delete_ticket`?; the tools of s are held";
    let checked = run(&["list", "--check"]);
    assert!(checked.code == Some(1) && checked.stderr.contains(rule), "{checked:?}");
    let doctor = run(&["doctor"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains(&format!("rule     {rule}")), "{doctor:?}");
    let root = run(&["ls", "/"]).success().stdout;
    assert!(root.contains("; the rule servers.s.deny matches no tool: `delete_tickets`"), "{root}");
    let called = run(&["call", "s", "list_tickets", "{}"]);
    let error = "s.list_tickets is quarantined: the rule servers.s.deny matches no tool: `delete_tickets`; all tools of the server are held until";
    assert!(called.code != Some(0) && called.stderr.contains(error), "{called:?}");
    assert!(called.stderr.contains("`allow_unmatched = true` stands in the table of the rule"), "{called:?}");
    // By the lists that are kept; no gateway runs here.
    let reload = run(&["reload"]);
    assert!(reload.stderr.contains(rule), "{reload:?}");
    // What is reviewed is what the server lists.
    run(&["stubs", "generate", "--out", "stubs"]).success();
    let stub = std::fs::read_to_string(fence.work().join("stubs/s/list_tickets.pyi")).expect("a stub");
    assert!(!stub.contains("QUARANTINED"), "{stub}");
    fence.write("forge.toml", &entry("s", &file, "deny = [\"delete_ticket\"]"));
    run(&["call", "s", "list_tickets", "{}"]).success();
    // A server that was never listed.
    fence.write("forge.toml", "[servers.gone]\ncommand = \"no-such-program\"\ndeny = [\"delete_tickets\"]\n");
    let doctor = run(&["doctor"]);
    let unknown = "rule     servers.gone.deny: `delete_tickets`: not known yet, its tools were never listed";
    assert!(doctor.code == Some(3) && doctor.stdout.contains(unknown), "{doctor:?}");
}

#[test]
fn a_rule_of_a_profile_holds_for_its_clients_alone_and_tells_them_no_name() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let file = fence.write("lists.json", &tickets().to_string());
    fence.write(
        "scripts/triage.js",
        "/** Looks.\n * @returns {Promise<number>}\n */\nexport default async function () {\n  return 1;\n}\n",
    );
    let servers = entry("s", &file, "[servers.s.tools.delete_ticket]\nonly_from = [\"scripts.trage\"]");
    let scripts = "[scripts]\npath = \"scripts\"\n[scripts.tools.trage]\nas_tool = true\n";
    for (profile, told, call) in [
        ("deny = [\"s.delete_ticket\"]", None, "ok"),
        ("deny = [\"*.delete_*\"]", None, "ok"),
        ("deny = [\"s.delete_tickets\"]", Some(("deny", "s.delete_tickets")), HELD),
        ("deny = [\"*.drop_*\"]", Some(("deny", "*.drop_*")), HELD),
        ("allow_unmatched = true\ndeny = [\"*.drop_*\"]", Some(("deny", "*.drop_*")), "ok"),
        // A server that the profile does not have leaves nothing open, whether it is up or not.
        (
            "servers = [\"s\"]\ndeny = [\"*.drop_*\"]\n[servers.out]\ncommand = \"/nonexistent\"",
            Some(("deny", "*.drop_*")),
            HELD,
        ),
        ("deny = [\"scripts.trage\"]", Some(("deny", "scripts.trage")), "ok"),
        ("allow = [\"s.list_*\", \"s.lst_*\"]", Some(("allow", "s.lst_*")), "ok"),
        ("direct = [\"s.lst_*\"]", Some(("direct", "s.lst_*")), "ok"),
        ("scripts = [\"trage\"]", Some(("scripts", "trage")), "ok"),
    ] {
        let own = format!("[profiles.p]\n{profile}\n[clients.local]\nprofile = \"p\"\n");
        fence.write("forge.toml", &format!("{servers}{scripts}{own}"));
        let doctor: Value = fence.run(["--config", "forge.toml", "doctor", "--json"]).object();
        let mut found: Vec<(String, String)> = Vec::new();
        for rule in doctor["unmatched"].as_array().into_iter().flatten() {
            assert_eq!(rule["is_known"], true, "{profile}: {rule}");
            let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
            found.push((text("key"), text("entry")));
        }
        let mut expected = vec![
            ("scripts.tools.trage".to_owned(), "trage".to_owned()),
            ("servers.s.tools.delete_ticket.only_from".to_owned(), "trage".to_owned()),
        ];
        expected.extend(told.map(|(key, entry)| (format!("profiles.p.{key}"), entry.to_owned())));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{profile}");
        assert_eq!(calls(&fence, ["s".to_owned()].into_iter()), [call], "{profile}");
        if call == HELD {
            let called = fence.run(["--config", "forge.toml", "call", "s", "list_tickets", "{}"]).stderr;
            let shown = fence.run(["--config", "forge.toml", "ls", "/"]).stdout;
            assert!(called.contains("a rule of the configuration matches nothing"), "{called}");
            assert!(!(called + &shown).contains("drop_") && !shown.contains("delete_tickets"), "{shown}");
        }
    }
}
