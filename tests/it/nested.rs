//! Scripts that are tools: what they may do when scripts, requests and clients call them.

mod attacks;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use super::client::finish;
use super::journal::Bank;

/// A bank with a folder of scripts.
struct Shelf {
    bank: Bank,
}

impl Shelf {
    /// With more of the configuration, and the scripts locked; `None`, visibly, without Python.
    fn new(scripts: &[(&str, &str)], more: &str) -> Option<Self> {
        let bank = Bank::new(&format!("[scripts]\npath = \"scripts\"\n{more}"))?;
        let shelf = Self { bank };
        for (name, code) in scripts {
            shelf.write(name, code);
        }
        shelf.lock();
        Some(shelf)
    }

    fn write(&self, name: &str, code: &str) {
        self.bank.fence.write(format!("scripts/{name}"), code);
    }

    fn lock(&self) {
        self.bank.fence.run(["scripts", "lock"]).success();
    }

    /// Value of a script, or the code and message of its error.
    fn run(&self, code: &str) -> Result<Value, (String, String)> {
        let answer = self.bank.json(&[], code);
        match answer["ok"] == json!(true) {
            true => Ok(answer["value"].clone()),
            false => Err(error_of(&answer)),
        }
    }
}

fn error_of(answer: &Value) -> (String, String) {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/error/code"), text("/error/message"))
}

const PAY_ALL: &str = "/** Pays numbers.\n * @param {{numbers: number[]}} input\n * @returns {Promise<{paid: number}>}\n */\n\
    export default async function ({ numbers }) {\n  for (const n of numbers) await bank.pay({ n });\n  return { paid: numbers.length };\n}\n";
const LIST_STAR: &str = "def main(least: int = 0) -> list[int]:\n    \"\"\"Payments of at least a number.\"\"\"\n    return [n for n in bank.list() if n >= least]\n";

