//! Full disks; torn, foreign, older and huge journals.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::{Bank, failure};
use crate::client::{Output, finish};

/// Runs a script with files of at most so many blocks of 512 bytes.
fn limited(bank: &Bank, blocks: usize, args: &[&str], code: &str) -> Output {
    let command = bank.fence.script(args, "javascript", code);
    let mut limited = std::process::Command::new("sh");
    bank.fence.enclose(&mut limited);
    let script = format!("ulimit -f {blocks}; exec \"$@\"");
    limited.arg("-c").arg(script).arg("sh").arg(command.get_program()).args(command.get_args());
    finish(limited.current_dir(bank.fence.work()), "")
}

const CODE: &str = "for (const n of [1, 2, 3, 4, 5, 6, 7, 8]) await bank.pay({n}); return 'ok'";

#[test]
fn a_full_disk_stops_the_next_call_and_loses_none() {
    // A disk that is full behind a call and before its answer leaves that one unknown. Where it is full depends on the length
    // of the script, so one of several ends elsewhere.
    let is_stopped = |padding: usize| {
        let Some(bank) = Bank::new("[audit]\nto = \"off\"\n") else { return true };
        let code = format!("{CODE} // {}", "x".repeat(padding));
        // Less than the journal needs, each time a little more of it.
        let mut refused = 0;
        for blocks in 2..=16 {
            if refused == 2 {
                break;
            }
            let args = if refused == 0 { vec![] } else { vec!["--resume", "last"] };
            let output = limited(&bank, blocks, &args, &code);
            if output.stderr.contains("an answer is missing") {
                return false;
            }
            if output.code != Some(0) && output.stderr.contains("cannot be put into the journal") {
                refused += 1;
            }
        }
        assert_eq!(refused, 2);
        let output = finish(&mut bank.fence.script(&["--resume", "last"], "javascript", &code), "").success();
        assert_eq!(output.stdout.trim(), "\"ok\"");
        assert_eq!(bank.paid(), [1, 2, 3, 4, 5, 6, 7, 8]);
        true
    };
    assert!((0..8).any(|step| is_stopped(step * 64)), "each time an answer was lost");
}

#[test]
fn a_read_that_goes_out_without_its_line_keeps_its_request() {
    let mut kept = 0;
    // Of these lengths some leave room for an answer where there is none for a call.
    for step in 0..8 {
        let Some(bank) = Bank::new("[audit]\nto = \"off\"\n") else { return };
        let code = "for (let n = 0; n < 20; n++) await bank.list(); throw new Error('end')";
        let output = limited(&bank, 8, &["--json"], &format!("{code} // {}", "x".repeat(step * 64)));
        let (run, code, _) = failure(&output.object());
        assert_eq!(code, "SCRIPT_ERROR");
        let mut sent = Vec::new();
        for line in fs::read_to_string(bank.fence.journal(&run)).expect("a journal").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let answered = &line["answered"];
            if line["sent"]["ask"].is_object() {
                sent.push(line["sent"]["op"].clone());
            } else if answered.is_object() && !sent.contains(&answered["op"]) {
                assert_eq!(answered["ask"]["Tool"]["tool"], json!("list"), "{line}");
                kept += 1;
            }
        }
    }
    assert!(kept > 0, "no length left such room");
}

#[test]
fn what_is_not_the_journal_of_a_run_is_told_and_touched_no_further() {
    let Some(bank) = Bank::new("") else { return };
    let (run, ..) = failure(&bank.json(&[], "await bank.pay({n: 1}); throw new Error('end')"));
    let path = bank.fence.journal(&run);
    let whole = fs::read_to_string(&path).expect("a journal");
    let lines: Vec<&str> = whole.lines().collect();
    let other = whole.replacen("\"version\":2", "\"version\":0", 1);
    let swapped = format!("{}\n{}\n{}\n", lines[0], "{\"sent\":{}}", lines[2]);
    for (what, text, expected) in [
        ("older", other.as_str(), "has no first line of this version"),
        ("foreign", "not a journal\n", "has no first line of this version"),
        ("empty", "", "has no first line of this version"),
        ("damaged", &swapped, "is damaged in line 2"),
    ] {
        fs::write(&path, text).expect("writable");
        let output = bank.run(&["--resume", &run], "return await bank.pay({n: 1})");
        assert!(output.code != Some(0) && output.stderr.contains(expected), "{what}: {output:?}");
        assert_eq!((fs::read_to_string(&path).expect("a journal"), bank.paid()), (text.to_owned(), vec![1]), "{what}");
    }
    // It hides behind no older run, and can be removed.
    fs::write(&path, "").expect("writable");
    let listed = bank.fence.run(["runs", "list", "--json"]).object();
    assert_eq!(
        (&listed["runs"][0]["run"], &listed["runs"][0]["state"]),
        (&json!(run), &json!("damaged")),
        "{listed:#}"
    );
    let last = bank.run(&["--resume", "last"], "return await bank.pay({n: 1})");
    assert!(last.code != Some(0) && last.stderr.contains("look at what is done"), "{last:?}");
    bank.fence.run(["runs", "delete", &run]).success();
    assert!(!path.exists() && bank.paid() == [1]);
    for id in ["000000000000", "../../etc/passwd", "", "a", "LAST"] {
        let output = bank.run(&["--resume", id], "return 1");
        assert!(output.code == Some(1) && output.stderr.contains("there is no run"), "{id:?}: {output:?}");
    }
}

