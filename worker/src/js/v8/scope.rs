//! An isolate with one realm, for one run.

use std::rc::Rc;
use std::sync::Arc;

use deno_core::v8;
use deno_core::v8::script_compiler::CompileOptions;
use wire::{Run, ScriptError, ScriptErrorKind};

use super::super::port::Port;
use super::super::{MAX_REJECTIONS, Realm, SCRIPT_NAME, Turn, exposed, report, stopped};
use super::memory::{Buffers, HeapGuard};
use super::snapshot::{NO_IMPORTS, Snapshot, compile, default_export, no_dynamic_imports};
use crate::watchdog::Interrupt;

/// An isolate with its realm. Drop order: handles before the isolate, and the guard, which it calls until its end,
/// after.
pub(super) struct Scope {
    context: v8::Global<v8::Context>,
    bridge: Bridge,
    pub(super) port: Rc<Port>,
    interrupt: Arc<Interrupt>,
    isolate: v8::OwnedIsolate,
    heap: Box<HeapGuard>,
}

type Bridge = super::super::Bridge<v8::Global<v8::Function>>;

/// Promises rejected without a handler, with their reasons.
#[derive(Default)]
struct Rejections(Vec<(v8::Global<v8::Promise>, v8::Global<v8::Value>)>);

impl Scope {
    pub(super) fn new(snapshot: &Snapshot, heap_bytes: u64, interrupt: &Arc<Interrupt>) -> Result<Self, ScriptError> {
        let heap_bytes = usize::try_from(heap_bytes).unwrap_or(usize::MAX);
        let params =
            snapshot.params().heap_limits(0, heap_bytes).array_buffer_allocator(Buffers::allocator(heap_bytes));
        let mut isolate = v8::Isolate::new(params);
        let port = Rc::new(Port::default());
        isolate.set_slot(Rc::clone(&port));
        isolate.set_slot(Rejections::default());
        isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
        isolate.set_promise_reject_callback(on_rejection);
        isolate.set_host_import_module_dynamically_callback(no_dynamic_imports);
        isolate.set_allow_atomics_wait(false);
        let heap = HeapGuard::install(&mut isolate, heap_bytes);
        let handle = isolate.thread_safe_handle();
        interrupt.on_raise(move || {
            handle.terminate_execution();
        });
        let (context, bridge) = {
            v8::scope!(let scope, &mut isolate);
            let context = v8::Context::new(scope, v8::ContextOptions::default());
            context.set_allow_generation_from_strings(false);
            let scope = &mut v8::ContextScope::new(scope, context);
            let bridge = Bridge::new(scope, snapshot).map_err(|error| {
                ScriptError::new(ScriptErrorKind::Internal, format!("V8 does not start: {error:#}"))
            })?;
            (v8::Global::new(scope, context), bridge)
        };
        Ok(Self { context, bridge, port, heap, interrupt: Arc::clone(interrupt), isolate })
    }

    pub(super) fn heap_bytes(&mut self) -> u64 {
        let statistics = self.isolate.get_heap_statistics();
        (statistics.used_heap_size() + statistics.external_memory()) as u64
    }

    /// Runs `work` in the realm.
    fn enter<R>(&mut self, work: impl FnOnce(&mut v8::PinScope<'_, '_>, &Bridge) -> R) -> R {
        v8::scope!(let scope, &mut self.isolate);
        let context = v8::Local::new(scope, &self.context);
        let scope = &mut v8::ContextScope::new(scope, context);
        work(scope, &self.bridge)
    }

    /// Calls a function of the bridge.
    fn call(
        &mut self,
        function: fn(&Bridge) -> &v8::Global<v8::Function>,
        args: impl for<'s> FnOnce(&mut v8::PinScope<'s, '_>) -> Option<Vec<v8::Local<'s, v8::Value>>>,
    ) -> Result<(), Failure> {
        self.enter(|scope, bridge| call_caught(scope, bridge, function(bridge), args))
    }

