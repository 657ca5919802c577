//! The compromised checker: what it says of a script is whatever the script tells it to say.

use std::io::{Write as _, stderr, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use forgefs::base::error::ErrorCode;
use forgefs::run::session::Session;
use forgefs::server::gateway::Gateway;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use wire::{
    Args, Checked, Facts, FromWorker, Known, Language, Outline, Ready, ScriptError, ScriptErrorKind, Site, Stripped,
    Target, ToWorker, ValueOf, read_frame,
};

use crate::Verdict::{Fails, Value};
use crate::leaks::children;
use crate::rogue::{confine, done, exit, frame, hang, send, write};
use crate::{CONFIG, Verdict, eventually, gateway, in_runtime, is_taken_as, misbehaves, run};

const BROKE: ErrorCode = ErrorCode::Internal;
const CRASHED: ErrorCode = ErrorCode::LimitExceeded;
const SYNTAX: ErrorCode = ErrorCode::SyntaxError;

#[rustfmt::skip]
const BEHAVIOURS: &[(&str, Verdict)] = &[
    ("value_beyond_the_end", Fails(BROKE, "the value is not in the code")),
    ("function_backwards", Fails(BROKE, "the function is not in the code")),
    ("map_beyond_the_code", Fails(BROKE, "a place of the source map is not in the code")),
    ("map_backwards", Fails(BROKE, "the source map is not in order")),
    ("more_code_than_allowed", Fails(BROKE, "the code is larger than was asked for")),
    ("largest_map", Fails(BROKE, "the source map is not in order")),
    ("more_calls_than_a_script_has", Fails(BROKE, "the outline has more than a script can have")),
    ("a_literal_that_is_not_there", Fails(BROKE, "the outline is larger than the script allows")),
    // A script of its author may be refused: nothing more.
    ("a_mistake_that_is_not_there", Fails(ErrorCode::ServerNotFound, "there is no server `nobody`")),
    ("another_check", Fails(BROKE, "no answer to this check")),
    ("ready_again", Fails(BROKE, "no answer to this check")),
    ("done", Fails(BROKE, "no answer to this check")),
    ("not_json", Fails(BROKE, "not a message")),
    ("gigabyte_frame", Fails(BROKE, "1073741824 bytes is over the limit")),
    ("error_of_another_kind", Fails(BROKE, "an error of kind Internal")),
    ("error_beyond_everything", Fails(SYNTAX, "mmm")),
    ("dies", Fails(CRASHED, "the script could not be parsed: the parser ended (exit status: 7)")),
    ("aborts", Fails(CRASHED, "the script could not be parsed: the parser ended (signal: 6")),
    ("says_that_it_overflowed", Fails(SYNTAX, "nested too deeply")),
    ("hangs", Fails(CRASHED, "the script could not be parsed: it takes more than 10s")),
    // What it does after it answered is met by the next script, which a fresh checker is asked about.
    ("talks_on", Value("\"honest\"")),
    ("forgets_itself", Value("\"honest\"")),
];

pub(crate) fn trials() -> Vec<Trial> {
    let behaviour = |(name, verdict): &(&'static str, Verdict)| {
        let (name, verdict) = (*name, *verdict);
        Trial::test(format!("checker::{name}"), move || in_runtime(misbehaves(Language::Javascript, name, verdict)))
    };
    let mut trials: Vec<Trial> = BEHAVIOURS.iter().map(behaviour).collect();
    trials.push(Trial::test("checker::honest", || {
        in_runtime(misbehaves(Language::Javascript, "honest", Value("\"honest\"")))
    }));
    if cfg!(target_os = "linux") {
        trials.push(Trial::test("checker::is_killed", || in_runtime(is_killed())));
        trials.push(Trial::test("checker::is_given_up", || in_runtime(is_given_up())));
    }
    trials
}

/// The process. It never runs anything.
pub(crate) fn live() -> ExitCode {
    send(&FromWorker::Ready(Ready { protocol: wire::PROTOCOL, engines: Vec::new(), confinement: confine() }));
    let mut is_forgetful = false;
    loop {
        match read_frame::<ToWorker>(&mut stdin().lock()) {
            Ok(Some(ToWorker::Check(_))) if is_forgetful => write(b"\x05\0\0\0hello"),
            Ok(Some(ToWorker::Check(check))) => {
                is_forgetful = check.code == "forgets_itself";
                misbehave(&check.code, check.check);
            }
            Ok(Some(ToWorker::Ping(number))) => send(&FromWorker::Pong(number)),
            _ => return ExitCode::SUCCESS,
        }
    }
}

fn misbehave(behaviour: &str, check: u64) {
    let answer = |check, result| send(&FromWorker::Checked(Box::new(Checked { check, result })));
    let facts = |stripped, value| answer(check, Ok(Facts { stripped, value, ..Facts::default() }));
    let map = |map: Vec<[u32; 4]>| facts(Some(Stripped { code: "x".to_owned(), map }), ValueOf::Return);
    let outline = |calls| {
        answer(check, Ok(Facts { outline: Outline { calls, ..Outline::default() }, ..Facts::default() }));
    };
    match behaviour {
        "value_beyond_the_end" => facts(None, ValueOf::Last(u32::MAX)),
        "function_backwards" => facts(None, ValueOf::Function(5, 1)),
        "map_beyond_the_code" => map(vec![[0, 0, 0, 0], [1, 0, 0, 0]]),
        "map_backwards" => map(vec![[0, 1, 0, 0], [0, 0, 0, 0]]),
        "more_code_than_allowed" => {
            facts(Some(Stripped { code: "x".repeat(1 << 20), map: Vec::new() }), ValueOf::Return);
        }
        "largest_map" => largest_map(check),
        "more_calls_than_a_script_has" => outline(vec![site("{}"); 501]),
        "a_literal_that_is_not_there" => outline(vec![site(&"[".repeat(1 << 20))]),
        "a_mistake_that_is_not_there" => outline(vec![site("{\"no\": 1}")]),
        "another_check" => answer(check + 1, Ok(Facts::default())),
        "ready_again" => {
            send(&FromWorker::Ready(Ready { protocol: wire::PROTOCOL, engines: Vec::new(), confinement: Vec::new() }));
        }
        "done" => done(check, json!(1)),
        "not_json" => write(b"\x05\0\0\0hello"),
        "gigabyte_frame" => write(&(1_u32 << 30).to_le_bytes()),
        "error_of_another_kind" => answer(check, Err(error(ScriptErrorKind::Internal))),
        "error_beyond_everything" => answer(check, Err(error(ScriptErrorKind::Syntax))),
        "dies" => exit(7),
        "aborts" => std::process::abort(),
        "says_that_it_overflowed" => {
            let _ = stderr().write_all(b"thread 'checker' has overflowed its stack\n");
            std::process::abort();
        }
        "hangs" => hang(),
        "talks_on" => {
            answer(check, Ok(Facts::default()));
            (0..100).for_each(|ahead| answer(check + ahead, Ok(Facts { value: ValueOf::Last(0), ..Facts::default() })));
        }
        _ => answer(check, Ok(Facts::default())),
    }
}

/// Made of text: to write it value by value takes seconds of those that the check has.
fn largest_map(check: u64) {
    let stripped = Some(Stripped { code: "x".to_owned(), map: vec![[0, 0, 0, 9]] });
    let result = Ok(Facts { stripped, value: ValueOf::Return, ..Facts::default() });
    let answer = json!(FromWorker::Checked(Box::new(Checked { check, result }))).to_string();
    frame(answer.replace("[0,0,0,9]", &vec!["[0,0,0,9]"; 3_000_000].join(",")).as_bytes());
}

/// A call of a tool that is not there.
fn site(literal: &str) -> Site {
    Site {
        at: (u32::MAX, u32::MAX),
        target: Target::Tool("nobody".to_owned(), "none".to_owned()),
        args: Args::Named(vec![("a".to_owned(), Known::Json(literal.to_owned()))], false),
        is_certain: true,
        repeats: false,
        answered: Some(1),
        reads: Vec::new(),
    }
}

/// An error with everything too large.
fn error(kind: ScriptErrorKind) -> ScriptError {
    ScriptError {
        kind,
        message: "m".repeat(5 << 20),
        line: u32::MAX,
        column: u32::MAX,
        trace: vec!["t".repeat(100_000); 100],
        call: Some(u64::MAX),
        error: None,
        fix: None,
    }
}

/// The checkers that this process has started.
fn checkers() -> Vec<u32> {
    let is_checker = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|arg| arg == b"--check")
    };
    children(std::process::id()).into_iter().filter(is_checker).collect()
}

