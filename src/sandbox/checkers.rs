//! Checkers: confined processes that parse scripts and never run any.
//!
//! One that parsed a hostile script may be in its author's hands. What it says is judged by [`Script::new`], and whatever
//! it does wrong costs the script that it was given, after a fresh process was asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wire::{Check, Facts, Language, Outline, ScriptError, ScriptErrorKind, TOO_DEEP};

use super::Failure;
use super::process::{Spec, Worker};
use super::script::{self, Script};
use super::warm::Warm;
use crate::error::{Error, ErrorCode};
use crate::limits;

/// Checkers kept warm.
const SPARE: usize = 1;
/// What Rust's runtime says before it aborts a thread that recursed too deeply.
const OVERFLOW: &str = "has overflowed its stack";

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
    /// Starlark is parsed again where it runs: without a checker it runs unseen.
    pub(super) async fn check(&self, language: Language, script: &str, max_bytes: usize) -> Result<Script, Failure> {
        match (self.parse(language, script, max_bytes).await, language) {
            (Err(failure), Language::Starlark) if !matches!(failure, Failure::Script(_)) => {
                tracing::debug!(?failure, "Starlark runs unseen");
                Script::starlark(script, Outline::default()).map_err(|why| Failure::Protocol(why.to_owned()))
            }
            (parsed, _) => parsed,
        }
    }

    async fn parse(&self, language: Language, script: &str, max_bytes: usize) -> Result<Script, Failure> {
        let limit = Duration::from_secs(limits::PARSING.max as u64);
        let Ok(_place) = tokio::time::timeout(limit, self.places.acquire()).await else {
            return Err(not_parsed(ErrorCode::Busy, &format!("no checker became free within {limit:?}")));
        };
        let code = match language {
            Language::Javascript => script::without_marks(script),
            Language::Starlark => script.into(),
        };
        let worker = self.warm.take_in_turn().await.map_err(Failure::NotRun)?;
        let is_fresh = worker.uses == 0;
        let mut answer = self.ask(worker, language, &code, max_bytes, limit).await;
        if let Err(failure) = &answer
            && !is_fresh
        {
            // One that had parsed other scripts may have failed for theirs.
            tracing::debug!(?failure, "a checker failed; a fresh one is asked");
            let worker = self.warm.start_anew().await.map_err(Failure::NotRun)?;
            answer = self.ask(worker, language, &code, max_bytes, limit).await;
        }
        let judged = answer.map_err(|failure| explained(failure, &code))?;
        judged.map_err(Failure::Script)
    }

    /// What one checker says of a script. One that fails is ended.
    async fn ask(
        &self,
        worker: Worker,
        language: Language,
        code: &str,
        max_bytes: usize,
        limit: Duration,
    ) -> Result<Result<Script, Box<ScriptError>>, Failure> {
        let check =
            Check { check: 0, language, code: code.to_owned(), max_bytes, max_levels: limits::SCRIPT_NESTING.max };
        let work = async |worker: &mut Worker| {
            let answer = worker.check(check, limit).await?;
            judge(answer, language, code, max_bytes)
        };
        let killed = &self.warm.counters.killed;
        self.warm.work(worker, work, |answer| answer.is_err().then_some(killed)).await
    }
}

/// The script or its error, as far as it can be true.
fn judge(
    answer: Result<Facts, ScriptError>,
    language: Language,
    code: &str,
    max_bytes: usize,
) -> Result<Result<Script, Box<ScriptError>>, Failure> {
    match answer {
        Ok(facts) => {
            let script = match language {
                Language::Javascript => Script::new(code, facts, max_bytes),
                Language::Starlark => Script::starlark(code, facts.outline),
            };
            script.map(Ok).map_err(|why| Failure::Protocol(why.to_owned()))
        }
        Err(error) if error.kind == ScriptErrorKind::Syntax => Ok(Err(script::bounded(&error, code))),
        Err(error) => Err(Failure::Protocol(format!("an error of kind {:?}", error.kind))),
    }
}

/// What a failure of the checker says of the script.
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
