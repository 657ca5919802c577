//! Lists and dicts as Python prints them, which servers in Python answer with: `[{'id': 1, 'paid': None}]`.

use serde::de::IgnoredAny;
use serde_json::Value;

/// Beginnings of texts that Python has printed, unless they are something else.
const BEGINNINGS: [&str; 5] = ["{'", "['", "[{'", "[('", "[['"];
/// Longest beginning of a text in an error.
const SHOWN: usize = 100;

/// True for a text that begins like a list or dict of Python.
#[must_use]
pub fn is_like(text: &str) -> bool {
    BEGINNINGS.iter().any(|begin| text.starts_with(begin))
}

/// True if a text in this JSON begins so.
#[must_use]
pub fn has_like(json: &str) -> bool {
    json.split('"').skip(1).any(is_like)
}

/// Says that a text is none, with its beginning.
#[must_use]
pub fn unfit(text: &str) -> String {
    let head = &text[..text.floor_char_boundary(SHOWN)];
    format!("the text is no list or dict as Python prints it, `[{{'id': 1, 'paid': None}}]`: it begins {head:?}")
}

/// The JSON of a Python literal: a list, tuple or dict of texts, numbers, `None`, `True` and `False`, or a text that is JSON
/// already. A call in it is its only argument if that is a text, as of `Decimal('1.5')`, or a number of NumPy, and else its
/// own text, as of `datetime.date(2026, 3, 1)`; `nan` is null. `None` for any other text. Linear in time and memory.
#[must_use]
pub fn as_json(text: &str) -> Option<String> {
    let text = text.trim();
    let is_json = |json: &str| serde_json::from_str::<IgnoredAny>(json).is_ok();
    match text.starts_with(['[', '{', '(']) {
        false => None,
        true if is_json(text) => Some(text.to_owned()),
        true => translated(text).filter(|json| is_json(json)),
    }
}

/// The same for a text that is no JSON; its result may be none either.
fn translated(text: &str) -> Option<String> {
    let mut rest = text;
    let mut json = String::with_capacity(rest.len());
    // Closing brackets, and whether the next value is the key of a dict.
    let mut open: Vec<(char, bool)> = Vec::new();
    while let Some(first) = rest.chars().next() {
        let mut len = first.len_utf8();
        match first {
            '[' | '(' => {
                open.push((if first == '[' { ']' } else { ')' }, false));
                json.push('[');
            }
            '{' => {
                open.push(('}', true));
                json.push('{');
            }
            ']' | ')' | '}' => {
                open.pop().filter(|(closing, _)| *closing == first)?;
                let items = json.trim_end();
                json.truncate(items.strip_suffix(',').unwrap_or(items).len());
                json.push(if first == '}' { '}' } else { ']' });
                if open.is_empty() {
                    return rest[len..].is_empty().then_some(json);
                }
            }
            ',' | ':' => {
                if json.trim_end().ends_with(['[', '{', ',']) {
                    return None;
                }
                let (closing, is_key) = open.last_mut()?;
                *is_key = first == ',' && *closing == '}';
                json.push(first);
            }
            // `[1 2]` is no list of Python.
            c if c.is_ascii_whitespace() => json.push(' '),
            '\'' | '"' => {
                let (value, end) = string(rest)?;
                let value = Value::from(value).to_string();
                // Long texts are printed in parts.
                match json.trim_end().strip_suffix('"').map(str::len) {
                    Some(before) => {
                        json.truncate(before);
                        json.push_str(&value[1..]);
                    }
                    None => json.push_str(&value),
                }
                len = end;
            }
            _ => {
                let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
                len = rest.find(|c| !is_word(c)).filter(|len| *len > 0)?;
                let value = match (&rest[..len], rest[len..].chars().next()) {
                    ("b", Some('\'' | '"')) => String::new(),
                    (name, Some('(')) if first.is_alphabetic() => {
                        let (value, end) = call(rest, len)?;
                        len = end;
                        match value.strip_prefix(name).filter(|_| name.starts_with("np.")) {
                            Some(number) => number.trim_matches(['(', ')']).to_owned(),
                            None => Value::from(value).to_string(),
                        }
                    }
                    ("None" | "nan", _) => "null".to_owned(),
                    ("True", _) => "true".to_owned(),
                    ("False", _) => "false".to_owned(),
                    (number, _) if first.is_ascii_digit() || first == '-' => number.to_owned(),
                    _ => return None,
                };
                let is_text = value.is_empty() || value.starts_with('"');
                let is_key = open.last().is_some_and(|(_, is_key)| *is_key);
                json.push_str(&if is_key && !is_text { format!("\"{value}\"") } else { value });
            }
        }
        rest = &rest[len..];
    }
    None
}

