//! Profiles: what a client does not have is nowhere.
//!
//! Hiding is tested by comparison. Of two gateways one has servers, tools, scripts and skills that the client's profile
//! hides, and the other does not have them at all: both must answer every request alike, to the letter.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use rmcp::model::SubscribeRequestParams;
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::has_python;
use crate::hostile_input::{Ask, ask};

/// Tools of `web` that the profile does not have.
const DENIED: [&str; 3] = ["hidden", "fail", "make"];

fn server(fence: &Fence, name: &str, without: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/policy.py");
    let log = fence.work().join("calls.log");
    let own = [script.to_string_lossy().into_owned(), name.to_owned(), log.to_string_lossy().into_owned()];
    let args: Vec<String> = own.into_iter().chain(without.iter().map(|tool| (*tool).to_owned())).collect();
    format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args:?}\n")
}

fn skill(fence: &Fence, name: &str, server: &str) {
    let text =
        format!("---\nname: {name}\ndescription: Looks at data.\nservers: [{server}]\n---\n\nCall {server}.look.\n");
    fence.write(format!("skills/{name}/SKILL.md"), &text);
}

fn script(fence: &Fence, name: &str, calls: &str) {
    let code = format!(
        "/** Looks.\n * @returns {{Promise<string>}}\n */\nexport default async function () {{\n  return await {calls};\n}}\n"
    );
    fence.write(format!("scripts/{name}.js"), &code);
}

const FOLDERS: &str = "[scripts]\npath = \"scripts\"\n[skills]\npath = \"skills\"\n";

/// A gateway with everything, whose client has a profile.
fn hiding() -> (Fence, String) {
    let fence = Fence::new();
    skill(&fence, "open", "web");
    skill(&fence, "secretive", "vault");
    script(&fence, "glance", "web.look({})");
    script(&fence, "peek", "vault.look({})");
    // Through another one.
    script(&fence, "sneak", "scripts.peek({})");
    let servers: String = ["chat", "vault", "web"].map(|name| server(&fence, name, &[])).concat();
    let deny = DENIED.map(|tool| format!("web.{tool}"));
    let profile = format!(
        "[profiles.narrow]\nservers = [\"web\", \"chat\"]\ndeny = {deny:?}\n[clients.local]\nprofile = \"narrow\"\n"
    );
    let own = ["glance", "peek", "sneak"].map(|name| format!("[scripts.tools.{name}]\nas_tool = true\n")).concat();
    (fence, format!("{servers}{FOLDERS}{own}{profile}"))
}

/// The same without what the profile hides.
fn lacking() -> (Fence, String) {
    let fence = Fence::new();
    skill(&fence, "open", "web");
    script(&fence, "glance", "web.look({})");
    let servers = [server(&fence, "chat", &[]), server(&fence, "web", &DENIED)].concat();
    (fence, format!("{servers}{FOLDERS}[scripts.tools.glance]\nas_tool = true\n"))
}

