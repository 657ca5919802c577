//! Host side of the sandbox: worker processes, their frames, and their limits.
//!
//! A worker is taken for hostile. It is given a script and answers to its calls, nothing else; what it sends is
//! parsed as untrusted input, and whatever it does wrong ends it. Scripts are parsed by processes that run none, the
//! checkers, which are taken for hostile as well.

mod checkers;
mod conversation;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod metrics;
mod pipes;
mod pool;
mod process;
mod script;
mod signature;
mod warm;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wire::{EngineInfo, Json, Layer, Op, Outcome, ScriptError, Stats};

use base::error::Error;
use base::pause::Pause;

pub use base::turns::Turn;
pub use conversation::Captured;
pub use metrics::Metrics;
pub use pool::{Entry, Pool, PoolOptions};
pub use script::Script;

/// Answers a script's calls. Production has one implementation, the broker.
#[async_trait]
pub trait Host: Send + Sync {
    /// Answers one call; several run concurrently. The script gets answers in the order in which these futures end: the
    /// order, the times and the outcomes are all that it learns of the world.
    async fn call(&self, call: u64, op: Op) -> Answer;

    /// Time that does not count for the wall clock.
    fn pause(&self) -> &Pause;

    /// Takes captured output of the run, as it comes.
    fn wrote(&self, _text: &str) {}

    /// Takes a progress report of the script.
    fn reported(&self, _text: &str) {}
}

/// Answer to a script's call.
#[derive(Debug)]
pub struct Answer {
    /// Value or error.
    pub outcome: Outcome,
    /// Time for the script's clock: see [`base::time::now_ms`].
    pub now_ms: u64,
}

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    /// Value as JSON, or the failure.
    pub result: Result<Json, Failure>,
    /// Captured output.
    pub output: Captured,
    /// Statistics as the worker reports them.
    pub stats: Stats,
    /// Engine of the run, if one ran.
    pub engine: Option<EngineInfo>,
    /// True if the worker sent any frame of this run.
    pub begun: bool,
    /// Sandbox layers that the worker applied; empty when none ran.
    pub confinement: Arc<[Layer]>,
    /// True if the worker was ready when the run came, false if it was started for it.
    pub warm: bool,
}

/// Failure of a run. After the first two the worker is reusable, the others end it.
#[derive(Debug)]
pub enum Failure {
    /// The script failed, or met a limit that the engine enforces.
    Script(Box<ScriptError>),
    /// Nothing ran: all places are taken, no worker could be started, or the script could not be parsed.
    NotRun(Error),
    /// The wall clock limit was exceeded.
    Timeout(Duration),
    /// The worker exceeded the script's CPU limit without noticing itself.
    Cpu(Duration),
    /// The worker died, with the end of its stderr.
    Crashed(String),
    /// The worker broke the protocol.
    Protocol(String),
}
