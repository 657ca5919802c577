//! Measures JSON text from outside before it is parsed.
//!
//! `serde_json` marks its own numbers and raw values by a first key that begins with `PRIVATE`. It would take an
//! outside object with such a key for one of them, so text with such a key, however escaped, is refused.

use std::fmt;

/// Prefix of `serde_json`'s private keys.
const PRIVATE: &str = "$serde_json::private::";
/// Longest form of such a key that has to be unescaped: six bytes per character, and some characters more.
const LONGEST: usize = 6 * (PRIVATE.len() + 16);

/// Bytes of a value in a list, with spare capacity: a list that grew has twice its length.
const VALUE: usize = 144;
/// Bytes of a string beside its characters.
const TEXT: usize = 32;
/// Bytes of a non-empty list beside its items.
const LIST: usize = 256;
/// Bytes of a non-empty object beside its entries.
const OBJECT: usize = 320;
/// Bytes of a key beside its characters and its value.
const KEY: usize = 64;

/// Measure of a JSON text, taken without parsing it into values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// Number of values of all kinds and levels.
    pub values: usize,
    /// Nesting of lists and objects.
    pub depth: usize,
    /// Upper bound of its values' memory in bytes, each with a slot and a string of its own.
    pub tree_bytes: usize,
}

/// Error: the text has a key that `serde_json` would interpret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateKey;

impl fmt::Display for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it has a key that begins with `{PRIVATE}`, which is reserved")
    }
}

impl std::error::Error for PrivateKey {}

/// Measures a text in one pass, in linear time and without allocation. Invalid JSON has a measure too; the parser
/// refuses it later.
///
/// # Errors
/// [`PrivateKey`] when it has a key that `serde_json` would interpret.
pub fn measure(text: &[u8]) -> Result<Measure, PrivateKey> {
    let mut found = Measure::default();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                found.depth = found.depth.max(depth);
                found.values += 1;
                let closed = text[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                let filled = !matches!(closed, Some(b'}' | b']'));
                let more = if *byte == b'[' { LIST } else { OBJECT };
                found.tree_bytes += VALUE + if filled { more } else { 0 };
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let raw = string(&text[at..]);
                at += raw.len() + 1;
                let next = text.get(at..).and_then(|rest| rest.iter().find(|byte| !byte.is_ascii_whitespace()));
                if next == Some(&b':') {
                    if is_private(raw) {
                        return Err(PrivateKey);
                    }
                    found.tree_bytes += KEY + raw.len();
                } else {
                    found.values += 1;
                    found.tree_bytes += VALUE + TEXT + raw.len();
                }
            }
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                let rest = &text[at..];
                let more = rest.iter().position(|byte| b",:]}[{\" \n\r\t".contains(byte)).unwrap_or(rest.len());
                at += more;
                found.values += 1;
                // The text of a number grows by doubling.
                found.tree_bytes += VALUE + if byte.is_ascii_alphabetic() { 0 } else { TEXT + 2 * more };
            }
        }
    }
    Ok(found)
}

/// Characters of the string that begins here, up to its closing quote or the end.
fn string(text: &[u8]) -> &[u8] {
    let mut at = 0;
    while let Some(more) = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        at += more;
        if text[at] == b'"' {
            return &text[..at];
        }
        at = (at + 2).min(text.len());
    }
    text
}