#[test]
fn a_script_is_a_tool_of_other_scripts_of_requests_and_of_the_catalog() {
    let scripts = [("pay_all.js", PAY_ALL), ("reports/listed.star", LIST_STAR)];
    let Some(shelf) = Shelf::new(&scripts, "") else { return };
    let fence = &shelf.bank.fence;
    let code = "const { paid } = await scripts.pay_all({ numbers: [1, 2, 3] });\n\
                return [paid, await scripts.reports_listed({ least: 2 })];";
    let answer = shelf.bank.json(&[], code);
    assert_eq!(answer["value"], json!([3, [2, 3]]), "{answer}");
    let calls = answer["calls"].as_array().expect("calls");
    let from: Vec<(&str, &str)> = calls
        .iter()
        .map(|call| (call["tool"].as_str().unwrap_or_default(), call["from"].as_str().unwrap_or_default()))
        .collect();
    let pay = ("pay", "scripts.pay_all");
    assert_eq!(from, [("pay_all", ""), pay, pay, pay, ("reports_listed", ""), ("list_", "scripts.reports_listed")]);
    let called = fence.run(["call", "scripts", "pay_all", r#"{"numbers": [4]}"#]).success();
    assert_eq!(called.stdout.trim(), r#"{"paid":1}"#);
    assert_eq!(shelf.bank.paid(), [1, 2, 3, 4]);
    let listing = fence.run(["ls", "/scripts"]).success().stdout;
    assert!(listing.contains("pay_all") && listing.contains("reports"), "{listing}");
    let stub = fence.run(["cat", "/scripts/reports/reports_listed.pyi"]).success().stdout;
    assert!(stub.contains("least: int") && stub.contains("Payments of at least a number."), "{stub}");
    let found = fence.run(["search", "pays numbers"]).success().stdout;
    assert!(found.contains("/scripts/general/pay_all.pyi"), "{found}");
    let wrong = fence.run(["call", "scripts", "pay_all", r#"{"numbers": "all"}"#]);
    assert!(wrong.stderr.contains("`numbers`: \"all\" is not of type array"), "{wrong:?}");
}

#[test]
fn a_failed_script_names_its_place_and_a_resumed_run_repeats_none_of_its_calls() {
    let half = "export default async function ({ stop }: { stop: number }): Promise<string> {\n  \
                for (const n of [1, 2, 3, 4]) {\n    if (n === stop) throw new Error(`stopped at ${n}`);\n    \
                await bank.pay({ n });\n  }\n  return `all, ${Math.random()}`;\n}\n";
    let Some(shelf) = Shelf::new(&[("half.ts", half)], "") else { return };
    let answer = shelf.bank.json(&[], "return await scripts.half({ stop: 3 })");
    let (code, message) = error_of(&answer);
    assert_eq!(code, "SCRIPT_ERROR", "{answer}");
    assert!(message.contains("scripts.half failed at line 3") && message.contains("stopped at 3"), "{message}");
    assert_eq!(shelf.bank.paid(), [1, 2]);
    let run = answer["resume"].as_str().expect("a run to resume").to_owned();
    let resumed = shelf.bank.json(&["--resume", &run], "return await scripts.half({ stop: 9 })");
    assert!(resumed["value"].as_str().is_some_and(|value| value.starts_with("all")), "{resumed}");
    assert_eq!(shelf.bank.paid(), [1, 2, 3, 4]);
    // Offline, the answer of the script is on record as that of any tool.
    let replayed = shelf.bank.fence.run(["replay", "last"]).success();
    assert_eq!(replayed.stdout.trim(), "same 1 operation, value and output");
}

#[test]
fn what_differs_from_its_lock_is_quarantined_until_it_is_reviewed() {
    let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], "") else { return };
    let call = "return await scripts.pay_all({ numbers: [1] })";
    shelf.run(call).expect("it is as reviewed");
    let refused = |why: &str| {
        let (code, message) = shelf.run(call).expect_err("it is quarantined");
        assert_eq!(code, "TOOL_DENIED", "{message}");
        assert!(message.contains(why), "{message}");
    };
    shelf.write("pay_all.js", &PAY_ALL.replace("length", "length + 1"));
    refused("the text differs from its lock");
    let listing = shelf.bank.fence.run(["cat", "/scripts/pay_all.pyi"]).success().stdout;
    assert!(listing.contains("QUARANTINED") && !listing.contains("numbers"), "{listing}");
    shelf.lock();
    assert_eq!(shelf.run(call), Ok(json!({ "paid": 2 })));
    shelf.bank.tell("about", "Now twice.");
    refused("bank.pay, which it calls, has another definition");
    shelf.lock();
    shelf.run(call).expect("it was reviewed again");
    shelf.bank.fence.write("scripts/later.js", PAY_ALL);
    let (code, message) = shelf.run("return await scripts.later({ numbers: [1] })").expect_err("it was never reviewed");
    assert_eq!((&*code, message.contains("it is not locked")), ("TOOL_DENIED", true), "{message}");
}

#[test]
fn scripts_call_scripts_within_bounds() {
    let chain = |to: &str| {
        format!(
            "export default async function ({{ n }}: {{ n: number }}): Promise<unknown> {{ return await scripts.{to}({{ n }}); }}\n"
        )
    };
    let last = "export default async function ({ n }: { n: number }): Promise<number> { return n + 1; }\n";
    let names = ["a", "b", "c", "d", "e"];
    let files: Vec<(String, String)> = names
        .iter()
        .enumerate()
        .map(|(at, name)| (format!("{name}.ts"), names.get(at + 1).map_or_else(|| last.to_owned(), |next| chain(next))))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, code)| (&**name, &**code)).collect();
    let Some(shelf) = Shelf::new(&files, "") else { return };
    assert_eq!(shelf.run("return await scripts.b({ n: 1 })"), Ok(json!(2)));
    let (code, message) = shelf.run("return await scripts.a({ n: 1 })").expect_err("it is too deep");
    assert_eq!(code, "LIMIT_EXCEEDED", "{message}");
    assert!(message.contains("a → b → c → d → e"), "{message}");
    let both = "return await Promise.all([1, 2, 3].map((n) => scripts.b({ n })))";
    assert_eq!(shelf.run(both), Ok(json!([2, 3, 4])));
}

#[test]
fn a_clean_result_carries_no_label_and_only_a_lock_makes_it_clean() {
    let count = "export default async function (): Promise<number> { return (await bank.list()).length; }\n";
    let fails = "export default async function (): Promise<number> { throw new Error(`${await bank.list()}`); }\n";
    let rules = "[[flows]]\nfrom = \"bank\"\nto = \"post\"\naction = \"deny\"\n";
    let clean = "[scripts.tools.count]\nreturns = \"clean\"\n[scripts.tools.fails]\nreturns = \"clean\"\n";
    let files = [("count.ts", count), ("fails.ts", fails)];
    let Some(shelf) = Shelf::new(&files, &format!("{clean}{rules}")) else { return };
    let tell = "const n = await scripts.count({}); return await post.note({ text: `${n}` })";
    let answer = shelf.bank.json(&[], tell);
    assert_eq!(answer["value"], json!("0"), "{answer}");
    assert_eq!(answer["calls"][0]["cleaned"], json!(["bank"]), "{answer}");
    let direct = "const all = await bank.list(); return await post.note({ text: `${all}` })";
    let (code, _) = shelf.run(direct).expect_err("it is data of the bank");
    assert_eq!(code, "GROUP_POLICY_DENIED");
    let error =
        "let text; try { await scripts.fails({}) } catch (e) { text = e.message }\nreturn await post.note({ text })";
    let (code, _) = shelf.run(error).expect_err("an error is not what was reviewed");
    assert_eq!(code, "GROUP_POLICY_DENIED");
    shelf.bank.configure(&format!("[scripts]\npath = \"scripts\"\n{rules}"));
    let (code, _) = shelf.run(tell).expect_err("its result is not declared clean");
    assert_eq!(code, "GROUP_POLICY_DENIED");
    shelf.bank.configure(&format!("[scripts]\npath = \"scripts\"\nunlocked = true\n{clean}{rules}"));
    std::fs::remove_file(shelf.bank.fence.work().join("scripts.lock")).expect("there is a lock");
    let (code, _) = shelf.run(tell).expect_err("no lock declares it clean");
    assert_eq!(code, "GROUP_POLICY_DENIED");
}

#[test]
fn a_reviewed_script_asks_as_its_rights_say() {
    let asks = "[servers.bank.tools.pay]\napproval = \"always\"\n";
    for (approval, without, with) in [("each", "APPROVAL_DENIED", 3), ("once", "APPROVAL_DENIED", 3), ("never", "", 3)]
    {
        let rights = format!("[scripts.tools.pay_all]\napproval = \"{approval}\"\n{asks}");
        let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], &rights) else { return };
        let call = "return (await scripts.pay_all({ numbers: [1, 2, 3] })).paid";
        match shelf.run(call) {
            Ok(value) => assert_eq!((without, value), ("", json!(3)), "{approval}"),
            Err((code, message)) => assert_eq!(code, without, "{approval}: {message}"),
        }
        let answer = shelf.bank.json(&["--yes"], call);
        assert_eq!(answer["value"], json!(with), "{approval}: {answer}");
        let approved = |call: &Value| call["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("approved"));
        let calls = answer["calls"].as_array().expect("calls");
        let asked: Vec<&str> =
            calls.iter().filter(|call| approved(call)).filter_map(|call| call["tool"].as_str()).collect();
        let expected: &[&str] = match approval {
            "each" => &["pay", "pay", "pay"],
            "once" => &["pay_all"],
            _ => &[],
        };
        assert_eq!(asked, expected, "{approval}");
    }
}