fn hanging() -> Result<(Gateway, Arc<Session>), Failed> {
    gateway(CONFIG, std::env::current_exe()?, &["rogue", "honest_start"])
}

/// Killed in the middle of a script, it costs that script.
async fn is_killed() -> Result<(), Failed> {
    let (gateway, session) = hanging()?;
    let killer = async {
        if eventually(Duration::from_secs(5), || !checkers().is_empty()).await {
            tokio::time::sleep(Duration::from_millis(300)).await;
            for id in checkers() {
                kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGKILL)?;
            }
        }
        Ok::<_, Failed>(())
    };
    let verdict = Fails(CRASHED, "the script could not be parsed: the parser ended (signal: 9 (SIGKILL))");
    let (execution, killed) = tokio::join!(run(&gateway, &session, Language::Javascript, "hangs", verdict), killer);
    killed?;
    is_taken_as(&execution, verdict)?;
    let honest = Value("\"honest\"");
    is_taken_as(&run(&gateway, &session, Language::Javascript, "honest", honest).await, honest)
}

/// Who asked goes away: the checker that hangs is killed, and the next script does not wait for it.
async fn is_given_up() -> Result<(), Failed> {
    let (gateway, session) = hanging()?;
    let honest = Value("\"honest\"");
    let mut hung = Vec::new();
    let running = run(&gateway, &session, Language::Javascript, "hangs", honest);
    let watched = async {
        eventually(Duration::from_secs(5), || !checkers().is_empty()).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        hung = checkers();
    };
    tokio::select! {
        execution = running => return Err(format!("it ended by itself: {:?}", execution.error).into()),
        () = watched => {}
    }
    is_taken_as(&run(&gateway, &session, Language::Javascript, "honest", honest).await, honest)?;
    match eventually(Duration::from_secs(5), || hung.iter().all(|id| !checkers().contains(id))).await {
        true if !hung.is_empty() => Ok(()),
        _ => Err(format!("{hung:?} hung, {:?} are left", checkers()).into()),
    }
}
