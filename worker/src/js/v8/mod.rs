//! JavaScript on V8.
//!
//! Isolates are made directly, from a snapshot with the prelude: there is no `Deno`, no op table and no module loader
//! for a script to reach. The only natives in a realm are the prelude's host functions.

mod memory;
mod scope;
mod snapshot;

use std::rc::Rc;
use std::sync::Arc;

use deno_core::v8;
use wire::{EngineInfo, EngineName, Json, Language, Run, ScriptError};

use self::scope::Scope;
use self::snapshot::Snapshot;
use super::{Turn, drive};
use crate::engine::{Engine, SharedHost};
use crate::watchdog::Interrupt;

/// Without JIT compilers there is no memory that is both writable and executable, and no compiler thread. Scripts are
/// glue between calls: only loops of many millions of iterations become slower.
const FLAGS: &str = "--jitless --single-threaded";

/// Heap of the first realm, before a run sets its limit.
const USUAL_HEAP: u64 = 64 << 20;

/// Starts V8, once per process, on the thread whose children use it.
pub(crate) fn start_platform() {
    v8::V8::set_flags_from_string(FLAGS);
    v8::V8::initialize_platform(v8::new_single_threaded_default_platform(false).make_shared());
    v8::V8::initialize();
}

/// The V8 engine.
pub(crate) struct V8 {
    interrupt: Arc<Interrupt>,
    snapshot: Snapshot,
    ready: Option<Scope>,
    /// The last run's, until its result is sent.
    spent: Option<Scope>,
    /// Never runs anything. Read-only state shared by isolates lives as long as one exists, and would otherwise be made
    /// anew for each. Declared last: isolates end in reverse order of creation.
    _keeper: v8::OwnedIsolate,
    /// Heap limit of the last run: the next one is most likely the same.
    expected_heap: u64,
    heap_bytes: u64,
}

impl V8 {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> anyhow::Result<Self> {
        let snapshot = Snapshot::with_prelude()?;
        let keeper = v8::Isolate::new(snapshot.params());
        Ok(Self {
            _keeper: keeper,
            interrupt,
            snapshot,
            ready: None,
            spent: None,
            expected_heap: USUAL_HEAP,
            heap_bytes: 0,
        })
    }
}

impl Engine for V8 {
    fn info(&self) -> EngineInfo {
        let version = v8::V8::get_version().to_owned();
        EngineInfo { language: Language::Javascript, engine: EngineName::V8, version }
    }

    fn prepare(&mut self) {
        self.spent = None;
        if self.ready.is_none() {
            self.ready = Scope::new(&self.snapshot, self.expected_heap, &self.interrupt).ok();
        }
    }

    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
        self.spent = None;
        if self.expected_heap != run.limits.heap_bytes {
            self.expected_heap = run.limits.heap_bytes;
            self.ready = None;
        }
        let mut scope = match self.ready.take() {
            Some(scope) => scope,
            None => Scope::new(&self.snapshot, self.expected_heap, &self.interrupt)?,
        };
        let port = Rc::clone(&scope.port);
        port.connect(run, host);
        let mut turn = Turn { scope: &mut scope, run };
        let result = turn.start().and_then(|()| drive(&mut turn, &port, run, host));
        self.heap_bytes = scope.heap_bytes();
        self.spent = Some(scope);
        result
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }
}