/// Locks the scripts without a profile in the way, and serves.
async fn served(fence: &Fence, config: &str, era: Era) -> Session {
    fence.write("forge.toml", config.split("[profiles").next().expect("a part"));
    fence.run(["scripts", "lock"]).success();
    let session = fence.serve_in(era, config).await;
    session.ready(&["chat", "web"]).await;
    // The scripts are judged, and shown, a moment later.
    for _ in 0..200 {
        let listing = session.call("ls", json!({"depth": 4})).await.text;
        let skills = session.call("cat", json!({"path": "/skills/*/SKILL.md"})).await.text;
        if !listing.contains("connecting") && listing.contains("glance") && skills.contains("- `web.look`") {
            return session;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no scripts: {}", session.call("ls", json!({"depth": 3})).await.text);
}

/// Ways in, each at what is hidden, at what is not, and at what is nowhere.
fn requests() -> Vec<Ask> {
    let mut asks = vec![
        Ask::Tool("glance", json!({})),
        Ask::Tool("peek", json!({})),
        Ask::Tool("sneak", json!({})),
        Ask::Tool("ls", json!({})),
        Ask::Tool("ls", json!({"depth": 4})),
        Ask::Tool("cat", json!({"path": ["/*/*.pyi", "/**/*.md", "/**/*.d.ts"]})),
        Ask::Tool("cat", json!({"path": "/{vault,web}/{look,hidden}.*"})),
        Ask::Tool("cat", json!({"path": ["/forge.pyi", "/forge.d.ts", "/tools.d.ts", "/tools.pyi"]})),
        Ask::Tool("search", json!({"query": ["data", "look", "read a file", "send text", "peek"]})),
        Ask::Tool("search", json!({"query": "data", "limit": 50})),
        Ask::Resources(String::new()),
        Ask::Prompts(String::new()),
        Ask::Templates(String::new()),
        Ask::Script("manifest.servers()", "manifest.servers()"),
        Ask::Script("forge.search('look')", "search('look')"),
        Ask::Script("forge.ls('/', { depth: 4 })", "ls('/', depth=4)"),
        Ask::Script("manifest.search('data', 50)", ""),
        Ask::Script("Object.keys(globalThis).sort()", "dir()"),
        Ask::Script("[typeof vault, typeof web, typeof nowhere]", ""),
        Ask::Script("forge.stash.keys()", "stash.keys()"),
        Ask::Script("forge.results.list()", "results.list()"),
    ];
    for server in ["vault", "web", "vaul", "nowhere", "VAULT"] {
        asks.extend([
            Ask::Tool("ls", json!({"path": format!("/{server}")})),
            Ask::Tool("ls", json!({"path": format!("/{server}/resources")})),
            Ask::Tool("cat", json!({"path": format!("/{server}/README.md")})),
            Ask::Tool("cat", json!({"path": format!("/{server}/__init__.pyi")})),
            Ask::Tool("cat", json!({"path": format!("/{server}/resources/data.txt")})),
            Ask::Tool("cat", json!({"path": format!("{server}://data")})),
            Ask::Tool("search", json!({"query": server})),
            Ask::Tool("search", json!({"query": "look", "path": format!("/{server}")})),
            Ask::Read(format!("{server}://data")),
            Ask::Read(format!("forge://{server}/look.pyi")),
            Ask::Read(format!("forge://{server}/resources/data.txt")),
            Ask::Prompt(format!("{server}.ask"), "x".to_owned()),
            Ask::CompletePrompt(format!("{server}.ask"), "x".to_owned()),
            Ask::CompleteTemplate(format!("{server}://data"), "x".to_owned()),
        ]);
        for tool in ["look", "hidden", "hiden", "none"] {
            asks.push(Ask::Tool("cat", json!({"path": format!("/{server}/{tool}.pyi")})));
            asks.push(Ask::Tool("search", json!({"query": format!("{server} {tool}")})));
        }
    }
    for (js, star) in [
        ("vault.look({})", "vault.look()"),
        ("web.hidden({})", "web.hidden()"),
        ("web.make({})", "web.make()"),
        ("web.hiden({})", "web.hiden()"),
        ("web.look({})", "web.look()"),
        ("web.look({ txet: 'x' })", "web.look(txet='x')"),
        ("forge.callTool('vault', 'look', {})", "call_tool('vault', 'look', {})"),
        ("forge.callTool(['va', 'ult'].join(''), 'look', {})", "call_tool(''.join(['va', 'ult']), 'look', {})"),
        ("forge.callTool('web', ['hid', 'den'].join(''), {})", "call_tool('web', ''.join(['hid', 'den']), {})"),
        ("forge.readResource('vault', 'vault://data')", "read_resource('vault', 'vault://data')"),
        ("forge.readResource('web', 'vault://data')", "read_resource('web', 'vault://data')"),
        ("forge.prompt('vault', 'ask', {})", "prompt('vault', 'ask', {})"),
        ("forge.cat('/vault/look.pyi')", "cat('/vault/look.pyi')"),
        ("forge.ls('/vault')", "ls('/vault')"),
        ("scripts.glance({})", "scripts.glance()"),
        ("scripts.peek({})", "scripts.peek()"),
        ("scripts.sneak({})", "scripts.sneak()"),
        ("forge.callTool('scripts', ['pe', 'ek'].join(''), {})", "call_tool('scripts', ''.join(['pe', 'ek']), {})"),
        ("manifest.tool('vault', 'look')", ""),
        ("manifest.tool('web', 'hidden')", ""),
    ] {
        asks.push(Ask::Script(js, star));
    }
    for path in [
        "/scripts", "/skills", "/scripts/peek.pyi", "/scripts/peek.md", "/skills/secretive", "/skills/peek",
        "/skills/sneak/SKILL.md",
    ] {
        asks.push(Ask::Tool("ls", json!({"path": path})));
        asks.push(Ask::Tool("cat", json!({"path": path})));
    }
    for uri in
        ["skill://secretive/SKILL.md", "skill://peek/SKILL.md", "skill://nowhere/SKILL.md", "forge://scripts/peek.pyi"]
    {
        asks.push(Ask::Read(uri.to_owned()));
    }
    asks
}

/// Without what differs between two runs of one gateway.
fn plain(text: &str, fence: &Fence) -> String {
    static VARIES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b[0-9a-f]{12,}\b|\d+(\.\d+)? m?s\b|[0-9TZ:.-]{20,}|next_cursor: Some\([^)]*\)")
            .expect("a pattern")
    });
    VARIES.replace_all(&text.replace(&*fence.work().to_string_lossy(), "WORK"), "_").into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_profile_hides_is_nowhere() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    for era in [Era::Modern, Era::Legacy] {
        let (one, other) = (hiding(), lacking());
        let (hides, lacks) = tokio::join!(served(&one.0, &one.1, era), served(&other.0, &other.1, era));
        assert_eq!(hides.instructions(), lacks.instructions());
        assert_eq!(format!("{:?}", hides.tools().await), format!("{:?}", lacks.tools().await));
        let (mut refused, mut told) = (0, Vec::new());
        for (number, request) in requests().iter().enumerate() {
            let (shown, expected) = tokio::join!(ask(&hides, request), ask(&lacks, request));
            let text = |answers: &[Result<String, String>], fence| -> Vec<String> {
                answers.iter().map(|answer| plain(&format!("{answer:?}"), fence)).collect()
            };
            let (shown, expected) = (text(&shown, &one.0), text(&expected, &other.0));
            refused += shown.iter().filter(|text| text.starts_with("Err")).count();
            if shown != expected {
                let differs = shown.iter().zip(&expected).filter(|(shown, expected)| shown != expected);
                told.extend(differs.map(|(shown, expected)| {
                    let common = shown.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
                    let part = |text: &str| {
                        text.get(common.saturating_sub(60)..).map(|text| text.chars().take(200).collect::<String>())
                    };
                    format!("request {number}:\n  {:?}\n  {:?}", part(shown), part(expected))
                }));
            }
        }
        assert!(told.is_empty(), "{} answers differ:\n{}", told.len(), told.join("\n"));
        assert!(refused > 60, "{refused} requests were refused");
        if era == Era::Legacy {
            for uri in ["vault://data", "forge://vault/look.pyi", "forge://nowhere/look.pyi"] {
                #[expect(deprecated, reason = "clients of the older revisions do")]
                let subscribe = async |session: &Session| {
                    let answer = session.peer().subscribe(SubscribeRequestParams::new(uri)).await;
                    plain(&format!("{answer:?}"), &one.0)
                };
                assert_eq!(subscribe(&hides).await, subscribe(&lacks).await, "{uri}");
            }
        }
        hides.close().await;
        lacks.close().await;
        let log = fs::read_to_string(one.0.work().join("calls.log")).unwrap_or_default();
        assert!(log.contains("web look"), "{log}");
        assert!(!log.lines().any(|line| line.starts_with("vault ") || line.starts_with("web hidden")), "{log}");
    }
}

