//! Instances of servers by client and by session, with values of the client, and messages of a server that two sessions
//! share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forgefs::base::principal::Principal;
use forgefs::config::{Config, Environment};
use forgefs::run::execution::{Execution, Request};
use forgefs::run::session::Session;
use forgefs::server::gateway::{Gateway, Options, Pins};
use forgefs::upstream::{Caller, Level, LogEntry, Question, Speaker, Step};
use parking_lot::Mutex;
use serde_json::{Value, json};
use wire::Language;

use crate::client::Fence;
use crate::executable;
use crate::faulty::{all_end, has_python};

/// The server `kept`, with further lines of its entry.
fn config_of(fence: &Fence, more: &str, env: &dyn Fn(&str) -> Option<String>) -> Config {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/keeping.py");
    let audit = fence.audit();
    let text =
        format!("audit = {{ path = {audit:?} }}\n[servers.kept]\ncommand = \"python3\"\nargs = [{script:?}]\n{more}\n");
    Config::parse(&text, &fence.work().join("forge.toml"), env).expect("valid")
}

fn own_env(name: &str) -> Option<String> {
    (name == "KEPT").then(|| "value-of-the-gateway".to_owned())
}

fn started(fence: &Fence, more: &str) -> Gateway {
    let options = Options {
        config: config_of(fence, more, &own_env),
        catalogs: Vec::new(),
        worker: executable::path().into(),
        worker_args: executable::worker(),
    };
    Gateway::start(options).expect("started")
}

async fn ready(fence: &Fence, more: &str) -> Gateway {
    let gateway = started(fence, more);
    assert!(gateway.settle(Duration::from_secs(60)).await, "the server is not up");
    gateway
}

fn of(client: &str) -> Principal {
    Principal { client: client.into(), ..Principal::local() }
}

fn with(value: &str) -> Environment {
    BTreeMap::from([("KEPT".to_owned(), value.to_owned())]).into()
}

async fn run(gateway: &Gateway, session: &Arc<Session>, code: &str) -> Execution {
    let request = Request {
        language: Language::Starlark,
        code: code.to_owned(),
        timeout: None,
        dry_run: false,
        past: None,
        save_as: None,
    };
    gateway.execute(session, request).await
}

/// Value of a script.
async fn value(gateway: &Gateway, session: &Arc<Session>, code: &str) -> Value {
    let execution = run(gateway, session, code).await;
    let text = serde_json::to_value(&execution).expect("JSON");
    assert!(execution.ok, "{text}");
    text["value"].clone()
}

/// Process and count of the session's instance.
async fn count(gateway: &Gateway, session: &Arc<Session>) -> (u64, u64) {
    let counted = value(gateway, session, "kept.count()").await;
    (counted["pid"].as_u64().expect("a process"), counted["count"].as_u64().expect("a number"))
}

/// Code and message of a script's error.
async fn error(gateway: &Gateway, session: &Arc<Session>, code: &str) -> String {
    let execution = serde_json::to_value(run(gateway, session, code).await).expect("JSON");
    execution["error"].to_string()
}

async fn ends(pid: u64) {
    let pid = u32::try_from(pid).expect("a process");
    all_end(&[pid], Duration::from_secs(20)).await;
}

