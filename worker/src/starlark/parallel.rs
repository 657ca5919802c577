//! `defer`, `parallel` and `try_call`: concurrent calls, and errors as values.

use std::collections::HashSet;
use std::fmt;

use allocative::Allocative;
use starlark::coerce::Coerce;
use starlark::eval::Evaluator;
use starlark::starlark_complex_value;
use starlark::values::dict::DictRef;
use starlark::values::function::FUNCTION_TYPE;
use starlark::values::structs::{AllocStruct, StructRef};
use starlark::values::tuple::TupleRef;
use starlark::values::{
    Freeze, Heap, NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Trace, Value, ValueLifetimeless,
    ValueLike, starlark_value,
};
use wire::{CallError, ErrorCode};

use super::namespace::Namespace;
use super::session::{CallFailed, Captured, Session};

/// A deferred call for `parallel`.
#[derive(Debug, Trace, Coerce, Freeze, ProvidesStaticType, NoSerialize, StarlarkPagable, Allocative)]
#[repr(C)]
pub(super) struct DeferredGen<V: ValueLifetimeless> {
    function: V,
    /// A tuple.
    args: V,
    /// A dict.
    kwargs: V,
}

starlark_complex_value!(pub(super) Deferred);

impl<V: ValueLifetimeless> fmt::Display for DeferredGen<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<deferred {}>", self.function)
    }
}

#[starlark_value(type = "deferred")]
impl<'v, V: ValueLike<'v>> StarlarkValue<'v> for DeferredGen<V> where Self: ProvidesStaticType<'v> {}

impl<'v> Deferred<'v> {
    pub(super) fn new(function: Value<'v>, args: Value<'v>, kwargs: Value<'v>) -> Self {
        Self { function, args, kwargs }
    }

    fn invoke(&self, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        invoke(self.function, self.args, self.kwargs, eval)
    }
}

/// Outcomes of `parallel`. It reads as their list, and has `results`, `errors` and `aborted` as in JavaScript.
#[derive(Debug, Trace, Coerce, Freeze, ProvidesStaticType, NoSerialize, StarlarkPagable, Allocative)]
#[repr(C)]
pub(super) struct OutcomesGen<V: ValueLifetimeless> {
    /// A list of `struct(ok, value, error)`.
    outcomes: V,
    /// A list of their values.
    results: V,
    /// A list of their errors, each with its index.
    errors: V,
}

starlark_complex_value!(pub(super) Outcomes);

impl<V: ValueLifetimeless> fmt::Display for OutcomesGen<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.outcomes, f)
    }
}

#[starlark_value(type = "outcomes")]
impl<'v, V: ValueLike<'v>> StarlarkValue<'v> for OutcomesGen<V>
where
    Self: ProvidesStaticType<'v>,
{
    fn to_bool(&self) -> bool {
        self.outcomes.to_value().to_bool()
    }

    fn length(&self) -> starlark::Result<i32> {
        self.outcomes.to_value().length()
    }

    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.outcomes.to_value().at(index, heap)
    }

    fn slice(
        &self,
        start: Option<Value<'v>>,
        stop: Option<Value<'v>>,
        step: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        self.outcomes.to_value().slice(start, stop, step, heap)
    }

    fn iterate_collect(&self, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        Ok(self.outcomes.to_value().iterate(heap)?.collect())
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        self.outcomes.to_value().is_in(other)
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        self.outcomes.to_value().equals(Outcomes::from_value(other).map_or(other, |other| other.outcomes))
    }

    fn add(&self, rhs: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        let rhs = Outcomes::from_value(rhs).map_or(rhs, |rhs| rhs.outcomes);
        Some(self.outcomes.to_value().add(rhs, heap))
    }

    fn get_attr(&self, attribute: &str, _heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "results" => Some(self.results.to_value()),
            "errors" => Some(self.errors.to_value()),
            // Only JavaScript has an option that makes it true.
            "aborted" => Some(Value::new_bool(false)),
            _ => None,
        }
    }

    fn dir_attr(&self) -> Vec<String> {
        ["results", "errors", "aborted"].map(str::to_owned).to_vec()
    }
}

