//! Scope of a script that is a tool: what it may do, whatever its code computes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use wire::Op;

use super::ledger::charge;
use crate::scripts::{Callable, Locked, Use};
use base::error::{Error, ErrorCode, Result};
use base::random;
use state::journal::{NESTED, Taken};

/// Most scripts around a script.
const MAX_DEPTH: usize = 4;

/// State that the scripts of one execution share.
#[derive(Debug)]
pub(super) struct Nesting {
    /// Operations so far.
    operations: AtomicU64,
    /// Runs of each script with the same arguments so far.
    runs: Mutex<HashMap<(String, String), u32>>,
    /// Text that the seeds of their random numbers are made of.
    seed: OnceLock<String>,
    /// As that of a [`Scope`], for what the script of the execution calls.
    pub(super) turn: Semaphore,
}

impl Nesting {
    pub(super) fn new() -> Self {
        Self { operations: AtomicU64::new(0), runs: Mutex::default(), seed: OnceLock::new(), turn: Semaphore::new(1) }
    }

    /// Sets the seed of the execution, before its first call.
    pub(super) fn seeded(&self, seed: &str) {
        // The first one counts: an execution has one.
        let _ = self.seed.set(seed.to_owned());
    }

    /// Seed of the next run of a script with these arguments. It depends on its place among the same runs alone, so
    /// that a resumed run has the same, whatever was edited around it.
    pub(super) fn seed(&self, script: &str, args_hash: &str) -> String {
        let mut runs = self.runs.lock();
        let run = runs.entry((script.to_owned(), args_hash.to_owned())).or_default();
        *run += 1;
        format!("{}/{script}/{args_hash}/{run}", self.seed.get_or_init(random::token))
    }

    /// Number of a nested operation: no other operation of the execution has it.
    pub(super) fn number(&self) -> u64 {
        NESTED + self.operations.fetch_add(1, Ordering::Relaxed)
    }
}

/// A script that is being run for another one, or for a request.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) script: Arc<Callable>,
    /// That of the script that has called it, if one has.
    outer: Option<Arc<Self>>,
    /// Its calls, with those of the scripts that it calls.
    calls: AtomicU32,
    /// Calls that an earlier run has answered to it.
    taken: Mutex<Vec<Taken>>,
    /// One script that it calls runs at a time, so that a run has no more processes than it is deep.
    pub(super) turn: Semaphore,
}

impl Scope {
    /// The scope of a script within another one.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is one of those around it, or there are too many.
    pub(super) fn within(outer: Option<Arc<Self>>, script: Arc<Callable>) -> Result<Self> {
        let around = std::iter::successors(outer.as_deref(), |scope| scope.outer.as_deref());
        let mut chain: Vec<&str> = around.map(|scope| scope.script.source.name.as_str()).collect();
        chain.reverse();
        let is_cycle = chain.contains(&&*script.source.name);
        chain.push(&script.source.name);
        let path = || chain.join(" → ");
        if is_cycle {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("a script calls itself: {}", path()))
                .hint("its author has to break the circle: move what both need into a third script"));
        }
        if chain.len() > MAX_DEPTH {
            let what = format!("{} scripts call one another, over the limit of {MAX_DEPTH}: {}", chain.len(), path());
            return Err(Error::new(ErrorCode::LimitExceeded, what).hint("call the inner script directly"));
        }
        Ok(Self { script, outer, calls: AtomicU32::new(0), taken: Mutex::default(), turn: Semaphore::new(1) })
    }

    /// The script as scripts call it, `scripts.name`.
    pub(super) fn label(&self) -> &str {
        &self.script.label
    }

    /// Rights by its lock; `None` for one that runs without a lock.
    pub(super) fn locked(&self) -> Option<&Locked> {
        self.script.locked.as_ref()
    }

    /// Counts a call, for it and for each script around it.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when one of them has made as many as it may.
    pub(super) fn charge(&self) -> Result<()> {
        if let Some(most) = self.script.most_calls {
            charge(&self.calls, most, || format!("{} may make {most} calls and has made them", self.label()))
                .map_err(|error| error.hint("call it with less to do, or ask the operator to review its limit"))?;
        }
        // Behind its own limit: a call that this refuses counts for no script around it.
        self.outer.as_deref().map_or(Ok(()), Self::charge)
    }

    /// Notes calls that an earlier run has answered.
    pub(super) fn took(&self, taken: impl IntoIterator<Item = Taken>) {
        self.taken.lock().extend(taken);
    }

    /// Those so far, oldest first.
    pub(super) fn take_back(&self) -> Vec<Taken> {
        std::mem::take(&mut self.taken.lock())
    }

    /// Admits a request other than a call.
    ///
    /// # Errors
    /// `TOOL_DENIED` for a part of the script API that its lock does not have.
    pub(super) fn admit(&self, op: &Op) -> Result<()> {
        let Some(locked) = self.locked() else { return Ok(()) };
        let (part, what) = match op {
            // Decided with their server, by the policy.
            Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. } | Op::Sleep { .. } => return Ok(()),
            Op::Ls { path, .. } => return self.admit_paths(locked, [path.as_str()]),
            Op::Cat { paths, .. } => return self.admit_paths(locked, paths.iter().map(String::as_str)),
            Op::Search { path, .. } => return self.admit_paths(locked, path.as_deref()),
            Op::Servers | Op::SearchTools { .. } | Op::ToolInfo { .. } => (Use::Discovery, "look at the catalog"),
            Op::StashPut { .. } | Op::StashGet { .. } | Op::StashDelete { .. } | Op::StashKeys => {
                (Use::Stash, "use the stash")
            }
            Op::ResultsList | Op::ResultsGet { .. } => (Use::Results, "read stored results"),
            Op::RunsList | Op::RunsGet { .. } | Op::RunsCancel { .. } => (Use::Runs, "see runs"),
        };
        if locked.uses.contains(&part) { Ok(()) } else { Err(self.refused(&format!("may not {what}"))) }
    }

    /// Admits reading files. The folders of runs and results have words of their own in a lock.
    fn admit_paths<'p>(&self, locked: &Locked, paths: impl IntoIterator<Item = &'p str>) -> Result<()> {
        let has = |part: &Use| locked.uses.contains(part);
        let may = |path: &str| {
            let path = path.to_lowercase();
            let is_glob = path.contains(['*', '?', '[', '{', '%']);
            let may_be = |folder: &str| is_glob || path.contains(folder);
            (!may_be("runs") || has(&Use::Runs)) && (!may_be("results") || has(&Use::Results))
        };
        match has(&Use::Discovery) && paths.into_iter().all(may) {
            true => Ok(()),
            false => Err(self.refused("may not read these files of the gateway")),
        }
    }

    /// The error of what is not in its lock.
    pub(super) fn refused(&self, what: &str) -> Error {
        Error::new(ErrorCode::ToolDenied, format!("{} {what}: it is not in its lock", self.label()))
            .hint("this script does what was reviewed and nothing else; the operator reviews it anew with `forgefs scripts lock`")
    }
}
