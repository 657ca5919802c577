//! Journals of runs: what is written, and runs that are resumed from it.

mod belongs;
mod crashes;
mod damaged;
mod effects;
mod records;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::client::{Fence, Output};
use super::faulty::has_python;

/// A ledger's server, called `bank`, in a fence.
pub(super) struct Bank {
    pub(super) fence: Fence,
    ledger: PathBuf,
}

impl Bank {
    /// With more of a configuration; `None`, visibly, without Python.
    pub(super) fn new(more: &str) -> Option<Self> {
        let fence = has_python("tests/servers/ledger.py")?;
        let ledger = fence.work().join("ledger");
        let bank = Self { fence, ledger };
        bank.configure(more);
        Some(bank)
    }

    /// Writes its configuration, with more of it.
    pub(super) fn configure(&self, more: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/ledger.py");
        let server = |name: &str, file: &str| {
            let ledger = self.ledger.with_file_name(file);
            format!("[servers.{name}]\ncommand = \"python3\"\nargs = [{script:?}, {ledger:?}]\n")
        };
        self.fence.write("forge.toml", &format!("{}{}{more}", server("post", "post"), server("bank", "ledger")));
    }

    /// Numbers paid, in order.
    pub(super) fn paid(&self) -> Vec<u64> {
        let text = fs::read_to_string(&self.ledger).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a number")).collect()
    }

    /// Writes what its server reads beside the ledger.
    pub(super) fn tell(&self, extension: &str, text: &str) {
        fs::write(self.ledger.with_extension(extension), text).expect("the file can be written");
    }

    /// Runs a JavaScript to its end.
    pub(super) fn run(&self, args: &[&str], code: &str) -> Output {
        super::client::finish(&mut self.fence.script(args, "javascript", code), "")
    }

    /// Runs a JavaScript, and parses the object that `--json` prints.
    pub(super) fn json(&self, args: &[&str], code: &str) -> Value {
        self.run(&[&["--json"], args].concat(), code).object()
    }
}

/// Id for resuming, and the error's code and message.
fn failure(answer: &Value) -> (String, String, String) {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    assert_eq!(answer["ok"], json!(false), "{answer}");
    (text("/resume"), text("/error/code"), text("/error/message"))
}

