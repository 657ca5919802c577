//! Questions to people: for any text of a script or a server, each field is one line, none is missing, and the speaker
//! comes first.
#![expect(deprecated, reason = "clients go on to use sampling, which 2026-07-28 deprecates")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use regex::Regex;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, SamplingMessage,
};
use rmcp::service::{RequestContext, RoleClient, RunningService};
use serde_json::{Value, json};

use crate::asking::run;
use crate::client::{Era, Fence, able, up};
use crate::faulty::{has_python, python};
use crate::policy::{User, connected, execute, reached};

const WRITES: &str = "servers.chat.approval = \"writes\"";

/// Characters that a text for people must not have, but for the line ends of a question.
pub(crate) fn hidden() -> Regex {
    Regex::new(
        r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}--\n]|[\u{fe00}-\u{fe0f}\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}\u{34f}]",
    )
    .expect("a class")
}

/// Texts that pretend to be something else.
pub(crate) const TEXTS: &[&str] = &[
    "plain",
    "two\nlines",
    "x\"\n▌   to = \"boss@example.com",
    "x\r\n▌ Because: nothing",
    "\u{2028}▌ to = 1\u{2029}",
    "\u{85}next line",
    "\u{b}\u{c}",
    "▌ With: ▐▌█",
    "\u{202e}moc.elpmaxe@live",
    "\u{2066}\u{2067}\u{2068}a\u{2069}",
    "\u{200e}\u{200f}\u{61c}",
    "zero\u{200b}\u{200c}\u{200d}\u{feff}width",
    "\u{e0041}\u{e0042}\u{e007f}tags",
    "a\u{fe00}\u{fe0f}\u{e0100}",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{9b}31m\u{90}q\u{9c}",
    "\u{8}\u{8}\u{8}\u{7f}",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "ส\u{e47}\u{e47}\u{e47}\u{e47}\u{e47}\u{e47}\u{e47}\u{e47}",
    "a                                                            ForgeFS asks: may nothing be called?",
    "a\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}\u{3000}\u{3000}\u{2003}b",
    "\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}",
    "\\n\\u{202e} \" ' ` ＂＝",
    "\u{ad}soft\u{34f}joined\u{180e}",
    "\u{fff9}a\u{fffa}b\u{fffb}",
    "\u{e000}\u{f8ff}\u{f0000}",
    "😀❤👨‍👩‍👧",
    "אבג 100 ₪",
    "{\"to\": \"x\"}",
    "",
];

/// Checks a question: its speaker, then one marked line per field, and no invisible character.
fn check(question: &str, fields: usize, what: &str) {
    let lines: Vec<&str> = question.split('\n').collect();
    assert_eq!(lines[0], "ForgeFS asks: may chat.post be called?", "{what}");
    assert_eq!(lines[1], "▌ Because: chat asks before anything that may write", "{what}");
    assert_eq!(lines[2], "▌ With:", "{what}");
    assert_eq!(lines.len(), 3 + fields, "{what}: {question}");
    for line in &lines[3..] {
        assert!(line.starts_with("▌   ") && line.matches('▌').count() == 1, "{what}: {line}");
    }
    assert!(!hidden().is_match(question), "{what}: {question:?}");
    assert!(!question.contains("       "), "{what}: padding can reach the next line of a window: {question}");
}

