//! Metrics for Prometheus (`metrics`, served by `exposition`) and spans for an OpenTelemetry collector (`traces`).
//!
//! Both are made from the record of an execution after its end, so a call costs no more for them. Neither has
//! arguments, answers, scripts or messages; the only texts from outside are identifiers of configured servers and, in
//! spans, of their tools.

mod context;
mod exposition;
mod metrics;
mod traces;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::outcome::Outcome;
use state::audit::CallRecord;

pub use context::Trace;
pub use exposition::{Text, serve};
pub use metrics::{Metrics, ServerState, Snapshot};
pub use traces::{Traces, end_all};

/// Metrics and traces of a gateway.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Spans, if there is a collector.
    pub traces: Option<Arc<Traces>>,
}

impl Telemetry {
    /// Counts a finished execution, and exports its spans.
    pub fn ended(&self, execution: &Ended<'_>, trace: &Trace) {
        self.metrics.count(execution);
        if let Some(traces) = &self.traces {
            trace.spans(execution).into_iter().for_each(|span| traces.send(span));
        }
    }
}

/// A finished execution.
#[derive(Debug)]
pub struct Ended<'a> {
    /// `execute`, or the client's request.
    pub what: &'a str,
    /// The language of the script.
    pub language: Option<&'static str>,
    /// The engine that ran it.
    pub engine: Option<&'static str>,
    /// Outcome.
    pub outcome: Outcome,
    /// Session id.
    pub session: &'a str,
    /// The client, as the gateway knows it.
    pub client: &'a str,
    /// Its profile, if it has one.
    pub profile: Option<&'a str>,
    /// Start.
    pub began: SystemTime,
    /// Duration.
    pub took: Duration,
    /// Calls, refused ones included.
    pub calls: Vec<EndedCall<'a>>,
}

/// A call of a finished execution.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// Its record.
    pub record: &'a CallRecord,
    /// The server's identifier; `None` for an unknown server.
    pub server: Option<&'a str>,
}

impl EndedCall<'_> {
    /// Time that it took; none where its record has what is no time.
    fn took(&self) -> Duration {
        Duration::try_from_secs_f64(self.record.ms.unwrap_or_default() / 1000.0).unwrap_or_default()
    }
}
