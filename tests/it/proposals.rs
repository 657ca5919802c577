//! Scripts that agents propose by `execute(save_as = …)`, and the decisions of people about them, by the executable.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Era, Fence, Output, Session, value_of};
use crate::endpoint::{CI, CLIENTS, LAPTOP, Served, told};
use crate::faulty::samples;

const ON: &str = "[scripts]\npath = \"scripts/\"\nproposals = true\n";

const JS: &str = "return (await tickets.get_ticket({ id: 1 })).title";
const TS: &str = "const t: { title: string } = await tickets.get_ticket({ id: 1 });\nreturn t.title;";
const STAR: &str = "t = tickets.get_ticket(id = 1)\nt[\"title\"]";
const TITLE: &str = "Checkout fails for gift cards";

/// A fence with a folder of scripts, and more of the configuration.
pub(super) fn fence(more: &str) -> Fence {
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{}\n{more}", samples()));
    fs::create_dir_all(fence.work().join("scripts")).expect("a folder");
    fence
}

async fn serving(fence: &Fence) -> Session {
    let session = fence.connect(Era::Modern, fence.forgefs(["serve"])).await;
    session.ready(&["tickets"]).await;
    session
}

async fn propose(session: &Session, language: &str, code: &str, name: &str) -> Answer {
    session.call("execute", json!({"language": language, "code": code, "save_as": name})).await
}

/// Proposes over a session of its own.
async fn proposed(fence: &Fence, language: &str, code: &str, name: &str) {
    let session = serving(fence).await;
    let answer = propose(&session, language, code, name).await;
    assert!(!answer.is_error && answer.text.contains(&format!("proposed as {name}(")), "{answer:?}");
    session.close().await;
}

fn scripts(fence: &Fence, args: &[&str]) -> Output {
    fence.run([&["scripts"], args].concat())
}

