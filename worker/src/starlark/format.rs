//! Formats of Python: `f"{x:>10,.2f}"`, `"{:>10}".format(x)` and `"%5.2f" % x`.

use num_bigint::BigInt;
use starlark::values::dict::DictRef;
use starlark::values::float::UnpackFloat;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue as _, Value};

use super::convert::integer;
use super::text::{self, general, is_plain, scientific};

/// Longest width or precision, in digits.
const MAX_DIGITS: usize = 9;
/// Most decimals: a double has no more.
const MAX_PRECISION: usize = 1100;

/// `[[fill]align][sign][0][width][,][.precision][type]` by its parts.
struct Spec<'s> {
    fill: char,
    align: Option<char>,
    sign: &'s str,
    width: usize,
    group: &'s str,
    precision: Option<usize>,
    kind: &'s str,
}

impl<'s> Spec<'s> {
    fn parse(format: &'s str) -> Option<Self> {
        let is_align = |c: char| "<>^=".contains(c);
        let fill = format.chars().next().filter(|_| format.chars().nth(1).is_some_and(is_align));
        let rest = &format[fill.map_or(0, char::len_utf8)..];
        let (align, rest) = rest.split_at(rest.len() - rest.trim_start_matches(is_align).len());
        let (sign, rest) = split(rest, |c| "+- ".contains(c));
        let zero = rest.starts_with('0').then_some('0');
        let (width, rest) = split(rest, |c| c.is_ascii_digit());
        let (group, rest) = split(rest, |c| matches!(c, ',' | '_'));
        let (precision, kind) = match rest.strip_prefix('.') {
            Some(rest) => split(rest, |c| c.is_ascii_digit()),
            None => ("", rest),
        };
        let is_known = kind.is_empty() || kind.len() == 1 && "sdoxXbeEfFgG%".contains(kind);
        let is_short = align.len() < 2 && sign.len() < 2 && group.len() < 2;
        (is_known && is_short && width.len().max(precision.len()) <= MAX_DIGITS).then(|| Self {
            fill: fill.or(zero).unwrap_or(' '),
            align: align.chars().next().or(zero.map(|_| '=')),
            sign: sign.trim_matches('-'),
            width: width.parse().unwrap_or(0),
            group,
            precision: precision.parse().ok(),
            kind,
        })
    }
}

fn split(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// A value by a format, as a text of at most `max_bytes`.
pub(super) fn format<'v>(value: Value<'v>, format: &str, heap: Heap<'v>, max_bytes: usize) -> anyhow::Result<String> {
    let Some(spec) = Spec::parse(format) else { anyhow::bail!("unknown format `{format}`") };
    if spec.precision.is_some_and(|precision| precision > MAX_PRECISION) {
        anyhow::bail!("a precision over the limit of {MAX_PRECISION}");
    }
    if spec.width.saturating_mul(spec.fill.len_utf8()) > max_bytes {
        anyhow::bail!("a text of {} characters is over the heap limit of {max_bytes} bytes", spec.width);
    }
    let (sign, text, align) = match value.unpack_str() {
        Some(text) if matches!(spec.kind, "s" | "") => {
            ("", text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect(), '<')
        }
        _ if format.is_empty() => ("", text::repr(value, heap, max_bytes)?, '<'),
        _ => number(value, &spec)?,
    };
    let missing = spec.width.saturating_sub(sign.len() + text.chars().count());
    // Zeros stand between sign and digits, which a text has not.
    let given = spec.align.filter(|given| *given != '=' || value.unpack_str().is_none());
    let (left, inner) = match given.unwrap_or(align) {
        '<' => (0, 0),
        '^' => (missing / 2, 0),
        '=' => (0, missing),
        _ => (missing, 0),
    };
    let fill = |count: usize| spec.fill.to_string().repeat(count);
    Ok(format!("{}{sign}{}{text}{}", fill(left), fill(inner), fill(missing - left - inner)))
}

