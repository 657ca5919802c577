//! The only canonical writer of JSON, and digests of its output.

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

use crate::hidden::is_format;
use crate::text::{new_line, separated};

/// Compact JSON with the keys of every object sorted by their bytes: equal values give equal text.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, as_written);
    out
}

/// [`canonical_json`] in which equal numbers are one text too, for arguments: `5`, `5.0` and `50e-1` are `5`. It is no
/// text of the value: a float becomes an integer. Definitions keep their numbers as written.
pub fn identity_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, |out, number| out.push_str(&equal_number(&number.to_string())));
    out
}

/// [`digest`] of [`canonical_json`], written to `scratch`: one buffer serves a whole server.
pub(crate) fn digest_of(value: &Value, scratch: &mut String) -> String {
    scratch.clear();
    write_value(scratch, value, as_written);
    digest(scratch)
}

/// SHA-256 of `content`.
pub fn sha256(content: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(content).into()
}

/// [`sha256`] of `content` as 64 lower-case hexadecimal characters.
pub fn digest(content: impl AsRef<[u8]>) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(64);
    for byte in sha256(content) {
        hex.push(char::from(HEX[usize::from(byte >> 4)]));
        hex.push(char::from(HEX[usize::from(byte & 15)]));
    }
    hex
}

/// First 8 characters of [`digest`], for stub headers.
pub fn short_digest(text: &str) -> String {
    let mut hex = digest(text);
    hex.truncate(8);
    hex
}

/// Deepest indentation, in spaces: a hostile definition nests to make a stub of hundreds of times its size.
const MAX_INDENT: usize = 40;

/// Pretty-printed JSON with sorted keys, for people; invisible characters are escaped, so that a reviewer sees them.
pub fn pretty_json(value: &Value) -> String {
    let mut out = String::new();
    write_pretty(&mut out, value, 0);
    out.push('\n');
    out
}

fn write_pretty(out: &mut String, value: &Value, indent: usize) {
    let line = |out: &mut String, indent: usize| new_line(out, indent.min(MAX_INDENT));
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => {
            out.push('[');
            separated(out, ",", items, |out, item| {
                line(out, indent + 2);
                write_pretty(out, item, indent + 2);
            });
            line(out, indent);
            out.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            separated(out, ",", sorted(map), |out, (key, item)| {
                line(out, indent + 2);
                write_visible(out, key);
                out.push_str(": ");
                write_pretty(out, item, indent + 2);
            });
            line(out, indent);
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            separated(out, ", ", items, |out, item| write_pretty(out, item, indent));
            out.push(']');
        }
        Value::String(text) => write_visible(out, text),
        value => write_value(out, value, as_written),
    }
}