#[test]
fn an_approval_that_a_script_waited_for_covers_one_call_of_each_run() {
    let asks = "[servers.bank.tools.pay]\napproval = \"always\"\n[approvals]\nwait = \"1h\"\n";
    let rights = format!("[scripts.tools.pay_all]\napproval = \"once\"\n{asks}");
    let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], &rights) else { return };
    let code = "await scripts.pay_all({ numbers: [1] });\nreturn await scripts.pay_all({ numbers: [1] })";
    let mut answer = shelf.bank.json(&[], code);
    let mut approvals = Vec::new();
    for paid in [&[][..], &[1]] {
        assert_eq!((error_of(&answer).0.as_str(), shelf.bank.paid()), ("APPROVAL_WAITS", paid.to_vec()), "{answer}");
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned();
        let (run, approval) = (text("/resume"), text("/waits/0/approval"));
        shelf.bank.fence.run(["approvals", "allow", &approval]).success();
        approvals.push(approval);
        answer = shelf.bank.json(&["--resume", &run], code);
    }
    assert_eq!((&answer["value"], shelf.bank.paid()), (&json!({"paid": 1}), vec![1, 1]), "{answer}");
    assert_ne!(approvals[0], approvals[1]);
}

#[test]
fn an_approval_of_a_script_that_cannot_start_is_given_back() {
    let asks = "[servers.bank.tools.pay]\napproval = \"always\"\n[approvals]\nwait = \"1h\"\n";
    let rights = format!("[scripts.tools.pay_all]\napproval = \"once\"\n{asks}");
    let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], &rights) else { return };
    let fence = &shelf.bank.fence;
    let (gone, copy) = (fence.work().join("gone"), fence.work().join("copy"));
    fs::copy(env!("CARGO_BIN_EXE_forgefs"), &copy).expect("a copy");
    // While the outer script runs, a hook takes the right to start a further worker.
    let hook = format!(
        "import json, os, sys\nfor line in sys.stdin:\n    os.path.exists({gone:?}) and os.chmod({copy:?}, 0)\n    \
         print(json.dumps({{'id': json.loads(line)['id'], 'decision': 'allow'}}), flush=True)"
    );
    let hook = format!("on = [\"call\"]\nservers = [\"bank\"]\ncommand = [\"python3\", \"-c\", {hook:?}]\n");
    let scripts = format!("[scripts]\npath = \"scripts\"\n{rights}");
    shelf.bank.configure(&format!("{scripts}[hooks.stops]\ntimeout = \"60s\"\n{hook}"));
    let run = |args: &[&str]| {
        let code = "await bank.list();\nreturn await scripts.pay_all({ numbers: [1] })";
        let command = fence.script(&[&["--json"], args].concat(), "javascript", code);
        let mut copied = Command::new(&copy);
        fence.enclose(&mut copied);
        finish(copied.args(command.get_args()).current_dir(fence.work()), "").object()
    };
    let parked = run(&[]);
    let text = |pointer: &str| parked.pointer(pointer).and_then(Value::as_str).expect("a text");
    let (id, approval) = (text("/resume"), text("/waits/0/approval"));
    fence.run(["approvals", "allow", approval]).success();
    fs::write(&gone, "").expect("written");
    let (code, message) = error_of(&run(&["--resume", id, "--fresh", "bank.list"]));
    assert!(code == "INTERNAL" && message.contains("does not start"), "{code}: {message}");
    let shown = fence.run(["approvals", "show", approval, "--json"]).object();
    assert_eq!(shown["approval"]["state"], json!("allowed"), "{shown}");
    fs::remove_file(&gone).and_then(|()| fs::set_permissions(&copy, fs::Permissions::from_mode(0o700))).expect("again");
    let answer = run(&["--resume", "last"]);
    assert_eq!((&answer["value"], shelf.bank.paid()), (&json!({"paid": 1}), vec![1]), "{answer}");
}

