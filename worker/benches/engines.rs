//! Cost of a worker, by engine: `cargo bench -p forgefs-worker --bench engines`, with `--features v8` for all three
//! engines. Medians; the first argument is the number of samples (200).
//!
//! | column | measurement at the gateway's end of the pipe |
//! |---|---|
//! | cold start | spawn to `Ready`: process, confinement, snapshot or prelude, first scope |
//! | warm run | an empty script in a scope prepared in advance |
//! | back to back | the same without a pause: the run waits for the next scope |
//! | refresh | the difference: making and dropping a scope (isolate, context, module) |
//! | one call | a script with one call, warm, less the warm run: a round trip with JSON both ways |
//! | idle | resident memory of an idle worker, after its first run |
//! | after | the same after a thousand runs |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use wire::Language;

#[path = "../tests/it/gateway.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod gateway;

use gateway::{Engine, LIMITS, Worker, engines};

/// Longer than any engine takes to prepare its next scope.
const PAUSE: Duration = Duration::from_millis(25);

#[expect(clippy::print_stdout, reason = "a measurement is there to be read")]
fn main() -> ExitCode {
    let mut args = std::env::args();
    if args.nth(1).as_deref() == Some("worker") {
        return forgefs_worker::main(args);
    }
    let samples = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(200).max(1);
    let profile = if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" };
    println!("Medians of {samples} samples, {profile}.\n");
    println!("| engine | cold start | warm run | back to back | refresh | one call | idle | after 1000 runs |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for engine in engines() {
        println!("{}", row(engine, samples));
    }
    ExitCode::SUCCESS
}

fn row(engine: Engine, samples: usize) -> String {
    let cold = median((0..samples.div_ceil(10)).map(|_| {
        let started = Instant::now();
        drop(Worker::start(engine));
        started.elapsed()
    }));
    let (empty, call) = match engine.language {
        Language::Javascript => ("", "await github.echo({ a: 1 });"),
        Language::Starlark => ("None", "github.echo(a = 1)"),
    };
    let mut worker = Worker::start(engine);
    worker.run(empty, LIMITS);
    std::thread::sleep(PAUSE);
    let idle = resident(&worker);
    let warm = median((0..samples).map(|_| warm_run(&mut worker, empty)));
    let calling = median((0..samples).map(|_| warm_run(&mut worker, call)));
    let started = Instant::now();
    for _ in 0..1000 {
        worker.run(empty, LIMITS);
    }
    let back_to_back = started.elapsed() / 1000;
    std::thread::sleep(PAUSE);
    format!(
        "| {} | {cold:.1?} | {warm:.2?} | {back_to_back:.2?} | {:.2?} | {:.2?} | {} | {} |",
        engine.name,
        back_to_back.saturating_sub(warm),
        calling.saturating_sub(warm),
        idle,
        resident(&worker),
    )
}

fn warm_run(worker: &mut Worker, script: &str) -> Duration {
    std::thread::sleep(PAUSE);
    timed(worker, script)
}

fn timed(worker: &mut Worker, script: &str) -> Duration {
    let started = Instant::now();
    worker.run(script, LIMITS);
    started.elapsed()
}

fn median(samples: impl Iterator<Item = Duration>) -> Duration {
    let mut samples: Vec<_> = samples.collect();
    samples.sort();
    samples[samples.len() / 2]
}

fn resident(worker: &Worker) -> String {
    worker
        .resident_bytes()
        .map_or_else(|| "–".to_owned(), |bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)))
}
