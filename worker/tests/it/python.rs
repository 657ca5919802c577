//! `tests/python.txt`: ordinary Python scripts, as models write them for work with tools.
//!
//! A case is `### name` and its script. `#> JSON` is the value of the script; `#! text` is a part of its one error
//! instead, and `#? text` the fix. A fix says ``write `new` for `old` ``: the script with that replaced has the value.
//! Single letters, `key` and `…` in it stand for any text. `#= ` begins a line of the script as it is by hand, where
//! the fix is of several lines.

use std::collections::BTreeMap;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use wire::{Language, ScriptError};

use crate::gateway::{Engine, LIMITS, Worker};

struct Case {
    name: String,
    script: String,
    by_hand: String,
    value: Value,
    /// Parts of the message, and the fix.
    error: Option<(String, String)>,
}

pub(crate) fn trials() -> Vec<Trial> {
    let cases = cases();
    let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name.clone()).collect();
    let (all, unchanged) = (cases.len(), cases.iter().filter(|case| case.error.is_none()).count());
    let mut trials: Vec<_> =
        cases.into_iter().map(|case| Trial::test(format!("python::{}", case.name), move || check(&case))).collect();
    trials.push(Trial::test("python_scripts_run_unchanged", move || {
        let is_wanted = all >= 60 && unchanged >= 45 && names.len() == all;
        is_wanted.then_some(()).ok_or_else(|| format!("{unchanged} of {all} run unchanged").into())
    }));
    trials.push(Trial::test("formats_and_sums_are_bounded", bounded));
    trials
}

