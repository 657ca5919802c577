//! Fuzz target: a worker that sends anything.

use wire::{
    Call, Done, EngineInfo, FromWorker, Language, Limits, Op, Outcome, Output, Ready, Reply, Run, ScriptError,
    ScriptErrorKind, Stats, Stream, ToWorker,
};

use super::super::conversation::{Conversation, Step};
use super::super::pipes::Frame;

/// Output limit of the conversation.
const ROOM: usize = 100;
/// Call limit of a run.
const CALLS: u32 = 20;
/// Pretended size of every frame.
const BYTES: usize = 3 << 20;

/// Reads `data` as a stream of frames of either side, and as decisions of a worker on what to send.
pub fn frames(data: &[u8]) {
    reread::<ToWorker>(data);
    let sent = reread::<FromWorker>(data);
    converse(sent);
    let mut choices = data.iter().map(|byte| usize::from(*byte));
    let mut said = Vec::new();
    while let Some(choice) = choices.next() {
        said.push(frame(choice, &mut choices));
    }
    for frame in &said {
        let bytes = wire::encode(frame).expect("what a worker says fits a frame");
        assert_eq!(wire::parse_len([bytes[0], bytes[1], bytes[2], bytes[3]]).ok(), Some(bytes.len() - 4));
    }
    converse(said);
    for frame in (0..data.len().min(8)).map(|at| reply(at, data)) {
        let bytes = wire::encode(&frame).expect("what the host says fits a frame");
        assert_eq!(reread::<ToWorker>(&bytes).len(), 1);
    }
}

/// Reads frames until one is refused; each must survive a round trip.
fn reread<T: serde::Serialize + serde::de::DeserializeOwned>(mut data: &[u8]) -> Vec<T> {
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = wire::read_frame::<T>(&mut data) {
        let bytes = wire::encode(&frame).expect("what was read can be written");
        let again = wire::read_frame::<T>(&mut bytes.as_slice()).expect("what was written can be read");
        assert_eq!(again.and_then(|again| wire::encode(&again).ok()), Some(bytes));
        frames.push(frame);
    }
    frames
}

/// Checks that the conversation accepts exactly the protocol and keeps no more output than its limit.
fn converse(messages: Vec<FromWorker>) {
    let limits = Limits { cpu_ms: 1, heap_bytes: 1, output_bytes: ROOM as u64, result_bytes: 1, calls: CALLS };
    let mut conversation = Conversation::new(1, &limits);
    let (mut calls, mut sleeps, mut open) = (0, 0, 0);
    let (mut lines, mut written) = (0, 0);
    for message in messages {
        let lawful = match &message {
            FromWorker::Ready(_) | FromWorker::Pong(_) | FromWorker::Checked(_) => false,
            FromWorker::Call(call) => {
                let (used, limit) = match call.op {
                    Op::Sleep { .. } => (sleeps, wire::MAX_SLEEPS),
                    _ => (calls - sleeps, CALLS + wire::MAX_LOCAL_OPS),
                };
                call.run == 1 && call.call == calls + 1 && used < u64::from(limit)
            }
            FromWorker::Output(output) if output.stream == Stream::Progress => output.run == 1,
            FromWorker::Output(output) => output.run == 1 && lines < ROOM + 2,
            FromWorker::Done(done) => done.run == 1,
        };
        if let FromWorker::Output(output) = &message
            && lawful
            && output.stream != Stream::Progress
        {
            lines += 1;
            written += output.text.len();
        }
        match conversation.accept(Frame { message, bytes: BYTES }) {
            Ok(step) => {
                assert!(lawful);
                match step {
                    Step::Call(call) => {
                        calls += 1;
                        assert_eq!((call.run, call.call), (1, calls));
                        let is_sleep = matches!(call.op, Op::Sleep { .. });
                        sleeps += u64::from(is_sleep);
                        open += usize::from(!is_sleep && calls % 2 == 1);
                        if calls % 2 == 0 {
                            conversation.answered(call.call);
                            conversation.answered(call.call);
                        }
                    }
                    Step::Wrote(from) => assert!(conversation.output_from(from).len() <= ROOM * 8),
                    Step::Reported(text) => assert!(text.len() <= wire::MAX_REPORT * 8 && !text.contains('\n')),
                    Step::Done(_) => break,
                }
            }
            Err(_) => {
                assert!(!lawful);
                break;
            }
        }
        // Every other call is answered; one more frame may have been read when the room was used up.
        assert!(conversation.has_room() == (open * BYTES < 64 << 20));
    }
    let (output, _) = conversation.conclude();
    assert!(written - output.dropped <= ROOM && output.text.lines().count() <= ROOM + written);
}

