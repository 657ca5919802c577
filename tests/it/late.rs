//! Answers of 2026-07-28 that come when the gateway which asked is gone: the run is resumed with them, and makes every call
//! once.

mod crashes;
mod refused;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use serde_json::{Value, json};

use crate::asking::Client;
use crate::client::{Era, Fence, up};
use crate::faulty::python;
use crate::journal::Bank;

/// Payments need approval, and nobody waits for it.
const ASKS: &str = "approval = \"writes\"\n";
const ONCE: &str = "allow once";

/// A gateway on stdio, and its client.
struct Gateway {
    service: RunningService<RoleClient, Client>,
    pid: u32,
    /// The tool that its requests call.
    tool: &'static str,
}

/// Answer to a request: its end, or questions with the state for the next one.
#[derive(Debug)]
enum Reply {
    Ended(bool, String),
    Asks(BTreeMap<String, Value>, String),
}

impl Reply {
    /// The questions' keys, the words of the first, and the state.
    fn asked(self) -> (Vec<String>, String, String) {
        match self {
            Self::Asks(questions, state) => {
                let words = questions.values().next().map(|question| question["params"]["message"].to_string());
                (questions.into_keys().collect(), words.unwrap_or_default(), state)
            }
            Self::Ended(..) => panic!("the client is not asked: {self:?}"),
        }
    }

    /// The value of a script that ended with one.
    fn value(self) -> String {
        match self {
            Self::Ended(true, text) => text,
            other => panic!("no value: {other:?}"),
        }
    }
}

