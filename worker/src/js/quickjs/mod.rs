//! JavaScript on QuickJS.
//!
//! A realm has no Eval intrinsic: code is compiled to bytecode in another runtime and loaded, so that nothing in the
//! script's reach can compile a string. The realm with the prelude and its frozen intrinsics is made once; after every
//! run the memory of its runtime is made what it was, byte for byte.

mod compiler;
mod memory;
mod scope;

use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use wire::{EngineInfo, EngineName, Json, Language, Run, ScriptError, ScriptErrorKind};

use self::compiler::{Bytecode, Compiler};
use self::scope::Scope;
use super::{PRELUDE, PRELUDE_NAME, Turn, drive};
use crate::engine::{Engine, SharedHost};
use crate::watchdog::Interrupt;

/// Heap of the first scope, before a run sets its limit.
const USUAL_HEAP: usize = 64 << 20;

/// The QuickJS engine.
pub(crate) struct QuickJs {
    interrupt: Arc<Interrupt>,
    prelude: Bytecode,
    scope: Option<Scope>,
    /// True if a run has used the scope since it was made.
    is_used: bool,
    heap_bytes: u64,
}

impl QuickJs {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> anyhow::Result<Self> {
        let compiler = Compiler::new(&interrupt).context("QuickJS compiler")?;
        let prelude = compiler.compile(PRELUDE_NAME, PRELUDE).map_err(|error| anyhow::anyhow!("prelude: {error:?}"))?;
        Ok(Self { interrupt, prelude, scope: None, is_used: false, heap_bytes: 0 })
    }

    /// A scope as new, for runs with such a heap.
    fn scope(&mut self, heap_bytes: usize) -> anyhow::Result<&mut Scope> {
        if self.scope.as_ref().is_some_and(|scope| !scope.can_have(heap_bytes)) {
            self.scope = None;
        }
        let scope = match self.scope.take() {
            Some(mut scope) => {
                if self.is_used {
                    scope.restore();
                }
                scope
            }
            None => Scope::new(&self.interrupt, &self.prelude, heap_bytes.max(USUAL_HEAP))?,
        };
        self.is_used = false;
        Ok(self.scope.insert(scope))
    }
}

impl Engine for QuickJs {
    fn info(&self) -> EngineInfo {
        #[expect(unsafe_code, reason = "answers a static string")]
        let version = unsafe { std::ffi::CStr::from_ptr(rquickjs::qjs::JS_GetVersion()) };
        let version = version.to_string_lossy().into_owned();
        EngineInfo { language: Language::Javascript, engine: EngineName::QuickJs, version }
    }

    fn prepare(&mut self) {
        // An error occurs again, and is reported, when a run needs it.
        let _ = self.scope(0);
    }

    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
        let heap_bytes = usize::try_from(run.limits.heap_bytes).unwrap_or(usize::MAX);
        if let Err(error) = self.scope(heap_bytes) {
            return Err(ScriptError::new(ScriptErrorKind::Internal, format!("QuickJS does not start: {error:#}")));
        }
        let Some(scope) = &mut self.scope else { return Err(ScriptError::new(ScriptErrorKind::Internal, "no scope")) };
        self.is_used = true;
        let port = Rc::clone(scope.connect(run, host));
        let result = scope.start(run).and_then(|()| drive(&mut Turn { scope, run }, &port, run, host));
        self.heap_bytes = scope.heap_peak() as u64;
        result
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }
}
