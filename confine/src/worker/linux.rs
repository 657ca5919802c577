//! The worker's layers on Linux, in the order of application.

use std::fmt::Display;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use wire::{Layer, LayerName};

use super::syscalls;

/// Newest landlock ABI requested; an older kernel applies what it supports.
const LANDLOCK: ABI = ABI::V6;
/// Descriptors: the three standard ones, the frame wire, the memory statistics, and room for the kernel's own.
const FILES: u64 = 16;
/// Stack of the thread that shows whether threads still start.
const PROBE_STACK: usize = 64 << 10;

/// Layers that must be applied before the process has other threads, which inherit them.
///
/// The kernel takes the thread that spawned the worker for its parent: it must live as long as the gateway.
#[must_use]
pub fn before_threads() -> Vec<Layer> {
    use LayerName::{Dumpable, Landlock, NoNewPrivs, ParentDeath, Rlimits};
    [ParentDeath, NoNewPrivs, Dumpable, Landlock, Rlimits].map(apply).into()
}

/// Layers that would keep the engines from starting.
#[must_use]
pub fn after_threads() -> Vec<Layer> {
    [LayerName::Processes, LayerName::Seccomp].map(apply).into()
}

/// Applies one layer.
#[must_use]
pub fn apply(name: LayerName) -> Layer {
    let outcome = match name {
        LayerName::ParentDeath => did(prctl::set_pdeathsig(Signal::SIGKILL), "killed when the gateway ends"),
        LayerName::NoNewPrivs => did(prctl::set_no_new_privs(), "gains no privileges by executing a file"),
        LayerName::Dumpable => did(prctl::set_dumpable(false), "not readable by other processes of the user"),
        LayerName::Landlock => landlock(),
        LayerName::Rlimits => limits(),
        LayerName::Processes => processes(),
        LayerName::Seccomp => syscalls::filter(),
    };
    Layer::of(name, outcome)
}

fn did<E: Display>(outcome: Result<(), E>, what: &str) -> Result<String, String> {
    outcome.map(|()| what.to_owned()).map_err(|error| error.to_string())
}

fn landlock() -> Result<String, String> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match ruleset.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => Ok("no file, no TCP port, no signal to other processes".to_owned()),
        Ok(RulesetStatus::PartiallyEnforced) => Ok("no file; the kernel is too old for the rest".to_owned()),
        Ok(_) => Err("the kernel has no landlock".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// No more processes or threads: by a limit, which the kernel does not apply to root, and by a filter, which it does.
fn processes() -> Result<String, String> {
    let limited = setrlimit(Resource::RLIMIT_NPROC, 0, 0).map_err(|error| error.to_string());
    let filtered = syscalls::filter_new_processes();
    // The effect decides, not what the calls answered.
    match std::thread::Builder::new().stack_size(PROBE_STACK).spawn(|| ()) {
        Err(_) => Ok("no more processes or threads".to_owned()),
        Ok(started) => {
            let _ = started.join();
            let why = limited.and(filtered).err().map(|why| format!(": {why}")).unwrap_or_default();
            Err(format!("a new thread still starts{why}"))
        }
    }
}

fn limits() -> Result<String, String> {
    let limits = setrlimit(Resource::RLIMIT_CORE, 0, 0).and_then(|()| setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES));
    did(limits, "no core dump, 16 descriptors, data memory by the run")
}