#[test]
fn content_of_a_clean_script_is_not_for_those_who_guess_its_handle() {
    let Some(offers) = super::relay::offers("odd") else { return };
    let count = "export default async function (): Promise<number> { await offers.mixed({}); return 1; }\n";
    let more = format!("[scripts.tools.count]\nreturns = \"clean\"\n{offers}");
    let Some(shelf) = Shelf::new(&[("count.ts", count)], &more) else { return };
    let guess = |before: &str| shelf.run(&format!("{before}; return await post.note({{ text: 'blob:1' }})"));
    assert_eq!(guess("await offers.mixed({})"), Ok(json!("aGVsbG8=")));
    let guessed = guess("await scripts.count({})");
    assert!(guessed != Ok(json!("aGVsbG8=")), "{guessed:?}");
}

#[test]
fn a_call_that_may_be_done_within_a_script_is_repeated_alone() {
    let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], "") else { return };
    let call = "(await scripts.pay_all({ numbers: [1, 2, 3, 4] })).paid";
    shelf.bank.tell("kill", "gateway-before 2");
    assert_ne!(shelf.bank.run(&[], &format!("return {call}")).code, Some(0));
    assert_eq!(shelf.bank.paid(), [1, 2]);
    let again =
        format!("try {{ return {call} }} catch (e) {{\n  if (e.code !== 'MAYBE_DONE') throw e;\n  return {call};\n}}");
    let answer = shelf.bank.json(&["--resume", "last"], &again);
    assert_eq!(answer["value"], json!(4), "{answer}");
    assert_eq!(shelf.bank.paid(), [1, 2, 3, 4]);
}

