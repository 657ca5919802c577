//! Values as text, as Python writes them. Starlark's own `str` keeps six decimals of a float of a million, and no
//! more: `1.234568e+06` for `1234567.891`. Floats in functions, such as those of `partial`, stay as Starlark writes them.

use std::borrow::Cow;

use starlark::values::dict::DictRef;
use starlark::values::float::StarlarkFloat;
use starlark::values::list::ListRef;
use starlark::values::structs::StructRef;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, Value, ValueLike as _};

use super::parallel::Outcomes;

/// Deepest nesting that is written out.
const MAX_DEPTH: usize = 120;
/// Most values in one that are looked at for a float.
const MAX_LOOKED_AT: usize = 100_000;
/// Exponents of numbers that Python writes without one.
const PLAIN: std::ops::Range<i32> = -4..16;

/// A text over the limit in bytes.
#[derive(Debug, thiserror::Error)]
#[error("the text is over the limit of {0} bytes")]
pub(super) struct TooLong(usize);

/// True for a value whose text Starlark writes as Python does: it holds no float. What is large, deep or in itself is
/// taken for one that does.
pub(super) fn is_plain(value: Value<'_>) -> bool {
    has_no_float(value, MAX_DEPTH, &mut { MAX_LOOKED_AT })
}

fn has_no_float(value: Value<'_>, depth: usize, left: &mut usize) -> bool {
    let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else { return false };
    *left = fewer;
    if let Some(items) = ListRef::from_value(value) {
        items.iter().all(|item| has_no_float(item, depth, left))
    } else if let Some(items) = TupleRef::from_value(value) {
        items.iter().all(|item| has_no_float(item, depth, left))
    } else if let Some(dict) = DictRef::from_value(value) {
        dict.iter().all(|(key, item)| has_no_float(key, depth, left) && has_no_float(item, depth, left))
    } else {
        matches!(value.get_type(), "string" | "int" | "bool" | "NoneType")
    }
}

/// `str(value)`: a text of any size as it is, another value in at most `max_bytes`.
pub(super) fn text<'v>(value: Value<'v>, heap: Heap<'v>, max_bytes: usize) -> anyhow::Result<Cow<'v, str>> {
    match value.unpack_str() {
        Some(text) => Ok(text.into()),
        None => Ok(repr(value, heap, max_bytes)?.into()),
    }
}

/// `repr(value)` of at most `max_bytes`.
pub(super) fn repr<'v>(value: Value<'v>, heap: Heap<'v>, max_bytes: usize) -> anyhow::Result<String> {
    let mut writer = Writer { text: String::new(), heap, max_bytes, around: Vec::new() };
    writer.value(value)?;
    Ok(writer.text)
}

/// The number with as many digits as it needs to be read as the same.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let shortest = format!("{number:e}");
    let (_, exponent) = parts(&shortest);
    match PLAIN.contains(&exponent) {
        true if number.fract() == 0.0 => format!("{number:.1}"),
        true => number.to_string(),
        false => signed_exponent(&shortest),
    }
}

/// `%e`: one digit before the point, and so many behind it.
pub(super) fn scientific(number: f64, precision: usize) -> String {
    match number.is_finite() {
        true => signed_exponent(&format!("{number:.precision$e}")),
        false => float(number),
    }
}

/// `%g`: so many digits, without zeros at the end, and with an exponent where the number is small or needs more.
pub(super) fn general(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return float(number);
    }
    let digits = precision.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (_, exponent) = parts(&scientific);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let decimals = usize::try_from(i64::try_from(digits).unwrap_or(i64::MAX) - 1 - i64::from(exponent));
    match decimals {
        Ok(decimals) if exponent >= PLAIN.start => trimmed(&format!("{number:.decimals$}")),
        _ => signed_exponent(&format!("{}e{exponent}", trimmed(parts(&scientific).0))),
    }
}

/// Digits and exponent of a number that Rust wrote with `e`.
fn parts(text: &str) -> (&str, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

/// An exponent with its sign and at least two digits.
fn signed_exponent(text: &str) -> String {
    let (digits, exponent) = parts(text);
    format!("{digits}e{exponent:+03}")
}

struct Writer<'v> {
    text: String,
    heap: Heap<'v>,
    max_bytes: usize,
    /// Values that the present one is in.
    around: Vec<Value<'v>>,
}

impl<'v> Writer<'v> {
    fn value(&mut self, value: Value<'v>) -> anyhow::Result<()> {
        if let Some(StarlarkFloat(number)) = value.downcast_ref() {
            self.text.push_str(&float(*number));
        } else if let Some(items) = ListRef::from_value(value) {
            self.inside(value, ("[", "]"), items.iter(), Self::value)?;
        } else if let Some(items) = TupleRef::from_value(value) {
            let close = if items.len() == 1 { ",)" } else { ")" };
            self.inside(value, ("(", close), items.iter(), Self::value)?;
        } else if value.get_type() == "set" {
            let items = value.iterate(self.heap).map_err(starlark::Error::into_anyhow)?;
            self.inside(value, ("set([", "])"), items, Self::value)?;
        } else if let Some(dict) = DictRef::from_value(value) {
            self.inside(value, ("{", "}"), dict.iter(), |writer, (key, value)| {
                writer.value(key)?;
                writer.text.push_str(": ");
                writer.value(value)
            })?;
        } else if let Some(fields) = StructRef::from_value(value) {
            self.inside(value, ("struct(", ")"), fields.iter(), |writer, (name, value)| {
                writer.text.push_str(name.as_str());
                writer.text.push('=');
                writer.value(value)
            })?;
        } else if let Some(outcomes) = Outcomes::from_value(value) {
            self.value(outcomes.list())?;
        } else {
            value.collect_repr(&mut self.text);
        }
        if self.text.len() > self.max_bytes { Err(TooLong(self.max_bytes).into()) } else { Ok(()) }
    }

    /// The parts of a value between brackets; dots for one that is in itself.
    fn inside<T>(
        &mut self,
        value: Value<'v>,
        (open, close): (&str, &str),
        parts: impl Iterator<Item = T>,
        write: impl Fn(&mut Self, T) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.text.push_str(open);
        if self.around.len() > MAX_DEPTH {
            anyhow::bail!("the value is nested more than {MAX_DEPTH} levels deep");
        }
        if self.around.iter().any(|outer| outer.ptr_eq(value)) {
            self.text.push_str("...");
        } else {
            self.around.push(value);
            for (index, part) in parts.enumerate() {
                self.text.push_str(if index > 0 { ", " } else { "" });
                write(self, part)?;
            }
            self.around.pop();
        }
        self.text.push_str(close);
        Ok(())
    }
}
