//! Renders the arguments of a call for a person's decision: one line per field, decisive ones first, all complete.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;
use stubgen::is_rtl;

use super::{fits, quoted, words};
use base::error::Result;
use base::limits;

/// Most characters of a text that is shown in full, in any field.
const SHORT: usize = 300;
/// Characters of a longer text's beginning and of its end.
const HEAD: usize = 160;
const TAIL: usize = 80;

/// Words in names of fields that decide about a call: recipient, cost, object.
const DECISIVE: &str = "account accounts address addresses amount amounts assignee assignees bcc bic branch cc \
    channel channels cmd command commands cost currency database dest destination dir directory domain email \
    emails endpoint file filename files folder force from host hostname href iban invitee invitees link mail \
    member members org organization owner owners path paths permission permissions phone price project public \
    quantity query recipient recipients recursive ref repo repos repository role roles sender sql statement table \
    target targets to total uri url urls user username users visibility wallet";
/// Words in names of fields that hold a program, which is shown in full up to the limit of a decisive field.
const PROGRAMS: [&str; 4] = ["code", "expression", "function", "script"];

/// Lines of all fields: decisive ones first, then short ones, then long texts with a counted middle. `raw` are the arguments
/// before redaction: a decisive text counts with all its bytes, and says how many were in it.
///
/// # Errors
/// `APPROVAL_DENIED` when they are more than a person can be shown, or a decisive field is too long.
pub fn fields(arguments: &Value, raw: &Value) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let root = Path { text: String::new(), is_decisive: false, is_program: false, leaf: false };
    collect(arguments, Some(raw), &root, &mut all)?;
    // Stable: fields of one rank keep their order.
    all.sort_by_key(|(rank, _)| *rank);
    let lines: Vec<String> = all.into_iter().map(|(_, line)| line).collect();
    fits(&limits::SHOWN, lines.iter().map(String::len).sum())?;
    Ok(lines)
}

/// Path of a field, and whether a name on it, or its last one, is decisive.
struct Path {
    text: String,
    is_decisive: bool,
    is_program: bool,
    leaf: bool,
}

impl Path {
    fn key(&self, key: &str) -> Self {
        let is_plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let shown = if is_plain { Cow::Borrowed(key) } else { Cow::Owned(quoted(key)) };
        let dot = if self.text.is_empty() { "" } else { "." };
        let (leaf, is_program) = (is_decisive(key), is_program(key));
        Self { text: format!("{}{dot}{shown}", self.text), is_decisive: self.is_decisive || leaf, is_program, leaf }
    }

    fn item(&self, position: usize) -> Self {
        Self { text: format!("{}[{position}]", self.text), ..*self }
    }

    /// 0 and 1 for decisive fields, 2 for short ones, 3 for the rest.
    fn rank(&self, is_short: bool) -> u8 {
        match (self.leaf, self.is_decisive, is_short) {
            (true, ..) => 0,
            (_, true, _) => 1,
            (.., true) => 2,
            (.., false) => 3,
        }
    }
}

fn collect(value: &Value, raw: Option<&Value>, path: &Path, all: &mut Vec<(u8, String)>) -> Result<()> {
    let size = |text: &str| raw.and_then(Value::as_str).unwrap_or(text).len();
    let is_whole = |text: &str| path.leaf || path.is_program && size(text) <= limits::DECISIVE.max;
    let shown = match value {
        Value::Object(object) if !object.is_empty() => {
            return object
                .iter()
                .try_for_each(|(key, value)| collect(value, raw.and_then(|raw| raw.get(key)), &path.key(key), all));
        }
        Value::Array(items) if !items.is_empty() => match in_a_row(items) {
            Some(row) => row,
            None => {
                let mut items = items.iter().enumerate();
                return items.try_for_each(|(position, item)| {
                    collect(item, raw.and_then(|raw| raw.get(position)), &path.item(position), all)
                });
            }
        },
        Value::String(text) if is_long(text, SHORT) && !is_whole(text) => folded(text),
        Value::String(text) => {
            fits(&limits::DECISIVE, if path.leaf { size(text) } else { text.len() })?;
            format!("{}{}", quoted(text), if path.is_decisive { remark(text) } else { "" })
        }
        other => other.to_string(),
    };
    let hidden = match raw.filter(|raw| (path.is_decisive || path.is_program) && *raw != value) {
        Some(raw) => {
            format!(" ({} bytes, some redacted)", raw.as_str().map_or_else(|| raw.to_string().len(), str::len))
        }
        None => String::new(),
    };
    fits(&limits::SHOWN_NAME, path.text.len())?;
    let is_short = !matches!(value, Value::String(text) if is_long(text, SHORT));
    let equals = if path.text.is_empty() { "" } else { " = " };
    all.push((path.rank(is_short), format!("{}{equals}{shown}{hidden}", path.text)));
    fits(&limits::SHOWN_FIELDS, all.len())
}

fn is_long(text: &str, characters: usize) -> bool {
    text.len() > characters && text.chars().nth(characters).is_some()
}

/// Scalar values in a row, if they fit one line.
fn in_a_row(items: &[Value]) -> Option<String> {
    let mut row = String::from("[");
    for (position, item) in items.iter().enumerate() {
        row.push_str(if position > 0 { ", " } else { "" });
        match item {
            Value::Array(_) | Value::Object(_) => return None,
            Value::String(text) => row.push_str(&format!("{}{}", quoted(text), remark(text))),
            other => row.push_str(&other.to_string()),
        }
        if row.len() > SHORT {
            return None;
        }
    }
    row.push(']');
    Some(row)
}

