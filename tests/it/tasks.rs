//! Tasks of servers: calls that are tasks, in both revisions that have them, and runs that are resumed in the middle of one.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequest, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use crate::asking::{self, Client};
use crate::client::{Era, Fence, Output, finish};
use crate::faulty::python;
use crate::real::Real;

/// A server that makes tasks, called `tasking`, in a fence.
struct Tasking {
    fence: Fence,
    folder: PathBuf,
    config: String,
}

impl Tasking {
    /// Of an era, with more of a configuration; `None`, visibly, without Python.
    fn new(era: &str, more: &str) -> Option<Self> {
        let fence = Fence::new();
        let folder = fence.work().join("tasks");
        fs::create_dir_all(&folder).expect("a folder");
        let config = python("tasking", "tasking.py", &[era, folder.to_str().expect("a path")])?;
        let tasking = Self { fence, folder, config };
        tasking.configure(more);
        Some(tasking)
    }

    fn configure(&self, more: &str) {
        self.fence.write("forge.toml", &format!("{}{more}", self.config));
    }

    fn run(&self, args: &[&str], code: &str) -> Output {
        finish(&mut self.fence.script(&[&["--json"], args].concat(), "javascript", code), "")
    }

    /// The value of a script.
    fn value(&self, args: &[&str], code: &str) -> Value {
        let answer = self.run(args, code).object();
        assert_eq!(answer["ok"], json!(true), "{answer}");
        answer["value"].clone()
    }

    /// Code and message of a script's error.
    fn error(&self, args: &[&str], code: &str) -> (String, String) {
        let answer = self.run(args, code).object();
        let text = |key: &str| answer["error"][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer["ok"], json!(false), "{answer}");
        (text("code"), text("message"))
    }

    fn read(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn count(&self, request: &str) -> usize {
        self.read("log").iter().filter(|line| *line == request).count()
    }

    fn tell(&self, file: &str) {
        fs::write(self.folder.join(file), "").expect("the file can be written");
    }
}

const ERAS: [&str; 2] = ["legacy", "modern"];

#[test]
fn a_call_that_is_a_task_has_its_value_as_any_call() {
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "") else { return };
        let value = tasking.value(&[], "return [await tasking.pay({n: 7, ms: 700}), await tasking.work({ms: 0})]");
        assert_eq!(value, json!([{"paid": 7}, "work"]), "{era}");
        assert_eq!(tasking.count("tools/call pay task"), 1, "{era}");
        // By the server's interval of 200 ms.
        let polls = tasking.count("tasks/get");
        assert!((2..=8).contains(&polls), "{era}: {polls} polls");
        assert_eq!(tasking.count("tasks/result"), if era == "legacy" { 2 } else { 0 }, "{era}");
        assert_eq!(tasking.count("tasks/cancel"), 0, "{era}");
    }
}

#[test]
fn a_task_is_optional_where_the_server_says_so_and_never_where_the_operator_does() {
    let Some(tasking) = Tasking::new("legacy", "tasks = \"never\"\n") else { return };
    let (code, message) = tasking.error(&[], "return await tasking.pay({n: 1})");
    assert_eq!(code, "TOOL_DENIED", "{message}");
    assert!(message.contains("`pay` can only be called as a task, and `tasks = \"never\"`"), "{message}");
    assert_eq!(tasking.value(&[], "return await tasking.maybe()"), json!("plain"));
    tasking.configure("");
    assert_eq!(tasking.value(&[], "return await tasking.maybe()"), json!("plain"));
    assert_eq!(tasking.read("ledger"), Vec::<String>::new());

    let Some(tasking) = Tasking::new("modern", "tasks = \"never\"\n") else { return };
    assert_eq!(tasking.value(&[], "return await tasking.maybe()"), json!("plain"));
    tasking.configure("");
    assert_eq!(tasking.value(&[], "return await tasking.maybe()"), json!("a task"));
}

#[test]
fn a_task_that_fails_is_a_tool_that_fails() {
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "") else { return };
        for how in ["cancelled", "error"] {
            let (code, message) = tasking.error(&[], &format!("return await tasking.fail({{how: '{how}'}})"));
            assert_eq!((&*code, message.contains("no more paper")), ("TOOL_ERROR", true), "{era} {how}: {message}");
        }
        let (code, message) = tasking.error(&[], "return await tasking.fail({how: 'result'})");
        let said = if era == "legacy" { "jammed" } else { "no more paper" };
        assert_eq!((&*code, message.contains(said)), ("TOOL_ERROR", true), "{era}: {message}");
    }
}

