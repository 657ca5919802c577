//! Parses JSON from outside: measured first, within a memory limit, and never interpreted where `serde_json` reserves
//! private keys.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::limits;
pub use wire::json::{Measure, PrivateKey, measure};
use wire::json::{string, without_lone_surrogates};

/// Deepest nesting that is parsed: that of `serde_json`.
pub const MAX_DEPTH: usize = limits::JSON_LEVELS.max;

/// Reason why a text is not parsed.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A key that `serde_json` would interpret.
    #[error("{0}")]
    Private(PrivateKey),
    /// Too much memory.
    #[error("its {} values take {} KiB in memory, over the limit of {} KiB", measure.values, measure.tree_bytes >> 10, limit >> 10)]
    TooMuch {
        /// Measure of its values.
        measure: Measure,
        /// The limit in bytes.
        limit: usize,
    },
    /// Invalid JSON, or another shape than the wanted one.
    #[error("{0}")]
    Malformed(serde_json::Error),
}

/// Parses a text whose values take at most `limit` bytes of memory.
///
/// # Errors
/// The reason; no values were made then.
pub fn parse<T: DeserializeOwned>(text: &[u8], limit: usize) -> Result<T, Unfit> {
    let measure = measure(text).map_err(Unfit::Private)?;
    if measure.tree_bytes > limit {
        return Err(Unfit::TooMuch { measure, limit });
    }
    serde_json::from_slice(text).map_err(Unfit::Malformed)
}

/// The text of a server without bytes and escapes that `serde_json` refuses and other parsers take.
pub fn readable(text: &[u8]) -> Cow<'_, [u8]> {
    let decoded = String::from_utf8_lossy(text);
    match (without_lone_surrogates(&decoded), &decoded) {
        (Cow::Borrowed(_), Cow::Borrowed(_)) => text.into(),
        (clean, _) => clean.into_owned().into_bytes().into(),
    }
}

