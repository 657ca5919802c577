//! A run is resumed by what belongs to it: an edit of its script, which uses what it recorded.

use std::process::Command;

use serde_json::{Value, json};

use super::{Bank, failure};

/// The script of the run; the script that resumes it; further arguments; words of the note or the error; payments of both.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [u64]);

const PAID: &str = "await bank.pay({n: 1}); throw new Error('end')";
const NO_EDIT: &str = "this script is no edit of that of run ";
const UNUSED: &str = "bank.pay is not called: this script has used none of the 1 recorded calls of run ";

const ROWS: &[Row] = &[
    (PAID, "await bank.pay({n: 1}); await bank.pay({n: 2}); return 0", "{}", ": 1 of 1 recorded calls used", &[1, 2]),
    (PAID, "const [r] = [await bank.pay({n: 1})]; return r", "{}", ": 1 of 1 recorded calls used", &[1]),
    // Reads tell nothing.
    (PAID, "await bank.list(); await bank.pay({n: 1}); return 0", "{}", ": 1 of 1 recorded calls used", &[1]),
    (PAID, "return (await bank.list()).length && (await bank.pay({n: 1}))", "{}", ": 1 of 1", &[1]),
    // The same tool, and another payment.
    (PAID, "await bank.pay({n: 2}); return 0", "{}", UNUSED, &[1]),
    (PAID, "await bank.list(); await bank.pay({n: 2}); await bank.pay({n: 1})", "{}", UNUSED, &[1]),
    (PAID, "const pay = bank['pa' + 'y']; await pay({n: 2}); return 0", "{}", UNUSED, &[1]),
    (
        PAID,
        "try { await bank.pay({n: 2}) } catch {} await bank.pay({n: 1}); await bank.pay({n: 3})",
        "{}",
        "1 of 1",
        &[1, 3],
    ),
    (PAID, "const { pay } = bank; await pay({n: 2}); return 0", r#"{"fresh": ["bank.pay"]}"#, ": 0 of 1", &[1, 2]),
    (PAID, "await bank.pay({n: 2}); return 0", r#"{"dry_run": true}"#, ": 0 of 1 recorded calls used", &[1]),
    // Another script, even where a call of it is recorded.
    (PAID, "await post.note({text: 'x'}); return 0", "{}", NO_EDIT, &[1]),
    (
        "await bank.list(); await bank.note({text: 'a'}); await bank.pay({n: 1}); throw new Error('end')",
        "await bank.list(); await post.note({text: 'b'}); await post.pay({n: 2}); await post.list(); return 0",
        "{}",
        NO_EDIT,
        &[1],
    ),
    // A run that made no call has nothing that could be joined wrongly.
    ("throw new Error('end')", "await bank.pay({n: 2}); return 0", "{}", ": 0 of 0 recorded calls used", &[2]),
];

#[tokio::test]
async fn what_does_not_belong_to_a_run_is_told_before_it_writes() {
    let Some(bank) = Bank::new("") else { return };
    let config = std::fs::read_to_string(bank.fence.work().join("forge.toml")).expect("a configuration");
    let session = bank.fence.serve(&config).await;
    session.ready(&["bank", "post"]).await;
    let resume = async |code: &str, said: &Value| {
        let mut arguments = json!({"resume": "last", "language": "javascript", "code": code});
        let said = said.as_object().expect("arguments").clone();
        arguments.as_object_mut().expect("arguments").extend(said);
        session.call("execute", arguments).await.text
    };
    for (first, then, said, words, paid) in ROWS {
        let before = bank.paid().len();
        session.execute_err("javascript", first).await;
        let text = resume(then, &serde_json::from_str(said).expect("JSON")).await;
        assert!(text.contains(words), "{then}: {text}");
        assert_eq!(bank.paid()[before..], **paid, "{then}: {text}");
        // Neither is it let in by asking again, with its script or without.
        if [NO_EDIT, UNUSED].contains(words) {
            assert!(text.contains("APPROVAL_DENIED") && text.contains("run it without `resume`"), "{then}: {text}");
            let again = resume(then, &json!({})).await;
            assert!(again.contains(words), "{then}: {again}");
            if *words == UNUSED {
                let again = session.call("execute", json!({"resume": "last"})).await.text;
                assert!(again.contains(UNUSED), "{then}: {again}");
            }
            assert_eq!(bank.paid()[before..], **paid, "{then}");
            // What belongs goes on as if they had not been.
            let rest = resume("await bank.list(); await bank.pay({n: 1}); return 'ok'", &json!({})).await;
            assert!(rest.starts_with("\"ok\"") || rest.starts_with("ok"), "{then}: {rest}");
            assert_eq!(bank.paid()[before..], **paid, "{then}: {rest}");
        }
    }
    session.close().await;
}

#[test]
fn the_operator_says_that_a_script_goes_on_with_a_run() {
    let Some(bank) = Bank::new("") else { return };
    for then in ["await bank.pay({n: 2}); return 0", "await post.pay({n: 2}); return 0"] {
        bank.json(&[], PAID);
        let answer = bank.json(&["--yes", "--resume", "last"], then);
        assert!(answer["notes"].to_string().contains(": 0 of 1 recorded calls used"), "{then}: {answer}");
    }
    assert_eq!(bank.paid(), [1, 2, 1]);
}

#[test]
fn a_run_that_could_not_be_checked_leaves_the_one_that_it_was_to_resume() {
    let Some(bank) = Bank::new("") else { return };
    let (run, ..) = failure(&bank.json(&[], PAID));
    let (named, code, _) = failure(&bank.json(&["--resume", &run], "await bank.pay({n: 1}"));
    assert_eq!((&*named, &*code), (&*run, "SYNTAX_ERROR"));
    let (next, code, _) = failure(&bank.json(&["--resume", &named], "throw new Error('before any call')"));
    assert!(next != run && code == "SCRIPT_ERROR", "{next} {code}");
    assert_eq!(bank.json(&["--resume", &next], "return (await bank.pay({n: 1})).paid")["value"], json!(1));
    assert_eq!(bank.paid(), [1]);
}

#[tokio::test]
async fn an_agent_is_told_what_it_continues_and_refused_what_does_not_belong() {
    let Some(bank) = Bank::new("") else { return };
    let config = std::fs::read_to_string(bank.fence.work().join("forge.toml")).expect("a configuration");
    let session = bank.fence.serve(&config).await;
    session.ready(&["bank", "post"]).await;
    session.execute_err("javascript", PAID).await;
    let execute = async |code: &str| {
        session.call("execute", json!({"resume": "last", "language": "javascript", "code": code})).await
    };
    let refused = execute("await bank.pay({n: 2})").await;
    assert!(
        refused.is_error && refused.text.contains("APPROVAL_DENIED") && refused.text.contains(UNUSED),
        "{refused:?}"
    );
    let other = execute("await post.pay({n: 2})").await;
    assert!(other.is_error && other.text.contains(NO_EDIT), "{other:?}");
    let rest = execute("await bank.pay({n: 1}); await bank.pay({n: 2}); return 'ok'").await;
    assert!(!rest.is_error && rest.text.contains("note: continues "), "{rest:?}");
    assert!(rest.text.contains(": 1 of 1 recorded calls used"), "{rest:?}");
    assert_eq!(bank.paid(), [1, 2]);
    session.close().await;
}

#[test]
fn on_a_terminal_it_is_asked_about() {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        crate::real::skipped("there is no `script` to make a terminal with");
        return;
    }
    for (words, then) in [(UNUSED, "await bank.pay({n: 2}); return 0"), (NO_EDIT, "await post.pay({n: 2}); return 0")] {
        for (answer, is_run) in [("n", false), ("", false), ("y", true)] {
            let Some(bank) = Bank::new("") else { return };
            bank.json(&[], PAID);
            let command = bank.fence.script(&["--resume", "last"], "javascript", then);
            let quoted = |arg: &std::ffi::OsStr| format!("'{}'", arg.to_string_lossy());
            let line: Vec<String> = [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
            let mut script = Command::new("script");
            script.args(["-qec", &line.join(" "), "/dev/null"]).current_dir(bank.fence.work());
            bank.fence.enclose(&mut script);
            let shown = crate::client::finish(&mut script, &format!("{answer}\n"));
            assert!(shown.stdout.contains(words) && shown.stdout.contains("[y/N]"), "{then} {answer}: {shown:?}");
            let went_on = shown.stdout.contains("0 of 1 recorded calls used");
            assert_eq!(
                (went_on, shown.code == Some(0)),
                (is_run || words == UNUSED, is_run),
                "{then} {answer}: {shown:?}"
            );
        }
    }
}

#[test]
fn equal_numbers_are_one_argument_to_a_run_and_its_replay() {
    let Some(bank) = Bank::new("") else { return };
    // Lines of the ledger, whose numbers may be floats.
    let lines = || std::fs::read_to_string(bank.fence.work().join("ledger")).unwrap_or_default();
    let star = "bank.pay(n = 10 / 2)\nbank.pay(n = 7)\nfail(\"end\")";
    let mut command = bank.fence.script(&["--json"], "starlark", star);
    let (run, ..) = failure(&crate::client::finish(&mut command, "").object());
    assert_eq!(lines(), "5.0\n7\n");
    let js = "await bank.pay({n: 5}); await bank.pay({n: 7.0}); return 'ok'";
    bank.fence.write("replayed.js", js);
    let replay = bank.fence.run(["replay", &run, "--code", "replayed.js", "--json"]).object();
    assert_eq!((&replay["parted"], &replay["operations"]), (&Value::Null, &json!(2)), "{replay}");
    let answer = bank.json(&["--resume", &run], js);
    assert_eq!((&answer["value"], lines()), (&json!("ok"), "5.0\n7\n".to_owned()), "{answer}");
    // The journal of an earlier version has the digest of the number as it was written.
    let journal = bank.fence.journal(&run);
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let (new, old) = (stubgen::digest(r#"{"n":5}"#), stubgen::digest(r#"{"n":5.0}"#));
    assert!(text.contains(&new) && !text.contains(&old));
    std::fs::write(&journal, text.replace(&new, &old)).expect("writable");
    let mut command = bank.fence.script(&["--resume", "last", "--json"], "starlark", star);
    let output = crate::client::finish(&mut command, "");
    assert_eq!(lines(), "5.0\n7\n", "{output:?}");
}