#[test]
fn a_task_keeps_its_call_alive_up_to_the_cap_and_is_cancelled_then() {
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "timeout = \"2s\"\nmax_timeout = \"5s\"\n") else { return };
        assert_eq!(tasking.value(&[], "return await tasking.work({ms: 0, told: false})"), json!("work"), "{era}");
        assert_eq!(tasking.value(&[], "return await tasking.pay({n: 1, ms: 3000})"), json!({"paid": 1}), "{era}");
        let code =
            "try { await tasking.never() } catch (e) { await new Promise(go => setTimeout(go, 500)); return e.code }";
        assert_eq!(tasking.value(&[], code), json!("TIMEOUT"), "{era}");
        assert_eq!(tasking.count("tasks/cancel"), 1, "{era}");
    }
}

#[tokio::test]
async fn a_task_tells_its_progress_and_a_notice_wakes_its_poll() {
    for server in ERAS {
        let Some(tasking) = Tasking::new(server, "") else { return };
        let client = Client::able();
        let service = asking::connected(&tasking.fence, Era::Legacy, &tasking.config, "tasking", &client).await;
        let started = Instant::now();
        let value = asking::run(&service, "return await tasking.work({ms: 400, told: true})").await;
        assert_eq!(value, Ok(json!("work")), "{server}");
        // Its interval is longer than that.
        assert!(started.elapsed() < Duration::from_secs(15), "{server}: {:?}", started.elapsed());
        let value = asking::run(&service, "return await tasking.work({ms: 900})").await;
        assert_eq!(value, Ok(json!("work")), "{server}");
        let heard = client.heard();
        let count = |words: &str| heard.iter().filter(|line| line.contains(words)).count();
        assert_eq!(count("tasking.work: 1/2 the first half"), 2, "{server}: {heard:?}");
        // Words that are the same are told once.
        assert!((1..=4).contains(&count("half done")), "{server}: {heard:?}");
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn what_a_task_asks_reaches_the_client_and_its_answer_the_task() {
    for server in ERAS {
        for era in [Era::Legacy, Era::Modern] {
            let Some(tasking) = Tasking::new(server, "") else { return };
            let client = Client::able();
            let service = asking::connected(&tasking.fence, era, &tasking.config, "tasking", &client).await;
            let value = asking::run(&service, "return await tasking.ask()").await;
            let value = value.unwrap_or_else(|error| panic!("{server} {era:?}: {error}"));
            assert_eq!(value["action"], "accept", "{server} {era:?}: {value}");
            let asked = client.heard().into_iter().filter(|line| line.contains("go on?")).count();
            assert_eq!(asked, 1, "{server} {era:?}");
            service.cancel().await.expect("the session ends");
        }
    }
}

#[tokio::test]
async fn a_cancelled_run_cancels_its_task() {
    for server in ERAS {
        let Some(tasking) = Tasking::new(server, "") else { return };
        let client = Client::able();
        let service = asking::connected(&tasking.fence, Era::Legacy, &tasking.config, "tasking", &client).await;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(asking::script("await tasking.never()")));
        let sent = service.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
        while tasking.count("tasks/get") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sent.cancel(Some("changed my mind".to_owned())).await.expect("cancelled");
        let deadline = Instant::now() + Duration::from_secs(20);
        while tasking.count("tasks/cancel") == 0 {
            assert!(Instant::now() < deadline, "{server}: {:?}", tasking.read("log"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        service.cancel().await.expect("the session ends");
    }
}

#[test]
fn a_run_killed_in_the_middle_of_a_task_is_resumed_with_the_same_task() {
    let code = "const {paid} = await tasking.pay({n: 5, ms: 1000}); return paid + (await tasking.list()).length";
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "") else { return };
        // Twice: a resumed run that is killed leaves the task to the next.
        tasking.tell("kill");
        assert_eq!(tasking.run(&[], code).code, None, "{era}");
        tasking.tell("kill");
        assert_eq!(tasking.run(&["--resume", "last"], code).code, None, "{era}");
        assert_eq!(tasking.value(&["--resume", "last"], code), json!(6), "{era}");
        assert_eq!(tasking.read("ledger"), ["5"], "{era}");
        assert_eq!(tasking.count("tools/call pay task"), 1, "{era}");
        // Its answer is one of the journal now.
        let polls = tasking.count("tasks/get");
        assert_eq!(tasking.value(&["--resume", "last"], code), json!(6), "{era}");
        assert_eq!(tasking.count("tasks/get"), polls, "{era}");
    }
}

#[test]
fn a_server_that_is_away_when_its_task_is_asked_is_not_paid_again() {
    let code = "return await tasking.pay({n: 5, ms: 100})";
    let again = "for (let n = 0; n < 300; n++) {\n  try { return await tasking.pay({n: 5, ms: 100}) } catch (e) {\n    if (e.code \
                 === 'MAYBE_DONE') throw e\n    await new Promise((done) => setTimeout(done, 100))\n  }\n}";
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "max_reconnect_backoff = \"500ms\"\n") else { return };
        tasking.tell("kill");
        assert_eq!(tasking.run(&[], code).code, None, "{era}");
        tasking.tell("down");
        let down = tasking.folder.join("down");
        let back = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_secs(3));
            fs::remove_file(down).expect("it was away");
        });
        assert_eq!(tasking.value(&["--resume", "last"], again), json!({"paid": 5}), "{era}");
        back.join().expect("it is back");
        assert_eq!(tasking.read("ledger"), ["5"], "{era}");
    }
}

