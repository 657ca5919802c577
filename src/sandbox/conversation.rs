//! What one run's frames may be, and what they add up to.
//!
//! Everything here comes from the worker and is believed as little as possible: a frame that does not fit ends the
//! worker. What a worker may make the gateway hold is bounded by not reading on, rather than by a guess at what an
//! honest script needs: see [`Conversation::has_room`].

use std::collections::HashMap;

use wire::{Call, FromWorker, Json, ScriptError, Stats, Stream};

use super::Failure;
use super::pipes::Frame;

/// Frames of a run besides its calls: more is a flood.
const MAX_FRAMES: u64 = 100_000;
/// Calls of any kind that a run may have under way; more is a flood.
const MAX_IN_FLIGHT: usize = 1024;
/// Bytes of calls under way from which on no further frame is read.
const MAX_IN_FLIGHT_BYTES: usize = 64 << 20;

/// What has been said in one run. Everything here comes from the worker and is believed as little as possible.
pub(super) struct Conversation {
    run: u64,
    last_call: u64,
    frames: u64,
    output: Vec<(Stream, String)>,
    output_room: usize,
    output_dropped: usize,
    stats: Stats,
    in_flight: HashMap<u64, usize>,
    in_flight_bytes: usize,
}

/// What a frame asks the gateway to do.
pub(super) enum Step {
    /// Answer a call.
    Call(Call),
    /// Take the result.
    Done(Result<Json, ScriptError>),
    /// Nothing more.
    Nothing,
}

impl Conversation {
    /// The beginning of run number `run`, whose captured output is kept up to `output_bytes`.
    pub(super) fn new(run: u64, output_bytes: u64) -> Self {
        Self {
            run,
            last_call: 0,
            frames: 0,
            output: Vec::new(),
            output_room: usize::try_from(output_bytes).unwrap_or(usize::MAX),
            output_dropped: 0,
            stats: Stats::default(),
            in_flight: HashMap::new(),
            in_flight_bytes: 0,
        }
    }

    /// Whether another frame may be read. Calls that are under way hold their arguments; a worker that floods the
    /// gateway with large ones waits until some are answered.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight_bytes < MAX_IN_FLIGHT_BYTES
    }

    /// Notes that a call has been answered.
    pub(super) fn answered(&mut self, call: u64) {
        self.in_flight_bytes -= self.in_flight.remove(&call).unwrap_or_default();
    }

    /// Takes a frame, or says why it cannot be one of an honest worker.
    pub(super) fn accept(&mut self, frame: Frame) -> Result<Step, Failure> {
        let Frame { message, bytes } = frame;
        if self.frames >= MAX_FRAMES {
            return Err(Failure::Protocol(format!("more than {MAX_FRAMES} frames in a run")));
        }
        match message {
            FromWorker::Ready(_) => Err(Failure::Protocol("Ready in the middle of a run".to_owned())),
            FromWorker::Pong(_) => Err(Failure::Protocol("Pong in the middle of a run".to_owned())),
            FromWorker::Call(call) => {
                self.is_current(call.run)?;
                if call.call != self.last_call + 1 {
                    return Err(Failure::Protocol(format!("call {} after call {}", call.call, self.last_call)));
                }
                if self.in_flight.len() >= MAX_IN_FLIGHT {
                    return Err(Failure::Protocol(format!("more than {MAX_IN_FLIGHT} calls at once")));
                }
                self.last_call = call.call;
                self.in_flight.insert(call.call, bytes);
                self.in_flight_bytes += bytes;
                Ok(Step::Call(call))
            }
            FromWorker::Output(output) => {
                self.is_current(output.run)?;
                self.keep(output.stream, output.text);
                Ok(Step::Nothing)
            }
            FromWorker::Done(done) => {
                self.is_current(done.run)?;
                self.stats = done.stats;
                Ok(Step::Done(done.result))
            }
        }
    }

    /// Whether the worker has said nothing about this run yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.frames == 0
    }

    /// The output that was kept, the bytes that were dropped over the limit, and what the worker says the run cost.
    pub(super) fn conclude(self) -> (Vec<(Stream, String)>, usize, Stats) {
        (self.output, self.output_dropped, self.stats)
    }

    fn is_current(&mut self, run: u64) -> Result<(), Failure> {
        match run == self.run {
            true => {
                self.frames += 1;
                Ok(())
            }
            false => Err(Failure::Protocol("a frame of another run".to_owned())),
        }
    }

    /// Keeps output within the limit; what is beyond is counted.
    fn keep(&mut self, stream: Stream, text: String) {
        let kept = crate::discovery::head(&text, self.output_room);
        self.output_room -= kept.len();
        self.output_dropped += text.len() - kept.len();
        if kept.len() == text.len() {
            self.output.push((stream, text));
        } else if !kept.is_empty() {
            self.output.push((stream, kept.to_owned()));
        }
    }
}
