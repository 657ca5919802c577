//! `[sandbox]`, `[memory]`, `[manifest]` and `[audit]`.

use std::slice;
use std::time::Duration;

use wire::LayerName;

use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::{RawAudit, RawLimits, RawManifest, RawMemory, RawSandbox};
use super::values::Values;
use super::{Audit, AuditTo, Limits, Manifest, Memory, RecyclePolicy, Required, Sandbox};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

pub(super) fn sandbox(values: Values<'_>, raw: RawSandbox) -> Result<Sandbox, ConfigError> {
    let key = KeyPath::root("sandbox");
    let limits = limits(values, &key.key("limits"), raw.limits)?;
    let require = require(values, &key.key("require"), raw.require.unwrap_or_default())?;
    let wear = RecyclePolicy {
        scripts: values.count(&key.key("worker_scripts"), raw.worker_scripts, 500, 1..=1_000_000)?.into(),
        age: values.duration(&key.key("worker_age"), raw.worker_age, 30 * MINUTE, SECOND..=24 * HOUR)?,
        growth: values.size(&key.key("worker_growth"), raw.worker_growth, 128 << 20, MIB..=1024 * MIB)? as u64,
    };
    let key = key.key("workers");
    let given = raw.workers.is_some();
    let mut workers = values.count(&key, raw.workers, 2, 1..=8)? as usize;
    if workers > limits.runs {
        if given {
            let message = format!("more workers than runs at once ({})", limits.runs);
            return Err(values.document.at_value(&key, message).with_hint("raise sandbox.limits.runs"));
        }
        workers = limits.runs;
    }
    Ok(Sandbox { workers, wear, require, limits })
}

/// Names of layers; `all` stands for every layer.
fn require(values: Values<'_>, key: &KeyPath, raw: Vec<String>) -> Result<Vec<LayerName>, ConfigError> {
    let words = layers();
    let mut required = Vec::new();
    for (index, name) in raw.into_iter().enumerate() {
        required.extend(values.word(&key.index(index), name, &words)?.unwrap_or_default());
    }
    required.sort_unstable();
    required.dedup();
    Ok(required)
}

/// Values of `require`.
pub(super) fn layers() -> Vec<(&'static str, &'static [LayerName])> {
    let words = LayerName::ALL.iter().map(|name| (name.as_str(), slice::from_ref(name)));
    words.chain([("all", LayerName::ALL.as_slice())]).collect()
}

fn limits(values: Values<'_>, table: &KeyPath, raw: RawLimits) -> Result<Limits, ConfigError> {
    let default = Limits::default();
    let key = |name| table.key(name);
    let count = |name, raw, default: usize, range| {
        values.count(&key(name), raw, u32::try_from(default).unwrap_or(u32::MAX), range).map(|count| count as usize)
    };
    let heap = usize::try_from(default.heap_bytes).unwrap_or(usize::MAX);
    let limits = Limits {
        cpu: values.duration(&key("cpu"), raw.cpu, default.cpu, 10 * MILLI..=10 * MINUTE)?,
        wall: values.duration(&key("wall"), raw.wall, default.wall, 100 * MILLI..=HOUR)?,
        background_wall: values.duration(
            &key("background_wall"),
            raw.background_wall,
            default.background_wall,
            100 * MILLI..=24 * HOUR,
        )?,
        heap_bytes: values.size(&key("heap"), raw.heap, heap, 8 * MIB..=4096 * MIB)? as u64,
        code_bytes: values.size(&key("code"), raw.code, default.code_bytes, KIB..=MIB)?,
        output_bytes: values.size(&key("output"), raw.output, default.output_bytes, KIB..=16 * MIB)?,
        calls: values.count(&key("calls"), raw.calls, default.calls, 1..=10_000)?,
        concurrency: count("concurrency", raw.concurrency, default.concurrency, 1..=64)?,
        args_bytes: values.size(&key("args"), raw.args, default.args_bytes, KIB..=16 * MIB)?,
        answer_bytes: values.size(&key("answer"), raw.answer, default.answer_bytes, KIB..=64 * MIB)?,
        binary_bytes: values.size(&key("binary"), raw.binary, default.binary_bytes, KIB..=64 * MIB)?,
        runs: count("runs", raw.runs, default.runs, 1..=64)?,
        queue: count("queue", raw.queue, default.queue, 0..=1_024)?,
        result_tokens: count("result_tokens", raw.result_tokens, default.result_tokens, 100..=1_000_000)?,
        stash_entries: count("stash_entries", raw.stash_entries, default.stash_entries, 1..=100_000)?,
        stash_bytes: values.size(&key("stash"), raw.stash, default.stash_bytes, KIB..=1024 * MIB)?,
        stash_value_bytes: values.size(
            &key("stash_value"),
            raw.stash_value,
            default.stash_value_bytes,
            KIB..=16 * MIB,
        )?,
    };
    if limits.cpu > limits.wall {
        let message = "more CPU time than wall clock (sandbox.limits.wall)";
        return Err(values.document.at_value(&key("cpu"), message));
    }
    Ok(limits)
}