#[test]
fn a_task_that_is_gone_leaves_a_call_that_may_be_done() {
    let code = "return await tasking.pay({n: 5, ms: 100})";
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "") else { return };
        tasking.tell("kill");
        assert_eq!(tasking.run(&[], code).code, None, "{era}");
        tasking.tell("forget");
        let (told, message) = tasking.error(&["--resume", "last"], code);
        assert_eq!(told, "MAYBE_DONE", "{era}: {message}");
        assert!(message.contains("was sent with these arguments by run"), "{era}: {message}");
        let again = "try { return await tasking.pay({n: 5, ms: 100}) } catch (e) { if (e.code !== 'MAYBE_DONE') throw e }\n\
                     return await tasking.pay({n: 5, ms: 100})";
        assert_eq!(tasking.value(&["--resume", "last"], again), json!({"paid": 5}), "{era}");
        assert_eq!(tasking.read("ledger"), ["5", "5"], "{era}");
    }
}

#[test]
fn what_an_odd_task_says_is_bounded_and_told() {
    for era in ERAS {
        let Some(tasking) = Tasking::new(era, "timeout = \"6s\"\nmax_timeout = \"8s\"\n") else { return };
        let odd = |how: &str| {
            let answer = tasking.run(&[], &format!("return await tasking.odd({{how: '{how}'}})")).object();
            match answer["error"]["code"].as_str() {
                Some(code) => format!("{code}: {}", answer["error"]["message"].as_str().unwrap_or_default()),
                None => answer["value"].to_string(),
            }
        };
        for (how, expected) in [
            ("zero", "\"odd\""),
            ("negative", "\"odd\""),
            ("huge", "\"odd\""),
            ("text", "\"odd\""),
            ("huge_id", "id of a task"),
            ("no_id", "its task has no id"),
            ("other_id", "told of another"),
            ("status", "unknown status `resting`"),
            ("no_task", "its task has no id"),
            ("dies", "TRANSPORT_DEAD"),
            ("other_type", "UPSTREAM_ERROR"),
        ] {
            let started = Instant::now();
            let told = odd(how);
            assert!(told.contains(expected), "{era} {how}: {told}");
            assert!(started.elapsed() < Duration::from_secs(20), "{era} {how}: {:?}", started.elapsed());
        }
    }
}

#[tokio::test]
async fn a_task_of_a_real_server_asks_and_ends() {
    let Some(real) = Real::find() else { return };
    for era in [Era::Legacy, Era::Modern] {
        let (fence, client) = (Fence::new(), Client::able());
        let config = real.forge_toml(&fence, &["everything"]);
        let service = asking::connected(&fence, era, &config, "everything", &client).await;
        let code = "return await everything.simulate_research_query({topic: 'rust', ambiguous: true})";
        let report = asking::run(&service, code).await.unwrap_or_else(|error| panic!("{era:?}: {error}"));
        let report = report.as_str().expect("a text");
        assert!(report.contains("# Research Report: rust ("), "{era:?}: {report}");
        let heard = client.heard();
        assert!(heard.iter().any(|line| line.contains("could have multiple interpretations")), "{era:?}: {heard:?}");
        assert!(heard.iter().any(|line| line.contains("Gathering sources")), "{era:?}: {heard:?}");
        service.cancel().await.expect("the session ends");
    }
}