/// `template.format(…)`: values by position or name, each perhaps by a format of its own.
pub(super) fn fields<'v>(
    template: &str,
    (args, named): (&[Value<'v>], &DictRef<'v>),
    heap: Heap<'v>,
    max_bytes: usize,
) -> anyhow::Result<String> {
    let (mut text, mut rest, mut next) = (String::new(), template, 0);
    while let Some(at) = rest.find(['{', '}']) {
        let (brace, behind) = rest[at..].split_at(1);
        text.push_str(&rest[..at]);
        if let Some(behind) = behind.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        let field = behind.split_once('}').filter(|_| brace == "{");
        let Some((field, behind)) = field else { anyhow::bail!("a single `{brace}` in a format string") };
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').map_or((name, None), |(name, kind)| (name, Some(kind)));
        if let Some(kind) = conversion.filter(|kind| !matches!(*kind, "r" | "s")) {
            anyhow::bail!("unknown conversion `!{kind}` in a format string");
        }
        next += usize::from(name.is_empty());
        let index = if name.is_empty() { Ok(next - 1) } else { name.parse::<usize>() };
        let value = index.map_or_else(|_| named.get_str(name), |index| args.get(index).copied());
        let value = value.ok_or_else(|| anyhow::anyhow!("no value for `{{{name}}}` of the format string"))?;
        let value = match conversion {
            Some(kind) if kind == "r" || value.unpack_str().is_none() => {
                heap.alloc(text::repr(value, heap, max_bytes)?)
            }
            _ => value,
        };
        rest = push(&mut text, &format(value, spec, heap, max_bytes)?, behind, max_bytes)?;
    }
    Ok(text + rest)
}

/// `template % value`, also where a text has formats such as `%-10s` and `%(name).2f`.
pub(super) fn percent<'v>(
    template: Value<'v>,
    value: Value<'v>,
    heap: Heap<'v>,
    max_bytes: usize,
) -> starlark::Result<Value<'v>> {
    // Numbers have a remainder; the formats are those of a text.
    let Some(mut rest) = template.unpack_str() else { return template.percent(value, heap) };
    let parts = || rest.split('%').skip(1);
    let is_bare = |part: &str| part.is_empty() || part.starts_with(|kind| "srdoxX".contains(kind));
    let all = TupleRef::from_value(value).map_or(vec![value], |all| all.content().to_vec());
    // Starlark's own formats, which are faster, round the floats in a text.
    let is_right = || !parts().any(|part| part.starts_with(['s', 'r'])) || all.iter().all(|value| is_plain(*value));
    if parts().all(is_bare) && is_right() {
        return template.percent(value, heap);
    }
    let (mut text, named) = (String::new(), DictRef::from_value(value));
    let mut given = all.into_iter();
    while let Some((before, behind)) = rest.split_once('%') {
        text.push_str(before);
        let keyed = behind.strip_prefix('(').and_then(|behind| behind.split_once(')')).zip(named.as_ref());
        let (flags, behind) = split(keyed.map_or(behind, |((_, behind), _)| behind), |c| "-+ 0".contains(c));
        let (size, behind) = split(behind, |c| c.is_ascii_digit() || c == '.');
        let (kind, behind) = behind.split_at(behind.chars().next().map_or(0, char::len_utf8));
        if kind == "%" {
            rest = push(&mut text, kind, behind, max_bytes)?;
            continue;
        }
        if kind.is_empty() {
            return Err(anyhow::anyhow!("incomplete format at the end of a format string").into());
        }
        let item = keyed.map_or_else(|| given.next(), |((key, _), named)| named.get_str(key));
        let item = item.ok_or_else(|| anyhow::anyhow!("Not enough arguments for format string"))?;
        let plain = |kind: &str| heap.alloc(format!("%{kind}")).percent(heap.alloc((item,)), heap);
        let signs = ["+", " "].into_iter().find(|sign| flags.contains(*sign)).unwrap_or_default();
        let (item, kind) = match kind {
            "d" | "i" | "u" if item.get_type() == "float" => {
                (heap.alloc(plain("d")?.to_str().parse::<BigInt>().map_err(anyhow::Error::from)?), "d")
            }
            "s" if item.unpack_str().is_some() => (item, "s"),
            "s" | "r" => (heap.alloc(text::repr(item, heap, max_bytes)?), "s"),
            "i" | "u" => (item, "d"),
            _ => (item, kind),
        };
        let (item, size, kind) = match size.split_once('.') {
            Some((width, digits)) if matches!(kind, "d" | "x" | "X" | "o") => {
                let digits = digits.parse::<usize>().unwrap_or(0);
                if digits > MAX_PRECISION {
                    return Err(anyhow::anyhow!("a precision over the limit of {MAX_PRECISION}").into());
                }
                (signed(&format(item, kind, heap, max_bytes)?, signs, digits, heap), width.to_owned(), "s")
            }
            Some((_, "")) => (item, format!("{size}0"), kind),
            _ => (item, size.to_owned(), kind),
        };
        let has = |flag: char| kind != "s" && flags.contains(flag);
        let align = if flags.contains('-') { "<" } else { [">", "0="][usize::from(has('0'))] };
        let sign = ["+", " "].into_iter().find(|sign| sign.chars().all(has)).unwrap_or_default();
        let part = format(item, &format!("{align}{sign}{size}{kind}"), heap, max_bytes)?;
        rest = push(&mut text, &part, behind, max_bytes)?;
    }
    if given.next().is_some() && named.is_none() {
        return Err(anyhow::anyhow!("Too many arguments for format string").into());
    }
    Ok(heap.alloc(text + rest))
}