impl<'v> Outcomes<'v> {
    /// Outcomes of these `struct(ok, value, error)`.
    fn new(outcomes: &[Value<'v>], session: &Session, heap: Heap<'v>) -> starlark::Result<Self> {
        let (mut results, mut errors) = (Vec::with_capacity(outcomes.len()), Vec::new());
        let mut fixes = HashSet::new();
        for (outcome, index) in outcomes.iter().zip(0_i32..) {
            let field = |name| Ok::<_, starlark::Error>(outcome.get_attr(name, heap)?.unwrap_or_default());
            results.push(field("value")?);
            let error = field("error")?;
            if let Some(fields) = StructRef::from_value(error) {
                // The outcome has the fix; with every error of an answer it would only be noise.
                let fix = fields.iter().find(|(name, _)| name.as_str() == "suggested_fix");
                let fix = fix.and_then(|(_, value)| value.unpack_str()).unwrap_or_default();
                let hidden = if fixes.insert(fix) { "" } else { "suggested_fix" };
                let shown = |name: &str, value| if name == hidden { Value::new_none() } else { value };
                let fields = fields.iter().map(|(name, value)| (name.as_str(), shown(name.as_str(), value)));
                errors.push(heap.alloc(AllocStruct([("index", heap.alloc(index))].into_iter().chain(fields))));
                if errors.len() == 1 {
                    session.failed_first(index, error, heap)?;
                }
            }
        }
        session.failed(errors.len());
        Ok(Self { outcomes: heap.alloc(outcomes.to_vec()), results: heap.alloc(results), errors: heap.alloc(errors) })
    }

    /// The list of outcomes.
    pub(super) fn list(&self) -> Value<'v> {
        self.outcomes
    }
}

/// Calls a function with arguments held as values.
pub(super) fn invoke<'v>(
    function: Value<'v>,
    args: Value<'v>,
    kwargs: Value<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let positional = TupleRef::from_value(args).map_or(&[][..], |args| args.content());
    let named: Vec<_> = DictRef::from_value(kwargs)
        .map(|kwargs| kwargs.iter().map(|(name, value)| (name.unpack_str().unwrap_or_default(), value)).collect())
        .unwrap_or_default();
    eval.eval_function(function, positional, &named)
}

/// Runs tasks with at most `concurrency` calls in flight.
pub(super) fn parallel<'v>(
    tasks: &[Value<'v>],
    concurrency: usize,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Outcomes<'v>> {
    let session = Session::of(eval)?;
    let mut results: Vec<Option<Value<'v>>> = vec![None; tasks.len()];
    let mut in_flight: Vec<(u64, usize)> = Vec::new();
    let mut started = 0;
    // Digests of the calls that functions of the script make.
    let mut made: Vec<Option<u64>> = Vec::new();
    while started < tasks.len() || !in_flight.is_empty() {
        if started < tasks.len() && in_flight.len() < concurrency {
            let is_of_script = tasks[started].parameters_spec().is_some();
            if is_of_script {
                session.watch();
            }
            let begun = start(tasks[started], session, eval)?;
            if is_of_script {
                made.push(session.watched());
            }
            match begun {
                Started::Call(call) => in_flight.push((call, started)),
                Started::Ended(result) => results[started] = Some(result),
            }
            started += 1;
            continue;
        }
        let calls: Vec<_> = in_flight.iter().map(|(call, _)| *call).collect();
        let call = session.wait_any(&calls);
        if let Some(position) = in_flight.iter().position(|(sent, _)| *sent == call) {
            let (_, index) = in_flight.swap_remove(position);
            let answer = session.wait(call).map_err(starlark::Error::new_native);
            let value = answer.and_then(|json| Ok(session.read_json(json.get(), eval.heap())?));
            if let (Ok(value), Some(tool)) = (&value, Namespace::from_value(function_of(tasks[index]))) {
                session.answered(&tool.shown, *value);
            }
            results[index] = Some(outcome(value, session, eval.heap())?);
        }
    }
    if let [first, rest @ ..] = made.as_slice()
        && first.is_some()
        && !rest.is_empty()
        && rest.iter().all(|calls| calls == first)
    {
        session.tell_alike(made.len());
    }
    let results: Vec<_> = results.into_iter().flatten().collect();
    Outcomes::new(&results, session, eval.heap())
}

