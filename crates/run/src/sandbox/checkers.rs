//! Checkers: confined processes that parse scripts and never run any.
//!
//! One that parsed a hostile script may be in its author's hands. What it says is judged by [`Script::new`], and whatever
//! it does wrong costs the script that it was given, after a fresh process was asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wire::{Check, Facts, Language, Parts, ScriptError, ScriptErrorKind, Signature, TOO_DEEP};

use super::Failure;
use super::metrics::Counter;
use super::process::{Spec, Worker};
use super::script::{self, Script};
use super::signature;
use super::warm::Warm;
use base::error::{Error, ErrorCode};
use base::limits;

/// Checkers kept warm.
const SPARE: usize = 1;
/// Message of Rust's runtime before it aborts a thread that recursed too deeply.
const OVERFLOW: &str = "has overflowed its stack";

/// One question to a checker.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) language: Language,
    pub(super) max_bytes: usize,
    pub(super) signature: bool,
    pub(super) parts: bool,
}

/// A script, with its signature and its parts where they were asked for.
pub(super) type Parsed = (Script, Option<Signature>, Option<Box<Parts>>);

/// The checkers of one gateway.
pub(super) struct Checkers {
    pub(super) warm: Arc<Warm>,
    places: Semaphore,
}

impl Checkers {
    /// Checkers for as many scripts at once.
    pub(super) fn new(spec: Spec, at_once: usize) -> Self {
        Self { warm: Warm::new(spec, SPARE, at_once), places: Semaphore::new(at_once) }
    }

    /// Parses a script. Dropping the future kills the checker that is at it.
    ///
    /// # Errors
    /// The script's first syntax error, or why it was not parsed.
    pub(super) async fn parse(&self, asked: Asked, script: &str) -> Result<Parsed, Failure> {
        script::measure(script, asked.max_bytes).map_err(Failure::Script)?;
        let limit = Duration::from_secs(limits::PARSING.max as u64);
        let Ok(_place) = tokio::time::timeout(limit, self.places.acquire()).await else {
            return Err(not_parsed(ErrorCode::Busy, &format!("no checker became free within {limit:?}")));
        };
        let code = script::without_marks(asked.language, script);
        let worker = self.warm.take_in_turn().await.map_err(Failure::NotRun)?;
        let is_fresh = worker.uses == 0;
        let mut answer = self.ask(worker, asked, &code, limit).await;
        if let Err(failure) = &answer
            && !is_fresh
        {
            // One that had parsed other scripts may have failed for theirs.
            tracing::debug!(?failure, "a checker failed; a fresh one is asked");
            let worker = self.warm.start_anew().await.map_err(Failure::NotRun)?;
            answer = self.ask(worker, asked, &code, limit).await;
        }
        let judged = answer.map_err(|failure| explained(failure, &code))?;
        judged.map_err(Failure::Script)
    }

    /// One checker's answer about a script. A checker that fails is ended.
    async fn ask(
        &self,
        worker: Worker,
        asked: Asked,
        code: &str,
        limit: Duration,
    ) -> Result<Result<Parsed, Box<ScriptError>>, Failure> {
        let check = Check {
            check: 0,
            language: asked.language,
            code: code.to_owned(),
            max_bytes: asked.max_bytes,
            max_levels: limits::SCRIPT_NESTING.max,
            signature: asked.signature,
            parts: asked.parts,
        };
        let work = async |worker: &mut Worker| {
            let answer = worker.check(check, limit).await?;
            judge(answer, asked, code)
        };
        let unfit = |answer: &Result<_, _>| answer.is_err().then_some::<Counter>(|all| &mut all.killed);
        self.warm.work(worker, work, unfit).await
    }
}

/// The script or its error, as far as it can be true.
fn judge(
    answer: Result<Facts, ScriptError>,
    asked: Asked,
    code: &str,
) -> Result<Result<Parsed, Box<ScriptError>>, Failure> {
    let broken = |why: &str| Failure::Protocol(why.to_owned());
    match answer {
        Ok(mut facts) => {
            let signature = facts.signature.take().filter(|_| asked.signature);
            let parts = facts.parts.take().filter(|_| asked.parts);
            facts.outline.numbers = wire::numbers::shown(code, &facts.numbers);
            if let Some(signature) = &signature {
                signature::judge(signature).map_err(broken)?;
                if asked.language == Language::Javascript && !facts.value.is_function() {
                    return Err(broken("a signature of a script that is no function"));
                }
            }
            let script = match asked.language {
                Language::Javascript => Script::new(code, facts, asked.max_bytes),
                Language::Starlark => Script::starlark(code, facts.outline),
            };
            script.map(|script| Ok((script, signature, parts))).map_err(broken)
        }
        Err(error) if error.kind == ScriptErrorKind::Syntax => Ok(Err(script::bounded(&error, code))),
        Err(error) => Err(Failure::Protocol(format!("an error of kind {:?}", error.kind))),
    }
}

/// Error of a script whose checker failed.
fn explained(failure: Failure, code: &str) -> Failure {
    match failure {
        Failure::Crashed(how) if how.contains(OVERFLOW) => {
            Failure::Script(script::syntax(TOO_DEEP.to_owned(), script::deepest_line(code), 1))
        }
        Failure::Crashed(how) => not_parsed(ErrorCode::LimitExceeded, &format!("the parser ended ({how})")),
        Failure::Timeout(limit) => not_parsed(ErrorCode::LimitExceeded, &format!("it takes more than {limit:?}")),
        Failure::Protocol(what) => not_parsed(ErrorCode::Internal, &format!("the checker broke the protocol: {what}")),
        other => other,
    }
}

fn not_parsed(code: ErrorCode, why: &str) -> Failure {
    let error = Error::new(code, format!("the script could not be parsed: {why}"));
    Failure::NotRun(match code {
        ErrorCode::LimitExceeded => error.hint("make the script shorter, or nest less"),
        _ => error,
    })
}