/// A number's text with its sign and at least so many digits.
fn signed<'v>(text: &str, sign: &str, digits: usize, heap: Heap<'v>) -> Value<'v> {
    let (sign, rest) = text.strip_prefix('-').map_or((sign, text), |rest| ("-", rest));
    heap.alloc(format!("{sign}{rest:0>digits$}"))
}

/// Adds a part; what is left of the template.
fn push<'t>(text: &mut String, part: &str, rest: &'t str, max_bytes: usize) -> anyhow::Result<&'t str> {
    text.push_str(part);
    anyhow::ensure!(text.len() <= max_bytes, "a text of {} bytes is over the heap limit of {max_bytes}", text.len());
    Ok(rest)
}

/// Sign and digits of a number.
fn number<'s>(value: Value<'_>, spec: &Spec<'s>) -> anyhow::Result<(&'s str, String, char)> {
    let whole = BigInt::unpack_value(value).ok().flatten().or(value.unpack_bool().map(BigInt::from));
    let text = match (spec.kind, whole) {
        ("" | "d", Some(_)) if value.unpack_bool().is_none() => integer(value)?,
        ("" | "d", Some(whole)) => whole.to_string(),
        ("x", Some(whole)) => whole.to_str_radix(16),
        ("X", Some(whole)) => whole.to_str_radix(16).to_uppercase(),
        ("o", Some(whole)) => whole.to_str_radix(8),
        ("b", Some(whole)) => whole.to_str_radix(2),
        (kind @ ("" | "e" | "E" | "f" | "F" | "g" | "G" | "%"), _)
            if let Some(UnpackFloat(float)) = UnpackFloat::unpack_value(value).ok().flatten() =>
        {
            let precision = spec.precision.unwrap_or(6);
            match kind {
                "" if spec.precision.is_none() => text::float(float),
                "" => anyhow::bail!("a precision needs a type, as in `.2f`"),
                "%" => format!("{:.precision$}%", float * 100.0),
                "e" => scientific(float, precision),
                "E" => scientific(float, precision).to_uppercase(),
                "g" => general(float, precision),
                "G" => general(float, precision).to_uppercase(),
                _ if float.is_finite() => format!("{float:.precision$}"),
                _ => text::float(float),
            }
        }
        _ => anyhow::bail!("a {} has no format of type `{}`", value.get_type(), spec.kind),
    };
    let (sign, digits) = text.strip_prefix('-').map_or((spec.sign, text.as_str()), |digits| ("-", digits));
    let is_of_bits = matches!(spec.kind, "b" | "o" | "x" | "X");
    let (whole, rest) = split(digits, |c| c.is_ascii_digit() || is_of_bits);
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let is_begin = index > 0 && (whole.len() - index).is_multiple_of(if is_of_bits { 4 } else { 3 });
        grouped.push_str(if is_begin { spec.group } else { "" });
        grouped.push(digit);
    }
    Ok((sign, grouped + rest, '>'))
}