/// True if a key, as written, is private to `serde_json`.
fn is_private(raw: &[u8]) -> bool {
    if raw.starts_with(PRIVATE.as_bytes()) {
        return true;
    }
    let may_be = raw.len() <= LONGEST && raw.contains(&b'\\') && (raw.starts_with(b"$") || raw.starts_with(b"\\u0024"));
    let quoted = || [b"\"", raw, b"\""].concat();
    may_be && serde_json::from_slice::<String>(&quoted()).is_ok_and(|key| key.starts_with(PRIVATE))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn keys_that_would_be_interpreted_are_found_however_they_are_written() {
        let escaped: String = "$serde_json::private::Number".bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        for key in [
            "$serde_json::private::Number",
            "$serde_json::private::RawValue",
            "\\u0024serde_json::private::RawValue",
            "$serde\\u005fjson::private::Number",
            "$serde_json\\u003A:private::Number",
            &escaped,
        ] {
            for text in [
                format!("{{\"{key}\":\"1\"}}"),
                format!("{{ \"{key}\" \n : \"1\"}}"),
                format!("{{\"a\":1,\"{key}\":\"1\"}}"),
                format!("[[{{\"a\":[\"\\\"\",{{\"{key}\":\"[1]\"}}]}}]]"),
            ] {
                assert_eq!(measure(text.as_bytes()), Err(PrivateKey), "{text}");
            }
        }
    }

    #[test]
    fn text_that_only_mentions_them_is_data() {
        for text in [
            r#"{"text":"$serde_json::private::Number"}"#,
            r#"["$serde_json::private::Number"]"#,
            r#"{"text":"{\"$serde_json::private::Number\":\"1\"}"}"#,
            r#"{"$serde_json":1,"$ref":"x","\u0024ref":"y"," $serde_json::private::Number":1}"#,
            r#"{"a":"\\","b":"$serde_json::private::Number"}"#,
        ] {
            assert!(measure(text.as_bytes()).is_ok(), "{text}");
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_measure_counts_values_and_levels() {
        for (text, values, depth) in [
            ("", 0, 0),
            ("7", 1, 0),
            (" null ", 1, 0),
            ("[]", 1, 1),
            ("[1,2.5e3,-3]", 4, 1),
            (r#"{"a":[true,{"b":"]}\""}],"c":{}}"#, 6, 3),
            ("[\"unfinished", 2, 1),
            ("]]]]1", 1, 0),
            ("\"\\", 1, 0),
        ] {
            let found = measure(text.as_bytes()).expect("it has no such key");
            assert_eq!((found.values, found.depth), (values, depth), "{text}");
        }
    }

    #[test]
    fn no_text_takes_less_than_it_is_measured_for() {
        // Bytes of the values, from the sizes of their parts.
        fn tree(value: &Value) -> usize {
            let own = size_of::<Value>();
            own + match value {
                Value::Null | Value::Bool(_) => 0,
                Value::Number(number) => number.to_string().len().max(24) + 8,
                Value::String(text) => text.len().max(24) + 8,
                Value::Array(items) => {
                    let spare = if items.is_empty() { 0 } else { items.len().next_power_of_two().max(4) - items.len() };
                    // A large list is moved as it grows, and its pages are resident only once they are written.
                    items.iter().map(tree).sum::<usize>() + if items.len() <= 4 { spare * own } else { 0 }
                }
                Value::Object(object) if object.is_empty() => 0,
                Value::Object(object) => {
                    let spare = 4_usize.saturating_sub(object.len()) * (own + 32);
                    let entries: usize =
                        object.iter().map(|(key, value)| 32 + 16 + key.len().max(24) + 8 + tree(value)).sum();
                    spare + entries + 32
                }
            }
        }
        for part in [
            "0",
            "[]",
            "[0]",
            "{}",
            "\"\"",
            "{\"\":0}",
            "{\"a\":{\"a\":{\"a\":1}}}",
            "[[[[[0]]]]]",
            "null",
            "{\"id\":7,\"name\":\"Ada\",\"mail\":\"ada@example.org\",\"ok\":true}",
            "\"0123456789012345678901234567890\"",
        ] {
            let text = format!("[{}]", vec![part; 1000].join(","));
            let value: Value = serde_json::from_str(&text).expect("it is JSON");
            let (measured, real) = (measure(text.as_bytes()).expect("it is plain").tree_bytes, tree(&value));
            assert!(measured >= real && measured < 3 * real + 1000, "{part}: measured {measured}, real {real}");
        }
    }
}
