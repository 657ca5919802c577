//! Limits that a case of `tests/attacks` cannot show: captured output, refused frames, largest values.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use wire::{Language, Limits, ToWorker};

use crate::gateway::{Engine, LIMITS, Worker, engines};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines() {
        trials.push(Trial::test(format!("limit::output::{}", engine.name), move || output(engine)));
        trials.push(Trial::test(format!("limit::unsent_calls::{}", engine.name), move || unsent_calls(engine)));
    }
    for (name, bytes) in
        [("not_json", &b"\x03\0\0\0abc"[..]), ("too_long", b"\xff\xff\xff\xff"), ("wrong_type", b"\x02\0\0\0{}")]
    {
        trials.push(Trial::test(format!("frame::{name}"), move || refuses(bytes)));
    }
    trials.push(Trial::test("frame::end_of_stdin", || exits(Worker::start(engines()[0]).close().code(), 0)));
    trials.push(Trial::test("frame::reply_to_no_call", reply_to_no_call));
    for engine in engines() {
        trials.push(Trial::test(format!("frame::end_of_stdin_in_a_loop::{}", engine.name), move || {
            ends_in_a_loop(engine)
        }));
        trials.push(Trial::test(format!("limit::largest_answer::{}", engine.name), move || largest_answer(engine)));
        if engine.language == Language::Javascript {
            trials
                .push(Trial::test(format!("limit::calls_under_way::{}", engine.name), move || calls_under_way(engine)));
        }
    }
    trials
}

fn works(worker: &mut Worker) -> Result<(), Failed> {
    let script =
        if worker.language() == Language::Starlark { "github.echo(a = 1)" } else { "return github.echo({ a: 1 })" };
    match worker.run(script, LIMITS).done.result {
        Ok(value) if value.get() == r#"{"a":1}"# => Ok(()),
        other => Err(format!("the next run: {other:?}").into()),
    }
}

fn output(engine: Engine) -> Result<(), Failed> {
    let script = match engine.language {
        Language::Javascript => "for (let i = 0; i < 10000; i++) console.log('x'.repeat(100));",
        Language::Starlark => "for i in range(10000):\n    print('x' * 100)",
    };
    let transcript = Worker::start(engine).run(script, LIMITS);
    let bytes: usize = transcript.output.iter().map(|(_, text)| text.len()).sum();
    let said: Vec<_> = transcript.output.iter().filter(|(_, text)| text.contains("over the limit")).collect();
    if transcript.done.result.is_ok() && bytes < 66 << 10 && bytes > 60 << 10 && said.len() == 1 {
        return Ok(());
    }
    Err(format!("{bytes} bytes, said {said:?}, {:?}", transcript.done).into())
}

/// A call that is too large to be sent is not made, so that it does not count.
fn unsent_calls(engine: Engine) -> Result<(), Failed> {
    let script = match engine.language {
        Language::Javascript => {
            "await forge.callTool('s'.repeat(33 << 20), 't', {}).catch(() => 0);
            return [forge.callsLeft(), await github.echo({ a: 1 }), forge.callsLeft()]"
        }
        Language::Starlark => {
            "try_call(call_tool, 's' * (33 << 20), 't')\n\
             [forge.calls_left(), github.echo(a = 1), forge.calls_left()]"
        }
    };
    let limits = Limits { heap_bytes: 512 << 20, cpu_ms: 20_000, calls: 1, ..LIMITS };
    match Worker::start(engine).run(script, limits).done.result {
        Ok(value) if value.get() == r#"[1,{"a":1},0]"# => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// The gateway stops reading at 64 MiB of unanswered calls, and may wait until its answers are read: a worker that only
/// writes would wait forever. Starlark has at most eight calls in flight.
fn calls_under_way(engine: Engine) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    worker.start_code(
        "export default async () => {
            const pad = 'x'.repeat(1_000_000);
            const all = await Promise.all(Array.from({ length: 40 }, () => github.big({ pad, bytes: 1 })));
            return all.join('').length;
        }"
        .to_owned(),
    );
    let calls = worker.unanswered();
    let count = calls.len();
    let done = worker.answer_all(calls);
    match done.result {
        Ok(value) if value.get() == "40" && (10..=20).contains(&count) => Ok(()),
        other => Err(format!("{count} calls without an answer, then {other:?}").into()),
    }
}

/// Workers end with their gateway, whatever they are doing.
fn ends_in_a_loop(engine: Engine) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    worker.start_code(match engine.language {
        Language::Javascript => "export default async () => { for (;;); }".to_owned(),
        Language::Starlark => {
            "def f():\n    for i in range(8000000):\n        for j in range(8000000):\n            pass\nf()".to_owned()
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    exits(worker.close().code(), 0)
}

/// The largest text that the gateway lets through, and many small values, which take an engine ten times their text.
fn largest_answer(engine: Engine) -> Result<(), Failed> {
    let (text, rows) = match engine.language {
        Language::Javascript => (
            "return (await github.big({ bytes: 10 * 1024 * 1024 })).length",
            "return (await github.rows({ count: 50000 })).filter((row) => row.id > 49998)[0].name",
        ),
        Language::Starlark => (
            "len(github.big(bytes = 10 * 1024 * 1024))",
            "[row for row in github.rows(count = 50000) if row[\"id\"] > 49998][0][\"name\"]",
        ),
    };
    let mut worker = Worker::start(engine);
    let answers = [worker.run(text, LIMITS).done.result, worker.run(rows, LIMITS).done.result];
    match &answers {
        [Ok(length), Ok(name)] if length.get() == "10485760" && name.get() == "\"row 49999\"" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn refuses(bytes: &[u8]) -> Result<(), Failed> {
    exits(Worker::start(engines()[0]).send_raw(bytes).code(), 3)
}

fn reply_to_no_call() -> Result<(), Failed> {
    let mut worker = Worker::start(engines()[0]);
    let reply = r#"{"Reply":{"run":1,"call":7,"outcome":{"Ok":1},"now_ms":0}}"#;
    let frame: ToWorker = serde_json::from_str(reply)?;
    // Before the run such a reply is late; during the run it is a lie.
    worker.send(&frame);
    works(&mut worker)?;
    let code = match engines()[0].language {
        Language::Javascript => "export default async () => { await new Promise((done) => setTimeout(done, 5000)); }",
        Language::Starlark => "1",
    };
    worker.start_code(code.to_owned());
    let frame: ToWorker = serde_json::from_str(&reply.replace("\"run\":1", "\"run\":2"))?;
    worker.send(&frame);
    exits(worker.wait().code(), 3)
}

fn exits(code: Option<i32>, expected: i32) -> Result<(), Failed> {
    if code == Some(expected) { Ok(()) } else { Err(format!("exit code {code:?}").into()) }
}