/// True if a text looks like an object or an array.
pub fn is_composed(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Finds the text of an error in a value: the value itself, or the first text under a usual key.
pub fn words(value: &serde_json::Value) -> Option<&str> {
    const KEYS: [&str; 9] =
        ["message", "error", "error_description", "detail", "details", "reason", "errors", "text", "title"];
    match value {
        serde_json::Value::String(text) => Some(text.trim()).filter(|text| !text.is_empty()),
        serde_json::Value::Array(items) => items.iter().find_map(words),
        serde_json::Value::Object(object) => KEYS.iter().find_map(|key| words(object.get(*key)?)),
        _ => None,
    }
}

/// Bytes of a value as compact JSON.
pub fn written<T: serde::Serialize>(value: &T) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail, and a value without a JSON form did not come as JSON.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Most growth of a pretty-printed text, as a factor.
const GROWTH: usize = 2;

/// Pretty-prints a valid text, one item per line as `serde_json` does, within twice its compact size: where indentation
/// would take more, deeper levels are indented like the level above them.
pub fn laid_out(text: &str) -> String {
    let (mut compact, mut spaces) = (0, 0);
    // By level; the last entry has those of every deeper one.
    let mut lines = [0; MAX_DEPTH + 1];
    walk(text.as_bytes(), |part| match part {
        Part::Text(text) => compact += text.len(),
        Part::Line(level) => lines[level.min(MAX_DEPTH)] += 1,
        Part::Space => spaces += 1,
    });
    // Bytes added when levels from `deepest` on are indented alike.
    let growth = |deepest: usize| {
        let lines = lines.iter().enumerate().map(|(level, lines)| lines * (1 + 2 * level.min(deepest)));
        spaces + lines.sum::<usize>()
    };
    let room = compact * (GROWTH - 1);
    let deepest = (0..=MAX_DEPTH).rev().find(|deepest| growth(*deepest) <= room).unwrap_or_default();
    let mut laid = String::with_capacity(compact + growth(deepest));
    walk(text.as_bytes(), |part| match part {
        Part::Text(text) => laid.push_str(text),
        Part::Line(level) => {
            laid.push('\n');
            (0..level.min(deepest)).for_each(|_| laid.push_str("  "));
        }
        Part::Space => laid.push(' '),
    });
    laid
}

/// A valid text without whitespace between its parts.
pub fn compact(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    walk(text.as_bytes(), |part| {
        if let Part::Text(text) = part {
            compact.push_str(text);
        }
    });
    compact
}

/// Part of a text.
enum Part<'t> {
    /// A value, a key, or punctuation.
    Text(&'t str),
    /// A new line, at a level.
    Line(usize),
    /// The space after a key.
    Space,
}

/// Walks through the parts of a valid text.
fn walk(text: &[u8], mut take: impl FnMut(Part<'_>)) {
    let (mut level, mut at, mut was_opened) = (0_usize, 0, false);
    while let Some(byte) = text.get(at).copied() {
        let rest = &text[at..];
        let len = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            b'"' => (string(&rest[1..]).len() + 2).min(rest.len()),
            b'{' | b'[' | b'}' | b']' | b',' | b':' => 1,
            _ => rest.iter().position(|byte| b",:]}[{\" \n\r\t".contains(byte)).unwrap_or(rest.len()).max(1),
        };
        let is_end = matches!(byte, b'}' | b']');
        if is_end {
            level = level.saturating_sub(1);
        }
        // Empty brackets stay together.
        if was_opened != is_end {
            take(Part::Line(level));
        }
        take(Part::Text(std::str::from_utf8(&rest[..len]).unwrap_or_default()));
        match byte {
            b',' => take(Part::Line(level)),
            b':' => take(Part::Space),
            b'{' | b'[' => level += 1,
            _ => {}
        }
        was_opened = matches!(byte, b'{' | b'[');
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_parsed_is_plain_and_small_enough() {
        let failed = |text: &str, limit| parse::<Value>(text.as_bytes(), limit).err().map(|unfit| unfit.to_string());
        assert_eq!(failed("{\"a\":[1]}", 10_000), None);
        for (text, limit, says) in [
            ("[1,2,3,4]", 100, "its 5 values take 1 KiB"),
            ("{\"$serde_json::private::Number\":\"1\"}", 10_000, "which is reserved"),
            ("{\"\\u0024serde_json::private::RawValue\":\"1\"}", 10_000, "which is reserved"),
            ("[1,", 10_000, "EOF"),
        ] {
            assert!(failed(text, limit).is_some_and(|words| words.contains(says)), "{text}: {:?}", failed(text, limit));
        }
    }

    #[test]
    fn deep_nesting_is_not_laid_out_into_gigabytes() {
        for depth in [1, 10, 119, 127, 500] {
            let text = format!("{}{}{}", "[".repeat(depth), vec!["0"; 50_000].join(","), "]".repeat(depth));
            let laid = laid_out(&text);
            assert!(laid.len() <= 2 * text.len(), "{depth}: {} of {}", laid.len(), text.len());
            assert!(laid.lines().count() > 50_000, "{depth}: a line an item");
            assert_eq!(compact(&laid), text, "{depth}");
        }
    }

    #[test]
    fn what_is_usual_is_laid_out_as_ever() {
        for text in [
            r#"{"items":[{"number":0,"text":"line 0: a few words"},{"number":1,"text":"line 1: [x], \"y\""}],"empty":[],"none":{}}"#,
            r#"{"text":"a longer text, so that there is room for what is added","list":[1.5,true,null]}"#,
            "\"text\"",
            "[]",
        ] {
            let value: Value = serde_json::from_str(text).expect("it is JSON");
            assert_eq!(laid_out(text), serde_json::to_string_pretty(&value).expect("it has a form"));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..6).prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn layouts_keep_the_value_within_twice_its_length(value in any_json()) {
            let text = value.to_string();
            let laid = laid_out(&text);
            prop_assert!(laid.len() <= GROWTH * text.len(), "{text}\n{laid}");
            prop_assert_eq!(&compact(&laid), &text);
            let pretty = serde_json::to_string_pretty(&value).expect("it has a form");
            prop_assert_eq!(&compact(&pretty), &text);
            if pretty.len() <= GROWTH * text.len() {
                prop_assert_eq!(laid, pretty);
            }
        }
    }
}
