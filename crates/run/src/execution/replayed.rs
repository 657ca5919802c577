//! Runs a script on a record of another run.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wire::{Json, Language, Limits, Run, Server};

use super::Failed;
use crate::broker::{Broker, ExecutionContext};
use crate::replay::{Expected, Player};
use crate::sandbox::{Failure, Report};
use base::error::{Result, code_name};
use base::outcome::Outcome;

/// A script, with all that is the same as when it was recorded.
#[derive(Debug)]
pub struct Script {
    /// Its language.
    pub language: Language,
    /// The script.
    pub code: String,
    /// Text whose SHA-256 is the seed of its random numbers.
    pub seed: String,
    /// Its clock at its begin, in Unix milliseconds.
    pub now_ms: u64,
    /// Its namespaces.
    pub servers: Vec<Server>,
    /// Limits of its engine.
    pub limits: Limits,
    /// Arguments of a function script, a JSON object.
    pub args: Option<Json>,
}

/// Its result.
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
    /// Runs a script on a record: every request is answered by `player`, and nothing is called.
    ///
    /// # Errors
    /// When nothing ran.
    pub async fn replay(self, script: &Script, player: &Player) -> Result<Played> {
        let context = Arc::new(self);
        // It describes failures, and is asked nothing.
        let broker = Broker::of_script(Arc::clone(&context), script.language, &script.code, true);
        let failed = |failure, prepared| Failed::new(failure, &script.code, prepared, &broker);
        let prepared = match context
            .workers
            .pool
            .prepare(script.language, &script.code, context.limits.code_bytes)
            .await
        {
            Ok(prepared) => prepared,
            Err(Failure::NotRun(error)) => return Err(error),
            Err(failure) => {
                return Ok(Played { result: Some(Err(failed(failure, None))), output: String::new(), engine: None });
            }
        };
        let frame = Run {
            run: 0,
            language: prepared.language,
            code: prepared.code.clone(),
            servers: script.servers.clone(),
            limits: script.limits,
            seed: Sha256::digest(&script.seed).into(),
            now_ms: script.now_ms,
            args: script.args.clone(),
        };
        let wall = context.limits.wall.max(Duration::from_millis(script.limits.cpu_ms));
        let report = tokio::select! {
            biased;
            report = context.workers.pool.run(frame, player, wall, context.workers.turn.clone()) => report,
            () = player.parted() => return Ok(Played { result: None, output: String::new(), engine: None }),
        };
        let Report { result, output, engine, .. } = report;
        let result = match result {
            Err(Failure::NotRun(error)) => return Err(error),
            result => result.map_err(|failure| failed(failure, Some(&prepared))),
        };
        let engine = engine.map(|engine| engine.to_string());
        Ok(Played { result: Some(result), output: output.text, engine })
    }
}