fn bounded() -> Result<(), Failed> {
    let nested = format!("{}1{}", "f\"{".repeat(300), "}\"".repeat(300));
    let fields = format!("len(f\"{}\")", "{1:>5}".repeat(5000));
    let mut worker = Worker::start(Engine { name: "starlark", language: Language::Starlark, args: &[] });
    for (script, wanted) in [
        ("f\"{1:>1000000000}\"", "unknown format"),
        ("f\"{1:>100000000}\"", "over the heap limit"),
        ("f\"{1.5:.99999999f}\"", "over the limit of 1100"),
        ("format(1, \"9\" * 100000)", "unknown format"),
        ("f\"{2 * 10:>{10 * 10000000}}\"", "over the heap limit"),
        ("sum([[0] * 1000000] * 100, [])", "64 MiB of memory"),
        ("sum([\"x\" * 1000000] * 100, \"\")", "64 MiB of memory"),
        ("x = 0\nwhile True:\n    x += 1", "CPU"),
        ("x = \"a\"\nwhile x is not None:\n    x = x + x", "64 MiB of memory"),
        ("max(range(100000000))", "over the limit"),
        (&nested, "nested too deeply"),
        (&fields, "25000"),
        ("\"%100000000d\" % 1", "over the heap limit"),
        ("\"%1000000000d\" % 1", "unknown format"),
        ("\"%5\" % 5", "incomplete format"),
        ("\"%.2000d\" % 5", "over the limit of 1100"),
        ("\"{!x}\".format(1)", "unknown conversion `!x`"),
        ("len((\"%1000000d\" * 100) % tuple([1] * 100))", "over the heap limit"),
        ("x = \"{:>1000000}\" * 100\nx.format(*([1] * 100))", "over the heap limit"),
        ("len(\"{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}\".format(\"x\" * 6000000))", "over the heap limit"),
        ("\"{:>100000000}\".format(1)", "over the heap limit"),
        ("\"{:.99999999f}\".format(1.5)", "over the limit of 1100"),
        ("round(1.5, 2000000000) + round(1e308, -2000000000)", "1.5"),
        ("len(json.dumps([1], indent = 4000000000))", "13"),
    ] {
        let done = worker.run(script, LIMITS).done.result;
        let got = done.map_or_else(|error| error.message, |value| value.get().to_owned());
        if !got.contains(wanted) {
            return Err(format!("{}: wanted {wanted}, got {got}", &script[..script.len().min(60)]).into());
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python.txt");
    let text = std::fs::read_to_string(file).expect("cases");
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            cases.push(Case {
                name: name.to_owned(),
                script: String::new(),
                by_hand: String::new(),
                value: Value::Null,
                error: None,
            });
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(value) = line.strip_prefix("#> ") {
            case.value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        } else if let Some(message) = line.strip_prefix("#! ") {
            case.error = Some((message.to_owned(), String::new()));
        } else if let Some(fix) = line.strip_prefix("#? ") {
            case.error.as_mut().expect("an error before its fix").1 = fix.to_owned();
        } else if let Some(line) = line.strip_prefix("#= ") {
            case.by_hand.push_str(&format!("{line}\n"));
        } else {
            case.script.push_str(&format!("{line}\n"));
        }
    }
    cases
}

fn run(script: &str) -> Result<Value, Box<ScriptError>> {
    let mut worker = Worker::start(Engine { name: "starlark", language: Language::Starlark, args: &[] });
    let json = worker.run(script, LIMITS).done.result?;
    Ok(serde_json::from_str(json.get()).expect("JSON"))
}

fn check(case: &Case) -> Result<(), Failed> {
    let script = match (&case.error, run(&case.script)) {
        (None, Ok(value)) => return compare(&case.value, &value),
        (Some((message, fix)), Err(error)) if error.message.contains(message) && error.fix.as_ref() == Some(fix) => {
            if case.by_hand.is_empty() {
                replaced(&case.script, fix)
            } else {
                case.by_hand.clone()
            }
        }
        (_, outcome) => return Err(format!("{outcome:#?}").into()),
    };
    let value = run(&script).map_err(|error| format!("{error:#?}\nin {script}"))?;
    compare(&case.value, &value)
}

fn compare(wanted: &Value, got: &Value) -> Result<(), Failed> {
    if wanted == got { Ok(()) } else { Err(format!("wanted {wanted}\n   got {got}").into()) }
}

/// The script with what its fix says.
fn replaced(script: &str, fix: &str) -> String {
    let mut replaced = script.to_owned();
    let code: Vec<&str> = fix.split('`').collect();
    for index in (1..code.len().saturating_sub(2)).step_by(2).filter(|index| code[index + 1] == " for ") {
        let (new, old) = (parts(code[index]), parts(code[index + 2]));
        let mut at = 0;
        while let Some((start, end, names)) = (at..replaced.len())
            .find_map(|start| Some((start, fits(&old, &replaced, start)?)).map(|(s, (e, n))| (s, e, n)))
        {
            let text: String =
                new.iter().map(|part| names.get(part).cloned().unwrap_or_else(|| part.clone())).collect();
            replaced.replace_range(start..end, &text);
            at = start + text.len();
        }
    }
    assert_ne!(replaced, script, "nothing fits {fix}");
    replaced
}

/// Words, and what stands between them.
fn parts(template: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for c in template.chars() {
        match parts.last_mut() {
            Some(last) if last.ends_with(is_word) && is_word(c) => last.push(c),
            _ => parts.push(c.to_string()),
        }
    }
    parts
}

/// The end of what fits the template from `start` on, and what its names stand for.
fn fits(template: &[String], script: &str, start: usize) -> Option<(usize, BTreeMap<String, String>)> {
    fn go(template: &[String], script: &str, at: usize, names: &mut BTreeMap<String, String>) -> Option<usize> {
        let Some((part, rest)) = template.split_first() else { return Some(at) };
        let text = script.get(at..)?;
        let is_name = part == "…" || part == "key" || part.len() == 1 && part.chars().all(char::is_alphabetic);
        if let Some(known) = names.get(part).cloned().or_else(|| (!is_name).then(|| part.clone())) {
            return text.starts_with(&known).then(|| go(rest, script, at + known.len(), names)).flatten();
        }
        let longest = text.find('\n').unwrap_or(text.len());
        for length in usize::from(part != "…")..=longest {
            // The last name is all that is left.
            let length = if rest.is_empty() { longest - length + usize::from(part != "…") } else { length };
            let Some(value) = text.get(..length).filter(|value| is_balanced(value)) else { continue };
            names.insert(part.clone(), value.to_owned());
            if let Some(end) = go(rest, script, at + length, names) {
                return Some(end);
            }
            names.remove(part);
        }
        None
    }
    let is_begin = script.get(..start)?.chars().last().is_none_or(|c| !(c.is_alphanumeric() || ".])_".contains(c)));
    let mut names = BTreeMap::new();
    let end = go(template, script, start, &mut names).filter(|_| is_begin)?;
    let first = names.get(template.first()?).map_or("", String::as_str);
    (!first.contains(" = ") && !first.starts_with(' ') && !first.contains(" if ")).then_some((end, names))
}

fn is_balanced(text: &str) -> bool {
    let count = |c: char| text.matches(c).count();
    count('(') == count(')') && count('[') == count(']') && count('{') == count('}') && count('"').is_multiple_of(2)
}
