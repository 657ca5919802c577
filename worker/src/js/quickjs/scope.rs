//! A realm of QuickJS, for one run.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use rquickjs::context::intrinsic::{Date, Json, MapSet, Promise, Proxy, RegExp, RegExpCompiler, TypedArrays, WeakRef};
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Error, Function, IntoJs, Module, Object, Persistent, Runtime, Value,
};
use wire::{Run, ScriptError, ScriptErrorKind};

use super::super::port::Port;
use super::super::{MAX_REJECTIONS, Realm, SCRIPT_NAME, Turn, exposed, natives, report, stopped};
use super::compiler::{Bytecode, Compiler, new_runtime};
use super::memory::Heap;
use crate::engine::SharedHost;
use crate::watchdog::Interrupt;

/// A global scope, made once and restored for every run, byte for byte. Fields are dropped in order: values before the context, the context before the runtime.
pub(super) struct Scope {
    bridge: Bridge,
    rejections: Rejections,
    port: Rc<Port>,
    compiler: Compiler,
    context: Context,
    runtime: Runtime,
    heap: Rc<Heap>,
    interrupt: Arc<Interrupt>,
    /// The realm reads it in place.
    code: Vec<Bytecode>,
}

/// Promises rejected without a handler, with their reasons.
type Rejections = Rc<RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>>;

type Bridge = super::super::Bridge<Persistent<Function<'static>>>;

impl Drop for Scope {
    fn drop(&mut self) {
        // The runtime holds the other half of this list.
        self.rejections.borrow_mut().clear();
    }
}

impl Scope {
    /// A scope for runs with up to `heap_bytes`.
    pub(super) fn new(interrupt: &Arc<Interrupt>, prelude: &Bytecode, heap_bytes: usize) -> anyhow::Result<Self> {
        type Intrinsics = (Date, RegExpCompiler, RegExp, Json, Proxy, MapSet, TypedArrays, Promise, WeakRef);
        let heap = Heap::with_limit(heap_bytes).context("no memory for a heap")?;
        let runtime = new_runtime(interrupt, &heap)?;
        let context = Context::custom::<Intrinsics>(&runtime)?;
        let port = Rc::new(Port::default());
        let rejections = Rejections::default();
        track_rejections(&runtime, &rejections);
        let bridge = context.with(|ctx| {
            let made = load(&ctx, prelude).and_then(|install| {
                let install = Function::from_value(install)?;
                let api: Object<'_> = install.call((host_object(&ctx, &port)?,))?;
                api.get::<_, Function<'_>>("lock")?.call::<_, ()>(())?;
                Bridge::new(&ctx, &api)
            });
            made.catch(&ctx).map_err(|error| anyhow::anyhow!("{error}"))
        })?;
        let compiler = Compiler::new(interrupt)?;
        runtime.run_gc();
        heap.save();
        Ok(Self {
            bridge,
            rejections,
            port,
            compiler,
            context,
            runtime,
            heap,
            interrupt: Arc::clone(interrupt),
            code: vec![Rc::clone(prelude)],
        })
    }

    /// Makes it as new again, after a run.
    pub(super) fn restore(&mut self) {
        self.rejections.borrow_mut().clear();
        self.port.disconnect();
        self.compiler.restore();
        #[expect(unsafe_code, reason = "no call is active, and what is left of the run's values was just dropped")]
        unsafe {
            self.heap.restore();
        }
        // No realm reads the script any more.
        self.code.truncate(1);
    }

    /// True if runs with such a heap fit in it.
    pub(super) fn can_have(&self, heap_bytes: usize) -> bool {
        self.heap.can_be(heap_bytes)
    }

    /// Connects the prelude to the host of a run, and sets the heap limit.
    pub(super) fn connect(&self, run: &Run, host: &SharedHost) -> &Rc<Port> {
        self.heap.set_limit(usize::try_from(run.limits.heap_bytes).unwrap_or(usize::MAX));
        self.port.connect(run, host);
        &self.port
    }

    pub(super) fn heap_peak(&self) -> usize {
        self.heap.peak()
    }

    /// Compiles and loads the script, and calls its function.
    pub(super) fn start(&mut self, run: &Run) -> Result<(), ScriptError> {
        let code = self.compiler.compile(SCRIPT_NAME, &run.code)?;
        self.code.push(Rc::clone(&code));
        let exposed = exposed(run);
        self.enter(run, |ctx, bridge| {
            bridge.expose.clone().restore(ctx)?.call::<_, ()>((exposed,))?;
            let main = load(ctx, &code)?;
            bridge.run.clone().restore(ctx)?.call::<_, Value<'_>>((main,)).map(drop)
        })
    }

