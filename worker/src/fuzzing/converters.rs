//! Fuzz target: JSON into an engine and out again gives the same value, or an error that names a limit.

use serde_json::Value;
use serde_json::value::RawValue;
use wire::Language;

use super::{Answers, Choices, LIMITS, check, run};

/// Depth that every converter takes.
const SHALLOW: usize = 100;
/// Digits that every converter takes.
const SHORT: usize = 4000;

/// Treats `data` as JSON, or as instructions to build some. A tool returns it to a script, which returns it, in every
/// engine; Starlark's `json` module reads and writes it.
pub fn json_converters(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = match first % 2 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => written(&mut Choices(rest), 5),
    };
    starlark_json_module(&text);
    let Ok(json) = RawValue::from_string(text.trim().to_owned()) else { return };
    through(&json, Language::Starlark, "result = s.t()", |expected, got| same(expected, got, exact));
    // A scope of QuickJS takes a hundred times as long.
    if cfg!(feature = "quickjs") && (first / 2).is_multiple_of(8) {
        let code = "export default async () => s.t()";
        through(&json, Language::Javascript, code, |expected, got| same(expected, got, float));
    }
}

/// Checks Starlark's `json.decode` on arbitrary text.
fn starlark_json_module(text: &str) {
    let answer = Value::from(text).to_string();
    let Ok(answer) = RawValue::from_string(answer) else { return };
    let code = "text = s.t()\nread = try_call(json.decode, text)\nresult = [read.ok, json.encode(read.value)]";
    let ran = run(Language::Starlark, code.to_owned(), Answers::Json(answer));
    check(&ran, code);
    let parsed = serde_json::from_str::<Value>(text);
    let Ok(result) = &ran.result else { return assert!(!is_modest(text)) };
    let result: (bool, String) = serde_json::from_str(result.get()).expect("the result is what the script made");
    match parsed {
        Ok(value) if result.0 => {
            let got = serde_json::from_str(&result.1).expect("json.encode writes JSON");
            assert!(same(&value, &got, exact), "{value} became {got}");
        }
        // A field hidden by a later one of the same name may have held a wide number, written with an exponent.
        Ok(value) => assert!(
            !is_modest(text) || has_wide_number(&value) || text.contains(['e', 'E']),
            "json.decode refuses {text}"
        ),
        Err(error) => assert!(!result.0, "json.decode takes {text:?}: {error}"),
    }
}

fn through(json: &RawValue, language: Language, code: &str, same: impl Fn(&Value, &Value) -> bool) {
    let ran = run(language, code.to_owned(), Answers::Json(json.to_owned()));
    check(&ran, code);
    // Text that serde_json refuses, such as half of a surrogate pair, may give any result.
    let Ok(expected) = serde_json::from_str::<Value>(json.get()) else { return };
    match &ran.result {
        Ok(got) => {
            let got = serde_json::from_str(got.get()).expect("the result is JSON");
            assert!(same(&expected, &got), "{language:?}: {expected} became {got}");
        }
        Err(error) => {
            // As above: a later field of the same name may hide a wide number.
            let has_exponent = json.get().contains(['e', 'E']);
            let has_reason = !is_modest(json.get()) || has_wide_number(&expected) || has_exponent;
            assert!(has_reason, "{language:?} refuses {json}: {error:?}");
        }
    }
}

/// True within every limit of the converters.
fn is_modest(text: &str) -> bool {
    let depth = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    let key = "$serde_json::private::Number";
    depth < SHALLOW && text.len() < SHORT && (text.len() as u64) < LIMITS.result_bytes && !text.contains(key)
}

/// True if a number has no finite value.
fn has_wide_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => !float(number).is_some_and(f64::is_finite),
        Value::Array(items) => items.iter().any(has_wide_number),
        Value::Object(fields) => fields.values().any(has_wide_number),
        _ => false,
    }
}

fn same<N: PartialEq>(left: &Value, right: &Value, number: impl Fn(&serde_json::Number) -> N + Copy) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number(left) == number(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right, number))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same_field = |(key, value): (&String, &Value)| right.get(key).is_some_and(|v| same(value, v, number));
            left.len() == right.len() && left.iter().all(same_field)
        }
        _ => left == right,
    }
}

/// A JavaScript number.
fn float(number: &serde_json::Number) -> Option<f64> {
    number.to_string().parse().ok()
}

/// A Starlark number: an integer of any size, or a float.
fn exact(number: &serde_json::Number) -> Result<String, Option<u64>> {
    let text = number.to_string();
    if text.contains(['.', 'e', 'E']) {
        return Err(float(number).map(f64::to_bits));
    }
    Ok(if text == "-0" { "0".to_owned() } else { text })
}

#[rustfmt::skip]
const NUMBERS: [&str; 20] = [
    "0", "-0", "-0.0", "1.0", "9007199254740993", "18446744073709551616", "-9223372036854775809", "1e400", "-1e400",
    "1E5", "5e-324", "1e-400", "2.2250738585072011e-308", "0.1", "1e22", "123456789012345678901234567890", "1e23",
    "1.7976931348623157e308", "2147483648", "-2147483649",
];
const STRINGS: [&str; 14] = [
    r#""""#, r#""a""#, r#""\ud83d\ude00""#, r#""\ud800""#, r#""\u0000\u001f""#, r#""\u2028""#, "\"\u{2029}é\"",
    r#""__proto__""#, r#""constructor""#, r#""toJSON""#, r#""then""#, r#""$serde_json::private::Number""#,
    r#""\\ud800""#, r#""10""#,
];

fn written(choices: &mut Choices<'_>, depth: usize) -> String {
    match choices.next() % if depth == 0 { 8 } else { 14 } {
        0 => choices.of(&["null", "true", "false", " null ", "nul", "NaN", "01", "1.", "+1"]).to_owned(),
        1..=3 => choices.of(&NUMBERS).to_owned(),
        4 => format!("{}e{}", choices.next(), choices.next()),
        5 | 6 => choices.of(&STRINGS).to_owned(),
        7 => Value::from(choices.text()).to_string(),
        8 => {
            let times = choices.next();
            format!("{}{}{}", "[".repeat(times), written(choices, 0), "]".repeat(times))
        }
        9 | 10 => {
            let items: Vec<_> = (0..choices.next() % 5).map(|_| written(choices, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let field = |choices: &mut Choices<'_>| {
                let key = if choices.next().is_multiple_of(4) {
                    Value::from(choices.text()).to_string()
                } else {
                    choices.of(&STRINGS).to_owned()
                };
                format!("{key}:{}", written(choices, depth - 1))
            };
            let fields: Vec<_> = (0..choices.next() % 5).map(|_| field(choices)).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}
