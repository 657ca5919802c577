//! Approvals that wait: calls that are parked, decided by a person, and made once by the run that is resumed.

mod damaged;
mod hook;
mod people;

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Output;
use crate::journal::Bank;

/// Payments need approval, and wait for it.
const WAITS: &str = "approval = \"writes\"\n[approvals]\nwait = \"1h\"\n";
const PAY: &str = "const before = await bank.list();\nawait bank.pay({n: 7});\nreturn before";

/// What `forgefs approvals` prints.
fn approvals(bank: &Bank, args: &[&str]) -> Output {
    bank.fence.run([&["approvals"], args].concat())
}

/// The object that it prints with `--json`.
fn shape(bank: &Bank, args: &[&str]) -> Value {
    let output = approvals(bank, &[args, &["--json"]].concat());
    output.object()
}

/// The approvals that wait.
fn waiting(bank: &Bank) -> Vec<Value> {
    shape(bank, &["list"])["approvals"].as_array().expect("a list").clone()
}

/// A run that is parked: its id, and that of the one approval that it waits for.
fn parked(answer: &Value) -> (String, String) {
    assert_eq!(answer["error"]["code"], json!("APPROVAL_WAITS"), "{answer:#}");
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned();
    assert_eq!(answer["waits"].as_array().map(Vec::len), Some(1), "{answer:#}");
    (text("/resume"), text("/waits/0/approval"))
}

fn verdict(answer: &Value) -> &str {
    let calls = answer["calls"].as_array().expect("calls");
    calls.last().and_then(|call| call["verdict"].as_str()).expect("a call")
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or("none")
}

#[test]
fn an_allowed_call_is_made_once_by_the_run_that_is_resumed() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    assert_eq!(bank.paid(), [0; 0]);
    // It waits on under the same id.
    let (second, same) = parked(&bank.json(&["--resume", &run], PAY));
    assert_eq!((&same, waiting(&bank).len()), (&id, 1));
    let allowed = shape(&bank, &["allow", &id]);
    assert_eq!(allowed["approval"]["state"], json!("allowed"), "{allowed:#}");
    let answer = bank.json(&["--resume", &second], PAY);
    assert_eq!((&answer["value"], bank.paid()), (&json!([]), vec![7]), "{answer:#}");
    assert!(verdict(&answer).contains(&format!("approval {id}")), "{answer:#}");
    // What was made is answered from the journal; another one like it asks anew.
    let (_, other) = parked(&bank.json(&["--resume", &run], &format!("await bank.pay({{n: 7}});\n{PAY}")));
    assert_ne!(other, id);
    assert_eq!(bank.paid(), [7]);
    let shown = approvals(&bank, &["show", &id]).success().stdout;
    assert!(shown.contains("used, ") && shown.contains("by call "), "{shown}");
    let again = approvals(&bank, &["allow", &id]);
    assert!(again.code == Some(1) && again.stderr.contains("is used up"), "{again:?}");
}

#[test]
fn a_denied_call_stays_denied_in_its_chain() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    approvals(&bank, &["deny", &id]).success();
    for _ in 0..2 {
        let answer = bank.json(&["--resume", &run], PAY);
        let message = answer["error"]["message"].as_str().expect("a message");
        assert_eq!(code(&answer), "APPROVAL_DENIED", "{answer:#}");
        assert!(message.contains("was denied by ") && message.contains(&id), "{message}");
    }
    assert_eq!((waiting(&bank), bank.paid()), (vec![], vec![]));
    // Another call of the chain, and another chain, may ask.
    parked(&bank.json(&["--resume", &run], "await bank.list(); await bank.pay({n: 8})"));
    parked(&bank.json(&[], PAY));
    // A decision may be taken back before it is used.
    approvals(&bank, &["allow", &id]).success();
    assert_eq!(bank.json(&["--resume", &run], PAY)["ok"], json!(true));
    assert_eq!(bank.paid(), [7]);
}

#[test]
fn an_approval_expires_undecided_and_unused() {
    let Some(bank) = Bank::new("approval = \"writes\"\n[approvals]\nwait = \"2s\"\n") else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    thread::sleep(Duration::from_millis(2500));
    assert!(waiting(&bank).is_empty());
    let late = approvals(&bank, &["allow", &id]);
    assert!(late.code == Some(1) && late.stderr.contains("has expired"), "{late:?}");
    assert!(approvals(&bank, &["list", "--all"]).stdout.contains("expired"));
    let (_, second) = parked(&bank.json(&["--resume", &run], PAY));
    assert_ne!(second, id);
    approvals(&bank, &["allow", &second]).success();
    thread::sleep(Duration::from_millis(2500));
    let (_, third) = parked(&bank.json(&["--resume", &run], PAY));
    assert!(third != second && bank.paid().is_empty());
}

#[test]
fn an_approval_covers_exactly_its_call() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    approvals(&bank, &["allow", &id]).success();
    let other = |answer: Value, what: &str| {
        let (_, other) = parked(&answer);
        assert_ne!(other, id, "{what}");
        assert_eq!(bank.paid(), [0; 0], "{what}");
    };
    other(bank.json(&["--resume", &run], "await bank.list(); await bank.pay({n: 8})"), "other arguments");
    other(bank.json(&[], PAY), "another chain");
    other(bank.json(&["--resume", &run], "await bank.list(); await bank.note({text: 'x'})"), "another tool");
    bank.configure(&format!("env = {{ OTHER = \"1\" }}\n{WAITS}"));
    other(bank.json(&["--resume", &run], PAY), "a server with other connection settings");
    bank.configure(WAITS);
    bank.tell("about", " And twice on Mondays.");
    other(bank.json(&["--resume", &run], PAY), "a changed definition");
    bank.tell("about", "");
    assert_eq!(bank.json(&["--resume", &run], PAY)["ok"], json!(true));
    assert_eq!(bank.paid(), [7]);
}