    /// Calls into the realm; an error that escapes is a limit, or a bug.
    fn enter<R>(
        &self,
        run: &Run,
        call: impl for<'js> FnOnce(&Ctx<'js>, &Bridge) -> rquickjs::Result<R>,
    ) -> Result<R, ScriptError> {
        self.context.with(|ctx| call(&ctx, &self.bridge).catch(&ctx).map_err(|error| self.escaped(run, &ctx, &error)))
    }

    fn escaped<'js>(&self, run: &Run, ctx: &Ctx<'js>, error: &CaughtError<'js>) -> ScriptError {
        if let Some(stopped) = self.stopped(run) {
            return stopped;
        }
        let text = error.to_string();
        let described = match error {
            CaughtError::Exception(exception) => self.describe(ctx, exception.as_object().as_value().clone()),
            CaughtError::Value(value) => self.describe(ctx, value.clone()),
            CaughtError::Error(_) => None,
        };
        match described {
            Some(report) => report::script_error(run, &report),
            None => ScriptError::new(ScriptErrorKind::Script, text),
        }
    }

    /// Reason why execution was stopped, if it was.
    fn stopped(&self, run: &Run) -> Option<ScriptError> {
        stopped(self.heap.is_used_up(), &self.interrupt, run, &self.port)
    }

    fn describe<'js>(&self, ctx: &Ctx<'js>, error: Value<'js>) -> Option<String> {
        self.bridge.describe.clone().restore(ctx).and_then(|describe| describe.call((error,))).ok()
    }
}

impl Bridge {
    fn new<'js>(ctx: &Ctx<'js>, api: &Object<'js>) -> rquickjs::Result<Self> {
        Self::of(|name| Ok(Persistent::save(ctx, api.get::<_, Function<'js>>(name)?)))
    }
}

/// Loads a module from bytecode, evaluates it and returns its default export.
fn load<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> rquickjs::Result<Value<'js>> {
    #[expect(unsafe_code, reason = "the bytes were written by this process' own compiler and outlive the realm")]
    let module = unsafe { Module::load(ctx.clone(), code) }?;
    let (module, evaluated) = module.eval()?;
    // An error of the evaluation is in the promise; a pending promise waits for a top-level `await`.
    if let Some(result) = evaluated.result::<Value<'js>>() {
        result?;
    }
    module.get("default")
}

fn host_object<'js>(ctx: &Ctx<'js>, port: &Rc<Port>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    let own = Rc::clone(port);
    let send = move |ctx: Ctx<'js>, op: String| -> rquickjs::Result<Value<'js>> {
        match own.send(&op) {
            Ok(call) => call.into_js(&ctx),
            Err(error) => error.into_js(&ctx),
        }
    };
    host.set("native", Function::new(ctx.clone(), |name: String, text: String| natives::call(&name, &text))?)?;
    host.set("send", Function::new(ctx.clone(), send)?)?;
    let own = Rc::clone(port);
    host.set("output", Function::new(ctx.clone(), move |is_error: bool, text: String| own.output(is_error, &text))?)?;
    let own = Rc::clone(port);
    host.set("progress", Function::new(ctx.clone(), move |text: String| own.progress(&text))?)?;
    let own = Rc::clone(port);
    host.set("timer", Function::new(ctx.clone(), move |id: u32, ms: f64| own.timer(id, ms).err())?)?;
    // These two are the script's own `Date.now` and `Math.random`.
    let own = Rc::clone(port);
    host.set("now", Function::new(ctx.clone(), move || own.now())?.with_name("now")?)?;
    let own = Rc::clone(port);
    host.set("random", Function::new(ctx.clone(), move || own.random())?.with_name("random")?)?;
    let own = Rc::clone(port);
    host.set("settle", Function::new(ctx.clone(), move |ok: bool, text: String| own.settle(ok, text))?)?;
    Ok(host)
}

fn track_rejections(runtime: &Runtime, rejections: &Rejections) {
    let rejections = Rc::clone(rejections);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
        let promise = Persistent::save(&ctx, promise);
        let mut list = rejections.borrow_mut();
        if handled {
            list.retain(|(rejected, _)| *rejected != promise);
        } else if list.len() < MAX_REJECTIONS {
            list.push((promise, Persistent::save(&ctx, reason)));
        }
    })));
}

impl Realm for Turn<'_, Scope> {
    fn drain(&mut self) -> Result<(), ScriptError> {
        loop {
            let ran = self.scope.runtime.execute_pending_job();
            if let Some(stopped) = self.scope.stopped(self.run) {
                return Err(stopped);
            }
            match ran {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failed) => {
                    return Err(failed.0.with(|ctx| {
                        let error = CaughtError::from_error(&ctx, Error::Exception);
                        self.scope.escaped(self.run, &ctx, &error)
                    }));
                }
            }
        }
    }

    fn deliver(&mut self, call: u64, ok: bool, json: &str) -> Result<(), ScriptError> {
        let rounds = !wire::json::holds_all(json);
        self.scope.enter(self.run, |ctx, bridge| bridge.deliver.clone().restore(ctx)?.call((call, ok, json, rounds)))
    }

    fn fire(&mut self, timer: u32) -> Result<(), ScriptError> {
        self.scope.enter(self.run, |ctx, bridge| bridge.fire.clone().restore(ctx)?.call((timer,)))
    }

    fn unhandled(&mut self) -> Option<String> {
        let (_, reason) = self.scope.rejections.borrow().first().cloned()?;
        self.scope.context.with(|ctx| reason.restore(&ctx).ok().and_then(|reason| self.scope.describe(&ctx, reason)))
    }
}
