//! The realm with the prelude, made once per process and copied for every run.

use std::borrow::Cow;
use std::rc::Rc;

use anyhow::Context as _;
use deno_core::v8::script_compiler::{CompileOptions, NoCacheReason, Source, compile_module2};
use deno_core::v8::{self, MapFnTo};

use super::super::port::Port;
use super::super::{PRELUDE, PRELUDE_NAME, natives};

/// Error of any import.
pub(super) const NO_IMPORTS: &str = "a script cannot import modules";

/// A heap with one context in it, whose only extra data is the prelude's bridge.
pub(super) struct Snapshot {
    blob: v8::StartupData,
    bridge: usize,
}

impl Snapshot {
    pub(super) fn with_prelude() -> anyhow::Result<Self> {
        let mut creator = v8::Isolate::snapshot_creator(Some(references()), None);
        let bridge = {
            v8::scope!(let scope, &mut creator);
            let context = v8::Context::new(scope, v8::ContextOptions::default());
            let scope = &mut v8::ContextScope::new(scope, context);
            let bridge = install(scope);
            scope.set_default_context(context);
            bridge.map(|bridge| scope.add_context_data(context, bridge))
        };
        // The creator must make its blob even if it is not used.
        let blob = creator.create_blob(v8::FunctionCodeHandling::Keep);
        Ok(Self { bridge: bridge?, blob: blob.context("V8 makes no snapshot")? })
    }

    /// Parameters of an isolate that starts from the snapshot.
    pub(super) fn params(&self) -> v8::CreateParams {
        v8::Isolate::create_params().snapshot_blob(self.blob.clone()).external_references(references())
    }

    /// The bridge of the new realm.
    pub(super) fn bridge<'s>(&self, scope: &v8::PinScope<'s, '_>) -> anyhow::Result<v8::Local<'s, v8::Object>> {
        Ok(scope.get_context_data_from_snapshot_once::<v8::Object>(self.bridge)?)
    }
}

/// Runs the prelude and returns its functions for the host.
fn install<'s>(scope: &mut v8::PinScope<'s, '_>) -> anyhow::Result<v8::Local<'s, v8::Object>> {
    v8::tc_scope!(let scope, scope);
    let installed = call_prelude(scope);
    match (installed, scope.exception()) {
        (Some(bridge), _) => Ok(bridge),
        (None, Some(exception)) => anyhow::bail!("prelude: {}", exception.to_rust_string_lossy(scope)),
        (None, None) => anyhow::bail!("the prelude does not run"),
    }
}

fn call_prelude<'s>(scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Object>> {
    let host = v8::Object::new(scope);
    for (name, callback) in host_functions() {
        // Two are the script's own `Date.now` and `Math.random`, which are no constructors.
        let function = v8::Function::builder_raw(callback).constructor_behavior(v8::ConstructorBehavior::Throw);
        let (function, name) = (function.build(scope)?, v8::String::new(scope, name)?);
        function.set_name(name);
        host.set(scope, name.into(), function.into())?;
    }
    // Eagerly: each realm would compile lazy functions again.
    let module = compile(scope, PRELUDE_NAME, PRELUDE, CompileOptions::EagerCompile)?;
    let install: v8::Local<'_, v8::Function> = default_export(scope, module)?.try_into().ok()?;
    let undefined = v8::undefined(scope).into();
    let bridge: v8::Local<'_, v8::Object> = install.call(scope, undefined, &[host.into()])?.try_into().ok()?;
    // Freezing takes longer than copying frozen objects.
    let prepare = v8::String::new(scope, "prepare")?;
    let prepare: v8::Local<'_, v8::Function> = bridge.get(scope, prepare.into())?.try_into().ok()?;
    prepare.call(scope, undefined, &[])?;
    Some(bridge)
}

/// Compiles an ES module.
pub(super) fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: &str,
    code: &str,
    options: CompileOptions,
) -> Option<v8::Local<'s, v8::Module>> {
    let name = v8::String::new(scope, name)?.into();
    let origin = v8::ScriptOrigin::new(scope, name, 0, 0, false, 0, None, false, false, true, None);
    let code = v8::String::new(scope, code)?;
    let mut source = Source::new(code, Some(&origin));
    compile_module2(scope, &mut source, options, NoCacheReason::NoReason)
}