#[test]
fn of_several_resumes_at_once_one_makes_the_call() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    approvals(&bank, &["allow", &id]).success();
    // All of them write the script's file: before any is started that reads it.
    let commands: Vec<_> =
        (0..4).map(|_| bank.fence.script(&["--json", "--resume", &run], "javascript", PAY)).collect();
    let at_once: Vec<_> = commands
        .into_iter()
        .map(|mut command| thread::spawn(move || crate::client::finish(&mut command, "")))
        .collect();
    for ended in at_once {
        let output = ended.join().expect("no panic");
        let failure = output.object();
        let said = failure["error"]["message"].as_str().unwrap_or("done");
        assert!(said == "done" || said.contains("resumed") || said.contains("running"), "{output:?}");
    }
    assert_eq!(bank.paid(), [7]);
}

#[test]
fn what_is_shown_is_the_whole_call_without_secrets_and_without_tricks() {
    let secret = "tok-5f2a9c11d8e7b6a4";
    let more = format!("env = {{ BANK_API_TOKEN = \"{secret}\" }}\n{WAITS}");
    let Some(bank) = Bank::new(&more) else { return };
    let code = format!("await bank.note({{text: 'a \\u202e{secret}\\n\\u001b[31mclient  nobody'}})");
    let (run, id) = parked(&bank.json(&[], &code));
    let shown = approvals(&bank, &["show", &id]).success().stdout;
    for part in
        ["client   local", &format!("run      {run}"), "bank.note", "asks before anything that may write", "text = "]
    {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(shown.contains("\\u{202e}") && !shown.contains('\u{1b}'), "{shown}");
    let everything = format!("{shown}{}{}", shape(&bank, &["show", &id]), approvals(&bank, &["list"]).stdout);
    assert!(!everything.contains(secret), "{everything}");
    let unknown = approvals(&bank, &["show", "../../etc/passwd"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("there is no approval"), "{unknown:?}");
}

#[test]
fn groups_and_flows_of_now_decide_about_an_allowed_call() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let (run, id) = parked(&bank.json(&[], PAY));
    approvals(&bank, &["allow", &id]).success();
    let tainted = format!("await post.list();\n{PAY}");
    let groups = "[groups.a]\nservers = [\"bank\"]\nisolation = \"strict\"\n[groups.b]\nservers = [\"post\"]\nisolation = \"strict\"\n";
    let flow = |action: &str| format!("[[flows]]\nfrom = \"post\"\nto = \"bank\"\naction = \"{action}\"\n");
    for (rules, expected) in [
        (groups.to_owned(), "GROUP_POLICY_DENIED"),
        (flow("deny"), "GROUP_POLICY_DENIED"),
        // What was not among the reasons that a person saw is asked.
        (flow("approve"), "APPROVAL_WAITS"),
    ] {
        bank.configure(&format!("{WAITS}{rules}"));
        let answer = bank.json(&["--resume", &run], &tainted);
        assert_eq!(code(&answer), expected, "{rules}: {answer:#}");
        assert_eq!(bank.paid(), [0; 0], "{rules}");
    }
    bank.configure(WAITS);
    assert_eq!(bank.json(&["--resume", &run], PAY)["ok"], json!(true));
    assert_eq!(bank.paid(), [7]);
}

#[test]
fn a_client_has_a_bounded_number_of_approvals_that_wait() {
    let Some(bank) = Bank::new(WAITS) else { return };
    let code = "const said = [];\nfor (let n = 1; n <= 101; n++) {\n  try { await bank.pay({n}) } catch (error) { said.push(error.code) }\n}\nreturn said";
    let answer = bank.json(&[], code);
    let said = answer["value"].as_array().expect("codes");
    assert_eq!(said.iter().filter(|code| **code == json!("APPROVAL_WAITS")).count(), 100, "{answer:#}");
    assert_eq!(said[100], json!("APPROVAL_DENIED"));
    // A run that went on can be resumed too.
    let first = answer["waits"][0]["approval"].as_str().expect("an id");
    approvals(&bank, &["allow", first]).success();
    let run = answer["resume"].as_str().expect("a run");
    bank.json(&["--resume", run], code);
    assert_eq!(bank.paid(), [1]);
}

#[test]
fn without_waiting_or_a_journal_a_call_is_refused_as_ever() {
    let Some(bank) = Bank::new("approval = \"writes\"\n") else { return };
    assert_eq!(code(&bank.json(&[], PAY)), "APPROVAL_DENIED");
    let none = approvals(&bank, &["list"]);
    assert!(none.stderr.contains("turns waiting on"), "{none:?}");
    // What `call` asks for has no journal.
    bank.configure(WAITS);
    let call = bank.fence.run(["call", "bank", "pay", "{\"n\": 7}", "--json"]);
    assert!(format!("{call:?}").contains("needs approval"), "{call:?}");
    assert_eq!((waiting(&bank), bank.paid()), (vec![], vec![]));
}
