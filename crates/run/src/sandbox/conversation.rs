//! Checks the frames of one run and adds them up.
//!
//! The worker is untrusted: an invalid frame ends it. Backpressure bounds the memory that a worker can take, rather
//! than a guess at the needs of an honest script: see [`Conversation::has_room`].

use std::collections::HashMap;

use wire::{
    Call, FromWorker, Json, Limits, MAX_IN_FLIGHT, MAX_LOCAL_OPS, MAX_REPORT, MAX_REPORTS, MAX_SLEEPS, Op, ScriptError,
    Stats, Stream,
};

use super::Failure;
use super::pipes::Frame;
use base::limits;
use base::text::{head, visible};

/// Lines of an honest worker beyond those within its output limit: about cut output and calls not awaited.
const REMARKS: u64 = 2;
/// Bytes of calls in flight that stop the reading of frames.
const MAX_IN_FLIGHT_BYTES: usize = limits::IN_FLIGHT.max;

/// State of one run, built from untrusted frames.
pub(super) struct Conversation {
    run: u64,
    calls_left: u64,
    sleeps_left: u64,
    lines_left: u64,
    reports_left: u64,
    last_call: u64,
    pub(super) is_untouched: bool,
    output: Captured,
    stats: Stats,
    /// Calls in flight with their bytes, timers aside: those are few and small.
    in_flight: HashMap<u64, usize>,
    in_flight_bytes: usize,
}

/// Output of a run as text, one entry per line; warnings and errors are marked.
#[derive(Debug, Default)]
pub struct Captured {
    /// The lines, with terminal control characters escaped.
    pub text: String,
    /// Bytes dropped over the limit.
    pub dropped: usize,
    room: usize,
}

impl Captured {
    fn push(&mut self, stream: Stream, line: &str) {
        let kept = head(line, self.room);
        self.dropped += line.len() - kept.len();
        if kept.is_empty() && !line.is_empty() {
            return;
        }
        self.room = self.room.saturating_sub(kept.len() + 1);
        if stream == Stream::Err {
            self.text.push_str("! ");
        }
        self.text.push_str(&visible(kept));
        self.text.push('\n');
    }
}

/// Next step for the gateway after a frame.
pub(super) enum Step {
    /// Answer a call.
    Call(Call),
    /// Take the result.
    Done(Result<Json, ScriptError>),
    /// Captured output, from this byte on.
    Wrote(usize),
    /// A progress report.
    Reported(String),
}

impl Conversation {
    /// State at the start of run `run`. Its limits bound the frames of an honest worker.
    pub(super) fn new(run: u64, limits: &Limits) -> Self {
        Self {
            run,
            calls_left: u64::from(limits.calls) + u64::from(MAX_LOCAL_OPS),
            sleeps_left: u64::from(MAX_SLEEPS),
            lines_left: limits.output_bytes.saturating_add(REMARKS),
            reports_left: u64::from(MAX_REPORTS),
            last_call: 0,
            is_untouched: true,
            output: Captured {
                room: usize::try_from(limits.output_bytes).unwrap_or(usize::MAX),
                ..Captured::default()
            },
            stats: Stats::default(),
            in_flight: HashMap::new(),
            in_flight_bytes: 0,
        }
    }

    /// True if another frame may be read. Calls in flight hold their arguments; a worker that floods the gateway with
    /// large ones waits until some are answered.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight_bytes < MAX_IN_FLIGHT_BYTES
    }

    /// Notes that a call has been answered.
    pub(super) fn answered(&mut self, call: u64) {
        self.in_flight_bytes -= self.in_flight.remove(&call).unwrap_or_default();
    }

    /// Accepts a frame, or explains why no honest worker sends it.
    pub(super) fn accept(&mut self, frame: Frame) -> Result<Step, Failure> {
        let Frame { message, bytes } = frame;
        match message {
            FromWorker::Ready(_) => Err(Failure::Protocol("Ready in the middle of a run".to_owned())),
            FromWorker::Pong(_) => Err(Failure::Protocol("Pong in the middle of a run".to_owned())),
            FromWorker::Checked(_) => Err(Failure::Protocol("Checked in the middle of a run".to_owned())),
            FromWorker::Call(call) => {
                self.is_current(call.run)?;
                if call.call != self.last_call + 1 {
                    return Err(Failure::Protocol(format!("call {} after call {}", call.call, self.last_call)));
                }
                self.last_call = call.call;
                if matches!(call.op, Op::Sleep { .. }) {
                    self.sleeps_left = take(self.sleeps_left, "timers")?;
                    return Ok(Step::Call(call));
                }
                if self.in_flight.len() >= MAX_IN_FLIGHT {
                    return Err(Failure::Protocol(format!("more than {MAX_IN_FLIGHT} calls at once")));
                }
                self.calls_left = take(self.calls_left, "calls")?;
                self.in_flight.insert(call.call, bytes);
                self.in_flight_bytes += bytes;
                Ok(Step::Call(call))
            }
            FromWorker::Output(output) => {
                self.is_current(output.run)?;
                if output.stream == Stream::Progress {
                    self.reports_left = take(self.reports_left, "progress reports")?;
                    let text = visible(head(&output.text, MAX_REPORT));
                    return Ok(Step::Reported(text.replace(['\n', '\t'], " ")));
                }
                self.lines_left = take(self.lines_left, "lines of output")?;
                let from = self.output.text.len();
                self.output.push(output.stream, &output.text);
                Ok(Step::Wrote(from))
            }
            FromWorker::Done(done) => {
                self.is_current(done.run)?;
                self.stats = done.stats;
                Ok(Step::Done(done.result))
            }
        }
    }

    /// Captured output from a byte on, which is the end of an earlier line.
    pub(super) fn output_from(&self, from: usize) -> &str {
        self.output.text.get(from..).unwrap_or_default()
    }

    /// Output, and the worker's own statistics.
    pub(super) fn conclude(self) -> (Captured, Stats) {
        (self.output, self.stats)
    }

    fn is_current(&mut self, run: u64) -> Result<(), Failure> {
        match run == self.run {
            true => {
                self.is_untouched = false;
                Ok(())
            }
            false => Err(Failure::Protocol("a frame of another run".to_owned())),
        }
    }
}

/// Takes one from the rest of an honest worker's limit.
fn take(left: u64, what: &str) -> Result<u64, Failure> {
    left.checked_sub(1).ok_or_else(|| Failure::Protocol(format!("more {what} than the limits of the run allow")))
}