fn function_of(task: Value<'_>) -> Value<'_> {
    Deferred::from_value(task).map_or(task, |deferred| deferred.function)
}

enum Started<'v> {
    /// A call was sent.
    Call(u64),
    /// Not a single request: the task has run to its end.
    Ended(Value<'v>),
}

fn start<'v>(task: Value<'v>, session: &Session, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Started<'v>> {
    let function = function_of(task);
    called(function, "parallel takes calls, as in parallel([defer(server.tool, name = value)])")?;
    session.capture(is_one_request(function));
    let result = match Deferred::from_value(task) {
        Some(deferred) => deferred.invoke(eval),
        None => eval.eval_function(task, &[], &[]),
    };
    session.capture(false);
    match result.as_ref().err().and_then(Captured::of) {
        Some(call) => Ok(Started::Call(call)),
        None => Ok(Started::Ended(outcome(result, session, eval.heap())?)),
    }
}

/// Refuses what cannot be called, such as the answer of a call.
///
/// # Errors
/// `message`, and the type.
pub(super) fn called(function: Value<'_>, message: &str) -> starlark::Result<()> {
    if function.get_type() == FUNCTION_TYPE || Namespace::from_value(function).is_some() {
        return Ok(());
    }
    Err(starlark::Error::new_native(anyhow::anyhow!("{message}; got {}", function.get_type())))
}

/// True if calling this makes one request and returns its value. Any other function may make several and needs their
/// values: it runs in place.
fn is_one_request(function: Value<'_>) -> bool {
    const NATIVES: [&str; 6] = ["call_tool", "read_resource", "prompt", "ls", "cat", "search"];
    if Namespace::from_value(function).is_some() {
        return true;
    }
    // Functions of the script have a parameter specification; natives show their name, partial ones their function's
    // first.
    if function.get_type() != FUNCTION_TYPE || function.parameters_spec().is_some() {
        return false;
    }
    let mut shown = Beginning::default();
    let ended = fmt::write(&mut shown, format_args!("{function}")).is_ok();
    ended && NATIVES.contains(&shown.0.as_str()) || shown.0.starts_with("partial(<forge ")
}

/// Beginning of a possibly very long text.
#[derive(Default)]
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > 64 { Err(fmt::Error) } else { Ok(()) }
    }
}

/// `struct(ok, value, error)`. A limit of the run is not a value: it ends the script.
pub(super) fn outcome<'v>(
    result: starlark::Result<Value<'v>>,
    session: &Session,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let (ok, value, error) = match result {
        Ok(value) => (true, value, Value::new_none()),
        Err(error) if session.is_over(heap) || Captured::of(&error).is_some() => return Err(error),
        Err(error) if CallFailed::of(&error).is_some_and(CallFailed::is_limit) => return Err(error),
        Err(error) => (false, Value::new_none(), error_value(&error, session, heap)?),
    };
    Ok(heap.alloc(AllocStruct([("ok", Value::new_bool(ok)), ("value", value), ("error", error)])))
}

fn error_value<'v>(error: &starlark::Error, session: &Session, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let error = match CallFailed::of(error) {
        Some(failed) => failed.error.clone(),
        None => CallError::new(ErrorCode::ScriptError, error.without_diagnostic().to_string()),
    };
    let data = match &error.data {
        Some(data) => session.read_json(data.get(), heap)?,
        None => Value::new_none(),
    };
    let fix = error.suggested_fix.map_or_else(Value::new_none, |fix| heap.alloc(fix));
    Ok(heap.alloc(AllocStruct([
        ("code", heap.alloc(<&str>::from(error.code))),
        ("message", heap.alloc(error.message)),
        ("retryable", Value::new_bool(error.retryable)),
        ("suggested_fix", fix),
        ("data", data),
    ])))
}
