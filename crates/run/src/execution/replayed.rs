//! Runs a script on a record of another run.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wire::{Json, Language, Limits, Run};

use super::{Failed, Verdict};
use crate::broker::{Broker, ExecutionContext};
use crate::replay::{Expected, Matching, Player, Tape, bounded};
use crate::sandbox::{Failure, Report};
use base::error::{Result, code_name};
use base::outcome::Outcome;
use redact::Surface;
use state::journal::{Head, Recorded};

/// Silence after which a script that waits has parted, beside the CPU time that it may take.
const STALL: Duration = Duration::from_secs(10);

/// Silence after which a script with these limits has parted.
pub fn stall(limits: &Limits) -> Duration {
    STALL + Duration::from_millis(limits.cpu_ms)
}

/// Most that a configuration may set.
const MOST: Limits = Limits {
    cpu_ms: 600_000,
    heap_bytes: 4 << 30,
    output_bytes: 16 << 20,
    result_bytes: (wire::MAX_FRAME / 2) as u64,
    calls: 1_000_000,
};

/// Limits of a recorded run.
pub(super) fn limits_of(head: &Head) -> Limits {
    bounded(head.limits, MOST)
}

/// A script on the record that begins so: its frame, with the code as it was written.
pub(super) fn again(head: &Head, language: Language, code: String) -> Run {
    let (servers, limits, seed) = (head.servers.clone(), limits_of(head), Sha256::digest(&head.seed).into());
    Run { run: 0, language, code, servers, limits, seed, now_ms: head.now_ms, args: None }
}

/// Result of a script on a record.
#[derive(Debug)]
pub struct Played {
    /// Its value or failure; `None` where it parted from the record and was stopped.
    pub result: Option<std::result::Result<Json, Failed>>,
    /// Captured output.
    pub output: String,
    /// Engine that ran it.
    pub engine: Option<String>,
}

impl Played {
    /// The result as a cassette has it.
    pub fn expected(&self) -> Expected {
        let (outcome, value, error) = match &self.result {
            Some(Ok(value)) => (Outcome::Ok.name().into_owned(), serde_json::from_str(value.get()).ok(), None),
            Some(Err(failed)) => (code_name(failed.code), None, Some(failed.summary())),
            None => (String::new(), None, None),
        };
        let engine = self.engine.as_ref().filter(|_| error.is_some());
        let engine = engine.map(|engine| engine.split(' ').next().unwrap_or_default().to_owned());
        Expected { outcome, value, error, engine, output: self.output.lines().map(str::to_owned).collect() }
    }

    /// The failure in one line.
    pub fn error(&self) -> Option<String> {
        self.result.as_ref()?.as_ref().err().map(Failed::summary)
    }
}

impl ExecutionContext {
    /// Runs the script of a record again on its answers, or another in its place, and compares what comes of it.
    ///
    /// # Errors
    /// As [`ExecutionContext::replay`]; `INVALID_ARGS` when a request of the record cannot be read.
    pub async fn play(self, mut recorded: Recorded, other: Option<(Language, String)>) -> Result<(Played, Verdict)> {
        let (is_cut, operations, end) = (recorded.is_cut(), recorded.operations.len(), recorded.end.take());
        let is_other = other.is_some();
        let (language, code) = other.unwrap_or_else(|| (recorded.head.language, recorded.head.code.clone()));
        let script = again(&recorded.head, language, code);
        // Scripts see all but configured values.
        let matching = if is_other { Matching::Kind(Surface::Script) } else { Matching::Exact };
        let player = Player::new(Tape { is_cut, ..Tape::of(recorded)? }, matching, stall(&script.limits));
        let played = self.replay(script, &player).await?;
        let verdict = match is_other {
            true => played.tried(&player, operations),
            false => played.verdict(player.parting(), end.as_ref(), is_cut, operations),
        };
        Ok((played, verdict))
    }

    /// Runs a script, given as its frame with the code as it was written: every request is answered by `player`, and
    /// nothing is called.
    ///
    /// # Errors
    /// When nothing ran.
    pub async fn replay(self, mut script: Run, player: &Player) -> Result<Played> {
        let context = Arc::new(self);
        // It describes failures, and is asked nothing.
        let broker = Broker::of_script(Arc::clone(&context), script.language, &script.code, true);
        let pool = &context.workers.pool;
        let prepared = match pool.prepare(script.language, &script.code, context.limits.code_bytes).await {
            Ok(prepared) => prepared,
            Err(Failure::NotRun(error)) => return Err(error),
            Err(failure) => {
                let failed = Failed::new(failure, &script.code, None, &broker);
                return Ok(Played { result: Some(Err(failed)), output: String::new(), engine: None });
            }
        };
        let code = std::mem::replace(&mut script.code, prepared.code.clone());
        let wall = context.limits.wall.max(Duration::from_millis(script.limits.cpu_ms));
        let report = tokio::select! {
            biased;
            report = pool.run(script, player, wall, context.workers.turn.clone()) => report,
            () = player.parted() => return Ok(Played { result: None, output: String::new(), engine: None }),
        };
        let Report { result, output, engine, .. } = report;
        let result = match result {
            Err(Failure::NotRun(error)) => return Err(error),
            result => result.map_err(|failure| Failed::new(failure, &code, Some(&prepared), &broker)),
        };
        let engine = engine.map(|engine| engine.to_string());
        Ok(Played { result: Some(result), output: output.text, engine })
    }
}