#[test]
fn calls_of_a_script_count_for_the_scripts_around_it() {
    let inner = "export default async function (): Promise<number> { return (await bank.list()).length; }\n";
    let outer =
        "export default async function (): Promise<number> { return await scripts.inner() + await scripts.inner(); }\n";
    let files = [("inner.ts", inner), ("outer.ts", outer)];
    let Some(shelf) = Shelf::new(&files, "[scripts.tools.outer]\ncalls = 3\n") else { return };
    let (code, message) = shelf.run("return await scripts.outer({})").expect_err("it makes four calls");
    assert!(message.contains("scripts.outer may make 3 calls"), "{code}: {message}");
}

#[test]
fn discovery_of_a_locked_script_is_not_its_runs() {
    let read = "export default async function ({ path }: { path: string }): Promise<unknown> { return await forge.cat(path); }\n";
    let Some(shelf) = Shelf::new(&[("read.ts", read)], "") else { return };
    assert!(shelf.run("return await scripts.read({ path: '/forge.pyi' })").is_ok());
    for path in ["/runs", "/runs/last", "runs/x", "//RUNS/x", "/results/1/1.json", "/r*/x", "/skills/../runs/x"] {
        let (code, message) =
            shelf.run(&format!("return await scripts.read({{ path: '{path}' }})")).expect_err("it is closed");
        assert_eq!(code, "TOOL_DENIED", "{path}: {message}");
    }
}

/// The stubs of a tool that is left to a script say so, wherever it is met.
#[test]
fn a_tool_that_is_left_to_scripts_is_seen_as_that() {
    let rule = "[servers.bank.tools.pay]\nonly_from = [\"scripts.pay_all\"]\n";
    let Some(shelf) = Shelf::new(&[("pay_all.js", PAY_ALL)], rule) else { return };
    let said = |words: &[&str]| shelf.bank.fence.run(words).success().stdout;
    for (words, says) in [
        (&["cat", "/bank/pay.pyi"][..], "# pay is callable only from scripts.pay_all\n# bank.pay"),
        (&["cat", "/bank/pay.d.ts"], "// pay is callable only from scripts.pay_all\n// bank.pay"),
        (&["cat", "/bank/pay.md"], "> Callable only from scripts.pay_all."),
        (&["cat", "/bank/__init__.pyi"], "# pay is callable only from scripts.pay_all\n"),
        (&["search", "pay"], "  only from scripts.pay_all"),
    ] {
        let text = said(words);
        assert!(text.contains(says), "{words:?}: {text}");
    }
    assert!(!said(&["cat", "/bank/list.pyi"]).contains("callable only"));
    // Refused before the run, by name and fix.
    let (code, message) = shelf.run("return await bank.pay({ n: 1 })").expect_err("refused");
    assert_eq!(
        (code.as_str(), message.contains("callable only from scripts.pay_all")),
        ("TOOL_DENIED", true),
        "{message}"
    );
}

#[test]
fn a_file_with_a_mistake_holds_itself_and_no_other_script() {
    let scripts = [("pay_all.js", PAY_ALL), ("reports/listed.star", LIST_STAR)];
    let Some(shelf) = Shelf::new(&scripts, "") else { return };
    let pay = "return await scripts.pay_all({ numbers: [1] })";
    let list = "return await scripts.reports_listed({})";
    for (name, code) in [("two words.js", "1"), ("old.mjs", "1"), ("reports/class.js", "1"), ("bad.js", "await (")] {
        shelf.write(name, code);
        assert_eq!(shelf.run(pay).expect(name), json!({"paid": 1}));
        shelf.run(list).expect(name);
    }
    let refused = shelf.bank.fence.run(["scripts", "check"]);
    let told =
        ["two words.js: \"two words\" is no identifier", "old.mjs: a script does not end", "class.js: \"class\" is"];
    assert!(refused.code == Some(2) && told.iter().all(|told| refused.stderr.contains(told)), "{refused:?}");
    // Of two with one name neither is what was reviewed.
    shelf.write("pay_all.ts", PAY_ALL);
    let (code, message) = shelf.run(pay).expect_err("two have this name");
    assert!(code == "TOOL_DENIED" && message.contains("has the same name as that of"), "{code}: {message}");
    shelf.run(list).expect("the other goes on");
    assert_eq!(shelf.bank.paid(), [1, 1, 1, 1]);
}
