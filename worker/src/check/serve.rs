//! The checker's loop over scripts.

use std::convert::Infallible;

use wire::{
    Check, Checked, FrameError, FromWorker, Layer, PARSING_MEMORY, PROTOCOL, Ready, SIGNATURE_MEMORY, ScriptError,
    ScriptErrorKind, ToWorker,
};

use super::check;
use crate::inbox::Inbox;
use crate::serve::{Wire, protocol_error};
use confine::worker::DataLimit;

/// Stack of the parser: twice what the deepest tree that is accepted takes in a debug build. Code that nests deeper than
/// this allows ends the process.
pub(crate) const STACK: usize = 8 << 20;

/// Checks scripts until stdin ends, which ends the process. A panic ends it too.
pub(crate) fn serve(wire: &Wire, inbox: &Inbox, memory: &DataLimit, confinement: Vec<Layer>) -> Infallible {
    wire.send(&FromWorker::Ready(Ready { protocol: PROTOCOL, engines: Vec::new(), confinement }));
    loop {
        match inbox.recv() {
            ToWorker::Check(asked) => {
                memory.leave(room(&asked));
                answer(wire, &asked);
                memory.lift();
            }
            ToWorker::Ping(number) => wire.send(&FromWorker::Pong(number)),
            ToWorker::Run(_) | ToWorker::Reply(_) => protocol_error("a run in a checker"),
        }
    }
}

/// Memory that the script may take to parse.
fn room(asked: &Check) -> u64 {
    let (each, besides) = PARSING_MEMORY;
    let besides = if asked.signature { besides + SIGNATURE_MEMORY } else { besides };
    asked.code.len().saturating_mul(each).saturating_add(besides) as u64
}

fn answer(wire: &Wire, asked: &Check) {
    let checked = |result| FromWorker::Checked(Box::new(Checked { check: asked.check, result }));
    let sent = wire.try_send(&checked(check(asked)));
    if let Err(FrameError::TooLarge(bytes)) = sent {
        let message = format!("what is known of the script takes {bytes} bytes: make it shorter");
        wire.send(&checked(Err(ScriptError::new(ScriptErrorKind::Syntax, message))));
    }
}