/// Beginning and end of a text, the size of the middle, and a digest.
fn folded(text: &str) -> String {
    let count = text.chars().count();
    let end = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..end(HEAD)], &text[end(count - TAIL)..]);
    let digest = stubgen::digest(text);
    let between = count - HEAD - TAIL;
    format!(
        "{} … {between} characters … {} ({count} characters, sha256 {})",
        quoted(head),
        quoted(tail),
        base::text::head(&digest, 12)
    )
}

/// A warning about deceptive text.
fn remark(text: &str) -> &'static str {
    let has_latin = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_lookalike = |c| {
        matches!(c,
            '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{2100}'..='\u{214f}' | '\u{ab70}'..='\u{abbf}'
            | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
    };
    if has_latin && text.contains(is_lookalike) {
        " (mixes alphabets)"
    } else if text.contains(is_rtl) {
        " (has letters that are read from right to left)"
    } else {
        ""
    }
}

/// True if a word of the name is in [`PROGRAMS`].
fn is_program(name: &str) -> bool {
    words(name).iter().any(|word| PROGRAMS.contains(&word.as_str()))
}

/// True if a word of the name is in [`DECISIVE`]: `to` of `replyTo`, `reply_to` and `REPLY-TO`.
fn is_decisive(name: &str) -> bool {
    static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| DECISIVE.split(' ').collect());
    let parts = name.split(|c: char| !c.is_ascii_alphabetic());
    parts.flat_map(words).any(|word| KNOWN.contains(&*word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use base::error::ErrorCode;

    #[test]
    fn names_that_decide_are_known_in_any_spelling() {
        for name in ["to", "replyTo", "reply_to", "REPLY-TO", "toEmail", "totalAmount", "repoURL", "bcc", "x.path"] {
            assert!(is_decisive(name), "{name}");
        }
        for name in ["text", "body", "tool", "today", "stop", "photo", "content", "token", ""] {
            assert!(!is_decisive(name), "{name}");
        }
    }

    #[test]
    fn what_decides_comes_first_and_nothing_is_missing() {
        let long = "x".repeat(1000);
        let arguments = json!({
            "a": 1, "body": long, "items": [{"amount": 5, "note": "n"}], "labels": ["p", "q"],
            "to": ["a@example.com", "b@example.com"], "we ird\n▌ to": true, "nothing": null, "none": {},
        });
        let lines = fields(&arguments, &arguments).expect("it can be shown");
        let digest = stubgen::digest(&long);
        let expected = [
            "items[0].amount = 5".to_owned(),
            "to = [\"a@example.com\", \"b@example.com\"]".to_owned(),
            "a = 1".to_owned(),
            "items[0].note = \"n\"".to_owned(),
            "labels = [\"p\", \"q\"]".to_owned(),
            "\"we ird\\n\\u{258c} to\" = true".to_owned(),
            "nothing = null".to_owned(),
            "none = {}".to_owned(),
        ];
        let (folded, others) = lines.split_last().expect("fields");
        let mut others = others.to_vec();
        others.sort();
        let mut sorted = expected.to_vec();
        sorted.sort();
        assert_eq!(others, sorted);
        assert!(lines[..2].iter().all(|line| line.contains("amount") || line.starts_with("to")), "{lines:?}");
        let short = &digest[..12];
        assert_eq!(
            folded,
            &format!(
                "body = \"{}\" … 760 characters … \"{}\" (1000 characters, sha256 {short})",
                "x".repeat(160),
                "x".repeat(80)
            )
        );
    }

    #[test]
    fn what_cannot_be_shown_whole_is_refused() {
        let many = |n: usize| Value::Array((0..n).map(|n| json!({"id": n})).collect());
        for (arguments, what) in [
            (json!({"to": "x".repeat(5000)}), "a field that decides"),
            (json!({"rows": many(401)}), "fields"),
            (json!({"rows": (0..200).map(|_| "y".repeat(299)).collect::<Vec<_>>()}), "arguments"),
            (json!({"n".repeat(600): 1}), "name of a field"),
        ] {
            let error = fields(&arguments, &arguments).expect_err(what);
            assert!(error.code == ErrorCode::ApprovalDenied && error.message.contains(what), "{error}");
        }
        assert_eq!(fields(&json!({"rows": many(400)}), &Value::Null).expect("it fits").len(), 400);
        assert_eq!(fields(&json!({}), &json!({})).expect("it fits"), ["{}"]);
        assert_eq!(fields(&json!("x://y"), &json!("x://y")).expect("it fits"), ["\"x://y\""]);
        let (shown, raw) = (json!({"cmd": "x [redacted:token]"}), json!({"cmd": "x token=abcdefgh"}));
        assert_eq!(fields(&shown, &raw).expect("it fits"), ["cmd = \"x [redacted:token]\" (16 bytes, some redacted)"]);
        assert!(fields(&shown, &json!({"cmd": "x".repeat(5000)})).is_err(), "its own length counts");
        for (length, is_folded) in [(4000, false), (5000, true)] {
            let program = json!({"source_code": "x".repeat(length)});
            let lines = fields(&program, &program).expect("it fits");
            assert_eq!(lines[0].contains("sha256"), is_folded, "{length}");
        }
    }
}
