//! Built-in functions and modules of Python that Starlark lacks, with the bounds of the others.

use std::num::NonZeroU8;

use num_bigint::BigInt;
use starlark::ErrorKind;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::DictRef;
use starlark::values::float::UnpackFloat;
use starlark::values::list::AllocList;
use starlark::values::none::NoneType;
use starlark::values::range::Range;
use starlark::values::string::StarlarkStr;
use starlark::values::tuple::{TupleRef, UnpackTuple};
use starlark::values::{Heap, UnpackValue as _, Value};
use wire::{Op, Stream};

use super::EXACT;
use super::format::{fields, format as format_value};
use super::session::Session;
use super::text;

/// The functions, and the modules under the names that an `import` gives another one.
pub(super) fn python(builder: &mut GlobalsBuilder) {
    functions(builder);
    builder.set("__name__", "__main__");
    builder.namespace("__time", |builder| {
        time(builder);
        waiting(builder);
    });
    builder.namespace("__math", |builder| {
        builder.set("pi", std::f64::consts::PI);
        builder.set("inf", f64::INFINITY);
        math(builder);
    });
    builder.namespace("__asyncio", |builder| {
        asyncio(builder);
        waiting(builder);
    });
}

#[starlark_module]
fn functions(builder: &mut GlobalsBuilder) {
    /// The range of an endless loop.
    fn __forever() -> anyhow::Result<Range> {
        Ok(Range::new(0, i32::MAX, NonZeroU8::MIN.into()))
    }

    #[starlark(as_type = StarlarkStr)]
    fn str<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        as_text(value, eval)
    }

    /// `str` in the field of an f-string, where a variable of a script may have its name. What Starlark writes as Python
    /// does is left to the f-string.
    fn __str<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        if text::is_plain(value) { Ok(value) } else { as_text(value, eval) }
    }

    fn repr<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        text::repr(value, eval.heap(), Session::of(eval)?.heap_bytes())
    }

    fn print<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let session = Session::of(eval)?;
        session.output(Stream::Out, &line(&values.items, eval, session.output_bytes())?);
        Ok(NoneType)
    }

    /// Ends the script; Starlark's own rounds floats in the text.
    fn fail<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let text = line(&values.items, eval, Session::of(eval)?.heap_bytes())?;
        let text = if values.items.is_empty() { text } else { format!(" {text}") };
        Err(starlark::Error::new_kind(ErrorKind::Fail(anyhow::Error::msg(text))))
    }

    fn format<'v>(
        value: Value<'v>,
        #[starlark(default = "")] spec: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        format_value(value, spec, eval.heap(), Session::of(eval)?.heap_bytes() / 2)
    }

    /// `value.format(…)`: of a text the format of Python, of all else the attribute.
    fn __format<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(args)] args: UnpackTuple<Value<'v>>,
        #[starlark(kwargs)] named: DictRef<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        if let Some(template) = value.unpack_str() {
            let text = fields(template, (&args.items, &named), heap, Session::of(eval)?.heap_bytes() / 2)?;
            return Ok(heap.alloc(text));
        }
        let Some(function) = value.get_attr("format", heap)? else {
            let what = format!("Object of type `{}` has no attribute `format`", value.get_type());
            return Err(anyhow::Error::msg(what).into());
        };
        let named: Vec<_> = named.iter().map(|(name, value)| (name.unpack_str().unwrap_or_default(), value)).collect();
        eval.eval_function(function, &args.items, &named)
    }

    fn sum<'v>(
        #[starlark(require = pos)] items: Value<'v>,
        start: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let mut total = start.unwrap_or_else(|| heap.alloc(0));
        for item in items.iterate(heap)? {
            Session::of(eval)?.check(heap)?;
            total = total.add(item, heap)?;
        }
        Ok(total)
    }

    /// The first item, else the other value.
    fn next<'v>(
        #[starlark(require = pos)] items: Value<'v>,
        #[starlark(require = pos)] default: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let first = items.iterate(eval.heap())?.next().or(default);
        Ok(first.ok_or_else(|| anyhow::anyhow!("the first of an empty iterable"))?)
    }

    /// Halves go to the even neighbour, as in Python.
    fn round<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        ndigits: Option<i32>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let Some(UnpackFloat(float)) = UnpackFloat::unpack_value(number).ok().flatten() else {
            anyhow::bail!("round takes a number, not a {}", number.get_type());
        };
        let (is_whole, digits) = (number.get_type() == "int", ndigits.unwrap_or(0).min(300));
        let decimals = usize::try_from(digits).unwrap_or(0);
        let rounded = match digits {
            0.. if is_whole => return Ok(number),
            0.. => format!("{float:.decimals$}").parse()?,
            _ if is_whole && float.abs() >= EXACT => anyhow::bail!("{number} is too large to round"),
            ..-308 => 0.0,
            _ => (float / 10_f64.powi(-digits)).round_ties_even() * 10_f64.powi(-digits),
        };
        if !is_whole && ndigits.is_some() {
            return Ok(heap.alloc(rounded));
        }
        Ok(heap.alloc(format!("{rounded:.0}").parse::<BigInt>()?))
    }

    /// True if the value is of this type, or of one of them.
    fn isinstance<'v>(value: Value<'v>, kind: Value<'v>) -> anyhow::Result<bool> {
        let kinds = TupleRef::from_value(kind).map_or(vec![kind], |kinds| kinds.content().to_vec());
        Ok(kinds.into_iter().any(|kind| match (kind.to_str().as_str(), value.get_type()) {
            ("str", "string") | ("int", "bool") | ("float", "number") | ("list", "outcomes") => true,
            (kind, of) => kind == of,
        }))
    }
}

