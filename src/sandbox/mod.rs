//! The gateway's side of the sandbox: worker processes, the frames to them, and their limits.
//!
//! A worker is taken for hostile. It is given a script and answers to its calls, nothing else; what it sends is
//! parsed as untrusted input, and whatever it does wrong ends it.

mod conversation;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod metrics;
mod pipes;
mod pool;
mod process;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wire::{EngineInfo, Json, Layer, Op, Outcome, ScriptError, Stats};

use crate::error::Error;
use crate::pause::Pause;

pub use conversation::Captured;
pub use metrics::Metrics;
pub use pool::{Pool, PoolOptions};
pub(crate) use validate::unprepared;
pub use validate::{Script, prepare};

/// Who answers the calls of a script. The broker is the only implementation that production uses.
#[async_trait]
pub trait Host: Send + Sync {
    /// Answers one call; several run at once.
    async fn call(&self, call: u64, op: Op) -> Outcome;

    /// The time that does not count for the wall clock.
    fn pause(&self) -> &Pause;
}

/// How a run ended, and what it left.
#[derive(Debug)]
pub struct Report {
    /// The value as JSON, or why there is none.
    pub result: Result<Json, Failure>,
    /// Captured output.
    pub output: Captured,
    /// What the worker says it cost.
    pub stats: Stats,
    /// The engine that ran it, when one did.
    pub engine: Option<EngineInfo>,
    /// Whether the worker said anything that belongs to this run.
    pub begun: bool,
    /// The layers of the process sandbox, as the worker put them on; empty when none ran.
    pub confinement: Arc<[Layer]>,
}

/// Why a run has no value. The first two leave the worker usable, the others end it.
#[derive(Debug)]
pub enum Failure {
    /// The script failed, or met a limit that the engine enforces.
    Script(Box<ScriptError>),
    /// Nothing ran: all places are taken, or no worker could be started.
    NotRun(Error),
    /// The wall clock ran out.
    Timeout(Duration),
    /// The worker used more CPU time than the script may, without noticing itself.
    Cpu(Duration),
    /// The worker died, with its last words.
    Crashed(String),
    /// The worker broke the protocol.
    Protocol(String),
}
