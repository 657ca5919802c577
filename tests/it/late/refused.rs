//! Late answers that are of no use: forged and replayed states, other requests, two at once, and what changed meanwhile.

use std::fs;
use std::process::Command;

use futures::future::join;
use serde_json::json;

use super::{ASKS, Gateway, ONCE, Reply, decided, script};
use crate::journal::Bank;

const PAY: &str = "const {paid} = await bank.pay({n: 1}); return paid";

/// A bank whose script was asked about, and whose gateway is gone: the bank, the question's key, the state.
async fn killed(more: &str) -> Option<(Bank, Vec<String>, String)> {
    let bank = Bank::new(more)?;
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let (keys, _, state) = gateway.ask(&script("javascript", PAY)).await.asked();
    gateway.kill();
    Some((bank, keys, state))
}

#[tokio::test]
async fn a_state_that_is_forged_or_of_another_request_is_refused_and_the_right_one_still_counts() {
    let Some((bank, keys, state)) = killed(ASKS).await else { return };
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let pay = script("javascript", PAY);
    let changed = |at: usize| {
        let other = if &state[at..=at] == "0" { "1" } else { "0" };
        format!("{}{other}{}", &state[..at], &state[at + 1..])
    };
    let long = "f".repeat(100_000);
    let forged = [changed(0), changed(14), changed(state.len() - 1), format!("{state}0"), format!("{state}-"), long];
    for forged in forged.iter().map(String::as_str).chain(["", "-", "--", "../../key-0-0", "a-é-b"]) {
        let refused = gateway.refusal(&pay, forged, &keys).await;
        assert!(refused.len() < 500, "{refused}");
    }
    for other in [script("javascript", &format!("{PAY} ")), script("starlark", PAY), json!({"resume": &state[..12]})] {
        let refused = gateway.refusal(&other, &state, &keys).await;
        assert!(refused.contains("another request"), "{refused}");
    }
    assert_eq!(bank.paid(), [0; 0]);
    // An answer to what was not asked is none: it is asked anew, by the run that goes on.
    let (keys, _, again) = gateway.answer(&pay, &state, &["other".to_owned()], &decided(ONCE)).await.asked();
    assert!(again[..12] != state[..12] && bank.paid().is_empty(), "{again}");
    let done = gateway.answer(&pay, &again, &keys, &decided(ONCE)).await.value();
    assert!(done.starts_with('1') && bank.paid() == [1], "{done}");
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts() {
    let Some((bank, keys, state)) = killed(ASKS).await else { return };
    let gateways = join(Gateway::start(&bank.fence, "bank"), Gateway::start(&bank.fence, "bank")).await;
    let pay = script("javascript", PAY);
    let answers: Vec<(&str, serde_json::Value)> = keys.iter().map(|key| (key.as_str(), decided(ONCE))).collect();
    let answer = async |gateway: &Gateway| gateway.send(&pay, Some(&state), &answers).await;
    let both = join(answer(&gateways.0), answer(&gateways.1)).await;
    let (mut paid, mut refused) = (0, Vec::new());
    for reply in [both.0, both.1] {
        match reply {
            Ok(Reply::Ended(true, _)) => paid += 1,
            Ok(Reply::Ended(false, text)) => refused.push(text),
            Ok(asks @ Reply::Asks(..)) => panic!("asked anew: {asks:?}"),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert_eq!((paid, bank.paid()), (1, vec![1]), "{refused:?}");
    let known = ["is being resumed", "has continued", "still running"];
    assert!(known.iter().any(|known| refused[0].contains(known)), "{refused:?}");
}

#[tokio::test]
async fn a_run_that_was_resumed_meanwhile_takes_no_late_answer() {
    let Some((bank, keys, state)) = killed(ASKS).await else { return };
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let (own, _, second) = gateway.ask(&json!({"resume": &state[..12]})).await.asked();
    let refused = gateway.refusal(&script("javascript", PAY), &state, &keys).await;
    assert!(refused.contains(&format!("run {} has continued", &second[..12])), "{refused}");
    let done = gateway.answer(&json!({"resume": &state[..12]}), &second, &own, &decided(ONCE)).await.value();
    assert!(done.starts_with('1') && bank.paid() == [1], "{done}");
}

#[tokio::test]
async fn an_answer_is_for_the_server_as_it_was_asked_about() {
    let Some((bank, keys, state)) = killed(ASKS).await else { return };
    // The words of the question are the same.
    bank.configure(&format!("{ASKS}env = {{ ACCOUNT = \"other\" }}\n"));
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let pay = script("javascript", PAY);
    let (keys, words, state) = gateway.answer(&pay, &state, &keys, &decided(ONCE)).await.asked();
    assert!(words.contains("bank.pay") && bank.paid().is_empty(), "{words}");
    let done = gateway.answer(&pay, &state, &keys, &decided(ONCE)).await.value();
    assert!(done.starts_with('1') && bank.paid() == [1], "{done}");
}

#[tokio::test]
async fn a_state_that_another_gateway_still_holds_is_answered_there() {
    let Some(bank) = Bank::new(ASKS) else { return };
    let pay = script("javascript", PAY);
    let (first, second) = join(Gateway::start(&bank.fence, "bank"), Gateway::start(&bank.fence, "bank")).await;
    let (keys, _, state) = first.ask(&pay).await.asked();
    let refused = second.refusal(&pay, &state, &keys).await;
    assert!(refused.contains("waits at another gateway"), "{refused}");
    let done = first.answer(&pay, &state, &keys, &decided(ONCE)).await.value();
    assert!(done.starts_with('1') && bank.paid() == [1], "{done}");
    let refused = second.refusal(&pay, &state, &keys).await;
    assert!(refused.contains("answered before"), "{refused}");
}

#[tokio::test]
async fn an_answer_that_the_journal_does_not_take_can_be_given_again() {
    let Some(bank) = Bank::new(&format!("{ASKS}[audit]\nto = \"off\"\n")) else { return };
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let pay = script("javascript", PAY);
    let (keys, _, state) = gateway.ask(&pay).await.asked();
    let written = fs::metadata(bank.fence.journal(&state[..12])).expect("a journal").len();
    // A disk that is full behind the question.
    let limited = |bytes: &str| {
        let limits = [format!("--pid={}", gateway.pid), format!("--fsize={bytes}:")];
        Command::new("prlimit").args(limits).status().is_ok_and(|status| status.success())
    };
    if !limited(&written.to_string()) {
        return crate::real::skipped("the files of a running process cannot be limited here");
    }
    let answers: Vec<(&str, serde_json::Value)> = keys.iter().map(|key| (key.as_str(), decided(ONCE))).collect();
    let refused = gateway.send(&pay, Some(&state), &answers).await.expect_err("it is not taken");
    assert!(refused.to_string().contains("the answer is not taken") && bank.paid().is_empty(), "{refused}");
    assert!(limited("unlimited"), "the disk has room again");
    let done = gateway.answer(&pay, &state, &keys, &decided(ONCE)).await.value();
    assert!(done.starts_with('1') && bank.paid() == [1], "{done}");
}

#[tokio::test]
async fn without_a_journal_a_state_ends_with_its_gateway() {
    let Some((bank, keys, state)) = killed("approval = \"writes\"\n[journal]\non = false\n").await else { return };
    let gateway = Gateway::start(&bank.fence, "bank").await;
    let refused = gateway.refusal(&script("javascript", PAY), &state, &keys).await;
    assert!(refused.contains("the gateway has restarted since: make the request anew"), "{refused}");
    assert_eq!(bank.paid(), [0; 0]);
}

#[tokio::test]
async fn what_a_run_has_called_anew_is_not_called_again_with_its_late_answers() {
    let Some(bank) = Bank::new(ASKS) else { return };
    let code = "await bank.pay({n: 1}); await bank.pay({n: 2}); throw new Error('more')";
    let mut arguments = script("javascript", code);
    let mut gateway = Gateway::start(&bank.fence, "bank").await;
    for round in 0..2 {
        let (mut keys, _, mut state) = gateway.ask(&arguments).await.asked();
        if round == 1 {
            // Both payments are asked about again, each by a gateway of its own.
            gateway.kill();
            gateway = Gateway::start(&bank.fence, "bank").await;
        }
        (keys, _, state) = gateway.answer(&arguments, &state, &keys, &decided(ONCE)).await.asked();
        if round == 1 {
            gateway.kill();
            gateway = Gateway::start(&bank.fence, "bank").await;
        }
        let failed = gateway.answer(&arguments, &state, &keys, &decided(ONCE)).await;
        assert!(matches!(&failed, Reply::Ended(false, text) if text.contains("more")), "{failed:?}");
        arguments = json!({"resume": &state[..12], "fresh": ["bank.pay"]});
    }
    assert_eq!(bank.paid(), [1, 2, 1, 2], "what is fresh is paid once more");
}

#[tokio::test]
async fn a_late_answer_to_a_script_that_is_a_tool_goes_on_with_its_call() {
    let more = "[servers.bank.tools.note]\napproval = \"always\"\n\
                [scripts]\npath = \"scripts\"\n[scripts.tools.ship]\nas_tool = true\n";
    let Some(bank) = Bank::new(more) else { return };
    let ship = "export default async function ({ n, code = 'ALL' }: { n: number; code?: string }): Promise<string> {\n  \
                await bank.pay({ n });\n  return await bank.note({ text: `refund ${code}` });\n}\n";
    bank.fence.write("scripts/ship.ts", ship);
    bank.fence.run(["scripts", "lock"]).success();
    let start = async || {
        drop(Gateway::start(&bank.fence, "scripts").await);
        Gateway { tool: "ship", ..Gateway::start(&bank.fence, "bank").await }
    };
    let args = json!({"n": 5, "code": "DE"});
    let gateway = start().await;
    let (keys, words, state) = gateway.ask(&args).await.asked();
    assert!(words.contains("note") && bank.paid() == [5], "{words}");
    gateway.kill();
    let gateway = start().await;
    let done = gateway.answer(&args, &state, &keys, &decided(ONCE)).await.value();
    assert!(done.contains("refund DE"), "{done}");
    assert_eq!(bank.paid(), [5]);
    gateway.refusal(&args, &state, &keys).await;
    assert_eq!(bank.paid(), [5]);
}