/// Values in one line, which ends where it is longer than `most` bytes.
fn line<'v>(values: &[Value<'v>], eval: &Evaluator<'v, '_, '_>, most: usize) -> anyhow::Result<String> {
    let mut line = String::new();
    for (index, value) in values.iter().enumerate() {
        line.push_str(if index > 0 { " " } else { "" });
        line.push_str(&text::text(*value, eval.heap(), Session::of(eval)?.heap_bytes())?);
        if line.len() > most {
            break;
        }
    }
    Ok(line)
}

fn as_text<'v>(value: Value<'v>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
    if value.unpack_str().is_some() {
        return Ok(value);
    }
    Ok(eval.heap().alloc(text::repr(value, eval.heap(), Session::of(eval)?.heap_bytes())?))
}

#[starlark_module]
fn time(builder: &mut GlobalsBuilder) {
    /// Seconds since 1970 by the clock of the run, which moves with the answers of calls.
    fn time<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "exact for the next 280,000 years")]
        let now = Session::of(eval)?.now_ms() as f64;
        Ok(now / 1000.0)
    }
}

/// A float as a whole number; an integer is one.
fn whole<'v>(number: Value<'v>, rounded: fn(f64) -> f64, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
    match UnpackFloat::unpack_value(number).ok().flatten() {
        Some(_) if number.get_type() == "int" => Ok(number),
        Some(UnpackFloat(float)) => Ok(heap.alloc(format!("{:.0}", rounded(known(float)?)).parse::<BigInt>()?)),
        None => anyhow::bail!("this takes a number, not a {}", number.get_type()),
    }
}

/// A number that Python has too.
fn known(number: f64) -> anyhow::Result<f64> {
    anyhow::ensure!(number.is_finite(), "math domain error");
    Ok(number)
}

#[starlark_module]
fn math(builder: &mut GlobalsBuilder) {
    fn floor<'v>(x: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        whole(x, f64::floor, eval.heap())
    }

    fn ceil<'v>(x: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        whole(x, f64::ceil, eval.heap())
    }

    fn sqrt(x: UnpackFloat) -> anyhow::Result<f64> {
        known(x.0.sqrt())
    }

    fn pow(x: UnpackFloat, y: UnpackFloat) -> anyhow::Result<f64> {
        known(x.0.powf(y.0))
    }

    fn log(x: UnpackFloat, base: Option<UnpackFloat>) -> anyhow::Result<f64> {
        known(base.map_or(x.0.ln(), |base| x.0.ln() / base.0.ln()))
    }
}

#[starlark_module]
fn waiting(builder: &mut GlobalsBuilder) {
    fn sleep<'v>(seconds: UnpackFloat, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<NoneType> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let ms = (seconds.0 * 1000.0) as u32;
        Session::of(eval)?.ask(Op::Sleep { ms }, eval.heap())?;
        Ok(NoneType)
    }
}

#[starlark_module]
fn asyncio(builder: &mut GlobalsBuilder) {
    /// The value itself: a call has waited for its answer.
    fn run<'v>(value: Value<'v>) -> anyhow::Result<Value<'v>> {
        Ok(value)
    }

    /// The values: each call has waited for its answer.
    fn gather<'v>(#[starlark(args)] values: UnpackTuple<Value<'v>>) -> anyhow::Result<AllocList<Vec<Value<'v>>>> {
        Ok(AllocList(values.items))
    }
}
