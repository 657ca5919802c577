//! Measures JSON text from outside before it is parsed.
//!
//! `serde_json` marks its own numbers and raw values by a first key that begins with `PRIVATE`. It would take an
//! outside object with such a key for one of them, so text with such a key, however escaped, is refused.

use std::borrow::Cow;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has a key that begins with `{PRIVATE}`, which is reserved")]
pub struct PrivateKey;

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

/// Largest integer that no double of another integer rounds to.
const MAX_SAFE: u64 = (1 << 53) - 1;
/// Numbers of fewer characters and without an exponent lose nothing.
const SHORT: usize = 16;

/// True if the double nearest to a number, as JSON or a script writes it, denotes the same value by its shortest text.
/// Integers written without point and exponent are held up to 2^53 - 1.
pub fn is_held(number: &str) -> bool {
    let size = number.strip_prefix('-').unwrap_or(number);
    let has_exponent = size.contains(['e', 'E']);
    if size.len() < SHORT && !has_exponent {
        return true;
    }
    if !has_exponent && !size.contains('.') {
        return size.parse().is_ok_and(|whole: u64| whole <= MAX_SAFE);
    }
    // A double is so near that equal digits have the same point.
    let digits = |text: &str| {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        mantissa.chars().filter(char::is_ascii_digit).collect::<String>().trim_matches('0').to_owned()
    };
    let held = |double: f64| double.is_finite() && digits(size) == digits(&format!("{double:e}"));
    size.parse().is_ok_and(held)
}

/// True if doubles hold all numbers of a text; what is no JSON is refused by its parser.
pub fn holds_all(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => at += string(&bytes[at..]).len() + 1,
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
                at += bytes[at..].iter().take_while(is_part).count();
                if at - start > 4 && !is_held(&text[start..at]) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

/// Characters of the string that begins here, up to its closing quote or the end.
pub fn string(text: &[u8]) -> &[u8] {
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

/// Replaces escapes of lone surrogates, which have no UTF-8 form: `serde_json` refuses them. JavaScript writes them for a text
/// that is cut within a character.
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let (mut clean, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(next) = json[at..].find('\\') {
        at += next;
        let escape = &json[at..];
        match surrogate(escape) {
            None => at += 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
            Some(first) if first < 0xdc00 && surrogate(&escape[6..]).is_some_and(|second| second >= 0xdc00) => at += 12,
            Some(_) => {
                clean.push_str(&json[copied..at]);
                clean.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
        }
    }
    if copied == 0 {
        return json.into();
    }
    clean.push_str(&json[copied..]);
    clean.into()
}

/// The escaped surrogate at the start of a text.
fn surrogate(text: &str) -> Option<u16> {
    let unit = u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..=0xdfff).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn keys_that_would_be_interpreted_are_found_however_they_are_written() {
        let escaped: String = "$serde_json::private::Number".bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        for key in [
            "$serde_json::private::Number", "$serde_json::private::RawValue", "\\u0024serde_json::private::RawValue",
            "$serde\\u005fjson::private::Number", "$serde_json\\u003A:private::Number", &escaped,
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
    fn a_double_holds_what_its_shortest_text_denotes() {
        let held = [
            "0", "-0", "9007199254740991", "-9007199254740991", "0.1", "0.10000000000000000000",
            "100.00000000000000000", "1e21", "1E+2", "9007199254740993e-1", "0.30000000000000004", "5e-324",
            "1.7976931348623157e308", "0e999", "0.000e-999", "9007199254740992.0", "1152921504606847000.0", "1.5e-7",
            "00.000000000000000000000",
        ];
        let rounded = [
            "9007199254740992", "-9007199254740992", "9007199254740993", "1915883588174806058", "18446744073709551615",
            "1e400", "-1e400", "1e-400", "0.12345678901234567890", "-0.12345678901234567890", "9007199254740993.0",
            "4.9406564584124654e-324", "1.23456789e-320", "123456789012345678901234567890", "1.7976931348623159e308",
            "0.1000000000000000055511151231257827",
        ];
        for (numbers, wanted) in [(&held[..], true), (&rounded[..], false)] {
            for number in numbers {
                assert_eq!(is_held(number), wanted, "{number}");
                assert_eq!(holds_all(&format!("{{\"1e400\":[true, {number}\n,\"\\\"1e400\"]}}")), wanted, "{number}");
            }
        }
        for text in ["", "\"1e400", "[\"\\", "-", "[1,2.5,\"12345678901234567890\"]", "truefalse", "é"] {
            assert!(holds_all(text), "{text}");
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

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        for (text, clean) in [
            (r#"["\ud800","a\\ud800"]"#, r#"["\ufffd","a\\ud800"]"#),
            (r#"["é\u0007\ud8"]"#, r#"["é\u0007\ud8"]"#),
            (r#""\uD83D\uDE00\uDE00\uD83D\u0041""#, r#""\uD83D\uDE00\ufffd\ufffd\u0041""#),
            (r#""\uD83D"#, r#""\ufffd"#),
            (r#""\"#, r#""\"#),
        ] {
            assert_eq!(without_lone_surrogates(text), clean);
        }
    }
}