/// The text of a string literal at the start of `rest`, and its end.
fn string(rest: &str) -> Option<(String, usize)> {
    let mut chars = rest.char_indices();
    let (_, quote) = chars.next()?;
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let (at, escaped) = chars.next()?;
                match escaped {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    'x' | 'u' | 'U' => {
                        let count = match escaped {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let end = at + 1 + count;
                        let digits = rest.get(at + 1..end).filter(|digits| !digits.starts_with('+'))?;
                        let code = u32::from_str_radix(digits, 16).ok()?;
                        value.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        for _ in at + 1..end {
                            chars.next();
                        }
                    }
                    '\\' | '\'' | '"' => value.push(escaped),
                    _ => value.extend(['\\', escaped]),
                }
            }
            c if c == quote => return Some((value, at + 1)),
            c => value.push(c),
        }
    }
    None
}

/// The value of a call whose bracket is at `bracket`, and its end.
fn call(rest: &str, bracket: usize) -> Option<(String, usize)> {
    let inside = &rest[bracket + 1..];
    if inside.starts_with(['\'', '"'])
        && let Some((value, end)) = string(inside)
        && inside[end..].starts_with(')')
    {
        return Some((value, bracket + end + 2));
    }
    let (mut depth, mut at) = (0_usize, bracket);
    loop {
        let c = rest[at..].chars().next()?;
        match c {
            '\'' | '"' => at += string(&rest[at..])?.1 - 1,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        at += c.len_utf8();
        if depth == 0 {
            return Some((rest[..at].to_owned(), at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_json_and_nothing_else_does() {
        for (text, json) in [
            ("[]", Some("[]")),
            (" {} \n", Some("{}")),
            (
                "[{'id': 1, 'name': \"O'Brien\", 'paid': None}, {'id': -2.5e-07, 'ok': True, 'no': False}]",
                Some(r#"[{"id": 1, "name": "O'Brien", "paid": null}, {"id": -2.5e-07, "ok": true, "no": false}]"#),
            ),
            ("[(1, 'a'), (2,), ()]", Some(r#"[[1, "a"], [2], []]"#)),
            ("{1: 'one', None: [nan], 'b': b'raw\\x00'}", Some(r#"{"1": "one", "null": [null], "b": "raw\u0000"}"#)),
            (
                r"['it\'s', 'a\\b', 'tab\t', '\xe9\u20ac\U0001f600', '\d']",
                Some(r#"["it's", "a\\b", "tab\t", "é€😀", "\\d"]"#),
            ),
            (
                "[{'sum': Decimal('12.30'), 'day': datetime.date(2026, 3, 1), 'by': UUID(\"a-b\")}]",
                Some(r#"[{"sum": "12.30", "day": "datetime.date(2026, 3, 1)", "by": "a-b"}]"#),
            ),
            (
                "[datetime.datetime(2026, 3, 1, tzinfo=zone('a)b', (1))), 2]",
                Some(r#"["datetime.datetime(2026, 3, 1, tzinfo=zone('a)b', (1)))", 2]"#),
            ),
            ("{'a': ", None),
            ("[1] and more", None),
            ("[1)", None),
            ("['open]", None),
            ("[f(]", None),
            ("[<Record id=1>]", None),
            ("[\u{e9}]", None),
            ("{count: 3}", None),
            ("[1 2]", None),
            ("{'a', 'b'}", None),
            ("[,]", None),
            ("[1,, 2]", None),
            ("['\\x+f']", None),
            ("[-inf]", None),
            ("[{'a': null, \"ok\": true}]", None),
            ("[{\"a\": null, \"b\": \"\\ud83d\\ude00\"}]", Some("[{\"a\": null, \"b\": \"\\ud83d\\ude00\"}]")),
            ("{'a': 'one '\n      'two', 'b': 1}", Some("{\"a\": \"one two\", \"b\": 1}")),
            ("[np.float64(-1.5), np.int64(3)]", Some("[-1.5, 3]")),
            ("plain", None),
            ("", None),
        ] {
            assert_eq!(as_json(text).as_deref(), json, "{text}");
        }
    }

    #[test]
    fn every_beginning_of_a_literal_is_read_without_a_panic() {
        let text = "[{'a': b'\\u20ac', \"é\": f(g('x)'), (1)), 'c': (None, -1.5, {\u{1f600}: '\\U0001f600'})}]";
        for (end, _) in text.char_indices() {
            assert_eq!(as_json(&text[..end]), None, "{end}");
        }
        let deep = "(".repeat(100_000) + "1" + &",)".repeat(100_000);
        assert_eq!(as_json(&deep), Some("[".repeat(100_000) + "1" + &"]".repeat(100_000)));
    }
}