/// Names of the files in a folder, sorted, without hidden ones.
fn files(fence: &Fence, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fence.work().join(folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

/// What a person would read of a proposal, without what differs each time.
fn shown(fence: &Fence, name: &str) -> String {
    let shown = scripts(fence, &["proposals", name]).success().stdout;
    let facts = scripts(fence, &["proposals", name, "--json"]).success().object();
    let of = |key: &str| facts[key].as_str().expect("a text").to_owned();
    shown.replace(&of("run"), "RUN").replace(&of("at"), "TIME").replace(&of("digest"), "DIGEST")
}

#[tokio::test]
async fn a_run_is_proposed_shown_accepted_locked_and_called_in_every_language() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    let cases = [
        ("javascript", JS, "quokka", "js"),
        ("javascript", TS, "deep/wombat", "ts"),
        ("starlark", STAR, "numbat", "star"),
    ];
    for (language, code, name, _) in cases {
        let answer = propose(&session, language, code, name).await;
        assert!(!answer.is_error && value_of(&answer.text) == TITLE, "{answer:?}");
        let file = format!("proposals/{}.local.json", name.replace('/', "_"));
        assert!(answer.text.contains(&format!("\nnote: proposed as {name}(")), "{answer:?}");
        assert!(answer.text.contains(&format!("`forgefs scripts accept {name}`")), "{answer:?}");
        assert!(answer.text.contains(&file) && fence.work().join(file).is_file(), "{answer:?}");
        // It is no tool, whoever asks.
        let ident = name.replace('/', "_");
        let call = format!("return await scripts.{ident}({{}})");
        let called = session.call("execute", json!({"language": "javascript", "code": call})).await;
        assert!(called.is_error, "{called:?}");
        for (tool, args) in
            [("ls", json!({"path": "/", "depth": 9})), ("search", json!({"query": "Proposed from run"}))]
        {
            let text = session.call(tool, args).await.text;
            assert!(!text.contains(&ident), "{tool}: {text}");
        }
        let read = session.call("cat", json!({"path": format!("/scripts/general/{ident}.pyi")})).await;
        assert!(read.is_error, "{read:?}");
    }
    let (locked, listed) = (scripts(&fence, &["lock"]).success(), scripts(&fence, &["list"]).success());
    assert!(locked.stdout.contains("0 scripts") && listed.stdout.is_empty(), "{locked:?}\n{listed:?}");
    session.close().await;

    let mut texts = String::new();
    for (_, _, name, extension) in cases {
        texts.push_str(&shown(&fence, name));
        texts.push('\n');
        let facts = scripts(&fence, &["proposals", name, "--json"]).success().object();
        assert_eq!(facts["test"]["passed"], true, "{facts}");
        assert_eq!(facts["plan"]["calls"], json!([{"tool": "tickets.get_ticket", "writes": false}]), "{facts}");
        let digest = facts["digest"].as_str().expect("a digest");
        let accepted = scripts(&fence, &["accept", name, "--digest", digest]).success();
        assert!(accepted.stdout.contains(&format!("wrote scripts/{name}.{extension}\n")), "{accepted:?}");
        assert!(accepted.stderr.contains("forgefs scripts lock"), "{accepted:?}");
        let again = scripts(&fence, &["accept", name]);
        assert!(again.code == Some(2) && again.stderr.contains("there is no proposal"), "{again:?}");
        let call = fence.run(["call", "scripts", name, "{}"]);
        assert!(call.code != Some(0) && call.stderr.contains("lock"), "{call:?}");
    }
    insta::assert_snapshot!("proposals", texts);
    assert!(files(&fence, "proposals").is_empty());
    scripts(&fence, &["lock"]).success();
    scripts(&fence, &["check"]).success();
    for (_, _, name, _) in cases {
        let called = fence.run(["call", "scripts", name, "{\"id\": 2}"]).success();
        assert_eq!(called.stdout.trim(), "\"Typo on the pricing page\"", "{name}: {called:?}");
    }
}

/// Arguments of `execute` beside `save_as`, and what is said. Nothing is proposed, and the run's value is there unless the
/// call was refused before it.
const REFUSED: [(&str, &str, &str, &str, &str); 16] = [
    ("javascript", JS, "{}", "../out", "is no name of a script"),
    ("javascript", JS, "{}", "/abs", "is no name of a script"),
    ("javascript", JS, "{}", "a/../b", "is no name of a script"),
    ("javascript", JS, "{}", ".", "is no name of a script"),
    ("javascript", JS, "{}", "class", "is no name of a script"),
    ("javascript", JS, "{}", "a.js", "is no name of a script"),
    ("javascript", JS, "{}", "a\u{1b}[31m\u{202e}", "is no name of a script"),
    ("javascript", JS, "{}", "a/a/a/a/a/a/a/a/a", "is no name of a script"),
    ("javascript", JS, "{\"background\": true}", "late", "`background` with `save_as`"),
    ("javascript", "throw new Error('no')", "{}", "fails", "not proposed: the run failed"),
    ("starlark", "fail(\"no\")", "{}", "fails", "not proposed: the run failed"),
    ("javascript", "syntax error here", "{}", "fails", "not proposed: the run failed"),
    ("javascript", "throw new Error('no')", "{\"dry_run\": true}", "fails", "not proposed: the run failed"),
    ("javascript", "async (id) => 1", "{\"dry_run\": true}", "form", "`save_as`: the script cannot be made a function"),
    // Before it calls anything.
    ("javascript", "async (id) => 1", "{}", "form", "`save_as`: the script cannot be made a function"),
    (
        "javascript",
        "const key = 'ghp_x8Kq2Lr9Tz4Vb7Nm1Wc6Yd3Fg5Hj0Pa8Se2R'; return (await tickets.get_ticket({ id: 1 })).title",
        "{}",
        "secret",
        "has credentials",
    ),
];

/// Functions with parameters of their own, and statements with constants.
const FUNCTIONS: [(&str, &str, &str); 7] = [
    (
        "javascript",
        "export default async function ({ id = 1 } = {}) { return (await tickets.get_ticket({ id })).title }",
        "id: number = 1",
    ),
    ("javascript", "async ({ id = 1 }) => (await tickets.get_ticket({ id })).title", "id: number = 1"),
    ("starlark", "def main(id: int = 1):\n    return tickets.get_ticket(id = id)[\"title\"]", "id: integer = 1"),
    (
        "javascript",
        "async ({ id, n = 1 }: { id?: number; n?: number }) => (await tickets.get_ticket({ id: id ?? n })).title",
        "id: number, n: number = 1",
    ),
    (
        "javascript",
        "async ({ id = 1, text = 'a\\u202e\\n' }) => (await tickets.get_ticket({ id })).title",
        "id: number = 1, text: string = \"a\\u{202e}\\n\"",
    ),
    (
        "javascript",
        "const factor = 2\nconst t = await tickets.get_ticket({ id: 1 })\nreturn factor > 1 ? t.title : t.id",
        "factor: number = 2, id: number = 1",
    ),
    (
        "starlark",
        "factor = 2\nt = tickets.get_ticket(id = 1)\nt[\"title\"] if factor > 1 else t[\"id\"]",
        "factor: integer = 2, id: integer = 1",
    ),
];

#[tokio::test]
async fn a_function_runs_with_its_defaults_and_is_proposed_as_it_is() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    for ((language, code, params), name) in
        FUNCTIONS.into_iter().zip(["one", "two", "three", "four", "five", "six", "seven"])
    {
        let answer = propose(&session, language, code, name).await;
        assert!(!answer.is_error && value_of(&answer.text) == TITLE, "{answer:?}");
        assert!(answer.text.contains(&format!("proposed as {name}({params})")), "{answer:?}");
    }
    session.close().await;
}

