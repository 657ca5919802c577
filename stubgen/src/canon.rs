//! The only canonical writer of JSON, and digests of its output.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::text::is_invisible;

/// Compact JSON with the keys of every object sorted by their bytes: equal values give equal text.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// [`digest`] of [`canonical_json`], written to `scratch`: one buffer serves a whole server.
pub(crate) fn digest_of(value: &Value, scratch: &mut String) -> String {
    scratch.clear();
    write_value(scratch, value);
    digest(scratch)
}

/// SHA-256 of `text` as 64 lower-case hexadecimal characters.
pub fn digest(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
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
#[must_use]
pub fn pretty_json(value: &Value) -> String {
    let mut out = String::new();
    write_pretty(&mut out, value, 0);
    out.push('\n');
    out
}

fn write_pretty(out: &mut String, value: &Value, indent: usize) {
    let line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent.min(MAX_INDENT)));
    };
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(out, indent + 2);
                write_pretty(out, item, indent + 2);
            }
            line(out, indent);
            out.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(out, indent + 2);
                write_visible(out, key);
                out.push_str(": ");
                write_pretty(out, item, indent + 2);
            }
            line(out, indent);
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_pretty(out, item, indent);
            }
            out.push(']');
        }
        Value::String(text) => write_visible(out, text),
        value => write_value(out, value),
    }
}

/// A JSON string with every invisible character escaped.
fn write_visible(out: &mut String, text: &str) {
    if !text.chars().any(|c| !c.is_ascii() && is_invisible(c)) {
        return write_string(out, text);
    }
    let mut plain = String::new();
    write_string(&mut plain, text);
    for c in plain.chars() {
        if c.is_ascii() || !is_invisible(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, item);
            }
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
    use super::*;

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