#[test]
fn a_journal_that_is_torn_anywhere_makes_no_call_twice() {
    let Some(bank) = Bank::new("") else { return };
    let code = "await bank.pay({n: 1}); throw new Error('end')";
    let (run, ..) = failure(&bank.json(&[], code));
    let path = bank.fence.journal(&run);
    let whole = fs::read(&path).expect("a journal");
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let next = path.with_extension("next");
    // Behind the first line, the call, the answer; within each, and at the last byte of each.
    for (cut, expected) in [
        (ends[0], "SCRIPT_ERROR"),
        (ends[0] + 9, "SCRIPT_ERROR"),
        (ends[1] - 1, "SCRIPT_ERROR"),
        (ends[1], "MAYBE_DONE"),
        (ends[1] + 20, "MAYBE_DONE"),
        (ends[2] - 1, "MAYBE_DONE"),
        (ends[2], "SCRIPT_ERROR"),
        (ends[3] - 1, "SCRIPT_ERROR"),
    ] {
        let _ = fs::remove_file(&next);
        fs::write(&path, &whole[..cut]).expect("writable");
        let before = bank.paid().len();
        let (_, code, message) = failure(&bank.json(&["--resume", &run], code));
        let is_lost = cut < ends[1];
        assert_eq!((&*code, bank.paid().len() - before), (expected, usize::from(is_lost)), "{cut}: {message}");
    }
}

#[test]
fn a_journal_of_a_hundred_thousand_calls_is_resumed() {
    let Some(bank) = Bank::new("") else { return };
    let (run, ..) = failure(&bank.json(&[], "await bank.note({text: 'x'}); throw new Error('end')"));
    let path = bank.fence.journal(&run);
    let text = fs::read_to_string(&path).expect("a journal");
    let mut lines = text.lines();
    let mut long = format!("{}\n", lines.next().expect("a first line"));
    let (sent, answered) = (lines.next().expect("a call"), lines.next().expect("an answer"));
    let parse = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let (mut sent, mut answered) = (parse(sent), parse(answered));
    for op in 1..=100_000 {
        sent["sent"]["op"] = json!(op);
        answered["answered"]["op"] = json!(op);
        let _ = writeln!(long, "{sent}\n{answered}");
    }
    fs::write(&path, long).expect("writable");
    let code =
        "const all = []; for (let i = 0; i < 300; i++) all.push(await bank.note({text: 'x'})); return all.length";
    assert_eq!(bank.json(&["--resume", &run], code)["value"], json!(300));
    assert!(bank.paid().is_empty());
}

#[test]
fn a_chain_without_one_of_its_journals_names_it_and_what_is_lost() {
    let Some(bank) = Bank::new("") else { return };
    let pays = |count: u64| format!("for (let n = 1; n <= {count}; n++) await bank.pay({{n}}); throw new Error('end')");
    let fails = |args: &[&str], count| failure(&bank.json(args, &pays(count))).0;
    let first = fails(&[], 1);
    let second = fails(&["--resume", &first], 2);
    let third = fails(&["--resume", &first], 3);
    let chain = [first, second, third];
    for missing in &chain {
        let path = bank.fence.journal(missing);
        let away = bank.fence.work().join("away");
        fs::rename(&path, &away).expect("a journal");
        for named in chain.iter().filter(|run| *run != missing) {
            let output = bank.run(&["--resume", named], &pays(4));
            let said = format!("the journal of run {missing} in the same chain is gone");
            let lost = format!("the calls and answers of run {missing} are lost");
            assert!(output.code == Some(1) && output.stderr.contains(&said), "{missing}, {named}: {output:?}");
            assert!(output.stderr.contains(&lost), "{missing}, {named}: {output:?}");
        }
        fs::rename(&away, &path).expect("a journal");
    }
    assert_eq!(bank.paid(), [1, 2, 3]);
    fails(&["--resume", &chain[0]], 4);
    assert_eq!(bank.paid(), [1, 2, 3, 4]);
}

#[test]
fn runs_that_continue_each_other_are_followed_within_the_limit_of_a_chain() {
    let Some(bank) = Bank::new("") else { return };
    let fails = || failure(&bank.json(&[], "await bank.pay({n: 1}); throw new Error('end')")).0;
    let runs = [fails(), fails()];
    for (run, parent) in [(&runs[0], &runs[1]), (&runs[1], &runs[0])] {
        let path = bank.fence.journal(run);
        let text = fs::read_to_string(&path).expect("a journal");
        let begin = format!("\"run\":\"{run}\",");
        assert!(text.contains(&begin), "{text}");
        fs::write(&path, text.replacen(&begin, &format!("{begin}\"after\":[\"{parent}\"],"), 1)).expect("writable");
    }
    let output = bank.run(&["--resume", &runs[0]], "return 1");
    assert!(output.code != Some(0) && output.stderr.contains("runs in a chain"), "{output:?}");
}
