//! Starlark.

use std::sync::Arc;

use wire::{EngineInfo, Json, Language, Run, ScriptError, ScriptErrorKind};

use crate::engine::{Engine, SharedHost, script_error};
use crate::watchdog::Interrupt;

/// The Starlark engine.
pub(crate) struct Starlark {
    interrupt: Arc<Interrupt>,
}

impl Starlark {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> Self {
        Self { interrupt }
    }
}

impl Engine for Starlark {
    fn info(&self) -> EngineInfo {
        EngineInfo { language: Language::Starlark, engine: "starlark".to_owned(), version: "0.14".to_owned() }
    }

    fn prepare(&mut self) {}

    fn run(&mut self, _run: &Run, _host: &SharedHost) -> Result<Json, ScriptError> {
        let _ = self.interrupt.is_raised();
        Err(script_error(ScriptErrorKind::Internal, "not yet"))
    }

    fn heap_bytes(&self) -> u64 {
        0
    }
}