pub(super) fn memory(values: Values<'_>, raw: RawMemory) -> Result<Memory, ConfigError> {
    let (key, default) = (KeyPath::root("memory"), Memory::default());
    let size = |name, raw, default, range| values.size(&key.key(name), raw, default, range);
    let memory = Memory {
        answers: size("answers", raw.answers, default.answers, 16 * MIB..=65_536 * MIB)?,
        results: size("results", raw.results, default.results, MIB..=65_536 * MIB)?,
        lists: size("lists", raw.lists, default.lists, MIB..=4096 * MIB)?,
        list: size("list", raw.list, default.list.min(default.lists), 64 * KIB..=1024 * MIB)?,
    };
    if memory.list > memory.lists {
        let message = format!("more than the lists of all servers may take ({} bytes)", memory.lists);
        return Err(values.document.at_value(&key.key("list"), message).with_hint("raise memory.lists"));
    }
    Ok(memory)
}

/// Values of `audit.to`.
pub(super) const AUDIT_WORDS: &[(&str, AuditTo)] =
    &[("file", AuditTo::File), ("stderr", AuditTo::Stderr), ("off", AuditTo::Off)];

pub(super) fn audit(values: Values<'_>, raw: RawAudit) -> Result<Audit, ConfigError> {
    let key = KeyPath::root("audit");
    let default = Audit::default();
    // A configured destination makes records required; by default the log gets records that the file cannot take.
    let is_wanted = raw.path.is_some() || raw.to.as_deref() == Some("file");
    let path = match raw.path {
        Some(path) => Some(values.path(&key.key("path"), path)?),
        None => values.own_folder("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("audit.jsonl")),
    };
    let usual = if path.is_some() { AuditTo::File } else { default.to };
    let to = values.word(&key.key("to"), raw.to, AUDIT_WORDS)?.unwrap_or(usual);
    Ok(Audit {
        to,
        path,
        max_bytes: values.size(&key.key("max_size"), raw.max_size, default.max_bytes, 64 * KIB..=4096 * MIB)?,
        keep: values.count(&key.key("keep"), raw.keep, default.keep, 1..=1000)?,
        fsync: raw.fsync.unwrap_or(default.fsync),
        required: match raw.required.or(is_wanted.then_some(true)) {
            Some(true) => Required::Calls,
            Some(false) => Required::Nothing,
            None => Required::Writes,
        },
    })
}

/// Values of `pin_accept`.
pub(super) const PIN_ACCEPT: &[(&str, ())] = &[("text", ())];

pub(super) fn manifest(values: Values<'_>, raw: RawManifest) -> Result<Manifest, ConfigError> {
    let key = KeyPath::root("manifest");
    let refresh = raw
        .refresh
        .map(|given| values.duration(&key.key("refresh"), Some(given), MINUTE, SECOND..=24 * HOUR))
        .transpose()?;
    let pin = raw.pin.map(|pin| values.path(&key.key("pin"), pin)).transpose()?;
    let pin_first_use = raw.pin_first_use.unwrap_or_default();
    if pin_first_use && pin.is_some() {
        let message = "what is pinned by `pin` is not pinned by its first use";
        let hint = "remove one of the two";
        return Err(values.document.at_value(&key.key("pin_first_use"), message).with_hint(hint));
    }
    let mut accepts_text = false;
    for (index, word) in raw.pin_accept.into_iter().flatten().enumerate() {
        accepts_text |= values.word(&key.key("pin_accept").index(index), word, PIN_ACCEPT)?.is_some();
    }
    if accepts_text && !pin_first_use && pin.is_none() {
        let message = "nothing is pinned";
        let hint = "set `pin` or `pin_first_use` too";
        return Err(values.document.at_value(&key.key("pin_accept"), message).with_hint(hint));
    }
    let state_folder = values.own_folder("XDG_STATE_HOME", ".local/state").filter(|_| pin_first_use);
    let cache = match raw.cache {
        Some(off) if off == "off" => None,
        Some(path) => Some(values.path(&key.key("cache"), path)?),
        None => values.own_folder("XDG_CACHE_HOME", ".cache"),
    };
    let starts = values.count(&key.key("startup_concurrency"), raw.startup_concurrency, 16, 1..=1_000)?;
    let observe = raw.observe.unwrap_or(true);
    let startup_concurrency = starts as usize;
    Ok(Manifest { refresh, pin, pin_first_use, accepts_text, state_folder, cache, startup_concurrency, observe })
}
