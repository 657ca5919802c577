//! JavaScript on QuickJS.
//!
//! A realm has no Eval intrinsic: code is compiled to bytecode in another runtime and loaded, so that nothing in the
//! script's reach can compile a string.

mod compiler;
mod memory;
mod scope;

use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use wire::{EngineInfo, EngineName, Json, Language, Run, ScriptError, ScriptErrorKind};

use self::compiler::{Bytecode, Compiler};
use self::scope::{Scope, Turn};
use super::{PRELUDE, PRELUDE_NAME, drive};
use crate::engine::{Engine, SharedHost, script_error};
use crate::watchdog::Interrupt;

/// The QuickJS engine.
pub(crate) struct QuickJs {
    interrupt: Arc<Interrupt>,
    prelude: Bytecode,
    ready: Option<Scope>,
    /// The last run's, until its result is sent.
    spent: Option<Scope>,
    heap_bytes: u64,
}

impl QuickJs {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> anyhow::Result<Self> {
        let compiler = Compiler::new(&interrupt).context("QuickJS compiler")?;
        let prelude = compiler.compile(PRELUDE_NAME, PRELUDE).map_err(|error| anyhow::anyhow!("prelude: {error:?}"))?;
        Ok(Self { interrupt, prelude, ready: None, spent: None, heap_bytes: 0 })
    }

    fn scope(&mut self) -> Result<Scope, ScriptError> {
        let made = match self.ready.take() {
            Some(scope) => Ok(scope),
            None => Scope::new(&self.interrupt, &self.prelude),
        };
        made.map_err(|error| script_error(ScriptErrorKind::Internal, format!("QuickJS does not start: {error:#}")))
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
        self.spent = None;
        if self.ready.is_none() {
            // An error occurs again, and is reported, when the run makes its own.
            self.ready = Scope::new(&self.interrupt, &self.prelude).ok();
        }
    }

    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
        let mut scope = self.scope()?;
        let port = Rc::clone(scope.connect(run, host));
        let result = scope.start(run).and_then(|()| drive(&mut Turn { scope: &mut scope, run }, &port, run, host));
        self.heap_bytes = scope.heap_peak() as u64;
        self.spent = Some(scope);
        result
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }
}