impl Gateway {
    /// One with the `forge.toml` of a fence, once this server is up.
    async fn start(fence: &Fence, server: &str) -> Self {
        let config = fence.work().join("forge.toml");
        let command = fence.forgefs([Path::new("--config"), &config, Path::new("serve")]);
        let (service, pid) = fence.attach(Era::Modern, command, Client::able()).await;
        let is_up = regex::Regex::new(&up(server)).expect("names are plain");
        let started = Instant::now();
        loop {
            let answer = service.call_tool(CallToolRequestParams::new("ls")).await.expect("ls is answered");
            if is_up.is_match(&text(&answer)) {
                return Self { service, pid, tool: "execute" };
            }
            assert!(started.elapsed() < Duration::from_secs(90), "{}", fence.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// One round: the request, with answers to an earlier one.
    async fn send(
        &self,
        arguments: &Value,
        state: Option<&str>,
        answers: &[(&str, Value)],
    ) -> Result<Reply, ServiceError> {
        let arguments = arguments.as_object().cloned().expect("an object");
        let mut params = CallToolRequestParams::new(self.tool).with_arguments(arguments);
        params.request_state = state.map(str::to_owned);
        let answers = answers.iter().map(|(key, answer)| ((*key).to_owned(), answer.clone()));
        params.input_responses = state.map(|_| answers.collect());
        Ok(match self.service.call_tool_once(params).await? {
            CallToolResponse::Complete(result) => Reply::Ended(result.is_error != Some(true), text(&result)),
            CallToolResponse::InputRequired(asked) => {
                let questions = asked.input_requests.unwrap_or_default().into_iter();
                let json = |question| serde_json::to_value(question).expect("JSON");
                let questions = questions.map(|(key, question)| (key, json(question))).collect();
                Reply::Asks(questions, asked.request_state.expect("a state"))
            }
            other => panic!("no answer: {other:?}"),
        })
    }

    /// The first round.
    async fn ask(&self, arguments: &Value) -> Reply {
        self.send(arguments, None, &[]).await.expect("an answer")
    }

    /// A round in which every key gets the same answer.
    async fn answer(&self, arguments: &Value, state: &str, keys: &[String], answer: &Value) -> Reply {
        let answers: Vec<(&str, Value)> = keys.iter().map(|key| (key.as_str(), answer.clone())).collect();
        self.send(arguments, Some(state), &answers).await.expect("an answer")
    }

    /// The refusal of a state.
    async fn refusal(&self, arguments: &Value, state: &str, keys: &[String]) -> String {
        let answers: Vec<(&str, Value)> = keys.iter().map(|key| (key.as_str(), decided(ONCE))).collect();
        let refused = self.send(arguments, Some(state), &answers).await.expect_err("it is refused");
        assert!(refused.to_string().contains("-32602"), "{refused}");
        refused.to_string()
    }

    /// Ends it like `kill -9`.
    fn kill(self) {
        let pid = i32::try_from(self.pid).expect("a process number");
        // It may be dead already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn text(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    texts.join("\n")
}

/// An answer to a question of the gateway.
fn decided(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

/// Arguments of `execute`.
fn script(language: &str, code: &str) -> Value {
    json!({"language": language, "code": code})
}

#[tokio::test]
async fn an_approval_given_after_a_crash_reaches_its_call_once() {
    for (language, code) in [
        ("javascript", "const all = []; for (const n of [1, 2, 3]) all.push((await bank.pay({n})).paid); return all"),
        ("starlark", "[bank.pay(n = n)['paid'] for n in [1, 2, 3]]"),
    ] {
        let Some(bank) = Bank::new(ASKS) else { return };
        let script = script(language, code);
        let mut gateway = Gateway::start(&bank.fence, "bank").await;
        let (mut keys, mut words, mut state) = gateway.ask(&script).await.asked();
        let mut states = vec![state.clone()];
        for n in 1..=2 {
            assert!(words.contains(&format!("n = {n}")), "{words}");
            // The first payment is answered to the process that asked, the others to the next one.
            (keys, words, state) = gateway.answer(&script, &state, &keys, &decided(ONCE)).await.asked();
            assert_eq!(bank.paid(), (1..=n).collect::<Vec<_>>(), "{language}");
            states.push(state.clone());
            gateway.kill();
            gateway = Gateway::start(&bank.fence, "bank").await;
        }
        let done = gateway.answer(&script, &state, &keys, &decided(ONCE)).await.value();
        assert!(done.starts_with("[1,2,3]") && bank.paid() == [1, 2, 3], "{language}: {done}");
        for (state, why) in states.iter().zip(["answered before", "has continued", "has continued"]) {
            let refused = gateway.refusal(&script, state, &keys).await;
            assert!(refused.contains(why), "{language}: {refused}");
        }
        assert_eq!(bank.paid(), [1, 2, 3], "{language}");
        gateway.service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn a_refusal_given_after_a_crash_is_one() {
    let Some(bank) = Bank::new(ASKS) else { return };
    let script = script("javascript", "try { await bank.pay({n: 1}) } catch (e) { return e.code } return 'paid'");
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let (keys, _, state) = gateway.ask(&script).await.asked();
    gateway.kill();
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let done = gateway.answer(&script, &state, &keys, &decided("deny")).await.value();
    assert!(done.contains("APPROVAL_DENIED") && bank.paid().is_empty(), "{done}");
}

#[tokio::test]
async fn a_plan_that_is_approved_after_a_crash_is_carried_out_without_another_question() {
    let Some(bank) = Bank::new("approval = \"plan\"\n") else { return };
    let script = script("javascript", "await bank.pay({n: 1}); await bank.pay({n: 2}); return 'paid'");
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let (keys, words, state) = gateway.ask(&script).await.asked();
    assert!(words.contains("may this script run"), "{words}");
    gateway.kill();
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let done = gateway.answer(&script, &state, &keys, &decided(ONCE)).await.value();
    assert!(done.contains("paid") && bank.paid() == [1, 2], "{done}");
}

/// A server of 2026-07-28 has done nothing when it asks; nobody knows it of one that asks by a request.
#[tokio::test]
async fn a_servers_question_is_answered_after_a_crash_where_its_call_has_done_nothing() {
    for (era, code) in [("modern", "none"), ("legacy", "MAYBE_DONE")] {
        let fence = Fence::new();
        let ledger = fence.work().join("booked");
        let Some(config) = python("asking", "asking.py", &[era, ledger.to_str().expect("a path")]) else { return };
        fence.write("forge.toml", &config);
        let script = script(
            "javascript",
            "await asking.book({n: 1}); try { await asking.book({n: 2}) } catch (e) { return e.code } return 'none'",
        );
        let booked = || std::fs::read_to_string(&ledger).unwrap_or_default();
        let yes = json!({"action": "accept", "content": {"ok": true}});
        let gateway = Gateway::start(&fence, "asking").await;
        let (keys, _, state) = gateway.ask(&script).await.asked();
        let (keys, words, state) = gateway.answer(&script, &state, &keys, &yes).await.asked();
        assert!(words.contains("book 2?") && booked() == "1\n", "{era}: {words}");
        gateway.kill();
        let gateway = Gateway::start(&fence, "asking").await;
        let done = gateway.answer(&script, &state, &keys, &yes).await.value();
        assert!(done.contains(code), "{era}: {done}");
        assert_eq!(booked(), if era == "modern" { "1\n2\n" } else { "1\n" }, "{era}");
    }
}