/// Links and evaluates a module and returns its default export.
pub(super) fn default_export<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    module.instantiate_module(scope, no_imports)?;
    let evaluated: v8::Local<'_, v8::Promise> = module.evaluate(scope)?.try_into().ok()?;
    if evaluated.state() == v8::PromiseState::Rejected {
        evaluated.mark_as_handled();
        let reason = evaluated.result(scope);
        scope.throw_exception(reason);
        return None;
    }
    let exports: v8::Local<'_, v8::Object> = module.get_module_namespace().try_into().ok()?;
    let name = v8::String::new(scope, "default")?;
    exports.get(scope, name.into())
}

fn no_imports<'s>(
    context: v8::Local<'s, v8::Context>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
    _referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    v8::callback_scope!(unsafe scope, context);
    throw_no_imports(scope);
    None
}

/// `import()`: the promise is rejected with the error thrown here.
pub(super) fn no_dynamic_imports<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _options: v8::Local<'s, v8::Data>,
    _resource: v8::Local<'s, v8::Value>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    throw_no_imports(scope);
    None
}

fn throw_no_imports(scope: &mut v8::PinScope<'_, '_>) {
    if let Some(message) = v8::String::new(scope, NO_IMPORTS) {
        let error = v8::Exception::syntax_error(scope, message);
        scope.throw_exception(error);
    }
}

/// The host's functions for the prelude, in an order that never changes within a process.
fn host_functions() -> [(&'static str, v8::FunctionCallback); 8] {
    [
        ("send", send.map_fn_to()),
        ("output", output.map_fn_to()),
        ("progress", progress.map_fn_to()),
        ("timer", timer.map_fn_to()),
        ("settle", settle.map_fn_to()),
        ("native", native.map_fn_to()),
        ("now", now.map_fn_to()),
        ("random", random.map_fn_to()),
    ]
}

/// Their addresses in the snapshot.
fn references() -> Cow<'static, [v8::ExternalReference]> {
    Cow::Owned(host_functions().map(|(_, function)| v8::ExternalReference { function }).into())
}

fn port(scope: &v8::PinScope<'_, '_>) -> Option<Rc<Port>> {
    scope.get_slot::<Rc<Port>>().cloned()
}

fn send(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut ret: v8::ReturnValue<'_>) {
    let op = args.get(0).to_rust_string_lossy(scope);
    match port(scope).map(|port| port.send(&op)) {
        #[expect(clippy::cast_precision_loss, reason = "calls of a run are counted in thousands at most")]
        Some(Ok(call)) => ret.set_double(call as f64),
        Some(Err(error)) => {
            if let Some(error) = v8::String::new(scope, &error) {
                ret.set(error.into());
            }
        }
        None => {}
    }
}

fn output(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let text = args.get(1).to_rust_string_lossy(scope);
    let Some(port) = port(scope) else { return };
    port.output(args.get(0).is_true(), &text);
}

fn progress(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let text = args.get(0).to_rust_string_lossy(scope);
    let Some(port) = port(scope) else { return };
    port.progress(&text);
}

fn timer(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut ret: v8::ReturnValue<'_>) {
    let id = args.get(0).uint32_value(scope).unwrap_or(0);
    let ms = args.get(1).number_value(scope).unwrap_or(0.0);
    if let Some(Err(error)) = port(scope).map(|port| port.timer(id, ms))
        && let Some(error) = v8::String::new(scope, &error)
    {
        ret.set(error.into());
    }
}

fn now(scope: &mut v8::PinScope<'_, '_>, _: v8::FunctionCallbackArguments<'_>, mut ret: v8::ReturnValue<'_>) {
    let Some(port) = port(scope) else { return };
    ret.set_double(port.now());
}

fn random(scope: &mut v8::PinScope<'_, '_>, _: v8::FunctionCallbackArguments<'_>, mut ret: v8::ReturnValue<'_>) {
    let Some(port) = port(scope) else { return };
    ret.set_double(port.random());
}

fn settle(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let text = args.get(1).to_rust_string_lossy(scope);
    let Some(port) = port(scope) else { return };
    port.settle(args.get(0).is_true(), text);
}

fn native(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut ret: v8::ReturnValue<'_>) {
    let (name, text) = (args.get(0).to_rust_string_lossy(scope), args.get(1).to_rust_string_lossy(scope));
    if let Some(answer) = v8::String::new(scope, &natives::call(&name, &text)) {
        ret.set(answer.into());
    }
}
