//! `[sandbox]`, `[memory]`, `[manifest]` and `[audit]`.

use std::collections::BTreeSet;
use std::slice;

use wire::LayerName;

use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawAudit, RawLimits, RawManifest, RawMemory, RawSandbox};
use super::units::{GIB, HOUR, KIB, MIB, MILLI, MINUTE, SECOND};
use super::words::{Words, words};
use super::{Audit, AuditTo, Limits, Manifest, Memory, RecyclePolicy, Required, Sandbox, cache_folder};

pub(super) fn sandbox(key: &Key<'_>, raw: RawSandbox) -> Result<Sandbox, ConfigError> {
    let limits = limits(&key.key("limits"), raw.limits)?;
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
        let words = LayerName::ALL.iter().map(|name| (name.as_str(), slice::from_ref(name)));
        words.chain([("all", LayerName::ALL.as_slice())]).collect()
    }
}

fn limits(table: &Key<'_>, raw: RawLimits) -> Result<Limits, ConfigError> {
    let usual = Limits::default();
    let key = |name| table.key(name);
    let limits = Limits {
        cpu: key("cpu").duration(raw.cpu, 10 * MILLI..=10 * MINUTE)?.unwrap_or(usual.cpu),
        wall: key("wall").duration(raw.wall, 100 * MILLI..=HOUR)?.unwrap_or(usual.wall),
        background_wall: key("background_wall")
            .duration(raw.background_wall, 100 * MILLI..=24 * HOUR)?
            .unwrap_or(usual.background_wall),
        heap_bytes: key("heap").size(raw.heap, 8 * MIB..=4 * GIB)?.unwrap_or(usual.heap_bytes),
        code_bytes: key("code").size(raw.code, KIB..=MIB)?.unwrap_or(usual.code_bytes),
        output_bytes: key("output").size(raw.output, KIB..=16 * MIB)?.unwrap_or(usual.output_bytes),
        calls: key("calls").count(raw.calls, 1..=10_000)?.unwrap_or(usual.calls),
        concurrency: key("concurrency").count(raw.concurrency, 1..=64)?.unwrap_or(usual.concurrency),
        args_bytes: key("args").size(raw.args, KIB..=16 * MIB)?.unwrap_or(usual.args_bytes),
        answer_bytes: key("answer").size(raw.answer, KIB..=64 * MIB)?.unwrap_or(usual.answer_bytes),
        binary_bytes: key("binary").size(raw.binary, KIB..=64 * MIB)?.unwrap_or(usual.binary_bytes),
        runs: key("runs").count(raw.runs, 1..=64)?.unwrap_or(usual.runs),
        queue: key("queue").count(raw.queue, 0..=1_024)?.unwrap_or(usual.queue),
        result_tokens: key("result_tokens").count(raw.result_tokens, 100..=1_000_000)?.unwrap_or(usual.result_tokens),
        stash_entries: key("stash_entries").count(raw.stash_entries, 1..=100_000)?.unwrap_or(usual.stash_entries),
        stash_bytes: key("stash").size(raw.stash, KIB..=GIB)?.unwrap_or(usual.stash_bytes),
        stash_value_bytes: key("stash_value").size(raw.stash_value, KIB..=16 * MIB)?.unwrap_or(usual.stash_value_bytes),
    };
    if limits.cpu > limits.wall {
        let message = "more CPU time than wall clock (sandbox.limits.wall)";
        return Err(key("cpu").at_value(message));
    }
    Ok(limits)
}

pub(super) fn memory(key: &Key<'_>, raw: RawMemory) -> Result<Memory, ConfigError> {
    let usual = Memory::default();
    let memory = Memory {
        answers: key.key("answers").size(raw.answers, 16 * MIB..=64 * GIB)?.unwrap_or(usual.answers),
        results: key.key("results").size(raw.results, MIB..=64 * GIB)?.unwrap_or(usual.results),
        lists: key.key("lists").size(raw.lists, MIB..=4 * GIB)?.unwrap_or(usual.lists),
        list: key.key("list").size(raw.list, 64 * KIB..=GIB)?.unwrap_or(usual.list),
    };
    if memory.list > memory.lists {
        let message = format!("more than the lists of all servers may take ({} bytes)", memory.lists);
        return Err(key.key("list").at_value(message).with_hint("raise memory.lists"));
    }
    Ok(memory)
}

words!(AuditTo: "file" = File, "stderr" = Stderr, "off" = Off);

pub(super) fn audit(key: &Key<'_>, raw: RawAudit) -> Result<Audit, ConfigError> {
    let usual = Audit::default();
    // A configured destination makes records required; by default the log gets records that the file cannot take.
    let is_wanted = raw.path.is_some() || raw.to.as_ref().is_some_and(|to| to.text == "file");
    let path = match raw.path {
        Some(path) => Some(key.key("path").path(path)?),
        None => key.state_folder().map(|folder| folder.join("audit.jsonl")),
    };
    let to = if path.is_some() { AuditTo::File } else { usual.to };
    Ok(Audit {
        to: key.key("to").word(raw.to)?.unwrap_or(to),
        path,
        max_bytes: key.key("max_size").size(raw.max_size, 64 * KIB..=4 * GIB)?.unwrap_or(usual.max_bytes),
        keep: key.key("keep").count(raw.keep, 1..=1000)?.unwrap_or(usual.keep),
        fsync: raw.fsync.unwrap_or(usual.fsync),
        required: match raw.required.or(is_wanted.then_some(true)) {
            Some(true) => Required::Calls,
            Some(false) => Required::Nothing,
            None => Required::Writes,
        },
    })
}

/// A change that a pin accepts, as `pin_accept` has it.
#[derive(Clone, Copy)]
pub(super) enum PinAccept {
    Text,
}

words!(PinAccept: "text" = Text);

pub(super) fn manifest(key: &Key<'_>, raw: RawManifest) -> Result<Manifest, ConfigError> {
    let usual = Manifest::default();
    let refresh = key.key("refresh").duration(raw.refresh, SECOND..=24 * HOUR)?;
    let pin = raw.pin.map(|pin| key.key("pin").path(pin)).transpose()?;
    let pin_first_use = raw.pin_first_use.unwrap_or(usual.pin_first_use);
    if pin_first_use && pin.is_some() {
        let error = key.key("pin_first_use").at_value("what is pinned by `pin` is not pinned by its first use");
        return Err(error.with_hint("remove one of the two"));
    }
    let accepts_text = !key.key("pin_accept").word_list(raw.pin_accept)?.is_empty();
    if accepts_text && !pin_first_use && pin.is_none() {
        let error = key.key("pin_accept").at_value("nothing is pinned");
        return Err(error.with_hint("set `pin` or `pin_first_use` too"));
    }
    let cache = match raw.cache {
        Some(off) if off == "off" => None,
        Some(path) => Some(key.key("cache").path(path)?),
        None => key.env.and_then(cache_folder),
    };
    let starts = key.key("startup_concurrency").count(raw.startup_concurrency, 1..=1_000)?;
    Ok(Manifest {
        refresh,
        pin,
        pin_first_use,
        accepts_text,
        state_folder: key.state_folder().filter(|_| pin_first_use),
        cache,
        startup_concurrency: starts.unwrap_or(usual.startup_concurrency),
        observe: raw.observe.unwrap_or(usual.observe),
    })
}
