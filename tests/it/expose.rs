//! Servers' own tools, shown to clients beside the four or in place of them.

use std::path::Path;
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::has_python;

fn server(fence: &Fence, name: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/policy.py");
    let log = fence.work().join("calls.log");
    let args = [script.to_string_lossy().into_owned(), name.to_owned(), log.to_string_lossy().into_owned()];
    format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args:?}\n")
}

fn servers(fence: &Fence) -> String {
    ["vault", "chat", "web"].map(|name| server(fence, name)).concat()
}

async fn names(session: &Session) -> Vec<String> {
    let mut names: Vec<String> = session.tools().await.into_iter().map(|tool| tool.name.into_owned()).collect();
    names.sort();
    names
}

/// Waits until a session is shown a number of tools.
async fn shows(session: &Session, count: usize) -> Vec<String> {
    let started = Instant::now();
    loop {
        let names = names(session).await;
        if names.len() == count {
            return names;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "{count}: {names:?}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn call(session: &Session, tool: &str, arguments: Value) -> CallToolResult {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    session.peer().call_tool(request).await.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.as_str()).collect()
}

/// Text of an answer, or `error: ` and that of an error.
async fn told(session: &Session, tool: &str, arguments: Value) -> String {
    let result = call(session, tool, arguments).await;
    let is_error = result.is_error.unwrap_or_default();
    format!("{}{}", if is_error { "error: " } else { "" }, text(&result))
}

const DIRECT: &str = "[profiles.default]\nexpose = \"direct\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_tools_are_listed_and_called() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    for era in [Era::Modern, Era::Legacy] {
        let fence = Fence::new();
        let rules = "[servers.web.tools.send]\nonly_from = [\"scripts.x\"]\n";
        let session =
            fence.serve_in(era, &format!("{}{rules}{DIRECT}deny = [\"web.hidden\"]\n", servers(&fence))).await;
        let shown = shows(&session, 28).await;
        assert!(shown.contains(&"vault__look".to_owned()) && !shown.iter().any(|name| name == "execute"), "{shown:?}");
        assert!(!shown.iter().any(|name| name == "web__send" || name == "web__hidden"), "{shown:?}");
        let tools = session.tools().await;
        let make = tools.iter().find(|tool| tool.name == "web__make").expect("it is shown");
        assert!(make.output_schema.is_some() && make.input_schema["properties"]["text"]["type"] == "string");
        let look = tools.iter().find(|tool| tool.name == "web__look").expect("it is shown");
        assert_eq!(look.annotations.as_ref().and_then(|notes| notes.read_only_hint), Some(true));
        for (tool, arguments, says) in [
            ("web__look", json!({}), "data of web"),
            ("web__look", json!({"text": 7}), "error: INVALID_ARGS"),
            ("web__look", json!({"txet": "x"}), "error: INVALID_ARGS"),
            ("web__fail", json!({}), "error: TOOL_ERROR: web.fail: data of web"),
            ("web__hidden", json!({}), "error: TOOL_NOT_FOUND: there is no tool `web__hidden`"),
            ("web__send", json!({}), "error: TOOL_NOT_FOUND: there is no tool `web__send`"),
            ("web__nothing", json!({}), "error: TOOL_NOT_FOUND: there is no tool `web__nothing`"),
            (
                "execute",
                json!({"language": "javascript", "code": "return 1"}),
                "error: TOOL_NOT_FOUND: there is no tool `execute`",
            ),
            ("ls", json!({}), "error: TOOL_NOT_FOUND: there is no tool `ls`"),
        ] {
            let answer = told(&session, tool, arguments.clone()).await;
            assert!(answer.contains(says) && answer.starts_with(&says[..1]), "{era:?} {tool} {arguments}: {answer}");
        }
        let made = call(&session, "web__make", json!({})).await;
        assert_eq!(made.structured_content, Some(json!({"id": 7, "note": "made"})));
        assert!(session.instructions().is_some_and(|text| text.contains("SERVER__TOOL") && !text.contains("execute")));
        session.close().await;
        let records = fence.run(["audit", "list", "--json"]).success().stdout;
        assert!(records.contains("\"request\":\"tools/call\"") && records.contains("\"tool\":\"look\""), "{records}");
    }
}