/// Scripts that write, and their parameters.
const PLANNED: [(&str, &str, &str, &str); 2] = [
    (
        "javascript",
        "js",
        "const body = 'Anyone?';\nconst t = await tickets.get_ticket({ id: 1 });\nreturn (await tickets.add_comment({ id: t.id, body })).ok",
        "body: string = \"Anyone?\", id: number = 1",
    ),
    (
        "starlark",
        "star",
        "body = \"Anyone?\"\nt = tickets.get_ticket(id = 1)\nresult = tickets.add_comment(id = t[\"id\"], body = body)",
        "body: string = \"Anyone?\", id: integer = 1",
    ),
];

#[tokio::test]
async fn a_dry_run_is_proposed_from_its_plan_without_a_test_and_a_type() {
    // It needs no record.
    let fence = fence(&format!("{ON}[journal]\non = false\n"));
    let session = serving(&fence).await;
    for (language, extension, code, params) in PLANNED {
        let name = format!("remind_{extension}");
        let args = json!({"language": language, "code": code, "save_as": name, "dry_run": true});
        let answer = session.call("execute", args).await;
        let said =
            format!("proposed as {name}({params}) (proposals/{name}.local.json) from its plan: no write was made");
        assert!(!answer.is_error && answer.text.contains(&said), "{answer:?}");
        let facts = scripts(&fence, &["proposals", &name, "--json"]).success().object();
        let calls =
            json!([{"tool": "tickets.add_comment", "writes": true}, {"tool": "tickets.get_ticket", "writes": false}]);
        assert!(facts["test"].is_null() && facts["plan"]["calls"] == calls, "{facts}");
        let function = facts["code"].as_str().expect("a script");
        assert!(!function.contains("@returns") && !function.contains("->"), "{function}");
        let shown = scripts(&fence, &["proposals", &name]).success();
        assert!(shown.stdout.contains("\ntest    none: "), "{shown:?}");
        // A test of the script before is none of this one.
        fence.write(format!("scripts/{name}.cassette.json"), "{}");
        let taken = scripts(&fence, &["accept", &name]);
        assert!(taken.code == Some(1) && taken.stderr.contains("cassette.json is there already"), "{taken:?}");
        let told = format!("removes the tests of the script it replaces: scripts/{name}.cassette.json\n");
        let shown = scripts(&fence, &["proposals", &name]).success();
        assert!(shown.stdout.contains(&told), "{shown:?}");
        let accepted = scripts(&fence, &["accept", &name, "--replace", "--json"]).success().object();
        assert_eq!(accepted["removed"], json!([format!("scripts/{name}.cassette.json")]));
        assert_eq!(accepted["files"], json!({"script": format!("scripts/{name}.{extension}"), "test": null}));
    }
    session.close().await;
    assert_eq!(files(&fence, "scripts"), ["remind_js.js", "remind_star.star"]);
    scripts(&fence, &["lock"]).success();
    let called = fence.run(["call", "scripts", "remind_js", "{}", "--yes"]).success();
    assert_eq!(called.stdout.trim(), "true", "{called:?}");
}