    /// Reason why execution was stopped, if it was.
    fn stopped(&self, run: &Run) -> Option<ScriptError> {
        stopped(self.heap.is_hit(), &self.interrupt, run, &self.port)
    }
}

impl Bridge {
    fn new(scope: &mut v8::PinScope<'_, '_>, snapshot: &Snapshot) -> anyhow::Result<Self> {
        let bridge = snapshot.bridge(scope)?;
        let function = |name: &str| {
            let key = v8::String::new(scope, name).ok_or_else(|| anyhow::anyhow!("no memory"))?;
            let value = bridge.get(scope, key.into()).ok_or_else(|| anyhow::anyhow!("no {name}"))?;
            let function: v8::Local<'_, v8::Function> = value.try_into()?;
            anyhow::Ok(v8::Global::new(scope, function))
        };
        call(scope, &function("lock")?, &[]).ok_or_else(|| anyhow::anyhow!("the realm cannot be locked"))?;
        Self::of(function)
    }
}

extern "C" fn on_rejection(message: v8::PromiseRejectMessage<'_>) {
    v8::callback_scope!(unsafe scope, &message);
    let promise = v8::Global::new(scope, message.get_promise());
    let reason = message.get_value().map(|reason| v8::Global::new(scope, reason));
    let Some(Rejections(list)) = scope.get_slot_mut::<Rejections>() else { return };
    match (message.get_event(), reason) {
        (v8::PromiseRejectEvent::PromiseRejectWithNoHandler, Some(reason)) if list.len() < MAX_REJECTIONS => {
            list.push((promise, reason));
        }
        (v8::PromiseRejectEvent::PromiseHandlerAddedAfterReject, _) => {
            list.retain(|(rejected, _)| *rejected != promise)
        }
        _ => {}
    }
}

impl Turn<'_, Scope> {
    /// Compiles the script and calls its function.
    pub(super) fn start(&mut self) -> Result<(), ScriptError> {
        let exposed = exposed(self.run);
        let started = self.scope.enter(|scope, bridge| start(scope, bridge, &self.run.code, &exposed));
        started.map_err(|failure| self.script_error(failure))
    }

    fn script_error(&self, failure: Failure) -> ScriptError {
        if let Some(stopped) = self.scope.stopped(self.run) {
            return stopped;
        }
        match failure {
            Failure::Syntax { message, line, column } => {
                ScriptError { line, column, ..ScriptError::new(ScriptErrorKind::Syntax, message) }
            }
            Failure::Thrown(report) => report::script_error(self.run, &report),
            Failure::Unknown => ScriptError::new(ScriptErrorKind::Internal, "V8 failed without an error"),
        }
    }
}

/// V8's state after a call that returned nothing.
enum Failure {
    Syntax {
        message: String,
        line: u32,
        column: u32,
    },
    /// The prelude's report.
    Thrown(String),
    Unknown,
}

type Catching<'a, 'b, 's, 'i> = v8::PinnedRef<'a, v8::TryCatch<'b, 's, v8::HandleScope<'i>>>;

impl Failure {
    fn of_compiler(scope: &mut Catching<'_, '_, '_, '_>) -> Self {
        let Some(message) = scope.message() else { return Self::Unknown };
        let text = message.get(scope).to_rust_string_lossy(scope);
        let text = text.trim_start_matches("Uncaught ").to_owned();
        if text.contains("Maximum call stack size exceeded") {
            return Self::Syntax { message: "the code is nested too deeply".to_owned(), line: 0, column: 0 };
        }
        let line = message.get_line_number(scope).unwrap_or(0);
        let column = message.get_start_column().saturating_add(1);
        Self::Syntax {
            message: if text.starts_with("SyntaxError") { text } else { format!("SyntaxError: {text}") },
            line: u32::try_from(line).unwrap_or(0),
            column: u32::try_from(column).unwrap_or(0),
        }
    }

