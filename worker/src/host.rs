//! The host side of one run.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use wire::{Call, CallError, FromWorker, Limits, Op, Output, Reply, Stream, ToWorker};

use crate::engine::{Host, limit_call_error};
use crate::serve::{Inbox, Wire, protocol_error};

/// Requests that reach no server (discovery, stash) are free of the call limit, but not without any.
const LOCAL_OPS: u32 = 1000;

/// The host of one run: numbers its calls, counts its limits, tells its replies from those of earlier runs.
pub(crate) struct FrameHost {
    run: u64,
    limits: Limits,
    wire: Wire,
    inbox: Inbox,
    calls: u32,
    local_ops: u32,
    last_call: u64,
    in_flight: HashSet<u64>,
    output_left: u64,
    output_cut: bool,
}

impl FrameHost {
    pub(crate) fn new(run: u64, limits: Limits, wire: Wire, inbox: Inbox) -> Self {
        Self {
            run,
            limits,
            wire,
            inbox,
            calls: 0,
            local_ops: 0,
            last_call: 0,
            in_flight: HashSet::new(),
            output_left: limits.output_bytes,
            output_cut: false,
        }
    }

    fn count(&mut self, op: &Op) -> Result<(), CallError> {
        let upstream = matches!(op, Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. });
        let (used, limit, what) = if upstream {
            (&mut self.calls, self.limits.calls, "calls of tools, resources and prompts")
        } else {
            (&mut self.local_ops, LOCAL_OPS, "requests for discovery and stash")
        };
        if *used >= limit {
            return Err(limit_call_error(format!(
                "a run may make {limit} {what}: split the work over several runs, or use a tool that does more in one call"
            )));
        }
        *used += 1;
        Ok(())
    }

    fn accept(&mut self, reply: Reply) -> Option<Reply> {
        if reply.run < self.run {
            return None; // A call that its script did not await.
        }
        if reply.run > self.run || !self.in_flight.remove(&reply.call) {
            protocol_error("a reply to a call that was not made");
        }
        Some(reply)
    }
}

impl Host for FrameHost {
    fn send(&mut self, op: Op) -> Result<u64, CallError> {
        self.count(&op)?;
        let call = self.last_call + 1;
        self.wire.send_call(Call { run: self.run, call, op })?;
        self.last_call = call;
        self.in_flight.insert(call);
        Ok(call)
    }

    fn recv(&mut self, deadline: Option<Instant>) -> Option<Reply> {
        loop {
            match receive(&self.inbox, deadline)? {
                ToWorker::Run(_) => protocol_error("a run while another one is running"),
                ToWorker::Ping(_) => protocol_error("a ping in the middle of a run"),
                ToWorker::Reply(reply) => {
                    if let Some(reply) = self.accept(reply) {
                        return Some(reply);
                    }
                }
            }
        }
    }

    fn output(&mut self, stream: Stream, text: &str) {
        let left = usize::try_from(self.output_left).unwrap_or(usize::MAX);
        let kept = &text[..text.floor_char_boundary(left)];
        if left > 0 {
            self.wire.send(&FromWorker::Output(Output { run: self.run, stream, text: kept.to_owned() }));
        }
        // A line costs its newline too, so that empty lines are not free.
        self.output_left = self.output_left.saturating_sub(text.len() as u64 + 1);
        if kept.len() < text.len() || left == 0 {
            self.cut();
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

impl FrameHost {
    fn cut(&mut self) {
        self.output_left = 0;
        if !self.output_cut {
            self.output_cut = true;
            let text = format!("[output is over the limit of {} bytes; the rest is dropped]", self.limits.output_bytes);
            self.wire.send(&FromWorker::Output(Output { run: self.run, stream: Stream::Err, text }));
        }
    }
}

fn receive(inbox: &Receiver<ToWorker>, deadline: Option<Instant>) -> Option<ToWorker> {
    let received = match deadline {
        None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(at) => inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
    };
    match received {
        Ok(frame) => Some(frame),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => protocol_error("the reader is gone"),
    }
}
