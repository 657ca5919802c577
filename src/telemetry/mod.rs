//! How the gateway fares, for whoever runs it: numbers for Prometheus (`metrics`, served by `exposition`) and spans
//! for a collector of OpenTelemetry (`traces`).
//!
//! Both are made from the record of an execution when it has ended, so a call costs no more for them. Neither ever
//! has arguments, answers, scripts or messages; the only texts from outside are identifiers of configured servers and,
//! in spans, of their tools and prompts.

mod context;
mod exposition;
mod metrics;
mod traces;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::Amount;
use crate::outcome::Outcome;

pub use context::{CallId, Trace};
pub use exposition::{Text, serve};
pub use metrics::{Metrics, ServerState, Snapshot};
pub use traces::{Traces, end_all};

/// Whom what happened is told to.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// The numbers.
    pub metrics: Arc<Metrics>,
    /// The spans, where there is a collector.
    pub traces: Option<Arc<Traces>>,
}

impl Telemetry {
    /// Counts an execution that has ended, and sends its spans.
    pub fn ended(&self, execution: &Ended<'_>, trace: &Trace) {
        self.metrics.count(execution);
        if let Some(traces) = &self.traces {
            trace.spans(execution).into_iter().for_each(|span| traces.send(span));
        }
    }
}

/// An execution that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// `execute`, or the request of the client.
    pub what: &'static str,
    /// The language of the script.
    pub language: Option<&'static str>,
    /// The engine that ran it.
    pub engine: Option<&'static str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Sets the session apart from others.
    pub session: &'a str,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Its calls, those that were refused included.
    pub calls: Vec<EndedCall<'a>>,
}

/// One of its calls.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// What it is called in traces; `None` if it was never sent.
    pub id: Option<CallId>,
    /// The server's identifier; `None` if there is no such server.
    pub server: Option<&'a str>,
    /// The method, and its tool or prompt; `None` if there is no such thing.
    pub method: Option<&'static str>,
    /// The identifier of the tool or prompt.
    pub target: &'a str,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the gateway refused it.
    pub refused: bool,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Bytes of its arguments.
    pub sent: usize,
    /// Bytes of its answer.
    pub received: usize,
    /// What it cost.
    pub cost: Amount,
}