/// What a script may not do in one run, direct calls may not do in one session.
#[tokio::test(flavor = "multi_thread")]
async fn labels_and_groups_accumulate_over_a_session() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let flow = "[[flows]]\nfrom = \"vault\"\nto = \"web\"\naction = \"deny\"\n";
    let groups = "[groups.a]\nservers = [\"vault\"]\n[groups.b]\nservers = [\"web\"]\n";
    for rules in [flow, groups] {
        let fence = Fence::new();
        let session = fence.serve(&format!("{}{rules}{DIRECT}", servers(&fence))).await;
        shows(&session, 30).await;
        assert_eq!(told(&session, "chat__look", json!({})).await, "data of chat");
        assert_eq!(told(&session, "vault__look", json!({})).await, "data of vault");
        for tool in ["web__send", "web__look"] {
            let answer = told(&session, tool, json!({"text": "data of vault"})).await;
            assert!(answer.starts_with("error: GROUP_POLICY_DENIED"), "{rules}: {answer}");
        }
        assert_eq!(told(&session, "chat__send", json!({"text": "x"})).await, "data of chat");
        let log = std::fs::read_to_string(fence.work().join("calls.log")).expect("calls");
        assert!(!log.contains("web "), "{log}");
        session.close().await;
        // Errors, resources, prompts and completions of a server are its data too.
        for first in ["fail", "resource", "prompt", "completion"] {
            let session = fence.serve(&format!("{}{rules}{DIRECT}", servers(&fence))).await;
            shows(&session, 30).await;
            match first {
                "fail" => drop(call(&session, "vault__fail", json!({})).await),
                "resource" => {
                    let request = rmcp::model::ReadResourceRequestParams::new("vault://data");
                    session.peer().read_resource(request).await.expect("its data");
                }
                "completion" => {
                    let completed = session.peer().complete_prompt_argument("vault.ask", "uri", "v", None).await;
                    assert_eq!(completed.expect("its data").values, ["vault"]);
                }
                _ => {
                    let request = rmcp::model::GetPromptRequestParams::new("vault.ask");
                    session.peer().get_prompt(request).await.expect("its data");
                }
            }
            let answer = told(&session, "web__send", json!({"text": "data of vault"})).await;
            assert!(answer.starts_with("error: GROUP_POLICY_DENIED"), "{rules} {first}: {answer}");
            session.close().await;
        }
        // At once: whichever comes first, only one of two strict groups gets in.
        if rules == groups {
            let session = fence.serve(&format!("{}{rules}{DIRECT}", servers(&fence))).await;
            shows(&session, 30).await;
            let (one, other) =
                tokio::join!(told(&session, "vault__slow", json!({})), told(&session, "web__slow", json!({})));
            let refused = [&one, &other].into_iter().filter(|answer| answer.contains("GROUP_POLICY_DENIED")).count();
            assert_eq!(refused, 1, "{one} {other}");
            session.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hybrid_shows_a_chosen_few_and_scripts_hold_what_direct_calls_hold() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let rules = "[[flows]]\nfrom = \"vault\"\nto = \"web\"\naction = \"deny\"\n\
                 [profiles.default]\nexpose = \"hybrid\"\ndirect = [\"vault.l*\", \"web.send\"]\n";
    let session = fence.serve(&format!("{}{rules}", servers(&fence))).await;
    let shown = shows(&session, 7).await;
    assert_eq!(shown, ["cat", "execute", "ls", "search", "vault__link", "vault__look", "web__send"]);
    assert!(told(&session, "chat__look", json!({})).await.contains("TOOL_NOT_FOUND"));
    let run = |code: &'static str| json!({"language": "javascript", "code": code});
    assert!(!told(&session, "execute", run("return await web.look({})")).await.starts_with("error"));
    assert_eq!(told(&session, "vault__look", json!({})).await, "data of vault");
    // By a name that is put together: a check before the run would refuse it earlier.
    for code in ["return await web.send({ text: 'x' })", "return await forge.callTool(['web'].join(), 'send', {})"] {
        let answer = told(&session, "execute", run(code)).await;
        assert!(answer.contains("GROUP_POLICY_DENIED"), "{code}: {answer}");
    }
    session.close().await;
    // The other way around: what a script held, direct calls hold.
    let session = fence.serve(&format!("{}{rules}", servers(&fence))).await;
    shows(&session, 7).await;
    // Scripts of the session before hold labels, which a listing does not give.
    let listing = told(&session, "ls", json!({"path": "/runs"})).await;
    assert!(listing.contains("  ended, ") && !listing.contains("web."), "{listing}");
    told(&session, "execute", run("return await vault.look({})")).await;
    assert!(told(&session, "web__send", json!({"text": "x"})).await.contains("GROUP_POLICY_DENIED"));
    session.close().await;
    // Runs of the four tools alone stay apart.
    let session = fence.serve(&format!("{}{}", servers(&fence), rules.split("[profiles").next().expect("rules"))).await;
    shows(&session, 4).await;
    told(&session, "execute", run("return await vault.look({})")).await;
    assert!(!told(&session, "execute", run("return await web.send({ text: 'x' })")).await.starts_with("error"));
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_is_direct_while_definitions_are_few() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    for (tokens, count) in [(20, 4), (100_000, 30)] {
        let fence = Fence::new();
        let profile = format!("[profiles.default]\nexpose = \"auto\"\nauto_tokens = {tokens}\n");
        let session = fence.serve(&format!("{}{profile}", servers(&fence))).await;
        shows(&session, count).await;
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_for_a_form_within_its_profile() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let fence = Fence::new();
    for (allowed, asked, shown) in [
        ("code", None, Some(4)),
        ("code", Some("direct"), None),
        ("code", Some("hybrid"), None),
        ("direct", Some("code"), None),
        ("direct", Some("direct"), Some(30)),
        ("hybrid", Some("direct"), Some(1)),
        ("hybrid", Some("code"), Some(4)),
        ("auto", Some("direct"), Some(30)),
        ("auto", Some("code"), Some(4)),
        ("auto", Some("hybrid"), None),
    ] {
        let profile = format!("[profiles.default]\nexpose = \"{allowed}\"\ndirect = [\"web.look\"]\n");
        fence.write("forge.toml", &format!("{}{profile}", servers(&fence)));
        let words = ["serve"].into_iter().chain(asked.iter().flat_map(|asked| ["--expose", asked]));
        match shown {
            Some(count) => {
                let session = fence.connect(Era::Modern, fence.forgefs(words)).await;
                shows(&session, count).await;
                session.close().await;
            }
            None => {
                let output = fence.run(words);
                let says = format!("the profile allows `{allowed}`");
                assert!(output.code == Some(2) && output.stderr.contains(&says), "{allowed} {asked:?}: {output:?}");
            }
        }
    }
}

/// Ten thousand tools of a hostile list are paged, and each name is one that hosts take.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_any_size_and_form_is_shown_in_pages() {
    let fence = Fence::new();
    let odd = [
        json!({"name": "no schema"}),
        json!({"name": "a\u{202e}b", "description": "x\u{0}y", "inputSchema": {"type": "string"}}),
        json!({"name": "list", "inputSchema": {"type": ["object", "null"]}, "outputSchema": {"type": "array"}}),
        json!({"name": "odd notes", "annotations": {"readOnlyHint": "yes"}, "inputSchema": {"type": "object"}}),
        json!({"name": "x".repeat(500), "title": 7, "inputSchema": {"type": "object", "properties": 7}}),
    ];
    let plain = (0..10_000).map(|n| json!({"name": format!("tool_{n}"), "inputSchema": {"type": "object"}}));
    let tools: Vec<Value> = odd.into_iter().chain(plain).collect();
    let file = fence.write("many.json", &json!({"many": {"tools": tools}}).to_string());
    let config = fence.write("forge.toml", DIRECT);
    let words = ["--config".as_ref(), config.as_os_str(), "--catalog".as_ref(), file.as_os_str(), "serve".as_ref()];
    for era in [Era::Modern, Era::Legacy] {
        let session = fence.connect(era, fence.forgefs(words)).await;
        let shown = shows(&session, 10_005).await;
        let is_plain = |name: &String| name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        assert!(shown.iter().all(is_plain) && shown.windows(2).all(|pair| pair[0] != pair[1]));
        for tool in session.tools().await {
            assert_eq!(tool.input_schema.get("type"), Some(&json!("object")), "{}", tool.name);
        }
        session.close().await;
    }
}

/// Counts notices of changed tools.
#[derive(Clone, Default)]
struct Ear(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl rmcp::ClientHandler for Ear {
    async fn on_tool_list_changed(&self, _: rmcp::service::NotificationContext<rmcp::RoleClient>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Whatever changes the list is announced: its servers, the size that `auto` goes by, the profile.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_announced() {
    if has_python("tests/servers/shifting.py").is_none() {
        return;
    }
    let tools = |count: usize| {
        json!((0..count).map(|n| json!({"name": format!("tool_{n}"), "inputSchema": {}})).collect::<Vec<_>>())
            .to_string()
    };
    for (profile, after, before_count, after_count) in [
        ("expose = \"direct\"", None, 3, 60),
        ("expose = \"auto\"\nauto_tokens = 300", None, 3, 4),
        ("expose = \"direct\"", Some("expose = \"code\""), 3, 4),
        (
            "expose = \"hybrid\"\ndirect = [\"shifting.tool_0\", \"shifting.tool_1\", \"shifting.tool_2\"]",
            Some("expose = \"hybrid\"\ndirect = [\"shifting.tool_1\"]"),
            7,
            5,
        ),
    ] {
        let fence = Fence::new();
        let (file, log) = (fence.write("tools.json", &tools(3)), fence.work().join("shifting.log"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/shifting.py");
        let args = [&script, &file, &log].map(|path| path.to_string_lossy().into_owned());
        let args: Vec<String> = args.into_iter().chain(["--tells".to_owned()]).collect();
        let config = |profile: &str| {
            format!("[servers.shifting]\ncommand = \"python3\"\nargs = {args:?}\n[profiles.default]\n{profile}\n")
        };
        let path = fence.write("forge.toml", &config(profile));
        let command = fence.forgefs(["--config", &path.to_string_lossy(), "serve"]);
        let ear = Ear::default();
        let (service, _) = fence.attach(Era::Legacy, command, ear.clone()).await;
        let count = async || service.list_all_tools().await.expect("tools").len();
        let reaches = async |wanted: usize| {
            let started = Instant::now();
            while count().await != wanted {
                assert!(started.elapsed() < Duration::from_secs(60), "{profile}: {} of {wanted}", count().await);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        reaches(before_count).await;
        // Those of the start are collected for a quarter of a second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let heard = || ear.0.load(std::sync::atomic::Ordering::Relaxed);
        let before = heard();
        match after {
            Some(after) => drop(fence.write("forge.toml", &config(after))),
            None => {
                fence.write("tools.json", &tools(60));
                let request = CallToolRequestParams::new("shifting__tool_0");
                let arguments = json!({"fault": "reload"}).as_object().cloned().expect("an object");
                service.call_tool(request.with_arguments(arguments)).await.expect("an answer");
            }
        }
        reaches(after_count).await;
        let started = Instant::now();
        while heard() == before {
            assert!(started.elapsed() < Duration::from_secs(20), "{profile}: nothing was announced");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        service.cancel().await.expect("it ends");
    }
}