/// Entries of an object by the bytes of their keys.
pub(crate) fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// A JSON string with every invisible character escaped.
fn write_visible(out: &mut String, text: &str) {
    if !text.chars().any(|c| !c.is_ascii() && is_format(c)) {
        return write_string(out, text);
    }
    let mut plain = String::new();
    write_string(&mut plain, text);
    for c in plain.chars() {
        if c.is_ascii() || !is_format(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

fn as_written(out: &mut String, number: &Number) {
    out.push_str(&number.to_string());
}

/// Most digits of a number with zeros in place of an exponent, as JavaScript has it.
const MAX_PLAIN: i128 = 21;

/// The text that equal numbers share, with every digit that they have. `-0` is `0`; a number whose exponent has over
/// eighteen digits is equal to its own text alone.
fn equal_number(text: &str) -> String {
    let (sign, size) = text.strip_prefix('-').map_or(("", text), |size| ("-", size));
    let (mantissa, exponent) = size.split_once(['e', 'E']).unwrap_or((size, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let kept = significant.trim_end_matches('0');
    if kept.is_empty() {
        return "0".to_owned();
    }
    let Ok(exponent) = exponent.parse::<i64>() else { return text.to_owned() };
    // The number is 0.KEPT times ten to the power of `point`.
    let point = i128::from(exponent) + significant.len() as i128 - fraction.len() as i128;
    let length = kept.len() as i128;
    match point {
        _ if point == length => format!("{sign}{kept}"),
        _ if (length..=MAX_PLAIN).contains(&point) => format!("{sign}{kept}{}", "0".repeat((point - length) as usize)),
        _ if (1..length).contains(&point) => format!("{sign}{}.{}", &kept[..point as usize], &kept[point as usize..]),
        -5..=0 => format!("{sign}0.{}{kept}", "0".repeat(point.unsigned_abs() as usize)),
        _ => {
            let (first, rest) = kept.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{sign}{first}{dot}{rest}e{}", point - 1)
        }
    }
}

fn write_value(out: &mut String, value: &Value, write_number: fn(&mut String, &Number)) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            separated(out, ",", items, |out, item| write_value(out, item, write_number));
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            separated(out, ",", sorted(map), |out, (key, item)| {
                write_string(out, key);
                out.push(':');
                write_value(out, item, write_number);
            });
            out.push('}');
        }
    }
}

/// A JSON string with only the required escapes.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[clean..at]);
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
        clean = at + 1;
    }
    out.push_str(&text[clean..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity(text: &str) -> String {
        identity_json(&serde_json::from_str(text).expect("JSON"))
    }

    #[test]
    fn equal_numbers_are_one_text_and_no_digit_is_rounded_away() {
        for (text, same) in [
            ("5", &["5.0", "5e0", "5E+0", "50e-1", "0.5e1", "500e-2", "5.000"][..]),
            ("-5", &["-5.0", "-0.5e1"]),
            ("0", &["-0", "0.0", "-0.0", "0e5", "0e-400", "0e99999999999999999999"]),
            ("100", &["1e2", "100.0", "1.00E2"]),
            ("0.1", &["1e-1", "0.10", "0.01e1"]),
            ("12.5", &["12.50", "1.25e1", "1250e-2"]),
            ("0.000001", &["1e-6", "0.1e-5"]),
            ("1e-7", &["0.0000001", "10e-8"]),
            ("100000000000000000000", &["1e20", "1e+20", "100000000000000000000.0"]),
            ("1e21", &["1e+21", "1000000000000000000000", "10e20"]),
            ("1e400", &["10e399", "1.0e+400"]),
            ("1.5e400", &["15e399"]),
            ("9007199254740993", &["9007199254740993.0", "9.007199254740993e15"]),
            (
                "123456789012345678901234567891",
                &["123456789012345678901234567891.0", "1.23456789012345678901234567891e29"],
            ),
            (
                "0.12345678901234567890123456789",
                &["0.123456789012345678901234567890", "1.2345678901234567890123456789e-1"],
            ),
        ] {
            assert_eq!(identity(text), text);
            for other in same {
                assert_eq!(identity(other), text, "{other}");
            }
        }
        // Beyond every exponent that is compared, a number is its text.
        assert_ne!(identity("1e99999999999999999999"), identity("10e99999999999999999998"));
        for (one, other) in [
            ("9007199254740993", "9007199254740992"),
            ("1e400", "1e401"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("1", "-1"),
            ("5", "\"5\""),
            ("[5]", "5"),
        ] {
            assert_ne!(identity(one), identity(other));
        }
        assert_eq!(identity(r#"{"b": [5.0, {"x": -0.0}], "a": "5.0"}"#), r#"{"a":"5.0","b":[5,{"x":0}]}"#);
        let definition = serde_json::from_str(r#"{"maximum": 5.0}"#).expect("JSON");
        assert_eq!(canonical_json(&definition), r#"{"maximum":5.0}"#, "definitions keep their numbers");
    }

    proptest! {
        /// A number written in another way has the same text, which is a number of that value.
        #[test]
        fn a_number_is_the_same_however_it_is_written(
            digits in "[1-9][0-9]{0,30}", places in 0_usize..40, zeros in 0_usize..5, minus: bool, exponent in -30_i32..30,
        ) {
            let sign = if minus { "-" } else { "" };
            let plain = identity(&format!("{sign}{digits}e{exponent}"));
            let padded = format!("{}{digits}", "0".repeat(places.saturating_sub(digits.len()) + 1));
            let (whole, fraction) = padded.split_at(padded.len() - places.min(padded.len() - 1));
            let whole = whole.trim_start_matches('0');
            let whole = if whole.is_empty() { "0" } else { whole };
            let shift = exponent + i32::try_from(fraction.len()).expect("few");
            let dot = if fraction.is_empty() && zeros == 0 { "" } else { "." };
            let pad = "0".repeat(zeros);
            prop_assert_eq!(&identity(&format!("{sign}{whole}{dot}{fraction}{pad}e{shift}")), &plain);
            prop_assert_eq!(&identity(&plain), &plain);
            let (one, other): (f64, f64) = (plain.parse().expect("a number"), format!("{sign}{digits}e{exponent}").parse().expect("a number"));
            prop_assert_eq!(one.to_bits(), other.to_bits());
        }
    }

    #[test]
    fn deep_nesting_is_laid_out_within_a_multiple_of_its_size() {
        for depth in [1, 20, 100, 120] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let pretty = pretty_json(&value);
            assert!(pretty.len() <= 50 * text.len(), "{} for {depth}", pretty.len());
            assert_eq!(serde_json::from_str::<Value>(&pretty).expect("JSON"), value);
        }
    }
}