#[tokio::test]
async fn what_cannot_be_proposed_is_said_in_a_line_and_no_result_is_lost() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    for (language, code, more, name, message) in REFUSED {
        let mut args: Value = serde_json::from_str(more).expect("JSON");
        args["language"] = language.into();
        args["code"] = code.into();
        args["save_as"] = name.into();
        let answer = session.call("execute", args).await;
        assert!(answer.text.contains(message), "{name:?}: {answer:?}");
        assert!(!answer.text.contains(['\u{1b}', '\u{202e}']), "{answer:?}");
        let note = answer.text.lines().find(|line| line.starts_with("note: not proposed")).unwrap_or_default();
        match answer.is_error {
            false => assert!(value_of(&answer.text) == TITLE && !note.is_empty(), "{name:?}: {answer:?}"),
            true => assert_eq!(note.is_empty(), !message.starts_with("not proposed"), "{name:?}: {answer:?}"),
        }
    }
    let long = propose(&session, "javascript", JS, &"a/".repeat(80)).await;
    assert!(long.is_error && long.text.contains("over the limit of 128 bytes"), "{long:?}");
    session.close().await;
    assert!(!fence.work().join("proposals").exists());
    assert!(files(&fence, "scripts").is_empty());
}

#[tokio::test]
async fn without_proposals_or_journals_the_argument_is_not_offered_or_refused() {
    let cases = [
        ("", false, "proposals are off"),
        ("[scripts]\npath = \"scripts/\"\n", false, "proposals are off"),
        ("[scripts]\npath = \"scripts/\"\nproposals = true\n[journal]\non = false\n", true, "without journals"),
    ];
    for (config, is_offered, message) in cases {
        let fence = fence(config);
        let session = serving(&fence).await;
        let tools = session.tools().await;
        let execute = tools.iter().find(|tool| tool.name == "execute").expect("execute");
        let offered = execute.input_schema["properties"].get("save_as").is_some();
        assert_eq!(offered, is_offered, "{config}");
        let answer = propose(&session, "javascript", JS, "title").await;
        assert!(answer.is_error && answer.text.contains(message), "{config}: {answer:?}");
        session.close().await;
        assert!(!fence.work().join("proposals").exists(), "{config}");
    }
}

