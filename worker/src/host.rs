//! The host side of one run.

use std::collections::{HashMap, HashSet, VecDeque};

use wire::{
    Call, CallError, FromWorker, Limits, MAX_IN_FLIGHT, MAX_LOCAL_OPS, MAX_REPORT, MAX_REPORTS, MAX_SLEEPS, Op, Output,
    Reply, Stream, ToWorker,
};

use crate::engine::{Host, limit_call_error};
use crate::inbox::Inbox;
use crate::serve::{Wire, protocol_error};

/// Bytes of calls in flight from which replies are read before another call is sent. At 64 MiB of them the gateway
/// stops reading frames and waits until its replies are read. With one more frame of the largest size this stays below,
/// so that the two never wait for each other.
const MAX_IN_FLIGHT_BYTES: usize = 16 << 20;

/// Requests that have a limit of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Calls,
    Sleeps,
    Local,
}

/// Host of one run: numbers its calls, counts against its limits, and separates its replies from those of earlier runs.
pub(crate) struct FrameHost {
    run: u64,
    limits: Limits,
    wire: Wire,
    inbox: Inbox,
    /// Requests that were sent, by [`Counted`].
    sent: [u32; 3],
    last_call: u64,
    /// Calls in flight, with their bytes.
    in_flight: HashMap<u64, usize>,
    in_flight_bytes: usize,
    /// Timers in flight.
    sleeping: HashSet<u64>,
    /// Replies that the script has not awaited yet.
    early: VecDeque<Reply>,
    output_left: u64,
    output_cut: bool,
    reports_left: u32,
}

impl FrameHost {
    pub(crate) fn new(run: u64, limits: Limits, wire: Wire, inbox: Inbox) -> Self {
        Self {
            run,
            limits,
            wire,
            inbox,
            sent: [0; 3],
            last_call: 0,
            in_flight: HashMap::new(),
            in_flight_bytes: 0,
            sleeping: HashSet::new(),
            early: VecDeque::new(),
            output_left: limits.output_bytes,
            output_cut: false,
            reports_left: MAX_REPORTS,
        }
    }

    /// The count of requests such as this one, which may be sent.
    fn counted(&self, op: &Op) -> Result<Counted, CallError> {
        let (counted, limit, what) = match op {
            Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. } => {
                (Counted::Calls, self.limits.calls, "calls of tools, resources and prompts")
            }
            Op::Sleep { .. } => (Counted::Sleeps, MAX_SLEEPS, "timers"),
            _ => (Counted::Local, MAX_LOCAL_OPS, "requests for discovery and stash"),
        };
        if self.sent[counted as usize] >= limit {
            return Err(limit_call_error(format!("a run may make {limit} {what}, and this one has made them")));
        }
        Ok(counted)
    }

    fn accept(&mut self, reply: Reply) -> Option<Reply> {
        if reply.run < self.run {
            return None; // A call that its script did not await.
        }
        if reply.run == self.run && self.sleeping.remove(&reply.call) {
            return Some(reply);
        }
        let bytes = self.in_flight.remove(&reply.call).filter(|_| reply.run == self.run);
        let Some(bytes) = bytes else { protocol_error("a reply to a call that was not made") };
        self.in_flight_bytes -= bytes;
        Some(reply)
    }

    /// The next reply to a call of this run.
    fn receive(&mut self) -> Reply {
        self.wire.flush();
        loop {
            match self.inbox.recv() {
                ToWorker::Run(_) => protocol_error("a run while another one is running"),
                ToWorker::Ping(_) => protocol_error("a ping in the middle of a run"),
                ToWorker::Check(_) => protocol_error("a script to check in the middle of a run"),
                ToWorker::Reply(reply) => {
                    if let Some(reply) = self.accept(reply) {
                        return reply;
                    }
                }
            }
        }
    }
}

impl Host for FrameHost {
    fn send(&mut self, op: Op) -> Result<u64, CallError> {
        let counted = self.counted(&op)?;
        let is_sleep = counted == Counted::Sleeps;
        while !is_sleep && (self.in_flight.len() >= MAX_IN_FLIGHT || self.in_flight_bytes > MAX_IN_FLIGHT_BYTES) {
            let reply = self.receive();
            self.early.push_back(reply);
        }
        let call = self.last_call + 1;
        let bytes = self.wire.send_call(Call { run: self.run, call, op })?;
        // One that is too large to send is not made.
        self.sent[counted as usize] += 1;
        self.last_call = call;
        if is_sleep {
            self.sleeping.insert(call);
        } else {
            self.in_flight.insert(call, bytes);
            self.in_flight_bytes += bytes;
        }
        Ok(call)
    }

    fn recv(&mut self) -> Reply {
        self.early.pop_front().unwrap_or_else(|| self.receive())
    }

    fn output(&mut self, stream: Stream, text: &str) {
        if stream == Stream::Progress {
            return self.report(text);
        }
        let left = usize::try_from(self.output_left).unwrap_or(usize::MAX);
        let kept = &text[..text.floor_char_boundary(left)];
        if left > 0 {
            self.wire.send(&FromWorker::Output(Output { run: self.run, stream, text: kept.to_owned() }));
        }
        // A line counts its newline too, so that empty lines are not free: the gateway relies on it.
        self.output_left = self.output_left.saturating_sub(text.len() as u64 + 1);
        if kept.len() < text.len() || left == 0 {
            self.cut();
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn calls_left(&self) -> u32 {
        self.limits.calls.saturating_sub(self.sent[Counted::Calls as usize])
    }
}

impl FrameHost {
    /// Sends a progress report.
    fn report(&mut self, text: &str) {
        let Some(left) = self.reports_left.checked_sub(1) else { return };
        self.reports_left = left;
        let text = text[..text.floor_char_boundary(MAX_REPORT)].to_owned();
        self.wire.send(&FromWorker::Output(Output { run: self.run, stream: Stream::Progress, text }));
    }

    fn cut(&mut self) {
        self.output_left = 0;
        if !self.output_cut {
            self.output_cut = true;
            let text = format!("[output is over the limit of {} bytes; the rest is dropped]", self.limits.output_bytes);
            self.wire.send(&FromWorker::Output(Output { run: self.run, stream: Stream::Err, text }));
        }
    }
}
