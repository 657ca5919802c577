//! Servers' requests and notifications during a script: elicitation, sampling, roots, progress, logs.
#![expect(deprecated, reason = "servers and clients go on to use what 2026-07-28 deprecates")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientConfig, ClientRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, ListRootsResult,
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, RequestMetaObject, Root, SamplingMessage,
    SetLevelRequestParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService};
use serde_json::{Value, json};

use crate::client::{Era, Fence, able, up};
use crate::faulty::python;
use crate::real::Real;

/// A client that answers every question, and notes what it received.
#[derive(Clone)]
pub(crate) struct Client {
    abilities: Value,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Client {
    fn new(abilities: Value) -> Self {
        Self { abilities, heard: Arc::default() }
    }

    pub(crate) fn able() -> Self {
        Self::new(json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}))
    }

    fn hear(&self, what: String) {
        self.heard.lock().expect("not poisoned").push(what);
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("not poisoned"))
    }

    /// Received messages once they suffice, or after half a minute.
    async fn heard_until(&self, is_enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut heard = self.heard();
        while !is_enough(&heard) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
            heard.extend(self.heard());
        }
        heard
    }

    /// Questions to its user; some servers ask for the roots on their own.
    fn asked(&self) -> Vec<String> {
        let is_notice = |line: &String| ["progress ", "log ", "roots"].iter().any(|kind| line.starts_with(kind));
        self.heard().into_iter().filter(|line| !is_notice(line)).collect()
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        able(&self.abilities)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let message = match request {
            ElicitRequestParams::FormElicitationParams { message, .. } => message,
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => format!("{message} at {url}"),
            _ => panic!("an unknown mode"),
        };
        let declined = message.contains("decline");
        if message.contains("anybody") {
            self.hear(message);
            std::future::pending::<()>().await;
            unreachable!();
        }
        if message.contains("slow") {
            tokio::time::sleep(Duration::from_secs(12)).await;
        }
        let content = json!({"ok": true, "to": message, "name": "Ada", "integer": 7});
        self.hear(message);
        Ok(match declined {
            true => ElicitResult::new(ElicitationAction::Decline),
            false => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        })
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.hear(format!("sampling for {} tokens", request.max_tokens));
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("hi from the model"), "test-model".to_owned()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.hear("roots".to_owned());
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(format!("progress {}: {}", report.progress, report.message.unwrap_or_default()));
    }

    async fn on_logging_message(&self, entry: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let level = serde_json::to_value(entry.level).expect("a level");
        self.hear(format!("log {level} {} {}", entry.logger.unwrap_or_default(), entry.data));
    }
}

pub(crate) type Service = RunningService<RoleClient, Client>;