fn instances(gateway: &Gateway) -> String {
    let metrics = gateway.metrics_text();
    let line = metrics.lines().find(|line| line.starts_with("forgefs_server_instances{"));
    line.expect("a metric").rsplit_once(' ').expect("a value").1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_follow_share_and_the_client() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    // Sessions of: local, local, laptop, laptop, desk. Equal letters share an instance.
    for (share, expected) in
        [("", "aabbc"), ("share = \"all\"", "aaaaa"), ("share = \"client\"", "aabbc"), ("share = \"session\"", "abcde")]
    {
        let fence = Fence::new();
        let gateway = ready(&fence, share).await;
        let (mut sessions, mut processes) = (Vec::new(), Vec::new());
        for client in ["local", "local", "laptop", "laptop", "desk"] {
            let session = gateway.open_session(of(client));
            processes.push(count(&gateway, &session).await.0);
            sessions.push(session);
        }
        for (one, letter) in processes.iter().zip(expected.chars()) {
            for (other, letter_of_other) in processes.iter().zip(expected.chars()) {
                assert_eq!(one == other, letter == letter_of_other, "{share}: {processes:?}");
            }
        }
        // Resources and prompts come from the caller's instance too.
        let read = "[read_resource('kept', 'kept://pid'), prompt('kept', 'pid')]";
        let shown = value(&gateway, &sessions[1], read).await.to_string();
        assert_eq!(shown.matches(&format!("pid {}", processes[1])).count(), 2, "{share}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_own_instance_ends_with_it_and_is_counted() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "share = \"session\"").await;
    let (one, other) = (gateway.open_session(of("local")), gateway.open_session(of("local")));
    assert_eq!(instances(&gateway), "0");
    let ((pid, first), (other_pid, _)) = (count(&gateway, &one).await, count(&gateway, &other).await);
    assert_eq!((first, count(&gateway, &one).await), (1, (pid, 2)));
    assert_eq!(instances(&gateway), "2");
    drop(one);
    ends(pid).await;
    assert_eq!(instances(&gateway), "1");
    assert_eq!(count(&gateway, &other).await, (other_pid, 2));
    // The only session of a gateway has no need of a second process.
    let only = gateway.open_only_session(of("local"));
    assert_ne!(count(&gateway, &only).await.0, other_pid);
    assert_eq!(instances(&gateway), "1");
    let records = std::fs::read_to_string(fence.audit()).expect("an audit log");
    assert_eq!(records.matches("\"instance\":\"session\"").count(), 4, "{records}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_instance_ends_and_another_begins_anew() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "share = \"session\"\nidle_stop = \"1s\"").await;
    let session = gateway.open_session(of("local"));
    let (pid, _) = count(&gateway, &session).await;
    ends(pid).await;
    let (next, number) = count(&gateway, &session).await;
    assert!(next != pid && number == 1);
    assert_eq!(instances(&gateway), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_replaces_every_instance_of_a_changed_server() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "share = \"session\"").await;
    let session = gateway.open_session(of("local"));
    let (pid, _) = count(&gateway, &session).await;
    gateway.reload(config_of(&fence, "share = \"session\"\ncost = 1", &own_env), Pins::Keep).expect("reloaded");
    assert_eq!(count(&gateway, &session).await, (pid, 2), "an equal server stays");
    gateway.reload(config_of(&fence, "share = \"session\"\ntimeout = \"9s\"", &own_env), Pins::Keep).expect("reloaded");
    ends(pid).await;
    assert!(gateway.settle(Duration::from_secs(60)).await);
    assert_eq!(count(&gateway, &session).await.1, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_its_own_values_and_nobody_elses() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "share = \"all\"\nenv.KEPT_VALUE = \"${KEPT}\"").await;
    let half = async |session: &Arc<Session>| value(&gateway, session, "kept.value()").await;
    let own = gateway.open_session(of("local"));
    let same = gateway.open_attached(of("local"), with("value-of-the-gateway"));
    let (one, also_one) =
        (gateway.open_attached(of("a"), with("ONE-x7Kq93")), gateway.open_attached(of("b"), with("ONE-x7Kq93")));
    let two = gateway.open_attached(of("a"), with("TWO-b2Wm58"));
    let shown = [half(&own).await, half(&same).await, half(&one).await, half(&also_one).await, half(&two).await];
    let halves: Vec<_> = shown.iter().map(|shown| shown["half"].as_str().expect("text")).collect();
    assert_eq!(halves, ["valu", "valu", "ONE-", "ONE-", "TWO-"]);
    assert!(shown.iter().all(|shown| shown["value"] == "[redacted]"), "{shown:?}");
    let pid = |number: usize| shown[number]["pid"].as_u64().expect("a process");
    assert!(pid(0) == pid(1) && pid(2) == pid(3), "the same values share an instance");
    assert!(pid(0) != pid(2) && pid(2) != pid(4) && pid(0) != pid(4));
    assert_eq!(instances(&gateway), "2");
    // Without a value there is no instance, and the gateway's own value is not used.
    let none = gateway.open_attached(of("a"), Environment::default());
    let refused = error(&gateway, &none, "kept.value()").await;
    for part in
        ["TRANSPORT_DEAD", "environment variable `KEPT` is not set", "export KEPT", "environment of this client"]
    {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_client_are_redacted_for_others_while_its_session_lives() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "share = \"session\"\nenv.KEPT_VALUE = \"${KEPT}\"").await;
    let (one, other) = (gateway.open_attached(of("a"), with("ONE-x7Kq93")), gateway.open_session(of("b")));
    let told = async || {
        let execution = run(&gateway, &other, "print('ONE-' + 'x7Kq93'); fail('ONE-' + 'x7Kq93')").await;
        serde_json::to_string(&execution).expect("JSON")
    };
    let hidden = told().await;
    assert!(hidden.contains("[redacted]") && !hidden.contains("ONE-x7Kq93"), "{hidden}");
    let (pid, _) = count(&gateway, &one).await;
    drop(one);
    ends(pid).await;
    assert!(told().await.contains("ONE-x7Kq93"), "a session leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_differs_on_the_callers_own_instance_is_refused() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "env.KEPT_NOTE = \"${KEPT}\"").await;
    let other = gateway.open_attached(of("local"), with("another-definition"));
    let refused = error(&gateway, &other, "kept.count()").await;
    for part in ["TOOL_CHANGED", "not called", "an instance with this client's values"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(value(&gateway, &other, "kept.wait()").await["pid"].is_u64(), "an equal tool is called");
}

/// A client that notes what reaches it, and agrees to everything.
struct Noted {
    principal: Principal,
    reached: Mutex<Vec<String>>,
}

#[async_trait]
impl Caller for Noted {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn abilities(&self) -> Value {
        json!({"elicitation": {"form": {}}, "roots": {}})
    }

    async fn ask(&self, _: Speaker<'_>, question: Question) -> forgefs::base::error::Result<Value> {
        self.reached.lock().push(format!("asked {}", question.params["message"].as_str().unwrap_or_default()));
        Ok(json!({"action": "accept", "content": {"ok": true}}))
    }

    fn log_level(&self) -> Option<Level> {
        Some(Level::Debug)
    }

    fn log(&self, _: &str, entry: LogEntry) {
        self.reached.lock().push(format!("log {}", entry.data.as_str().unwrap_or_default()));
    }

    fn progress(&self, step: Step) {
        self.reached.lock().push(format!("progress {}", step.message));
    }
}

/// A session with the client behind it.
struct Seat {
    session: Arc<Session>,
    client: Arc<Noted>,
}

impl Seat {
    fn new(gateway: &Gateway) -> Self {
        let principal = of("local");
        let session = gateway.open_session(principal.clone());
        Self { session, client: Arc::new(Noted { principal, reached: Mutex::default() }) }
    }

    async fn run(&self, gateway: &Gateway, code: &str, timeout: Option<Duration>) -> Execution {
        let mut context = gateway.execution_context(&self.session);
        context.caller = Some(Arc::clone(&self.client) as Arc<dyn Caller>);
        let request = Request {
            language: Language::Starlark,
            code: code.to_owned(),
            timeout,
            dry_run: false,
            past: None,
            save_as: None,
        };
        context.execute(request).await
    }

    /// Lines of what reached the client, without the gateway's own progress.
    fn reached(&self) -> Vec<String> {
        let own = |line: &String| !line.ends_with(": done") && !line.ends_with(": failed");
        self.client.reached.lock().drain(..).filter(own).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_shared_server_reach_their_own_caller_or_nobody() {
    if has_python("tests/servers/keeping.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let gateway = ready(&fence, "").await;
    let (one, two) = (Seat::new(&gateway), Seat::new(&gateway));
    let quiet = async || tokio::time::sleep(Duration::from_millis(400)).await;
    // Alone in flight, a session is asked and told.
    assert!(one.run(&gateway, "kept.ask(text = 'one alone')", None).await.ok);
    assert!(one.run(&gateway, "kept.tell(text = 'one told')", None).await.ok);
    let reached = one.reached();
    assert!(
        reached.contains(&"asked one alone".to_owned()) && reached.contains(&"log one told".to_owned()),
        "{reached:?}"
    );
    assert!(reached.iter().any(|line| line.starts_with("progress") && line.contains("one told")), "{reached:?}");
    assert_eq!(two.reached(), Vec::<String>::new());
    quiet().await;
    // With calls of both in flight only progress, which names its call, has a recipient.
    let (waited, asked) = tokio::join!(
        one.run(&gateway, "kept.wait(seconds = 1.5)", None),
        two.run(&gateway, "kept.tell(seconds = 0.3, text = 'two told'); kept.ask(text = 'two asks')", None)
    );
    assert!(waited.ok && asked.ok);
    let answer = serde_json::to_value(&asked).expect("JSON")["value"]["answer"].to_string();
    assert!(answer.contains("calls of several clients are in flight"), "{answer}");
    assert_eq!(one.reached(), Vec::<String>::new());
    let reached = two.reached();
    assert!(reached.len() == 1 && reached[0].starts_with("progress") && reached[0].contains("two told"), "{reached:?}");
    quiet().await;
    // A call that was given up goes on at the server: what it says then is not for the next caller.
    let code = "kept.ask(seconds = 4, text = 'given up')";
    let given_up = two.run(&gateway, code, Some(Duration::from_millis(1500))).await;
    assert!(!given_up.ok);
    let next = one.run(&gateway, "kept.wait(seconds = 5); kept.value()", None).await;
    let answers = serde_json::to_value(&next).expect("JSON")["value"]["answers"].clone();
    let answer = answers["question-given up!"].as_str().unwrap_or_default();
    assert!(answer.contains("calls of several clients are in flight"), "{answers}");
    assert_eq!((one.reached(), two.reached()), (Vec::new(), Vec::new()));
}
