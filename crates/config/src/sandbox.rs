//! `[sandbox]` and `[memory]`.

use std::collections::BTreeSet;
use std::time::Duration;

use wire::LayerName;

use super::Memory;
use super::bounds::{Bounds as _, bounds};
use super::error::ConfigError;
use super::key::Key;
use super::raw::RawSandbox;
use super::units::{GIB, HOUR, KIB, MIB, MILLI, MINUTE, SECOND};
use super::words::{Words, layers};

/// The `[sandbox]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// Warm worker processes, 1 to 8 and at most [`Limits::runs`].
    pub workers: usize,
    /// Wear at which a worker is replaced.
    pub wear: RecyclePolicy,
    /// Sandbox layers without which no script runs.
    pub require: Vec<LayerName>,
    /// Limits of one run.
    pub limits: Limits,
}

/// Wear of a worker at which it is replaced, before its next script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecyclePolicy {
    /// Scripts that it has run.
    pub scripts: u64,
    /// Age.
    pub age: Duration,
    /// Memory kept between scripts beyond what it had when it was new, in bytes.
    pub growth: u64,
}

impl Default for RecyclePolicy {
    fn default() -> Self {
        Self { scripts: 500, age: 30 * MINUTE, growth: 128 << 20 }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { workers: 2, wear: RecyclePolicy::default(), require: Vec::new(), limits: Limits::default() }
    }
}

bounds! {
    /// The `[sandbox.limits]` table. No value means "unlimited".
    Limits from RawLimits {
        /// CPU time of the script itself.
        cpu as cpu: duration Duration = 5 * SECOND, 10 * MILLI..=10 * MINUTE;
        /// Wall clock of a run, including tool time.
        wall as wall: duration Duration = 2 * MINUTE, 100 * MILLI..=HOUR;
        /// Wall clock of a run in the background.
        background_wall as background_wall: duration Duration = HOUR, 100 * MILLI..=24 * HOUR;
        /// Heap of the engine, buffers included.
        heap as heap_bytes: size u64 = 64 << 20, 8 * MIB..=4 * GIB;
        /// Length of a script.
        code as code_bytes: size usize = 64 << 10, KIB..=MIB;
        /// Captured output of a run.
        output as output_bytes: size usize = 256 << 10, KIB..=16 * MIB;
        /// Tool calls of a run.
        calls as calls: count u32 = 1_000, 1..=10_000;
        /// Concurrent tool calls of a run.
        concurrency as concurrency: count usize = 8, 1..=64;
        /// Arguments of one call, as JSON.
        args as args_bytes: size usize = 1 << 20, KIB..=16 * MIB;
        /// Text of one tool's answer.
        answer as answer_bytes: size usize = 10 << 20, KIB..=64 * MIB;
        /// Binary content of one tool's answer.
        binary as binary_bytes: size usize = 1 << 20, KIB..=64 * MIB;
        /// Concurrent runs.
        runs as runs: count usize = 8, 1..=64;
        /// Runs of one client in the queue; zero refuses at once.
        queue as queue: count usize = 1_024, 0..=1_024;
        /// Tokens of an `execute` answer; a larger value is stored under `/results/`.
        result_tokens as result_tokens: count usize = 4_000, 100..=1_000_000;
        /// Entries of a session's stash.
        stash_entries as stash_entries: count usize = 1_000, 1..=100_000;
        /// Keys and values of a session's stash.
        stash as stash_bytes: size usize = 16 << 20, KIB..=GIB;
        /// A value of the stash, as JSON.
        stash_value as stash_value_bytes: size usize = 4 << 20, KIB..=16 * MIB;
    }
}

impl Limits {
    /// Limits of a run that are lower than the defaults, in words for a script's author; `None` if none is.
    pub fn lowered(&self) -> Option<String> {
        let usual = Self::default();
        let time = |limit: Duration| humantime::format_duration(limit).to_string();
        let size =
            |bytes: u64| if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) };
        let told = [
            (self.calls < usual.calls).then(|| format!("{} calls", self.calls)),
            (self.wall < usual.wall).then(|| time(self.wall)),
            (self.cpu < usual.cpu).then(|| format!("{} of CPU", time(self.cpu))),
            (self.heap_bytes < usual.heap_bytes).then(|| format!("{} of memory", size(self.heap_bytes))),
            (self.args_bytes < usual.args_bytes)
                .then(|| format!("{} of arguments a call", size(self.args_bytes as u64))),
            (self.output_bytes < usual.output_bytes).then(|| format!("{} of output", size(self.output_bytes as u64))),
            (self.code_bytes < usual.code_bytes).then(|| format!("{} of code", size(self.code_bytes as u64))),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        (!told.is_empty()).then(|| format!("Limits of a script here: {}.", told.join(", ")))
    }
}

pub(super) fn sandbox(key: &Key<'_>, raw: RawSandbox) -> Result<Sandbox, ConfigError> {
    let limits = Limits::read(&key.key("limits"), raw.limits)?;
    if limits.cpu > limits.wall {
        let message = "more CPU time than wall clock (sandbox.limits.wall)";
        return Err(key.key("limits").key("cpu").at_value(message));
    }
    let required = key.key("require").word_list(raw.require)?;
    let require: BTreeSet<LayerName> = required.into_iter().flatten().copied().collect();
    let usual = Sandbox::default();
    let wear = RecyclePolicy {
        scripts: key.key("worker_scripts").count(raw.worker_scripts, 1..=1_000_000)?.unwrap_or(usual.wear.scripts),
        age: key.key("worker_age").duration(raw.worker_age, SECOND..=24 * HOUR)?.unwrap_or(usual.wear.age),
        growth: key.key("worker_growth").size(raw.worker_growth, MIB..=GIB)?.unwrap_or(usual.wear.growth),
    };
    let key = key.key("workers");
    let given = key.count(raw.workers, 1..=8)?;
    if given.is_some_and(|workers| workers > limits.runs) {
        let error = key.at_value(format!("more workers than runs at once ({})", limits.runs));
        return Err(error.with_hint("raise sandbox.limits.runs"));
    }
    let workers = given.unwrap_or(usual.workers.min(limits.runs));
    Ok(Sandbox { workers, wear, require: require.into_iter().collect(), limits })
}

/// Layers by one word: `all` stands for every layer.
pub(super) type Layers = &'static [LayerName];

impl Words for Layers {
    fn words() -> Vec<(&'static str, Self)> {
        layers(LayerName::ALL)
    }
}

bounds! {
    for Memory from RawMemory {
        answers as answers: size, 16 * MIB..=64 * GIB;
        results as results: size, MIB..=64 * GIB;
        lists as lists: size, MIB..=4 * GIB;
        list as list: size, 64 * KIB..=GIB;
    }
}

pub(super) fn memory(key: &Key<'_>, raw: RawMemory) -> Result<Memory, ConfigError> {
    let memory = Memory::read(key, raw)?;
    if memory.list > memory.lists {
        let message = format!("more than the lists of all servers may take ({} bytes)", memory.lists);
        return Err(key.key("list").at_value(message).with_hint("raise memory.lists"));
    }
    Ok(memory)
}
