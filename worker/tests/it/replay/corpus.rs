//! Every scenario, with answers in random orders, is the same run again on each engine of its language.

use std::path::Path;

use super::{Failed, Random, Recording, Replay, Trial, Worker, engines, same};
use crate::gateway::{Engine, LIMITS, SEED};
use crate::scenarios::scripts;

/// Runs of each scenario, with another order of answers each.
const ORDERS: u64 = 3;
/// Limits that a script meets at a point that is not its own.
const UNSTEADY: [&str; 3] = ["Cpu", "Heap", "Stack"];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for recorder in engines() {
        for replayer in engines().into_iter().filter(|other| other.language == recorder.language) {
            for (name, script) in scripts(recorder) {
                let name = format!("replay::scenario::{name}::{}_on_{}", recorder.name, replayer.name);
                trials.push(Trial::test(name, move || is_the_same_run(recorder, replayer, &script)));
            }
        }
    }
    trials
}

fn is_the_same_run(recorder: Engine, replayer: Engine, script: &Path) -> Result<(), Failed> {
    let body = std::fs::read_to_string(script)?;
    let (mut first, mut second) = (Worker::start(recorder), Worker::start(replayer));
    for order in 0..ORDERS {
        let mut recording = Recording::new(order);
        let mut recorded = first.play(&body, LIMITS, SEED, &mut recording);
        let mut replay = Replay { log: &recording.log, at: 0, most: 1, random: Random(order + 1) };
        let mut played = second.play(&body, LIMITS, SEED, &mut replay);
        if recorder.name != replayer.name {
            // Engines have words of their own for errors.
            for run in [&mut recorded, &mut played].into_iter().filter(|run| run.failure.is_some()) {
                run.result.clear();
            }
        }
        if recorded.failure.as_deref().is_some_and(|kind| UNSTEADY.contains(&kind)) {
            if recorded.failure != played.failure {
                return Err(format!("order {order}: {:?} and {:?}", recorded.failure, played.failure).into());
            }
        } else {
            same(&recorded, &played).map_err(|reason| format!("order {order}: {reason}"))?;
        }
        if recording.log.is_empty() {
            // Without answers there is one order.
            break;
        }
    }
    Ok(())
}