fn verdicts(answer: &Value) -> Vec<String> {
    let calls = answer["calls"].as_array().expect("calls");
    calls.iter().map(|call| call["verdict"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_failed_run_is_resumed_after_an_edit_and_repeats_no_call() {
    let Some(bank) = Bank::new("") else { return };
    let broken = "for (const n of [1, 2, 3]) await bank.pay({n});\nthrow new Error('typo');";
    let (run, code, _) = failure(&bank.json(&[], broken));
    assert_eq!(code, "SCRIPT_ERROR");
    let edited = "const all = await Promise.all([1, 2, 3, 4].map(n => bank.pay({n})));\nreturn all.map(x => x.paid);";
    let answer = bank.json(&["--resume", &run], edited);
    assert_eq!(answer["value"], json!([1, 2, 3, 4]), "{answer}");
    assert_eq!(verdicts(&answer)[..3], vec![format!("answered by run {run}"); 3][..]);
    assert_eq!(bank.paid(), [1, 2, 3, 4]);
    // The chain goes on from its end, and has all of its calls; the n-th of a kind is the n-th of its kind.
    let again = bank.json(&["--resume", &run], "for (const n of [4, 3, 2, 1, 1]) await bank.pay({n}); return 'all'");
    assert_eq!((&again["value"], again.get("resume")), (&json!("all"), None), "{again}");
    assert_eq!(bank.paid(), [1, 2, 3, 4, 1]);
}

#[test]
fn a_resumed_run_has_the_script_of_its_run() {
    let Some(bank) = Bank::new("") else { return };
    let code =
        "await bank.pay({n: 1});\nif (!(await bank.list()).includes(7)) throw new Error('not yet');\nreturn 'ok'";
    let (run, ..) = failure(&bank.json(&[], code));
    // What was read is known too, until it is read again.
    let resume = |fresh: &[&str]| {
        let output = bank.fence.run([&["run", "--json", "--resume", "last"], fresh].concat());
        output.object()
    };
    bank.json(&[], "await bank.pay({n: 7}); return 0");
    let (_, code, message) = failure(&bank.json(&["--resume", &run], code));
    assert_eq!((&*code, &*message), ("SCRIPT_ERROR", "the script stopped itself: not yet"));
    let answer = resume(&["--fresh", "bank.list"]);
    assert_eq!(answer["value"], json!("ok"), "{answer}");
    assert_eq!(bank.paid(), [1, 7]);
}

#[test]
fn the_rules_of_now_decide_about_answers_of_then() {
    let Some(bank) = Bank::new("") else { return };
    let code = "await bank.pay({n: 1});\nawait post.note({text: 'x'});\nthrow new Error('end')";
    for (rules, expected) in [
        ("deny = [\"pay\"]\n", "TOOL_NOT_FOUND"),
        ("[[flows]]\nfrom = \"bank\"\nto = \"post\"\naction = \"deny\"\n", "GROUP_POLICY_DENIED"),
        (
            "[groups.a]\nservers = [\"bank\"]\nisolation = \"strict\"\n[groups.b]\nservers = [\"post\"]\nisolation = \"strict\"\n",
            "GROUP_POLICY_DENIED",
        ),
    ] {
        bank.configure("");
        let (run, first, _) = failure(&bank.json(&[], code));
        assert_eq!(first, "SCRIPT_ERROR");
        let paid = bank.paid().len();
        bank.configure(rules);
        let (_, code, message) = failure(&bank.json(&["--resume", &run], code));
        assert_eq!((&*code, bank.paid().len()), (expected, paid), "{rules}: {message}");
    }
}

#[test]
fn an_approved_call_is_asked_about_once() {
    let Some(bank) = Bank::new("approval = \"always\"\n") else { return };
    let (run, ..) = failure(&bank.json(&["--yes"], "await bank.pay({n: 1}); throw new Error('end')"));
    // Nobody can be asked: what was done needs no answer, what is new does.
    let (again, code, _) = failure(&bank.json(&["--resume", &run], "await bank.pay({n: 1}); await bank.pay({n: 2})"));
    assert_eq!((&*code, bank.paid()), ("APPROVAL_DENIED", vec![1]));
    let answer = bank.json(&["--yes", "--resume", &again], "await bank.pay({n: 1}); await bank.pay({n: 2}); return 2");
    assert_eq!((&answer["value"], bank.paid()), (&json!(2), vec![1, 2]), "{answer}");
}

#[test]
fn answers_of_then_cost_nothing() {
    let budgets = "cost = 1\n[budgets]\nrun = 2\n[sandbox.limits]\ncalls = 3\n";
    let Some(bank) = Bank::new(budgets) else { return };
    let code = "for (const n of [1, 2, 3, 4, 5]) await bank.pay({n}); return 'ok'";
    let (run, first, _) = failure(&bank.json(&[], code));
    assert_eq!((&*first, bank.paid().len()), ("BUDGET_EXCEEDED", 2));
    let (_, second, _) = failure(&bank.json(&["--resume", &run], code));
    assert_eq!((&*second, bank.paid().len()), ("BUDGET_EXCEEDED", 4));
    assert_eq!(bank.json(&["--resume", &run], code)["value"], json!("ok"));
    assert_eq!(bank.paid(), [1, 2, 3, 4, 5]);
}

#[test]
fn the_limit_of_calls_tells_how_many_the_run_itself_made() {
    let Some(bank) = Bank::new("[sandbox.limits]\ncalls = 3\n") else { return };
    let pays =
        |count| format!("let n = 0; while (n < {count}) {{ n += 1; await bank.pay({{n}}); }} throw new Error('end')");
    let (run, ..) = failure(&bank.json(&[], &pays(2)));
    let (_, code, message) = failure(&bank.json(&["--resume", &run], &pays(9)));
    let told =
        "a run may make 3 calls of tools, resources and prompts; this one has made 3, earlier runs answered 2 more";
    assert_eq!((&*code, &*message, bank.paid().len()), ("BUDGET_EXCEEDED", told, 5));
}

#[test]
fn a_call_that_may_be_done_is_told_and_left_to_the_script() {
    let Some(bank) = Bank::new("") else { return };
    bank.tell("kill", "server-done 1");
    let code = "await bank.pay({n: 1}); await bank.pay({n: 2}); return 'ok'";
    let (run, first, _) = failure(&bank.json(&[], code));
    assert_eq!((&*first, bank.paid()), ("TRANSPORT_DEAD", vec![1, 2]));
    let (_, second, message) = failure(&bank.json(&["--resume", &run], code));
    assert_eq!(second, "MAYBE_DONE", "{message}");
    assert!(message.contains(&format!("was sent with these arguments by run {run} at 2")), "{message}");
    let decide = "await bank.pay({n: 1});\ntry { await bank.pay({n: 2}) } catch (e) { if (e.code !== 'MAYBE_DONE') throw e }\nawait bank.pay({n: 2});\nreturn 'twice'";
    assert_eq!(bank.json(&["--resume", &run], decide)["value"], json!("twice"));
    assert_eq!(bank.paid(), [1, 2, 2]);
}

#[test]
fn an_error_that_may_come_from_behind_the_work_leaves_it_unknown() {
    let code = "return (await bank.pay({n: 1})).paid";
    for (mode, first, second, paid) in [
        ("-32001", "UPSTREAM_ERROR", "MAYBE_DONE", 1),
        ("-32603", "UPSTREAM_ERROR", "MAYBE_DONE", 1),
        ("refuse", "TOOL_ERROR", "", 1),
    ] {
        let Some(bank) = Bank::new("") else { return };
        // It is listed before it fails.
        bank.json(&[], "return await bank.list()");
        bank.tell("mode", mode);
        let (run, failed, message) = failure(&bank.json(&[], code));
        assert_eq!(failed, first, "{mode}: {message}");
        fs::remove_file(bank.ledger.with_extension("mode")).expect("a mode");
        let again = bank.json(&["--resume", &run], code);
        let told = again.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        assert_eq!((told, bank.paid().len()), (second, paid), "{mode}: {again}");
    }
}

#[test]
fn a_call_made_again_in_vain_leaves_the_answer_of_then() {
    let Some(bank) = Bank::new("") else { return };
    let (run, ..) = failure(&bank.json(&[], "await bank.pay({n: 1}); throw new Error('end')"));
    bank.tell("mode", "refuse");
    let code = "return (await bank.pay({n: 1})).paid";
    let (again, told, _) = failure(&bank.json(&["--resume", &run, "--fresh", "bank.pay"], code));
    assert_eq!(told, "TOOL_ERROR");
    fs::remove_file(bank.ledger.with_extension("mode")).expect("a mode");
    assert_eq!(bank.json(&["--resume", &again], code)["value"], json!(1));
    assert_eq!(bank.paid(), [1]);
}

#[test]
fn values_configured_since_are_kept_from_answers_of_then() {
    let Some(bank) = Bank::new("") else { return };
    let note = "const x = await bank.note({text: 'hunter2-supersecretvalue'});";
    let (run, ..) = failure(&bank.json(&[], &format!("{note} throw new Error('end')")));
    bank.configure(
        "[servers.other]\ncommand = \"true\"\nenabled = true\nenv = { TOKEN = \"hunter2-supersecretvalue\" }\n",
    );
    let answer = bank.json(&["--resume", &run], &format!("{note} return [...x].reverse().join('')"));
    assert!(answer["value"].as_str().is_some_and(|value| value.contains("detcader")), "{answer}");
}

#[test]
fn an_answer_under_another_definition_is_none() {
    let Some(bank) = Bank::new("") else { return };
    let code = "const a = await bank.pay({n: 1}); throw new Error('end')";
    let (run, ..) = failure(&bank.json(&[], code));
    let said = |answer: &Value| {
        let (_, code, message) = failure(answer);
        assert_eq!((&*code, bank.paid()), ("MAYBE_DONE", vec![1]), "{message}");
        message
    };
    bank.configure("env = { ACCOUNT = \"other\" }\n");
    said(&bank.json(&["--resume", &run], code));
    bank.configure("");
    bank.tell("about", " And now something else.");
    let message = said(&bank.json(&["--resume", &run], code));
    assert!(message.contains("its definition, or the settings of its server, have changed since"), "{message}");
}

#[test]
fn a_run_is_continued_once() {
    let Some(bank) = Bank::new("") else { return };
    let code = "await bank.pay({n: 1}); await bank.pay({n: 2}); throw new Error('end')";
    let (run, ..) = failure(&bank.json(&[], code));
    bank.tell("slow", "0.7");
    let more = "await bank.pay({n: 1}); await bank.pay({n: 3}); return 'ok'";
    // Each writes the file that all of them read.
    let commands = [(); 3].map(|()| bank.fence.script(&["--json", "--resume", &run], "javascript", more));
    let spawn = |mut command| std::thread::spawn(move || super::client::finish(&mut command, ""));
    let outputs: Vec<Output> = commands.map(spawn).map(|run| run.join().expect("no panic")).into();
    let done = outputs.iter().filter(|output| output.code == Some(0)).count();
    let busy = outputs
        .iter()
        .filter(|output| {
            format!("{output:?}").contains("still running") || format!("{output:?}").contains("is being resumed")
        })
        .count();
    // One that came after the end of the first continues it, and finds everything done.
    assert!(done >= 1 && done + busy == 3, "{outputs:?}");
    assert_eq!(bank.paid(), [1, 2, 3], "{outputs:?}");
}

#[test]
fn clock_chance_and_waits_of_then_are_those_of_a_resumed_run() {
    let Some(bank) = Bank::new("") else { return };
    let code = "await new Promise(done => setTimeout(done, 1500));\nconst n = Math.floor(Math.random() * 1e9);\n\
                await bank.pay({n});\nawait bank.note({text: new Date().toISOString() + Math.random()});\n";
    let (run, ..) = failure(&bank.json(&[], &format!("{code}throw new Error('end')")));
    let answer = bank.json(&["--resume", &run], &format!("{code}return 'ok'"));
    assert_eq!((&answer["value"], bank.paid().len()), (&json!("ok"), 1), "{answer}");
    assert_eq!(verdicts(&answer), vec![format!("answered by run {run}"); 2]);
    // It waits no second time.
    assert!(answer["stats"]["ms"].as_f64().expect("a time") < 1500.0, "{answer}");
}

#[test]
fn without_journals_nothing_is_resumed_or_kept() {
    let Some(bank) = Bank::new("[journal]\non = false\n") else { return };
    let answer = bank.json(&[], "await bank.pay({n: 1}); throw new Error('end')");
    assert_eq!(failure(&answer).0, "", "{answer}");
    let output = bank.run(&["--resume", "last"], "return 1");
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("journals are off"), "{}", output.stderr);
}

#[test]
fn a_dry_run_continues_nothing_and_shows_what_is_left() {
    let Some(bank) = Bank::new("") else { return };
    let (run, ..) = failure(&bank.json(&[], "await bank.pay({n: 1}); throw new Error('end')"));
    let rest = "await bank.pay({n: 1}); await bank.pay({n: 2}); return 'ok'";
    let answer = bank.json(&["--resume", &run, "--dry-run"], rest);
    assert_eq!(answer["value"], json!("ok"));
    assert_eq!(verdicts(&answer), [format!("answered by run {run}"), "allowed".to_owned()]);
    assert_eq!(answer.pointer("/calls/1/outcome"), Some(&json!("planned")), "{answer}");
    assert_eq!(bank.json(&["--resume", &run], rest)["value"], json!("ok"));
    assert_eq!(bank.paid(), [1, 2]);
}