#[test]
fn the_command_line_shows_what_a_client_sees() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let servers: String = ["chat", "vault", "web"].map(|name| server(&fence, name, &[])).concat();
    let clients = "[profiles.narrow]\nservers = [\"web\"]\nallow = [\"web.look\"]\n\
                   [clients.ci]\ntoken = \"0123456789abcdef\"\nprofile = \"narrow\"\n";
    fence.write("forge.toml", &format!("{servers}{clients}"));
    fence.write("peek.star", "vault.look()\n");
    let listed = |words: &[&str]| fence.run(words).success().stdout;
    for (words, has, lacks) in [
        (&["ls", "/"][..], &["vault/", "web/", "chat/"][..], &[][..]),
        (&["--as", "local", "ls", "/"], &["vault/", "web/", "chat/"], &[]),
        (&["--as", "ci", "ls", "/"], &["web/  1 tool"], &["vault", "chat"]),
        (&["--as", "narrow", "ls", "/"], &["web/  1 tool"], &["vault", "chat"]),
        (&["--as", "ci", "ls", "--json", "/"], &["\"web\""], &["vault", "chat"]),
        (&["--as", "ci", "search", "--json", "look"], &["look"], &["vault", "chat", "hidden"]),
        (&["--as", "ci", "call", "web", "look", "{}"], &["data of web"], &[]),
    ] {
        let text = listed(words);
        assert!(has.iter().all(|word| text.contains(word)), "{words:?}: {text}");
        assert!(!lacks.iter().any(|word| text.contains(word)), "{words:?}: {text}");
    }
    for (words, says) in [
        (&["--as", "cii", "ls", "/"][..], "did you mean `ci`"),
        (&["--as", "ci", "call", "vault", "look", "{}"], "there is no server `vault`"),
        (&["--as", "ci", "call", "web", "send", "{}"], "has no tool `send`"),
        (&["--as", "ci", "serve", "--http"], "--http serves several"),
        (&["--as", "ci", "run", "peek.star"], "vault"),
    ] {
        let output = fence.run(words);
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(output.code != Some(0) && text.contains(says), "{words:?}: {text}");
    }
}