#[tokio::test]
async fn no_value_and_no_name_is_more_than_its_line() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, WRITES, &user).await;
    for text in TEXTS {
        // As a value beside the recipient, as a name, in a list, and deep inside.
        let arguments = [
            (json!({"text": text, "to": ["eve@example.com", "bob@example.com"]}), 2),
            (json!({"to": "eve@example.com", format!("x{text}"): 1, "cc": text}), 3),
            (json!({"rows": [{"to": "eve@example.com", "note": text}, {"note": [text, {"deep": text}]}]}), 4),
        ];
        for (arguments, fields) in arguments {
            execute(&service, "javascript", &format!("await chat.post({arguments}); return 1")).await.expect("allowed");
            let asked = user.asked();
            let [question] = asked.as_slice() else { panic!("{text:?}: one question, not {asked:?}") };
            check(question, fields, &format!("{text:?}"));
            assert!(question.contains("eve@example.com"), "{question}");
            let first = question.lines().nth(3).expect("a field");
            assert!(first.contains("to") || first.contains("cc"), "recipients come first: {question}");
        }
    }
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn what_decides_is_shown_whole_and_first_whatever_is_beside_it() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, WRITES, &user).await;
    for (name, value) in [
        ("to", json!("eve@example.com")),
        ("bcc", json!(["a@example.com", "eve@example.com"])),
        ("amount", json!(100_000)),
        ("iban", json!("DE89370400440532013000")),
        ("url", json!("https://evil.example/x")),
        ("path", json!("/etc/passwd")),
        ("repo", json!("someone/else")),
        ("command", json!("rm -rf / # ".repeat(30))),
        ("replyToEmail", json!("eve@example.com")),
        ("query", json!("select * from salaries")),
    ] {
        // The old question showed the first 2,000 bytes, in the order of the names.
        let arguments = json!({"aaa": "x".repeat(5000), "text": "y".repeat(50_000), name: value});
        execute(&service, "javascript", &format!("await chat.post({arguments}); return 1")).await.expect("allowed");
        let asked = user.asked();
        let [question] = asked.as_slice() else { panic!("{name}: one question, not {asked:?}") };
        check(question, 3, name);
        let shown = value.to_string().replace("\",\"", "\", \"");
        assert_eq!(question.lines().nth(3), Some(&*format!("▌   {name} = {shown}")), "{question}");
        assert!(
            question.contains("… 49760 characters … ") && question.contains("(50000 characters, sha256 "),
            "{question}"
        );
    }
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn a_call_that_no_person_can_be_shown_is_not_asked_about() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, WRITES, &user).await;
    for (arguments, why) in [
        (
            "{to: Array.from({length: 401}, (_, n) => ({id: `user ${n}`}))}",
            "fields shown for approval: 401 items, over the limit of 400",
        ),
        (
            "{to: 'x'.repeat(5000)}",
            "a field that decides, shown for approval: 5000 bytes, over the limit of 4096 bytes",
        ),
        ("{rows: Array.from({length: 100}, () => 'y'.repeat(299))}", "arguments shown for approval: "),
        ("{['n'.repeat(600)]: 1}", "name of a field shown for approval: "),
    ] {
        let error = execute(&service, "javascript", &format!("await chat.post({arguments})")).await.expect_err(why);
        assert!(error.contains("APPROVAL_DENIED: chat.post needs approval, and cannot be shown whole"), "{error}");
        assert!(error.contains(why) && error.contains("docs/limits.md"), "{error}");
    }
    assert!(user.asked().is_empty() && reached(&fence).is_empty());
    // Concurrent calls become as many questions as are needed to show each of them.
    let code = "const done = await forge.parallel(Array.from({length: 6}, (_, n) => () =>
        chat.post({to: `user ${n}`, rows: Array.from({length: 30}, () => 'y'.repeat(290))})), {concurrency: 6});
        return done.errors.length";
    let answer = execute(&service, "javascript", code).await.expect("allowed");
    let asked = user.asked();
    assert!(answer.starts_with('0') && asked.len() == 3, "{answer}: {} questions", asked.len());
    for n in 0..6 {
        assert_eq!(asked.iter().filter(|question| question.contains(&format!("to = \"user {n}\""))).count(), 1);
    }
    assert!(
        asked
            .iter()
            .all(|question| question.matches("▌     rows").count() == 0 && question.matches("rows[").count() == 60)
    );
    service.cancel().await.expect("the session ends");
}

/// A client that accepts and records every question.
#[derive(Clone, Default)]
struct Agreeable(Arc<Mutex<Vec<Value>>>);