#[tokio::test]
async fn a_name_belongs_to_the_client_that_proposed_it_first_and_it_may_replace_its_own() {
    let served = Served::start(fence(ON), &format!("{}{CLIENTS}{ON}", samples())).await;
    let (one, other) = (served.client(Era::Modern, LAPTOP).await, served.client(Era::Modern, CI).await);
    let args = |code: &str, name: &str| json!({"language": "javascript", "code": code, "save_as": name});
    let first = told(&one, args(JS, "title")).await;
    assert!(first.contains("proposals/title.laptop.json"), "{first}");
    let file = served.fence.work().join("proposals/title.laptop.json");
    let text = fs::read_to_string(&file).expect("a proposal");
    for name in ["title", "TITLE"] {
        let refused = told(&other, args("return 1", name)).await;
        assert!(refused.contains("there is a proposal of the name") && refused.contains("another client"), "{refused}");
    }
    let collides = told(&one, args(JS, "Title")).await;
    assert!(collides.contains("do not tell two apart"), "{collides}");
    assert_eq!(fs::read_to_string(&file).expect("a proposal"), text);
    let replaced = told(&one, args("return (await tickets.get_ticket({ id: 2 })).title", "title")).await;
    assert!(replaced.contains("proposed as title("), "{replaced}");
    assert_ne!(fs::read_to_string(&file).expect("a proposal"), text);
    let listed = scripts(&served.fence, &["proposals", "--json"]).success().object();
    assert_eq!(listed["proposals"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["proposals"][0]["client"], "laptop", "{listed}");
    // One client fills its own places, and no other's.
    for number in 1..16 {
        let more = told(&one, args("return 1", &format!("more{number}"))).await;
        assert!(more.contains("proposed as"), "{more}");
    }
    let full = told(&one, args("return 1", "more16")).await;
    assert!(full.contains("BUDGET_EXCEEDED") && full.contains("proposals of a client: 17 items"), "{full}");
    let free = told(&other, args("return 1", "free")).await;
    assert!(free.contains("proposed as free("), "{free}");
    assert!(!served.log().contains("panicked"), "{}", served.log());
}

#[tokio::test]
async fn a_script_is_changed_only_with_replace_and_only_as_it_was_shown() {
    let fence = fence(ON);
    let old = "/** Old. */\nexport default async function () {\n  return 1;\n}\n";
    fence.write("scripts/title.js", old);
    fence.write("scripts/title.cassette.json", "{}");
    proposed(&fence, "javascript", JS, "title").await;
    let text = shown(&fence, "title");
    insta::assert_snapshot!("changes", text);
    let digest = |fence: &Fence| {
        let facts = scripts(fence, &["proposals", "title", "--json"]).success().object();
        facts["digest"].as_str().expect("a digest").to_owned()
    };
    let before = digest(&fence);
    let kept = scripts(&fence, &["accept", "title", "--digest", &before]);
    assert!(kept.code == Some(1) && kept.stderr.contains("scripts/title.js is there already"), "{kept:?}");
    // Neither the proposal nor the script may have changed since it was shown.
    fence.write("scripts/title.js", &old.replace('1', "2"));
    let moved = scripts(&fence, &["accept", "title", "--replace", "--digest", &before]);
    assert!(moved.code == Some(1) && moved.stderr.contains("is not the one with that digest"), "{moved:?}");
    fence.write("scripts/title.js", old);
    proposed(&fence, "javascript", "return (await tickets.get_ticket({ id: 3 })).title", "title").await;
    let other = scripts(&fence, &["accept", "title", "--replace", "--digest", &before]);
    assert!(other.code == Some(1) && other.stderr.contains("is not the one with that digest"), "{other:?}");
    assert_eq!(fs::read_to_string(fence.work().join("scripts/title.js")).expect("a script"), old);
    scripts(&fence, &["accept", "title", "--replace", "--digest", &digest(&fence)]).success();
    let now = fs::read_to_string(fence.work().join("scripts/title.js")).expect("a script");
    assert!(now.contains("id = 3"), "{now}");
    fence.run(["test", "scripts"]).success();
    assert_eq!(files(&fence, "scripts"), ["title.cassette.json", "title.js"]);
}

/// A script that is there, and why a proposal `billing/pay` in JavaScript does not take its place even with --replace.
const IN_THE_WAY: [(&str, &str); 3] = [
    ("scripts/billing_pay.js", "the tool of scripts/billing_pay.js has the same name"),
    ("scripts/billing/pay.ts", "has another extension"),
    ("scripts/billing/Pay.js", "the tool of scripts/billing/Pay.js has the same name"),
];

#[tokio::test]
async fn what_accepting_would_break_is_refused_and_the_proposal_stays() {
    let fence = fence(ON);
    proposed(&fence, "javascript", JS, "billing/pay").await;
    let refused = |message: &str| {
        let output = scripts(&fence, &["accept", "billing/pay", "--replace"]);
        assert!(output.code != Some(0) && output.stderr.contains(message), "{message}: {output:?}");
        assert_eq!(files(&fence, "proposals"), ["billing_pay.local.json"]);
    };
    for (path, message) in IN_THE_WAY {
        let file = fence.write(path, "/** A. */\nexport default function () { return 1; }\n");
        refused(message);
        fs::remove_file(file).expect("removed");
        let _ = fs::remove_dir(fence.work().join("scripts/billing"));
    }
    // A folder or a script that is a link leads elsewhere.
    let outside = fence.write("outside/pay.js", "/** Out. */\nexport default function () { return 1; }\n");
    symlink(fence.work().join("outside"), fence.work().join("scripts/billing")).expect("a link");
    refused("scripts/billing");
    fs::remove_file(fence.work().join("scripts/billing")).expect("removed");
    let inner = fence.write("scripts/inner.js", "/** In. */\nexport default function () { return 1; }\n");
    fs::create_dir(fence.work().join("scripts/billing")).expect("a folder");
    symlink(&inner, fence.work().join("scripts/billing/pay.js")).expect("a link");
    refused("is a link");
    assert_eq!(fs::read_to_string(outside).expect("as it was").lines().count(), 2);
    assert_eq!(fs::read_to_string(inner).expect("as it was").lines().count(), 2);
}

#[tokio::test]
async fn an_accept_that_was_cut_short_is_completed_by_the_next() {
    let fence = fence(ON);
    proposed(&fence, "javascript", JS, "title").await;
    let proposal = fence.work().join("proposals/title.local.json");
    let text = fs::read_to_string(&proposal).expect("a proposal");
    let facts: Value = serde_json::from_str(&text).expect("JSON");
    let (code, cassette) = (facts["code"].as_str().expect("code"), facts["cassette"].as_str().expect("a test"));
    // After the script; after its test; and with the old test of a replaced script removed.
    for (script, test, args) in [
        (code, None, vec!["accept", "title"]),
        (code, Some(cassette), vec!["accept", "title"]),
        ("/** Old. */\nexport default function () { return 1; }\n", None, vec!["accept", "title", "--replace"]),
    ] {
        fence.write("scripts/title.js", script);
        let beside = fence.work().join("scripts/title.cassette.json");
        let _ = fs::remove_file(&beside);
        if let Some(test) = test {
            fs::write(&beside, test).expect("written");
        }
        fs::write(&proposal, &text).expect("written");
        scripts(&fence, &args).success();
        assert_eq!(fs::read_to_string(fence.work().join("scripts/title.js")).expect("a script"), code);
        assert_eq!(fs::read_to_string(&beside).expect("a test"), cassette);
        assert!(!proposal.exists());
        fence.run(["test", "scripts"]).success();
    }
    // The script is in its place; what is in the way is another test.
    fence.write("scripts/title.cassette.json", "{}");
    fs::write(&proposal, &text).expect("written");
    let taken = scripts(&fence, &["accept", "title"]);
    let said = "scripts/title.cassette.json is there already";
    assert!(taken.code == Some(1) && taken.stderr.contains(said) && proposal.exists(), "{taken:?}");
}

/// Edits of a proposal's file, and what is said of it.
fn hostile(good: &Value) -> Vec<(&'static str, String, &'static str)> {
    let edited = |key: &str, value: Value| {
        let mut edited = good.clone();
        edited[key] = value;
        edited.to_string()
    };
    vec![
        ("title.local.json", "not JSON".to_owned(), "expected"),
        ("title.local.json", "[".repeat(100_000), "over the limit"),
        ("title.local.json", " ".repeat(3 << 20), "over the limit"),
        ("title.local.json", edited("proposal", json!(9)), "version 9"),
        ("title.local.json", edited("name", json!("../../out")), "not that of its file"),
        ("title.local.json", edited("name", json!("other")), "not that of its file"),
        ("title.local.json", edited("client", json!("ci")), "not that of its file"),
        ("title.local.json", edited("extension", json!("sh")), "unknown variant"),
        ("title.local.json", edited("cassette", json!("{}")), "cassette"),
        ("title.local.json", edited("more", json!(1)), "unknown field"),
        ("a\u{1b}[2J.local.json", good.to_string(), "not that of its file"),
        (".._.._out.local.json", good.to_string(), ""),
    ]
}

#[tokio::test]
async fn hostile_files_are_named_and_refused_and_nothing_leaves_the_folder() {
    let fence = fence(ON);
    proposed(&fence, "javascript", JS, "title").await;
    let path = fence.work().join("proposals/title.local.json");
    let text = fs::read_to_string(&path).expect("a proposal");
    let good: Value = serde_json::from_str(&text).expect("JSON");
    fs::remove_file(&path).expect("removed");
    for (file, content, message) in hostile(&good) {
        let path = fence.work().join("proposals").join(file);
        fs::write(&path, content).expect("written");
        let listed = scripts(&fence, &["proposals"]).success();
        assert!(!listed.stdout.contains('\u{1b}'), "{listed:?}");
        if !message.is_empty() {
            assert!(listed.stdout.contains("damaged: ") && listed.stdout.contains(message), "{file:?}: {listed:?}");
            let shown = scripts(&fence, &["proposals", "title"]);
            let taken = scripts(&fence, &["accept", "title", "--replace"]);
            assert!(shown.code != Some(0) && taken.code != Some(0), "{file:?}: {shown:?}\n{taken:?}");
            scripts(&fence, &["reject", file]).success();
        } else {
            fs::remove_file(&path).expect("removed");
        }
        assert!(files(&fence, "proposals").is_empty(), "{file:?}");
        assert!(files(&fence, "scripts").is_empty(), "{file:?}");
    }
    for name in ["../title", "../../forge.toml", "/etc/passwd", ".lock", "title.local.json", "\u{1b}[2J"] {
        for command in ["proposals", "accept", "reject"] {
            let output = scripts(&fence, &[command, name]);
            assert!(output.code == Some(2) && output.stderr.contains("there is no proposal"), "{name}: {output:?}");
            assert!(!output.stderr.contains('\u{1b}'), "{output:?}");
        }
    }
    // Links: one to a proposal elsewhere, and one in place of the folder.
    let outside = fence.write("outside/title.local.json", &text);
    symlink(&outside, &path).expect("a link");
    let linked = scripts(&fence, &["proposals"]).success();
    assert!(linked.stdout.contains("damaged: it is a link"), "{linked:?}");
    fs::remove_dir_all(fence.work().join("proposals")).expect("removed");
    symlink(fence.work().join("outside"), fence.work().join("proposals")).expect("a link");
    for args in [["accept", "title"], ["reject", "title"], ["proposals", "title"]] {
        let refused = scripts(&fence, &args);
        assert!(refused.code != Some(0) && refused.stderr.contains("it is a link"), "{refused:?}");
    }
    let session = serving(&fence).await;
    let answer = propose(&session, "javascript", JS, "more").await;
    assert!(answer.text.contains("it is a link"), "{answer:?}");
    session.close().await;
    assert_eq!(files(&fence, "outside"), ["title.local.json"]);
    assert!(outside.is_file() && files(&fence, "scripts").is_empty());
}

#[tokio::test]
async fn texts_of_a_proposal_reach_a_terminal_escaped() {
    let fence = fence(ON);
    let code = "const name = 'a\u{202e}\u{1b}[2J\u{200b}b';\n// \u{1b}]0;title\u{7}\ntickets;\nreturn name.length";
    proposed(&fence, "javascript", code, "odd").await;
    let path = fence.work().join("proposals/odd.local.json");
    let mut edited: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a proposal")).expect("JSON");
    edited["agent"] = "me\u{1b}[31m\naccept  forgefs scripts accept evil".into();
    edited["run"] = "\u{1b}[2Jrun\nplan    no calls".into();
    fs::write(&path, edited.to_string()).expect("written");
    for args in [vec!["proposals"], vec!["proposals", "odd"], vec!["proposals", "odd", "--json"]] {
        let output = scripts(&fence, &args).success();
        let hidden = ['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}'];
        assert!(!output.stdout.contains(hidden) && !output.stderr.contains(hidden), "{output:?}");
        let starts = |with: &str| output.stdout.lines().filter(|line| line.starts_with(with)).count();
        assert!(starts("accept") <= 1 && starts("plan") <= 1, "{output:?}");
    }
}

#[tokio::test]
async fn gateways_that_propose_at_once_keep_every_proposal_whole() {
    let fence = fence(ON);
    let (one, other) = (serving(&fence).await, serving(&fence).await);
    let each = async |session: &Session, mark: &str| {
        for number in 0..4 {
            let answer = propose(session, "javascript", JS, &format!("{mark}{number}")).await;
            assert!(answer.text.contains("proposed as"), "{answer:?}");
            let both = propose(session, "javascript", JS, "both").await;
            assert!(both.text.contains("proposed as both"), "{both:?}");
        }
    };
    tokio::join!(each(&one, "one"), each(&other, "two"));
    let listed = scripts(&fence, &["proposals", "--json"]).success().object();
    assert_eq!(listed["proposals"].as_array().map(Vec::len), Some(9), "{listed}");
    assert_eq!(listed["damaged"], json!([]), "{listed}");
    // One that holds the folder is waited for, and then named; the run keeps its value.
    let lock = fs::File::options().write(true).open(fence.work().join("proposals/.lock")).expect("a lock");
    lock.lock().expect("alone");
    let begun = Instant::now();
    let held = propose(&one, "javascript", JS, "held").await;
    assert!(value_of(&held.text) == TITLE && held.text.contains("another process changes the proposals"), "{held:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(lock);
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_resumed_run_is_proposed_with_the_answers_that_it_took_over() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    let code = "const t = await tickets.get_ticket({ id: 1 }); if (!await forge.stash.get('go')) throw new Error('no'); return t.title";
    let failed = propose(&session, "javascript", code, "again").await;
    assert!(failed.is_error && failed.text.contains("not proposed: the run failed"), "{failed:?}");
    let run = failed.text.split("resume=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let args = json!({"resume": run, "language": "javascript", "code": JS, "save_as": "again"});
    let resumed = session.call("execute", args).await;
    assert!(value_of(&resumed.text) == TITLE && resumed.text.contains("proposed as again"), "{resumed:?}");
    session.close().await;
    let facts = scripts(&fence, &["proposals", "again", "--json"]).success().object();
    assert_eq!(facts["test"]["passed"], true, "{facts}");
}

/// The folder of proposals has no scripts for the gateway, whatever is put there.
#[tokio::test]
async fn a_script_in_the_folder_of_proposals_is_never_read() {
    let fence = fence(&format!("{ON}unlocked = true\n"));
    let planted: PathBuf = fence.write("proposals/evil.js", "/** E. */\nexport default function () { return 666; }\n");
    fence.write("scripts/fine.js", "/** F. */\nexport default function () { return 1; }\n");
    let session = serving(&fence).await;
    proposed(&fence, "javascript", JS, "title").await;
    let listing = session.call("ls", json!({"path": "/", "depth": 9})).await.text;
    assert!(listing.contains("fine") && !listing.contains("evil") && !listing.contains("title."), "{listing}");
    session.close().await;
    let listed = scripts(&fence, &["list"]).success();
    assert!(!listed.stdout.contains("evil") && !listed.stdout.contains("title"), "{listed:?}");
    assert!(planted.is_file());
}