/// Rewrites the configuration, and waits until the listing of the root says so.
async fn reloaded(session: &Session, fence: &Fence, config: &str, is_there: impl Fn(&str) -> bool) {
    fence.write("forge.toml", config);
    session.hang_up();
    for _ in 0..200 {
        if is_there(&session.call("ls", json!({})).await.text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not reloaded: {}", session.call("ls", json!({})).await.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_comes_and_goes_while_a_session_lives() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let servers: String = ["vault", "web"].map(|name| server(&fence, name, &[])).concat();
    let open = format!("{servers}[profiles.narrow]\nservers = [\"web\"]\n");
    let narrow = format!("{open}[clients.local]\nprofile = \"narrow\"\n");
    let session = fence.serve(&open).await;
    session.ready(&["vault", "web"]).await;
    session
        .execute("javascript", "await forge.stash.put('free', 1); await forge.stash.put('kept', await vault.look({}))")
        .await;
    // Too large to answer with: stored.
    session.call("execute", json!({"language": "javascript", "code": "return await vault.huge({})"})).await;
    let results = session.call("ls", json!({"path": "/results"})).await.text;
    let path = results.split_whitespace().find(|word| word.starts_with("/results/"));
    let path = path.unwrap_or_else(|| panic!("no result: {results}")).to_owned();
    let runs = session.call("ls", json!({"path": "/runs"})).await.text;
    let failing = "const { length } = await vault.look({}); if (length) throw new Error('after it'); return length";
    let failed = session.call("execute", json!({"language": "javascript", "code": failing})).await.text;
    let resumed = failed.lines().find_map(|line| line.strip_prefix("resume: ")).map(str::to_owned);
    let id = Regex::new("resume[=: \"]+([0-9a-f]{8,})")
        .expect("a pattern")
        .captures(&failed)
        .map(|found| found[1].to_owned());
    let id = id.unwrap_or_else(|| panic!("no run to resume, {resumed:?}: {failed}"));

    reloaded(&session, &fence, &narrow, |listing| !listing.contains("vault")).await;
    for (tool, arguments) in [
        ("cat", json!({"path": path})),
        ("cat", json!({"path": "/vault/look.pyi"})),
        ("execute", json!({"language": "javascript", "code": "return await vault.look({})"})),
        ("execute", json!({"language": "javascript", "code": format!("return forge.results.get('{path}')")})),
        ("execute", json!({"language": "javascript", "resume": id, "code": failing})),
        ("execute", json!({"resume": id})),
        ("cat", json!({"path": format!("/runs/{id}")})),
    ] {
        let answer = session.call(tool, arguments.clone()).await;
        assert!(answer.is_error && !answer.text.contains("data of vault"), "{arguments}: {}", answer.text);
    }
    assert_eq!(session.execute("javascript", "return forge.stash.keys()").await, json!(["free"]));
    assert_eq!(session.execute("javascript", "return await forge.stash.get('kept') ?? null").await, Value::Null);
    let listing = session.call("ls", json!({"path": "/results"})).await.text;
    assert!(!listing.contains(&path), "{listing}");
    let listing = session.call("ls", json!({"path": "/runs"})).await.text;
    assert!(listing.contains(&format!("/runs/{id}  ended, ")) && !listing.contains("vault"), "{listing}");
    for id in runs.split_whitespace().filter_map(|word| word.strip_prefix("/runs/")) {
        let answer = session.call("cat", json!({"path": format!("/runs/{id}")})).await;
        assert!(!answer.text.contains("vault"), "{}", answer.text);
    }

    reloaded(&session, &fence, &open, |listing| listing.contains("vault/  10 tools")).await;
    let text = session.call("cat", json!({"path": path})).await.text;
    assert!(text.contains("data of vault"), "{text}");
    assert_eq!(session.execute("javascript", "return await vault.look({})").await, "data of vault");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_budget_and_rate_that_applies_must_hold() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    for (keys, says) in [
        (
            "[budgets]\nsession = 2\n[clients.local]\nbudgets = { session = 9 }\n",
            "only 0 of the session budget of 2 is left",
        ),
        (
            "[budgets]\nsession = 9\n[clients.local]\nbudgets = { session = 2 }\n",
            "session budget of the client `local` of 2",
        ),
        (
            "[profiles.default]\nbudgets = { run = 2 }\n[clients.local]\nbudgets = { run = 3 }\n",
            "run budget of the profile `default` of 2",
        ),
        ("[profiles.default]\nbudgets = { day = 2 }\n[budgets]\nday = 5\n", "day budget of the profile `default` of 2"),
        (
            "[clients.local]\nbudgets = { day = 2 }\n[profiles.default]\nbudgets = { day = 3 }\n",
            "day budget of the client `local` of 2",
        ),
        ("[budgets]\nrate = { calls = 2, per = \"1h\" }\n", "the gateway allows 2 calls/1h"),
        ("[profiles.default]\nbudgets = { rate = { calls = 2, per = \"1h\" } }\n", "the profile `default` allows 2"),
        ("[clients.local]\nbudgets = { rate = { calls = 2, per = \"1h\" } }\n", "the client `local` allows 2"),
    ] {
        let fence = Fence::new();
        let session = fence.serve(&format!("{}{keys}", server(&fence, "web", &[]))).await;
        session.ready(&["web"]).await;
        let code = "for (let n = 0; n < 2; n++) await web.look({});\n\
                    try { await web.look({}) } catch (error) { return error.message }";
        let message = session.execute("javascript", code).await;
        assert!(message.as_str().is_some_and(|message| message.contains(says)), "{keys}: {message}");
        session.close().await;
    }
}
