//! `--json`: every command prints the shape that docs/json.md shows, and its errors are JSON too.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::Fence;
use crate::faulty::samples;

const PAGE: &str = include_str!("../../docs/json.md");

/// Examples of the page: the words of the command, and the object.
pub(crate) fn examples() -> Vec<(Vec<&'static str>, Value)> {
    let blocks = PAGE.split("```json ").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    let examples = blocks.map(|block| {
        let (words, text) = block.split_once('\n').expect("a line with the command");
        let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{words}: {error}"));
        (words.split(' ').collect(), value)
    });
    examples.collect()
}

/// Paths of all keys of a value.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            found.insert(format!("{path}.{key}"));
            keys(value, &format!("{path}.{key}"), found);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

pub(crate) fn shape(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys(value, "", &mut found);
    found
}

/// The sample servers, and one on HTTP that is switched off.
fn fence() -> Fence {
    let fence = Fence::new();
    fence.write(
        "forge.toml",
        &format!("{}\n[servers.web]\nenabled = false\nurl = \"https://example.com/mcp\"\n", samples()),
    );
    fence.write("teams.star", "people.list_teams()");
    fence
}

#[test]
fn every_command_prints_the_shape_that_the_page_shows() {
    let fence = fence();
    let mut seen = Vec::new();
    for (words, shown) in examples() {
        // The daemon needs clients for its shape, and the registry a server: tests/it/daemon.rs, registry.rs.
        if words == ["error"] || ["daemon", "registry"].contains(&words[0]) {
            continue;
        }
        let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let output = fence.run([&words[..end], &["--json"], &words[end..]].concat()).success();
        let printed = output.object();
        assert_eq!(printed["ok"], true, "{words:?}");
        // Warnings are texts, and there may be none.
        assert_eq!(shape(&printed), shape(&shown), "{words:?}: {printed:#}");
        seen.push(words[0]);
        if words[0] == "add" {
            let removed = fence.run(["remove", words[1], "--json"]).success().object();
            assert!(removed["changed"] == true && removed["enabled"].is_null(), "{removed}");
            assert!(
                printed
                    .as_object()
                    .is_some_and(|added| shape(&removed).iter().all(|key| added.contains_key(&key[1..])))
            );
        }
    }
    seen.dedup();
    let all = [
        "list", "disable", "add", "connect", "call", "check", "ls", "cat", "search", "doctor", "clients", "console",
        "auth",
    ];
    assert_eq!(seen, all);
    // The same by another name, and the same keys of another edit.
    let check = |args: &[&str]| fence.run([&["check", "teams.star"], args].concat()).success().object();
    assert_eq!(check(&["--json"]), check(&["--format", "json"]));
    let enable = || fence.run(["enable", "calendar", "--json"]).success().object();
    assert_eq!(enable()["changed"], true);
    let again = enable();
    assert!(again["changed"] == false && again["enabled"] == true && again["backup"].is_null(), "{again}");
    for (words, first) in [
        (&["ls", "/tickets/get_ticket.pyi", "--json"][..], "/tickets/get_ticket.pyi"),
        (&["ls", "/tickets/README.md", "--json"], "/tickets/README.md"),
        (&["ls", "/web", "--json"], ""),
    ] {
        let printed = fence.run(words).success().object();
        assert_eq!(printed["entries"][0]["path"].as_str().unwrap_or_default(), first, "{words:?}");
    }
}

#[test]
fn an_error_is_an_object_as_well() {
    let (_, shown) = examples().into_iter().find(|(words, _)| words == &["error"]).expect("the shape of errors");
    let fence = fence();
    let empty = Fence::new();
    empty.write("broken.toml", "[servers.a]\ncomand = 1\n");
    let cases: &[(&Fence, &[&str], i32, &str)] = &[
        (&empty, &["ls", "--json"], 2, "there is no forge.toml"),
        (&empty, &["list", "--json"], 2, "there is no forge.toml"),
        (&empty, &["--config", "broken.toml", "doctor", "--json"], 2, "servers.a.comand"),
        (&empty, &["--config", "broken.toml", "list", "--json"], 2, "servers.a.comand"),
        (&empty, &["run", "nowhere.js", "--json"], 2, "nowhere.js"),
        (&fence, &["ls", "/nowhere", "--json"], 1, "there is no /nowhere"),
        (&fence, &["cat", "/tickets/nothing.pyi", "--json"], 1, "nothing"),
        (&fence, &["search", " ", "--json"], 1, "needs words"),
        (&fence, &["search", "--json", "--no-such-option"], 2, "--no-such-option"),
        (&fence, &["auth", "status", "nobody", "--json"], 2, "no server is called `nobody`"),
        (&fence, &["audit", "show", "nothing", "--json"], 2, "no record"),
        (&fence, &["policy", "try", "nowhere.toml", "--json"], 2, "nowhere.toml"),
        (&fence, &["ls", "--json", "--engine", "v9"], 2, "no JavaScript engine"),
        (&fence, &["call", "people", "list_teams", "{\"x\": 1}", "--json"], 1, "no parameter `x`"),
        (&fence, &["remove", "nobody", "--json"], 2, "no server is called `nobody`"),
        (&fence, &["disable", "nobody", "--json"], 2, "no server is called `nobody`"),
        (&fence, &["add", "desk", "--json", "--", "no-such-program"], 3, "does not answer, nothing was written"),
        (&fence, &["check", "nowhere.star", "--format", "json"], 2, "nowhere.star"),
        (&fence, &["check", "teams.star", "--json", "--summary", "no/such/file"], 2, "no/such/file"),
        (&fence, &["connect", "--json"], 1, "no MCP client is installed here"),
        (&fence, &["connect", "cursor", "--json", "--import"], 2, "--import"),
    ];
    for (fence, words, code, says) in cases {
        let output = fence.run(*words);
        let printed = output.object();
        assert_eq!(output.code, Some(*code), "{words:?}: {output:?}");
        assert_eq!(shape(&printed), shape(&shown), "{words:?}: {printed}");
        assert_eq!(printed["error"]["exit"], *code, "{words:?}");
        assert!(printed["error"]["message"].as_str().is_some_and(|text| text.contains(says)), "{words:?}: {printed}");
    }
}

/// An edit is done, and a gateway that may run cannot be asked to take it up: the object of the edit has the error too.
#[test]
fn an_edit_that_no_gateway_takes_up_is_one_object_with_the_error() {
    let fence = fence();
    let state = fence.audit().parent().expect("its folder").to_owned();
    for kind in ["clients", "console"] {
        fence.run([kind, "add", "ci", "--json"]).success();
    }
    let _ = std::fs::remove_dir_all(&state);
    std::fs::create_dir_all(state.parent().expect("a folder")).expect("made");
    std::fs::write(&state, "").expect("written");
    for words in ["clients rotate ci", "clients revoke ci", "console remove ci"] {
        let output = fence.run(words.split(' ').chain(["--json"]));
        let printed = output.object();
        assert!(output.code == Some(4) && printed["ok"] == false && printed["name"] == "ci", "{output:?}");
        assert_eq!(printed["token"].is_string(), words.contains("rotate"), "{printed}");
        assert!(printed["error"]["message"].as_str().is_some_and(|text| text.contains("is edited, but")), "{printed}");
    }
    let text = std::fs::read_to_string(fence.work().join("forge.toml")).expect("the configuration");
    assert!(!text.contains("ci]"), "{text}");
}