fn frame(choice: usize, choices: &mut impl Iterator<Item = usize>) -> FromWorker {
    let mut next = || choices.next().unwrap_or(0);
    let run = if choice < 240 { 1 } else { next() as u64 };
    match choice % 8 {
        0..=2 => FromWorker::Call(Call { run, call: next() as u64 % 8, op: op(next(), next() % 8) }),
        3..=5 => {
            let text = ["", "a", "é😀", "\u{0}\n"][next() % 4].repeat(next());
            let stream = if next() % 4 == 0 { Stream::Progress } else { Stream::Out };
            FromWorker::Output(Output { run, stream, text })
        }
        6 if choice.is_multiple_of(4) => FromWorker::Pong(run),
        6 if choice.is_multiple_of(3) => FromWorker::Done(Box::new(Done {
            run,
            result: if choice < 128 { Ok(json("[1]")) } else { Err(error()) },
            stats: Stats { cpu_us: u64::MAX, heap_bytes: u64::MAX },
        })),
        7 if choice.is_multiple_of(5) => {
            let engine =
                EngineInfo { language: Language::Starlark, engine: wire::EngineName::Starlark, version: String::new() };
            FromWorker::Ready(Ready { protocol: 9, engines: vec![engine], confinement: Vec::new() })
        }
        _ => FromWorker::Call(Call { run, call: choice as u64, op: Op::Servers }),
    }
}

fn op(kind: usize, size: usize) -> Op {
    let text = || "\"\\".repeat(size);
    match kind % 6 {
        0 => Op::Tool { server: text(), tool: text(), args: json("{}") },
        1 => Op::Ls { path: text(), depth: Some(u32::MAX) },
        2 => Op::Cat { paths: vec![text(); size], lines: Some(text()) },
        3 => Op::StashPut { key: text(), value: json("null"), ttl_secs: Some(u64::MAX) },
        4 => Op::Sleep { ms: u32::MAX },
        _ => Op::StashKeys,
    }
}

fn reply(at: usize, data: &[u8]) -> ToWorker {
    let byte = u64::from(data[at]);
    if byte.is_multiple_of(4) {
        let limits = Limits { cpu_ms: byte, heap_bytes: u64::MAX, output_bytes: 0, result_bytes: byte, calls: 1 };
        let code = String::from_utf8_lossy(data).into_owned();
        let run = Run {
            run: byte,
            language: Language::Javascript,
            code,
            servers: Vec::new(),
            limits,
            seed: [data[at]; 32],
            now_ms: byte,
            args: byte.is_multiple_of(8).then(|| json("{}")),
        };
        return ToWorker::Run(Box::new(run));
    }
    ToWorker::Reply(Reply { run: byte, call: byte, outcome: Outcome::Ok(json("{\"a\": [1e400]}")), now_ms: byte })
}

fn error() -> ScriptError {
    ScriptError {
        kind: ScriptErrorKind::Script,
        message: "\u{202e}".to_owned(),
        line: u32::MAX,
        column: u32::MAX,
        trace: vec![String::new(); 3],
        call: Some(u64::MAX),
        error: None,
        fix: None,
    }
}

fn json(text: &str) -> wire::Json {
    serde_json::value::RawValue::from_string(text.to_owned()).expect("the text is JSON")
}
