//! `tests/scenarios/<name>.{js,star,json}`: the same work in both languages gives one transcript on every engine.
//!
//! The `.json` is the expected transcript: `calls` (the operations, in order), `output` (lines, with `!` before those
//! on the error stream), and `result` or `error`: its `kind`, a part of its `message`, its `code` if a call is the
//! cause, and its `line` in either language. A scenario without a `.js` or a `.star` is for the other language alone.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use wire::{Language, Stream};

use crate::gateway::{Engine, LIMITS, Transcript, Worker, engines};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines() {
        for (name, script) in scripts(engine) {
            let expectation = script.with_extension("json");
            trials.push(Trial::test(format!("scenario::{name}::{}", engine.name), move || {
                check(engine, &script, &expectation)
            }));
        }
    }
    trials
}

/// Scenarios for the language of an engine, in order: name and script.
pub(crate) fn scripts(engine: Engine) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let files = std::fs::read_dir(folder).expect("scenarios").map(|entry| entry.expect("entry").path());
    let is_script = |path: &PathBuf| path.extension().is_some_and(|found| found == extension(engine));
    let name = |path: PathBuf| (path.file_stem().expect("name").to_string_lossy().into_owned(), path);
    let mut scripts: Vec<_> = files.filter(is_script).map(name).collect();
    scripts.sort();
    scripts
}

fn extension(engine: Engine) -> &'static str {
    match engine.language {
        Language::Javascript => "js",
        Language::Starlark => "star",
    }
}

fn check(engine: Engine, script: &PathBuf, expectation: &PathBuf) -> Result<(), Failed> {
    let body = std::fs::read_to_string(script)?;
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(expectation)?)?;
    let mut worker = Worker::start(engine);
    let transcript = worker.run(&body, LIMITS);
    compare(&expected, &transcript, engine)?;
    // After any script, the worker works like new.
    let again = worker.run(if engine.language == Language::Starlark { "1 + 1" } else { "return 1 + 1" }, LIMITS);
    match again.done.result {
        Ok(value) if value.get() == "2" => Ok(()),
        other => Err(format!("the next run: {other:?}").into()),
    }
}

fn compare(expected: &Value, transcript: &Transcript, engine: Engine) -> Result<(), Failed> {
    let mut actual = json!({ "calls": transcript.calls, "output": output(transcript) });
    match &transcript.done.result {
        Ok(value) => actual["result"] = serde_json::from_str(value.get())?,
        Err(error) => actual["error"] = serde_json::to_value(error)?,
    }
    for (key, empty) in [("calls", json!([])), ("output", json!([])), ("result", Value::Null)] {
        let want = expected.get(key).unwrap_or(&empty);
        let got = actual.get(key).unwrap_or(&empty);
        if want != got {
            return Err(format!("{key}: expected {want}\n     got {got}\nin {actual:#}").into());
        }
    }
    compare_error(expected.get("error"), actual.get("error"), engine)
        .map_err(|reason| format!("{reason}\nin {actual:#}").into())
}

fn compare_error(expected: Option<&Value>, actual: Option<&Value>, engine: Engine) -> Result<(), String> {
    let (want, got) = match (expected, actual) {
        (None, None) => return Ok(()),
        (Some(want), Some(got)) => (want, got),
        (want, got) => return Err(format!("error: expected {want:?}, got {got:?}")),
    };
    let message = got["message"].as_str().unwrap_or_default();
    if want["kind"] != got["kind"] || !message.contains(want["message"].as_str().unwrap_or_default()) {
        return Err(format!("error: expected {want}, got {got}"));
    }
    if want["code"] != got["error"]["code"] {
        return Err(format!("code: expected {}, got {}", want["code"], got["error"]["code"]));
    }
    // The gateway's wrapper is line 1 of JavaScript.
    let shift = i64::from(engine.language == Language::Javascript);
    match want["line"][extension(engine)].as_i64() {
        Some(line) if got["line"].as_i64() != Some(line + shift) => {
            Err(format!("line: expected {line}, got {} less {shift}", got["line"]))
        }
        _ => Ok(()),
    }
}

fn output(transcript: &Transcript) -> Vec<String> {
    let line = |(stream, text): &(Stream, String)| match stream {
        Stream::Out => text.clone(),
        Stream::Err => format!("!{text}"),
        Stream::Progress => format!("%{text}"),
    };
    transcript.output.iter().map(line).collect()
}