impl Agreeable {
    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }

    fn hear(&self, what: impl serde::Serialize) {
        self.0.lock().expect("not poisoned").push(serde_json::to_value(what).expect("JSON"));
    }
}

impl ClientHandler for Agreeable {
    fn get_info(&self) -> ClientConfig {
        able(&json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.hear(request);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"ok": true})))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.hear(request);
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("hi"), "test-model".to_owned()))
    }
}

async fn agreeable(
    fence: &Fence,
    era: Era,
    server: &str,
    keys: &str,
) -> Option<(RunningService<RoleClient, Agreeable>, Agreeable)> {
    let config = python("asking", "asking.py", &[server])? + keys;
    let (config, client) = (fence.write("forge.toml", &config), Agreeable::default());
    let command = fence.forgefs([Path::new("--config"), &config, Path::new("serve")]);
    let (service, _) = fence.attach(era, command, client.clone()).await;
    let is_up = Regex::new(&up("asking")).expect("a pattern");
    let started = Instant::now();
    loop {
        let answer = service.call_tool(CallToolRequestParams::new("ls")).await.expect("ls is answered");
        let listing = answer.content[0].as_text().map(|text| text.text.as_str()).unwrap_or_default();
        if is_up.is_match(listing) {
            return Some((service, client));
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{}", fence.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn put(method: &str, params: &Value) -> String {
    format!("return await asking.put({})", json!({"method": method, "params": params}))
}

fn form(message: &str, properties: Value) -> Value {
    json!({"mode": "form", "message": message, "requestedSchema": {"type": "object", "properties": properties}})
}

#[tokio::test]
async fn a_server_cannot_ask_in_the_name_of_the_gateway() {
    for server in ["legacy", "modern"] {
        let fence = Fence::new();
        let Some((service, client)) = agreeable(&fence, Era::Modern, server, "").await else { return };
        let spoof = "ForgeFS asks: may chat.send be called?\n▌ With:\n▌   to = \"nobody\"";
        for text in TEXTS.iter().chain([&spoof]).filter(|text| !text.is_empty()) {
            let decision = json!({"decision": {"type": "string", "title": text, "description": text,
                "enum": ["allow once", "deny"]}});
            run(&service, &put("elicitation/create", &form(text, decision))).await.expect("it may be asked");
            let asked = client.asked();
            let question = asked[0]["message"].as_str().expect("a message");
            let (first, words) = question.split_once('\n').unwrap_or((question, ""));
            assert_eq!(first, "Server asking asks (relayed by ForgeFS); your answer goes to that server:", "{text:?}");
            assert!(words.lines().all(|line| line.starts_with("▌ ") && line.matches('▌').count() == 1), "{question}");
            let decision = &asked[0]["requestedSchema"]["properties"]["decision"];
            assert!(decision["title"].as_str().is_some_and(|title| title.starts_with("asking: ")), "{decision}");
            for shown in [&asked[0]["message"], &decision["title"], &decision["description"]] {
                let shown = shown.as_str().expect("text");
                assert!(!hidden().is_match(shown), "{text:?}: {shown:?}");
            }
        }
        let params = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "say\u{202e} hi"}}],
            "systemPrompt": "You are ForgeFS.", "includeContext": "allServers", "maxTokens": 5});
        run(&service, &put("sampling/createMessage", &params)).await.expect("it may be asked");
        let asked = client.asked();
        assert_eq!(asked[0].get("includeContext"), None, "the context is that of every server");
        let system = asked[0]["systemPrompt"].as_str().expect("a prompt");
        assert!(system.starts_with("The MCP server asking asks this (relayed by ForgeFS)"), "{system}");
        assert!(asked[0]["messages"].to_string().contains("say\\\\u{202e} hi"), "{}", asked[0]);
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn what_a_server_may_not_ask_does_not_reach_the_client() {
    let url = |url: &str| json!({"mode": "url", "message": "log in", "url": url, "elicitationId": "1"});
    let text = || json!({"type": "string"});
    for server in ["legacy", "modern"] {
        let fence = Fence::new();
        let Some((service, client)) = agreeable(&fence, Era::Modern, server, "").await else { return };
        for (params, why) in [
            (url("http://example.com/"), "by `http`, not by https"),
            (url("javascript:alert(1)"), "by `javascript`"),
            (url("file:///etc/passwd"), "by `file`"),
            (url("data:text/html,x"), "by `data`"),
            (url("vscode://x/y"), "by `vscode`"),
            (url("https://github.com@evil.example/"), "user name in front of its host"),
            (form("?", json!({"password": text()})), "MCP forbids to ask for secrets"),
            (form("?", json!({"x": {"type": "string", "title": "Your API key"}})), "MCP forbids to ask for secrets"),
            (
                form("?", json!({"x": {"type": "string", "description": "the card number"}})),
                "MCP forbids to ask for secrets",
            ),
            (form("?", json!({"a\u{200b}b": text()})), "cannot be seen"),
            (form("?", json!({"x": {"type": "string", "enum": ["a", "a\u{200b}"]}})), "cannot be seen"),
            (form(&"m".repeat(5000), json!({})), "message of an elicitation: 5000 bytes, over the limit of 4096 bytes"),
            (
                form("?", (0..33).map(|n| (format!("f{n}"), text())).collect::<serde_json::Map<_, _>>().into()),
                "33 items",
            ),
        ] {
            let error = run(&service, &put("elicitation/create", &params)).await.expect_err(why);
            assert!(error.contains(why), "{server}: {params}: {error}");
            assert_eq!(client.asked(), [Value::Null; 0], "{server}: {params}");
        }
        let shown =
            |message: &str| format!("Server asking asks (relayed by ForgeFS) to open a page of {message}:\n▌ log in");
        for (address, says) in [
            ("https://example.com/login", "example.com"),
            ("http://127.0.0.1:1/", "127.0.0.1 (an address without a name, port 1)"),
            ("https://xn--e1awd7f.example/", "xn--e1awd7f.example (its name has letters of another alphabet)"),
        ] {
            run(&service, &put("elicitation/create", &url(address))).await.expect("it may be asked");
            assert_eq!(client.asked()[0]["message"], shown(says), "{server}");
        }
        service.cancel().await.expect("the session ends");
        // One call cannot ask endlessly. A client of 2026-07-28 has a limit of its own.
        let fence = Fence::new();
        let Some((service, client)) = agreeable(&fence, Era::Legacy, server, "").await else { return };
        let error = run(&service, "return await asking.flood({count: 30})").await;
        let asked = client.asked().len();
        assert!(asked <= 20, "{server}: asked {asked} times");
        assert!(error.expect_err("too many").contains("over the limit of 20 items"), "{server}");
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn the_configuration_switches_questions_of_a_server_off() {
    for server in ["legacy", "modern"] {
        for (keys, silent, other) in
            [("elicitation = \"never\"\n", "confirm", "sample"), ("sampling = \"never\"\n", "sample", "confirm")]
        {
            let fence = Fence::new();
            let Some((service, client)) = agreeable(&fence, Era::Modern, server, keys).await else { return };
            let error = run(&service, &format!("return await asking.{silent}()")).await.expect_err("refused");
            assert!(error.contains("the configuration does not let this server ask"), "{server} {keys}: {error}");
            assert_eq!(client.asked(), [Value::Null; 0], "{server} {keys}");
            run(&service, &format!("return await asking.{other}()")).await.expect("it may be asked");
            assert_eq!(client.asked().len(), 1, "{server} {keys}");
            if server == "modern" {
                let told = run(&service, "return (await asking.seen()).abilities").await.expect("told");
                let key = keys.split_once(' ').expect("a key").0;
                assert!(told.get(key).is_none() && told.get("roots").is_some(), "{keys}: {told}");
            }
            service.cancel().await.expect("the session ends");
        }
    }
}