/// A gateway with this configuration and a client of an era, once the server is up.
pub(crate) async fn connected(fence: &Fence, era: Era, config: &str, server: &str, client: &Client) -> Service {
    let config = fence.write("forge.toml", config);
    let command = fence.forgefs([Path::new("--config"), &config, Path::new("serve")]);
    let (service, _) = fence.attach(era, command, client.clone()).await;
    let is_up = regex::Regex::new(&up(server)).expect("names are plain");
    let started = Instant::now();
    loop {
        let answer = service.call_tool(CallToolRequestParams::new("ls")).await.expect("ls is answered");
        let listing = text(&answer.content);
        if is_up.is_match(&listing) {
            return service;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{listing}\n{}", fence.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn text(content: &[rmcp::model::ContentBlock]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    texts.join("\n")
}

pub(crate) fn script(code: &str) -> CallToolRequestParams {
    let arguments = json!({"language": "javascript", "code": code});
    CallToolRequestParams::new("execute").with_arguments(arguments.as_object().cloned().expect("an object"))
}

/// Value or error of a script.
pub(crate) async fn run<C: ClientHandler>(
    service: &RunningService<RoleClient, C>,
    code: &str,
) -> Result<Value, String> {
    let answer = service.call_tool(script(code)).await.expect("the protocol works");
    let text = text(&answer.content);
    match answer.is_error {
        Some(true) => Err(text),
        _ => Ok(serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or(Value::String(text))),
    }
}

const SERVERS: [&str; 2] = ["legacy", "modern"];

/// A question of the server as its user sees it.
fn relayed(words: &str) -> String {
    format!("Server asking asks (relayed by ForgeFS); your answer goes to that server:\n▌ {words}")
}

#[tokio::test]
async fn questions_of_servers_reach_the_client_and_answers_come_back_whatever_the_eras() {
    for server in SERVERS {
        for era in [Era::Legacy, Era::Modern] {
            let Some(config) = python("asking", "asking.py", &[server]) else { return };
            let (fence, client) = (Fence::new(), Client::able());
            let service = connected(&fence, era, &config, "asking", &client).await;
            let at = format!("{server} server, {era:?} client");

            let answer = run(&service, "return await asking.confirm({text: 'go on?'})").await;
            assert_eq!(answer.expect(&at)["a"]["content"]["to"], relayed("go on?"), "{at}");
            let answer = run(&service, "return await asking.confirm({text: 'decline it'})").await;
            assert_eq!(answer.expect(&at)["a"]["action"], "decline", "{at}");
            client.heard();

            let answer = run(&service, "return await asking.two()").await.expect(&at);
            assert!(answer["a"]["content"]["to"] == relayed("first?") && answer["b"]["action"] == "accept", "{answer}");
            let answer = run(&service, "return await asking.again({rounds: 3})").await.expect(&at);
            assert_eq!(answer["a"]["content"]["to"], relayed("again, 1 to go?"), "{at}");
            assert_eq!(client.asked().len(), 5, "{at}");

            let answer = run(&service, "return await asking.sample()").await.expect(&at);
            assert_eq!(answer["a"]["content"]["text"], "hi from the model", "{at}: {answer}");
            let answer = run(&service, "return await asking.roots()").await.expect(&at);
            assert_eq!(answer["a"]["roots"][0]["uri"], "file:///work", "{at}");
            let answer = run(&service, "return await asking.url()").await.expect(&at);
            assert_eq!(answer["a"]["action"], "accept", "{at}");
            assert_eq!(
                client.asked().pop().as_deref(),
                Some(
                    "Server asking asks (relayed by ForgeFS) to open a page of example.com:\n▌ log in at https://example.com/login"
                ),
                "{at}"
            );

            // Several at once, before and after other work: the script pauses in between and loses nothing.
            let code = "let n = 1; const first = await asking.confirm({text: 'one'}); n += 1;
                const both = await forge.parallel([() => asking.confirm({text: 'x'}), () => asking.confirm({text: 'y'})]);
                return [n, first.a.action, both.results.map((r) => r.a.content.to), (await asking.seen()).cancelled]";
            let answer = run(&service, code).await.expect(&at);
            assert_eq!(answer, json!([2, "accept", [relayed("x"), relayed("y")], []]), "{at}");
            service.cancel().await.expect("the session ends");
        }
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_and_the_script_hears_why() {
    for server in SERVERS {
        for era in [Era::Legacy, Era::Modern] {
            let Some(config) = python("asking", "asking.py", &[server]) else { return };
            let at = format!("{server} server, {era:?} client");
            let (fence, client) = (Fence::new(), Client::new(json!({"elicitation": {}})));
            let service = connected(&fence, era, &config, "asking", &client).await;
            for (tool, why) in [
                ("sample", "the client does not offer `sampling`"),
                ("roots", "the client does not offer `roots`"),
                ("url", "the client does not offer `elicitation` by URL"),
            ] {
                let started = Instant::now();
                let error = run(&service, &format!("return await asking.{tool}()")).await.expect_err(&at);
                assert!(error.contains(why), "{at}: {error}");
                assert!(started.elapsed() < Duration::from_secs(30), "{at}: {:?}", started.elapsed());
            }
            assert!(run(&service, "return await asking.confirm()").await.is_ok(), "{at}");
            let seen = run(&service, "return (await asking.seen()).abilities").await.expect(&at);
            let told = if server == "modern" { json!({"elicitation": {}}) } else { Value::Null };
            assert_eq!(seen, told, "{at}");
            service.cancel().await.expect("the session ends");
        }
        // Without a client there is no user to ask.
        let Some(config) = python("asking", "asking.py", &[server]) else { return };
        let fence = Fence::new();
        let file = fence.write("forge.toml", &config);
        let script = fence.write("ask.js", "return await asking.confirm()");
        let output = fence.run([Path::new("--config"), &file, Path::new("run"), &script]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("no client is connected that could be asked"), "{output:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_ask_in_the_newest_revision_is_connected_with_an_older_one() {
    for server in ["both", "both-in-words"] {
        let Some(config) = python("asking", "asking.py", &[server]) else { return };
        let (fence, client) = (Fence::new(), Client::able());
        let service = connected(&fence, Era::Modern, &config, "asking", &client).await;
        let error = run(&service, "return await asking.confirm({text: 'go on?'})").await.expect_err("it cannot ask");
        assert!(error.contains("no back-channel") && error.contains("call again"), "{server}: {error}");
        let answer = run(&service, "return await asking.confirm({text: 'go on?'})").await.expect("it can ask now");
        assert_eq!(answer["a"]["content"]["to"], relayed("go on?"), "{server}");
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn questions_are_read_as_libraries_write_them() {
    let Some(config) = python("asking", "asking.py", &["legacy"]) else { return };
    let (fence, client) = (Fence::new(), Client::able());
    let service = connected(&fence, Era::Modern, &config, "asking", &client).await;
    let one = |field: Value| {
        let kinds = json!({ "Size": { "type": "string", "enum": ["s", "m"] } });
        json!({ "message": "q?", "requestedSchema": { "type": "object", "properties": { "a": field }, "$defs": kinds } })
    };
    let sampled =
        json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }], "maxTokens": 5.0 });
    // Method, parameters, and the refusal if there is one.
    let table = [
        (
            "elicitation/create",
            one(json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null })),
            "",
        ),
        ("elicitation/create", one(json!({ "type": ["string", "null"], "title": "A" })), ""),
        ("elicitation/create", one(json!({ "allOf": [{ "$ref": "#/$defs/Size" }], "default": "m" })), ""),
        ("elicitation/create", one(json!({ "anyOf": [{ "$ref": "#/$defs/Size" }, { "type": "null" }] })), ""),
        ("elicitation/create", one(json!({ "enum": ["x", "y"] })), ""),
        ("elicitation/create", one(json!({ "type": "string", "format": "phone" })), ""),
        ("elicitation/create", one(json!({ "type": "integer", "minimum": 0.0, "maximum": 10.0 })), ""),
        ("elicitation/create", one(json!({ "type": "integer", "default": "5", "maximum": 10 })), ""),
        ("elicitation/create", json!({ "message": "q?", "requestedSchema": {} }), ""),
        ("elicitation/create", one(json!({ "type": "object", "properties": {} })), "field `a` is of type `object`"),
        (
            "elicitation/create",
            one(json!({ "type": "array", "items": { "type": "string" } })),
            "field `a` is of type `array`",
        ),
        ("elicitation/create", one(json!({ "$ref": "#/requestedSchema" })), "field `a` is of type"),
        ("elicitation/create", json!({ "message": "q?" }), "it has no `requestedSchema`"),
        ("sampling/createMessage", sampled, ""),
        ("sampling/createMessage", json!({ "messages": [] }), "maxTokens"),
    ];
    for (method, params, refusal) in table {
        let code = format!("return await asking.put({})", json!({ "method": method, "params": params }));
        let answer = run(&service, &code).await;
        match refusal {
            "" => assert!(answer.is_ok() && client.asked().len() == 1, "{params}: {answer:?}"),
            why => {
                let error = answer.expect_err("no form has it");
                assert!(error.contains(why) && client.asked().is_empty(), "{params}: {error}");
            }
        }
    }
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn time_in_which_a_person_thinks_does_not_count() {
    let cases = SERVERS.iter().flat_map(|server| [Era::Legacy, Era::Modern].map(|era| (*server, era)));
    // In parallel: each of these users thinks for a while.
    futures::future::join_all(cases.map(async |(server, era)| {
        let Some(config) = python("asking", "asking.py", &[server]) else { return };
        let config = format!(
            "{config}timeout = \"8s\"\nmax_timeout = \"9s\"\n[sandbox.limits]\ncpu = \"10s\"\nwall = \"10s\"\n"
        );
        let (fence, client) = (Fence::new(), Client::able());
        let service = connected(&fence, era, &config, "asking", &client).await;
        let answer = run(&service, "return (await asking.confirm({text: 'slow'})).a.action").await;
        assert_eq!(answer.as_ref().map(Value::as_str), Ok(Some("accept")), "{server} {era:?}");
        service.cancel().await.expect("the session ends");
    }))
    .await;
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_any_more_is_withdrawn() {
    for server in SERVERS {
        let Some(config) = python("asking", "asking.py", &[server]) else { return };
        let (fence, client) = (Fence::new(), Client::able());
        let service = connected(&fence, Era::Legacy, &config, "asking", &client).await;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(script("return await asking.never()")));
        let sent = service.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
        while client.heard().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sent.cancel(Some("changed my mind".to_owned())).await.expect("cancelled");
        // Only the server that asks by requests of its own learns of it; the other has no request in flight.
        if server == "legacy" {
            let started = Instant::now();
            while run(&service, "return (await asking.seen()).cancelled").await.expect("seen") == json!([]) {
                assert!(started.elapsed() < Duration::from_secs(60), "the server was not told");
            }
        }
        assert!(run(&service, "return await asking.confirm()").await.is_ok());
        service.cancel().await.expect("the session ends");
        let log = std::fs::read_to_string(fence.audit()).expect("an audit file");
        let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let cancelled: Vec<&Value> = records.iter().filter(|record| record["outcome"] == "CANCELLED").collect();
        let [record] = cancelled[..] else { panic!("one script was cancelled: {log}") };
        let call = &record["calls"][0];
        assert_eq!((&call["tool"], &call["outcome"]), (&json!("never"), &json!("running")), "{record}");
        assert!(call["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{record}");
    }
}

#[tokio::test]
async fn a_state_is_good_for_one_answer_to_its_own_request() {
    let Some(config) = python("asking", "asking.py", &["legacy"]) else { return };
    let (fence, client) = (Fence::new(), Client::able());
    let service = connected(&fence, Era::Modern, &config, "asking", &client).await;
    let ask = script("return await asking.confirm()");
    let CallToolResponse::InputRequired(asked) = service.call_tool_once(ask.clone()).await.expect("asked") else {
        panic!("the client is not asked")
    };
    let questions = asked.input_requests.expect("a question");
    let (key, state) = (questions.keys().next().expect("a question").clone(), asked.request_state.expect("a state"));
    let retry = |mut params: CallToolRequestParams, state: &str, answer: Option<Value>| {
        params.request_state = Some(state.to_owned());
        params.input_responses = answer.map(|answer| [(key.clone(), answer)].into());
        service.call_tool_once(params)
    };
    let yes = json!({"action": "accept", "content": {"ok": true}});
    let other = retry(script("return 1"), &state, Some(yes.clone())).await.expect_err("another request");
    assert!(other.to_string().contains("another request"), "{other}");
    let CallToolResponse::InputRequired(again) = retry(ask.clone(), &state, None).await.expect("asked again") else {
        panic!("a missing answer is asked for again")
    };
    let fresh = again.request_state.expect("a state");
    let old = retry(ask.clone(), &state, Some(yes.clone())).await.expect_err("answered already");
    assert!(old.to_string().contains("answered before"), "{old}");
    let CallToolResponse::Complete(done) = retry(ask, &fresh, Some(yes)).await.expect("done") else {
        panic!("the answer ends it")
    };
    assert!(text(&done.content).contains("\"accept\""), "{done:?}");
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn progress_and_logs_of_servers_reach_the_client() {
    for server in SERVERS {
        for era in [Era::Legacy, Era::Modern] {
            let Some(config) = python("asking", "asking.py", &[server]) else { return };
            let (fence, client) = (Fence::new(), Client::able());
            let service = connected(&fence, era, &config, "asking", &client).await;
            let at = format!("{server} server, {era:?} client");
            if era == Era::Legacy {
                let level = SetLevelRequestParams::new(LoggingLevel::Error);
                service.set_level(level).await.expect("logging/setLevel");
            }
            client.heard();
            let mut meta = RequestMetaObject::new();
            meta.set_log_level(LoggingLevel::Error);
            let code = "await asking.work({steps: 3, pause: 1.0}); return (await asking.seen()).level";
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(script(code)));
            let options = PeerRequestOptions::no_options().with_meta(meta);
            let sent = service.send_request_with_option(request, options).await.expect("sent");
            let answer = serde_json::to_string(&sent.await_response().await.expect("answered")).expect("JSON");
            assert!(answer.contains(r#""text":"error""#), "{at}: the server was not told the level: {answer}");
            // The client's own handlers run concurrently.
            let heard = client.heard_until(|heard| {
                let logs = heard.iter().filter(|line| line.starts_with("log ")).count();
                logs == 3 && heard.iter().any(|line| line.ends_with("asking.seen: done"))
            });
            let heard = heard.await;
            let mut logs: Vec<&String> = heard.iter().filter(|line| line.starts_with("log ")).collect();
            logs.sort_unstable();
            // The name that a server gives its logger is a server's word too.
            let logger = "asking/worker [redacted:github-token]";
            let troubles = [1, 2, 3].map(|n| format!("log \"error\" {logger} \"trouble {n}\""));
            assert_eq!(logs, troubles.iter().collect::<Vec<_>>(), "{at}");
            let progress: Vec<&String> = heard.iter().filter(|line| line.starts_with("progress ")).collect();
            assert!(progress.iter().any(|line| line.ends_with("asking.work: 2/3 step 2")), "{at}: {progress:?}");
            assert!(
                progress.last().is_some_and(|line| line.starts_with("progress 2: asking.seen: done")),
                "{progress:?}"
            );
            let numbers = progress.iter().map(|line| line["progress ".len()..].split(':').next().expect("a number"));
            let numbers: Vec<f64> = numbers.map(|number| number.parse().expect("a number")).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{at}: {numbers:?}");
            service.cancel().await.expect("the session ends");
        }
    }
}

#[tokio::test]
async fn a_flood_of_logs_is_cut_and_says_so() {
    let Some(config) = python("asking", "asking.py", &["legacy"]) else { return };
    let (fence, client) = (Fence::new(), Client::able());
    let service = connected(&fence, Era::Legacy, &config, "asking", &client).await;
    let started = Instant::now();
    run(&service, "return await asking.work({steps: 500, pause: 0})").await.expect("it works");
    let heard = client.heard_until(|heard| heard.iter().any(|line| line.contains("log entries were dropped"))).await;
    // Twenty a second beside those at once: a busy machine takes longer, and so lets more pass.
    let since = usize::try_from(started.elapsed().as_secs()).expect("a short time") * 20;
    let logs = heard.iter().filter(|line| line.starts_with("log ")).count();
    assert!((50..150 + since).contains(&logs), "{logs} log entries");
    assert!(heard.iter().any(|line| line.contains("log entries were dropped")), "{heard:?}");
    let progress = heard.iter().filter(|line| line.starts_with("progress ")).count();
    assert!(progress < 50 + since, "{progress} reports of progress");
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn the_reference_server_asks_through_the_gateway() {
    let Some(real) = Real::find() else { return };
    for era in [Era::Legacy, Era::Modern] {
        let (fence, client) = (Fence::new(), Client::able());
        let config = real.forge_toml(&fence, &["everything"]);
        let service = connected(&fence, era, &config, "everything", &client).await;
        let elicited =
            run(&service, "return await everything.trigger_elicitation_request({})").await.expect("answered");
        assert!(elicited.to_string().contains("Ada"), "{era:?}: {elicited}");
        assert_eq!(
            client.asked(),
            ["Server everything asks (relayed by ForgeFS); your answer goes to that server:\n\
             ▌ Please provide inputs for the following fields:"]
        );
        let sampled = run(&service, "return await everything.trigger_sampling_request({prompt: 'hi'})").await;
        assert!(sampled.expect("answered").to_string().contains("hi from the model"));
        let roots = run(&service, "return await everything.get_roots_list({})").await.expect("answered");
        assert!(roots.to_string().contains("file:///work"), "{era:?}: {roots}");
        let code = "return await everything.trigger_long_running_operation({duration: 0.5, steps: 2})";
        assert!(run(&service, code).await.is_ok());
        let reported =
            |heard: &[String]| heard.iter().any(|line| line.contains("everything.trigger_long_running_operation: 1/2"));
        let heard = client.heard_until(reported).await;
        assert!(reported(&heard), "{era:?}: {heard:?}");
        service.cancel().await.expect("the session ends");
    }
}