    fn of_script(scope: &mut Catching<'_, '_, '_, '_>, bridge: &Bridge) -> Self {
        if scope.has_terminated() {
            return Self::Unknown;
        }
        let Some(exception) = scope.exception() else { return Self::Unknown };
        scope.reset();
        match call(scope, &bridge.describe, &[exception]) {
            Some(report) => Self::Thrown(report.to_rust_string_lossy(scope)),
            None => Self::Unknown,
        }
    }
}

fn start(scope: &mut v8::PinScope<'_, '_>, bridge: &Bridge, code: &str, exposed: &str) -> Result<(), Failure> {
    v8::tc_scope!(let scope, scope);
    let Some(module) = compile(scope, SCRIPT_NAME, code, CompileOptions::empty()) else {
        return Err(Failure::of_compiler(scope));
    };
    if module.get_module_requests().length() > 0 {
        return Err(Failure::Syntax { message: NO_IMPORTS.to_owned(), line: 0, column: 0 });
    }
    start_module(scope, bridge, module, exposed).ok_or_else(|| Failure::of_script(scope, bridge))
}

fn call_caught(
    scope: &mut v8::PinScope<'_, '_>,
    bridge: &Bridge,
    function: &v8::Global<v8::Function>,
    args: impl for<'s> FnOnce(&mut v8::PinScope<'s, '_>) -> Option<Vec<v8::Local<'s, v8::Value>>>,
) -> Result<(), Failure> {
    v8::tc_scope!(let scope, scope);
    let called = args(scope).and_then(|args| call(scope, function, &args).map(drop));
    called.ok_or_else(|| Failure::of_script(scope, bridge))
}

fn start_module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bridge: &Bridge,
    module: v8::Local<'s, v8::Module>,
    exposed: &str,
) -> Option<()> {
    let exposed = v8::String::new(scope, exposed)?;
    call(scope, &bridge.expose, &[exposed.into()])?;
    let main = default_export(scope, module)?;
    call(scope, &bridge.run, &[main]).map(drop)
}

fn call<'s>(
    scope: &v8::PinScope<'s, '_>,
    function: &v8::Global<v8::Function>,
    args: &[v8::Local<'s, v8::Value>],
) -> Option<v8::Local<'s, v8::Value>> {
    let function = v8::Local::new(scope, function);
    let undefined = v8::undefined(scope).into();
    function.call(scope, undefined, args)
}

impl Realm for Turn<'_, Scope> {
    fn drain(&mut self) -> Result<(), ScriptError> {
        self.scope.isolate.perform_microtask_checkpoint();
        self.scope.stopped(self.run).map_or(Ok(()), Err)
    }

    fn deliver(&mut self, id: u64, ok: bool, json: &str) -> Result<(), ScriptError> {
        let delivered = self.scope.call(
            |bridge| &bridge.deliver,
            |scope| {
                #[expect(clippy::cast_precision_loss, reason = "calls of a run are counted in thousands at most")]
                let id = v8::Number::new(scope, id as f64);
                let rounds = v8::Boolean::new(scope, !wire::json::holds_all(json));
                let json = v8::String::new(scope, json)?;
                Some(vec![id.into(), v8::Boolean::new(scope, ok).into(), json.into(), rounds.into()])
            },
        );
        delivered.map_err(|failure| self.script_error(failure))
    }

    fn fire(&mut self, timer: u32) -> Result<(), ScriptError> {
        let fired = self
            .scope
            .call(|bridge| &bridge.fire, |scope| Some(vec![v8::Integer::new_from_unsigned(scope, timer).into()]));
        fired.map_err(|failure| self.script_error(failure))
    }

    fn unhandled(&mut self) -> Option<String> {
        let Rejections(list) = self.scope.isolate.get_slot_mut::<Rejections>()?;
        let (_, reason) = list.drain(..).next()?;
        self.scope.enter(|scope, bridge| {
            v8::tc_scope!(let scope, scope);
            let reason = v8::Local::new(scope, reason);
            Some(call(scope, &bridge.describe, &[reason])?.to_rust_string_lossy(scope))
        })
    }
}
