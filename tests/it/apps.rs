//! Pages of servers (MCP Apps): in a browser with the reference client, and between servers that do not trust each other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, ClientConfig, ReadResourceRequestParams, Tool};
use rmcp::service::RunningService;
use serde_json::{Value, json};

use crate::client::{Era, Fence, able, finish};
use crate::console::chromium;
use crate::faulty::has_python;
use crate::real::skipped;

const UI: &str = "io.modelcontextprotocol/ui";
const PAGE: &str = "text/html;profile=mcp-app";
/// A configured secret.
const KEY: &str = "sk-pages-7f3a91c2d4e5";
const HYBRID: &str = "[profiles.default]\nexpose = \"hybrid\"\ndirect = [\"one.*\", \"two.*\"]\n";
const CODE: &str = "[profiles.default]\nexpose = \"code\"\n";

#[test]
fn pages_of_real_servers_work_in_a_browser() {
    let modules = std::env::var_os("FORGEFS_REAL_CHECKERS_NODE").map(PathBuf::from);
    let modules = modules.filter(|folder| folder.join("node_modules/@modelcontextprotocol/ext-apps").is_dir());
    let (Some(modules), Some(chromium)) = (modules, chromium()) else {
        return skipped(
            "pages in a browser: no Chromium, or no packages from npm (`cargo xtask check-stubs` installs them)",
        );
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = root.join(modules);
    let fence = Fence::new();
    let server = |name: &str, package: &str| {
        let program = modules.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
        let timeout = "connect_timeout = \"150s\"\ntimeout = \"60s\"\n";
        format!("[servers.{name}]\ncommand = \"node\"\nargs = [{program:?}, \"--stdio\"]\n{timeout}")
    };
    let servers = server("monitor", "server-system-monitor") + &server("budget", "server-budget-allocator");
    let profile = "[profiles.default]\nexpose = \"hybrid\"\ndirect = [\"monitor.*\", \"budget.*\"]\n";
    let config = fence.write("forge.toml", &format!("{servers}{profile}"));
    let gateway = fence.forgefs([Path::new("--config"), &config, Path::new("serve")]);
    let words: Vec<_> = [gateway.get_program()].into_iter().chain(gateway.get_args()).collect();
    let words: Vec<_> = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut node = Command::new("node");
    fence.enclose(&mut node);
    node.args(["--test", "--test-reporter=tap"]).arg(root.join("tests/apps/host.test.mjs"));
    node.env("FORGEFS_APPS_MODULES", &modules).env("CHROMIUM", chromium);
    node.env("FORGEFS_APPS_COMMAND", json!(words).to_string());
    node.envs(std::env::var_os("FORGEFS_APPS_SHOTS").map(|folder| ("FORGEFS_APPS_SHOTS", folder)));
    let output = finish(&mut node, "");
    assert!(output.code == Some(0) && output.stdout.contains("# pass 5"), "{}\n{}", output.stdout, output.stderr);
    let records = fence.run(["audit", "list", "--json"]).success().stdout;
    assert!(records.contains("\"tool\":\"poll_system_stats\""), "{records}");
}

/// Servers with pages, and clients of a gateway with them.
struct Pages(Fence);

impl Pages {
    fn new() -> Option<Self> {
        has_python("tests/servers/apps.py").map(Self)
    }

    fn server(&self, name: &str, more: &Value) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/apps.py");
        let args = [json!(script), json!(name), json!(self.log()), json!(more.to_string())];
        format!("[servers.{name}]\ncommand = \"python3\"\nargs = {}\n", json!(args))
    }

    fn log(&self) -> PathBuf {
        self.0.work().join("calls.log")
    }

    /// Lines of the log.
    fn logged(&self) -> Vec<String> {
        std::fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    async fn client(&self, era: Era, config: &str, has_pages: bool) -> Client {
        let file = self.0.write("forge.toml", config);
        let extensions = if has_pages { json!({ UI: { "mimeTypes": [PAGE] } }) } else { json!({}) };
        let command = self.0.forgefs([Path::new("--config"), &file, Path::new("serve")]);
        let client = able(&json!({ "extensions": extensions }));
        Client(self.0.attach(era, command, client).await.0)
    }
}

struct Client(RunningService<RoleClient, ClientConfig>);

impl Client {
    /// Tools by name, once these are among them.
    async fn tools(&self, wanted: &[&str]) -> Vec<Tool> {
        let started = Instant::now();
        loop {
            let tools = self.0.list_all_tools().await.expect("tools/list is answered");
            if wanted.iter().all(|wanted| tools.iter().any(|tool| tool.name == *wanted)) {
                return tools;
            }
            assert!(started.elapsed() < Duration::from_secs(90), "{wanted:?}: {tools:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The result of a call as JSON.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        json!(self.0.call_tool(request).await.unwrap_or_else(|error| panic!("{tool}: {error}")))
    }

    /// Text of an answer.
    async fn told(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    async fn script(&self, code: &str) -> Value {
        self.call("execute", json!({"language": "javascript", "code": code})).await
    }

    /// The same, once the servers are up.
    async fn shown(&self, code: &str) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.script(code).await;
            if !answer.to_string().contains("starting") {
                return answer;
            }
            assert!(started.elapsed() < Duration::from_secs(90), "{answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Contents of a resource, or the error.
    async fn read(&self, uri: &str) -> Result<Value, String> {
        let read = self.0.read_resource(ReadResourceRequestParams::new(uri)).await;
        read.map(|read| json!(read)["contents"][0].clone()).map_err(|error| error.to_string())
    }
}

/// The full answer of `server` as clients get it.
fn full(server: &str) -> (Value, Value, Value) {
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let content = json!([text(&format!("as text of {server}")), image, text("more")]);
    let structured: Value =
        serde_json::from_str(&format!("{{\"z\":1.0,\"a\":[1e2,\"é\u{202e}\"],\"from\":\"{server}\"}}")).expect("JSON");
    let meta = format!("{{\"seen\":12345678901234567890,\"view\":\"ui://{server}/{server}/other\"}}");
    (content, structured, serde_json::from_str(&meta).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_page_needs_passes_as_it_is_in_every_form_and_revision() {
    let Some(pages) = Pages::new() else { return };
    let servers = pages.server("one", &json!({})) + &pages.server("two", &json!({}));
    for era in [Era::Modern, Era::Legacy] {
        for (form, has_own) in [(HYBRID, true), ("[profiles.default]\nexpose = \"direct\"\n", true), (CODE, false)] {
            let client = pages.client(era, &format!("{servers}{form}"), true).await;
            let about = format!("{era:?} {form}");
            if has_own {
                let tools = client.tools(&["one__chart", "two__chart", "one__poll"]).await;
                let of =
                    |name: &str| tools.iter().find(|tool| tool.name == name).map(|tool| json!(tool)["_meta"].clone());
                let meta = json!({"ui": {"resourceUri": "ui://one/one/page.html"},
                                  "vendor/order": [3, 1.0, {"at": "ui://one/one/page.html"}]});
                assert_eq!(of("one__chart"), Some(meta), "{about}");
                assert_eq!(of("one__plan"), Some(json!({"ui": {"visibility": ["model"]}})), "{about}");
                assert_eq!(of("one__plain"), Some(Value::Null), "{about}");
                for tool in ["one__chart", "one__poll", "one__plain"] {
                    let answer = client.call(tool, json!({})).await;
                    let (content, structured, meta) = full("one");
                    assert_eq!(answer["content"], content, "{about} {tool}");
                    assert_eq!(answer["structuredContent"], structured, "{about} {tool}");
                    assert_eq!(answer["_meta"], meta, "{about} {tool}");
                }
            } else {
                client.tools(&["execute"]).await;
            }
            let page = client.read("ui://two/two/page.html").await.expect("a page");
            assert_eq!((&page["uri"], &page["mimeType"]), (&json!("ui://two/two/page.html"), &json!(PAGE)), "{about}");
            let ui = json!({"csp": {"connectDomains": ["https://two.test"]}, "prefersBorder": true});
            assert_eq!((&page["text"], &page["_meta"]["ui"]), (&json!("<p>page of two</p>"), &ui), "{about}");
            if form.contains("direct\"\n") && !form.contains("hybrid") {
                continue;
            }
            // In code mode the script hands the page on.
            let shown = client.script("const all = await one.chart({}); return all").await;
            let (_, structured, _) = full("one");
            assert_eq!(shown["_meta"]["ui"]["resourceUri"], "ui://one/one/page.html", "{about}: {shown}");
            assert_eq!(
                (&shown["structuredContent"], shown["_meta"]["view"].as_str()),
                (&structured, Some("ui://one/one/other"))
            );
            for code in [
                "return [await one.chart({})]",
                "return await one.plain({})",
                "await one.chart({}); return 1",
                "await one.chart({raw: JSON.stringify({content: [{type: 'text', text: 'ok'}]})}); return 'ok'",
                "await one.chart({raw: '{\"content\":[]}'}); return null",
                "await one.chart({raw: '{\"structuredContent\":{},\"content\":[]}'}); return {}",
                "const all = { x: 1 }; for (const s of [one, two])\n  await s.chart({raw: '{\"structuredContent\":{\"x\":1},\"content\":[]}'});\nreturn all",
            ] {
                let answer = client.script(code).await;
                assert!(answer["_meta"]["ui"].is_null() && answer["structuredContent"].is_null(), "{code}: {answer}");
            }
            let star = json!({"language": "starlark", "code": "one.chart()"});
            assert_eq!(client.call("execute", star).await["_meta"]["ui"]["resourceUri"], "ui://one/one/page.html");
        }
        // Without the extension there is no part of it.
        let plain = pages.client(era, &format!("{servers}{HYBRID}"), false).await;
        let tools = plain.tools(&["one__chart", "two__chart"]).await;
        assert!(tools.iter().all(|tool| tool.meta.is_none() && !tool.name.ends_with("poll")), "{tools:?}");
        let answer = plain.script("return await one.chart({})").await;
        assert!(answer["_meta"].is_null() && answer["structuredContent"].is_null(), "{answer}");
    }
    let offered = format!("{{\"{UI}\": {{\"mimeTypes\": [\"{PAGE}\"]}}}}");
    assert!(pages.logged().contains(&format!("one offered {offered}")), "{:?}", pages.logged());
}

/// Attempts of pages, hosts and servers, each with the beginning of its answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_reaches_no_more_than_its_server_gives_it() {
    let Some(pages) = Pages::new() else { return };
    let both = json!({"clash": {}, "execute": {}, "search": {}});
    let app = json!({"_meta": {"ui": {"visibility": ["app"]}}});
    let one = json!({"clash": {}, "execute": {}, "search": {}, "denied": {}, "asked": {}, "left": app, "waits": app});
    let bare = json!({"chart": {"_meta": {}}, "poll": {"_meta": {}}, "only_bare": {}, "plan": {"_meta": {}}});
    let servers = pages.server("one", &one) + &pages.server("two", &both) + &pages.server("bare", &bare);
    let rules = "[servers.one.tools.asked]\napproval = \"always\"\n[servers.one.tools.waits]\napproval = \"always\"\n\
                 [servers.one.tools.left]\nonly_from = [\"scripts.x\"]\n";
    let code = "[profiles.default]\nexpose = \"code\"\ndeny = [\"one.denied\"]\n";
    let client = pages.client(Era::Modern, &format!("{servers}{rules}{code}"), true).await;
    client.tools(&["execute"]).await;
    for server in ["one", "two", "bare"] {
        let started = Instant::now();
        while client.told("ls", json!({"path": format!("/{server}")})).await.contains("starting") {
            assert!(started.elapsed() < Duration::from_secs(90));
        }
    }
    for (tool, arguments, begins) in [
        // Its own server's, by the server's name.
        ("denied", json!({}), "TOOL_NOT_FOUND"),
        ("left", json!({}), "TOOL_NOT_FOUND"),
        ("asked", json!({}), "APPROVAL"),
        ("waits", json!({}), "APPROVAL"),
        ("plan", json!({}), "TOOL_NOT_FOUND"),
        // Two servers with pages have it.
        ("clash", json!({}), "TOOL_NOT_FOUND: several servers with pages have a tool `clash`"),
        ("poll", json!({}), "TOOL_NOT_FOUND: several servers with pages have a tool `poll`"),
        // Of a server without pages.
        ("only_bare", json!({}), "TOOL_NOT_FOUND"),
        ("bare__only_bare", json!({}), "TOOL_NOT_FOUND"),
        // The gateway's own names stay its own.
        ("search", json!({}), "INVALID_ARGS: `search`"),
        ("execute", json!({}), "INVALID_ARGS"),
        ("forge", json!({}), "TOOL_NOT_FOUND"),
        ("", json!({}), "TOOL_NOT_FOUND"),
    ] {
        let answer = client.told(tool, arguments).await;
        assert!(answer.starts_with(begins), "{tool}: {answer}");
    }
    let called: Vec<String> = pages.logged().into_iter().filter(|line| !line.contains(" offered ")).collect();
    assert_eq!(called, Vec::<String>::new());
    for (uri, expected) in [
        ("ui://one/x", Ok("page of one")),
        ("ui://one/one/page.html", Ok("page of one")),
        // By its server's own URI too.
        ("ui://one/page.html", Ok("page of one")),
        // Whatever a server calls its page, it is that server's.
        ("ui://one/two/page.html", Ok("page of one")),
        ("ui://one/../two/page.html", Err("a `..` segment")),
        ("ui://nothing/x", Err("no server lists")),
        ("ui://one", Err("no server lists")),
        ("ui:///x", Err("no server lists")),
    ] {
        match (client.read(uri).await, expected) {
            (Ok(page), Ok(says)) => assert!(page["text"].to_string().contains(says), "{uri}: {page}"),
            (Err(error), Err(says)) => assert!(error.contains(says), "{uri}: {error}"),
            (read, expected) => panic!("{uri}: {read:?}, not {expected:?}"),
        }
    }
    let read: Vec<String> = pages.logged().into_iter().filter(|line| line.contains(" read ")).collect();
    let [x, own, other] = ["ui://x", "ui://one/page.html", "ui://two/page.html"].map(|uri| format!("one read {uri}"));
    assert_eq!(read, [x, own.clone(), own, other]);
}

/// A call by a bare name is for the server that has it, or for none: not for another that has it too.
#[tokio::test(flavor = "multi_thread")]
async fn no_server_takes_a_call_that_a_page_makes_of_another() {
    let app = json!({"_meta": {"ui": {"visibility": ["app"]}}});
    let of_model = json!({"_meta": {"ui": {"visibility": ["model"]}}});
    let held = "[profiles.default]\nexpose = \"code\"\ndeny = [\"one.transfers\"]\n";
    // The tool of `one`, what is added to its table, the profile, and the error.
    for (tool, of_one, profile, says) in [
        (&app, "", "[profiles.default]\nexpose = \"code\"\ndeny = [\"one.transfer\"]\n", "several servers"),
        (&app, "", "[profiles.default]\nexpose = \"code\"\nservers = [\"two\"]\n", "several servers"),
        (&app, "deny = [\"transfer\"]\n", CODE, "several servers"),
        (&of_model, "", CODE, "several servers"),
        (&app, "env = { SLOW = \"8\" }\n", CODE, "servers are starting"),
        (&app, "", held, "there are `ls`"),
    ] {
        let Some(pages) = Pages::new() else { return };
        let one = pages.server("one", &json!({ "transfer": tool })) + of_one;
        // A rule that matches nothing holds the tools for pages too.
        let two = if profile == held { String::new() } else { pages.server("two", &json!({ "transfer": app })) };
        let client = pages.client(Era::Modern, &format!("{one}{two}{profile}"), true).await;
        let mut answer = String::new();
        let started = Instant::now();
        // While servers start it may be said in other words.
        while !answer.contains(says) {
            answer = client.told("transfer", json!({"raw": "IBAN"})).await;
            assert!(answer.starts_with("TOOL_NOT_FOUND"), "{profile}{of_one}: {answer}");
            assert!(started.elapsed() < Duration::from_secs(90), "{says}: {profile}{of_one}: {answer}");
        }
        assert!(
            !pages.logged().iter().any(|line| line.ends_with(" transfer")),
            "{profile}{of_one}: {:?}",
            pages.logged()
        );
    }
}

/// Labels of pages stay when the form of a session changes.
#[tokio::test(flavor = "multi_thread")]
async fn another_form_forgets_nothing_that_pages_hold() {
    let Some(pages) = Pages::new() else { return };
    let app = json!({"_meta": {"ui": {"visibility": ["app"]}}});
    let servers = pages.server("one", &json!({"of_one": app})) + &pages.server("two", &json!({}));
    let config = |form: &str| format!("{servers}[[flows]]\nfrom = \"two\"\nto = \"one\"\naction = \"deny\"\n{form}");
    let file = pages.0.write("forge.toml", &config(CODE));
    let command = pages.0.forgefs([Path::new("--config"), &file, Path::new("serve")]);
    let able = able(&json!({ "extensions": { UI: { "mimeTypes": [PAGE] } } }));
    // Clients of 2026-07-28 keep the list for an hour.
    let (service, pid) = pages.0.attach(Era::Legacy, command, able).await;
    let client = Client(service);
    let shown = client.shown("return await two.chart({})").await;
    assert_eq!(shown["_meta"]["ui"]["resourceUri"], "ui://two/two/page.html", "{shown}");
    assert!(client.told("of_one", json!({})).await.starts_with("GROUP_POLICY_DENIED"));
    pages.0.write("forge.toml", &config(HYBRID));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process number"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("the gateway runs");
    let started = Instant::now();
    while !json!(client.tools(&["execute"]).await).to_string().contains("one__chart") {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", pages.0.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for tool in ["of_one", "one__chart"] {
        let answer = client.told(tool, json!({})).await;
        assert!(answer.starts_with("GROUP_POLICY_DENIED"), "{tool}: {answer}");
    }
}

/// Answer of a tool with a text and its parts in each place.
fn raw(text: &str) -> Value {
    let raw = json!({"content": [{"type": "text", "text": text}, {"type": "resource", "resource": {"uri": "x:y", "text": text}}],
                     "structuredContent": {"said": text}, "_meta": {"said": [text], text: 1, "ui": {"resourceUri": "forge:///two/x"}}});
    json!({ "raw": raw.to_string() })
}

/// The same rules as over a script's answers hold over all that a page gets.
#[tokio::test(flavor = "multi_thread")]
async fn rules_redaction_and_hooks_see_all_that_a_page_gets() {
    let Some(pages) = Pages::new() else { return };
    let app = json!({"_meta": {"ui": {"visibility": ["app"]}}});
    let servers = pages.server("one", &json!({"of_one": app})) + &pages.server("two", &json!({"of_two": app}));
    let groups = "[groups.a]\nservers = [\"one\"]\n[groups.b]\nservers = [\"two\"]\n";
    let hook = |says: &Value| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hook.py");
        let (script, log) = (script.to_string_lossy().into_owned(), pages.0.work().join("hook.log"));
        let command = json!(["python3", script, log, says.to_string()]);
        format!("[hooks.own]\ncommand = {command}\non = [\"answer\"]\nservers = [\"one\"]\ntimeout = \"60s\"\n")
    };
    let flow = "[[flows]]\nfrom = \"two\"\nto = \"one\"\naction = \"deny\"\n";
    let secret = format!("env = {{ KEY = \"{KEY}\" }}\n");
    let replaces = hook(&json!({"decision": "allow", "replace": [{"text": "private", "with": "[gone]"}]}));
    let denies = hook(&json!({"decision": "deny", "reason": "not this"}));
    // The rules, the text of the answer, and its form then, or the beginning of the error.
    for (rules, text, expected) in [
        (secret.as_str(), format!("has {KEY} in it"), Ok("has [redacted] in it")),
        (&replaces, "so private it is".to_owned(), Ok("so [gone] it is")),
        (&replaces, "public".to_owned(), Err("TOOL_DENIED")),
        (&denies, "public".to_owned(), Err("TOOL_DENIED")),
        ("", "plain".to_owned(), Ok("plain")),
    ] {
        // The table of the second server is open.
        let client = pages.client(Era::Modern, &format!("{servers}{rules}{HYBRID}"), true).await;
        client.tools(&["one__chart", "two__chart"]).await;
        let code = format!("return await one.chart({})", raw(&text));
        for answer in [client.call("one__chart", raw(&text)).await, client.script(&code).await] {
            match expected {
                Ok(said) => {
                    let all = answer.to_string();
                    assert!(
                        !all.contains(KEY) && !all.contains("private") && !all.contains("forge:///two"),
                        "{rules}: {all}"
                    );
                    assert_eq!(answer["structuredContent"]["said"], said, "{rules}: {all}");
                    assert_eq!(
                        (&answer["_meta"]["said"], &answer["_meta"][said]),
                        (&json!([said]), &json!(1)),
                        "{rules}: {all}"
                    );
                    assert!(all.matches(said).count() >= 5, "{rules}: {all}");
                }
                Err(begins) => {
                    let said = answer["content"][0]["text"].as_str().unwrap_or_default();
                    assert!(said.starts_with(begins) && answer["_meta"].is_null(), "{rules}: {answer}");
                }
            }
        }
    }
    for (rules, form) in [(flow, HYBRID), (flow, CODE), (groups, HYBRID), (groups, CODE)] {
        let client = pages.client(Era::Modern, &format!("{servers}{rules}{form}"), true).await;
        client.tools(&["execute"]).await;
        let read = client.shown("return await two.chart({})").await;
        // A page of `two` has its data: what it calls is refused where a script with that data is.
        assert_eq!(read["_meta"]["ui"]["resourceUri"], "ui://two/two/page.html", "{rules} {form}: {read}");
        for _ in 0..2 {
            let answer = client.told("of_one", json!({})).await;
            assert!(answer.starts_with("GROUP_POLICY_DENIED"), "{rules} {form}: {answer}");
        }
        let leak = client.read("ui://one/leak?data=of-two").await.expect_err("a read sends its URI");
        assert!(leak.contains("GROUP_POLICY_DENIED"), "{rules} {form}: {leak}");
        let answer = client.told("of_two", json!({})).await;
        assert!(answer.starts_with("as text of two"), "{rules} {form}: {answer}");
        // In code mode scripts stay apart.
        let other = client.script("return await one.chart({})").await.to_string();
        assert_eq!(other.contains("GROUP_POLICY_DENIED"), form == HYBRID, "{rules} {form}: {other}");
        if rules == groups && form == CODE {
            assert!(!other.contains("resourceUri"), "a page of two groups: {other}");
        }
    }
}

/// A page is part of a tool's identity: another one is another tool.
#[test]
fn a_changed_page_is_drift() {
    let Some(pages) = Pages::new() else { return };
    let pinned = "[manifest]\npin = \"stubs\"\n";
    let config = |more: &Value| pages.0.write("forge.toml", &format!("{}{pinned}", pages.server("one", more)));
    config(&json!({}));
    pages.0.run(["stubs", "generate", "--out", "stubs"]).success();
    pages.0.run(["stubs", "check", "stubs"]).success();
    for (tool, ui) in [
        ("chart", json!({"resourceUri": "ui://one/other.html"})),
        ("chart", json!({"resourceUri": "ui://one/page.html", "visibility": ["app"]})),
        ("poll", json!({"visibility": ["app", "model"]})),
    ] {
        config(&json!({ tool: { "_meta": { "ui": ui } } }));
        let checked = pages.0.run(["stubs", "check", "stubs"]);
        assert!(checked.code != Some(0) && checked.stdout.contains(tool), "{tool} {ui}: {checked:?}");
        let called = pages.0.run(["call", "one", tool, "{}"]);
        assert!(called.code != Some(0), "{tool} {ui}: {called:?}");
    }
}
