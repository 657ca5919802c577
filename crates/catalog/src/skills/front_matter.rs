//! YAML front matter as JSON: mappings, lists and scalars. Aliases, tags and documents beside the first are refused, so
//! that the result is no larger than its text.

use serde_json::{Map, Value};

use base::limits;
use base::yaml::{self, Fault, Rules};

const RULES: Rules = Rules { levels: 8, with_aliases: None };

/// Front matter of a `SKILL.md`.
///
/// # Errors
/// The fault, and what to write instead.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, String> {
    let yaml = between(text)?;
    if let Some(found) = hidden(yaml) {
        return Err(format!("its front matter has the invisible character {}; remove it", found.escape_unicode()));
    }
    // Below the first line, `---`.
    let told = |Fault { what, line }| format!("its front matter {what} in line {}", line + 1);
    match yaml::read(yaml, &RULES).map_err(told)? {
        // An escape is a character too.
        Value::Object(fields) if has_hidden(&fields) => {
            Err("its front matter has an invisible character as an escape; remove it".to_owned())
        }
        Value::Object(fields) => Ok(fields),
        _ => Err("its front matter has no `name: …` and `description: …`".to_owned()),
    }
}

/// Text between the first line, `---`, and the next such line.
fn between(text: &str) -> Result<&str, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let rest = rest.ok_or("it has no front matter; begin with `---`, `name: …`, `description: …` and `---`")?;
    let max = limits::SKILL_FRONT_MATTER.max;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok(&rest[..end]);
        }
        end += line.len();
        if end > max {
            return Err(format!("its front matter is over the limit of {max} bytes, or has no end; end it with `---`"));
        }
    }
    Err("its front matter has no end; end it with a line `---`".to_owned())
}

fn has_hidden(fields: &Map<String, Value>) -> bool {
    fn of(value: &Value) -> bool {
        match value {
            Value::String(text) => hidden(text).is_some(),
            Value::Array(items) => items.iter().any(of),
            Value::Object(fields) => has_hidden(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    fields.iter().any(|(key, value)| hidden(key).is_some() || of(value))
}

/// The first invisible character; an emoji may be followed by the selector of its form.
fn hidden(text: &str) -> Option<char> {
    let mut before = None;
    text.chars().find(|&c| {
        let is_form = matches!(c, '\u{fe0e}' | '\u{fe0f}') && stubgen::is_usual(c, before, None);
        before = Some(c);
        stubgen::is_hidden(c) && !is_form && !matches!(c, '\n' | '\r' | '\t')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that YAML gives a meaning to.
    const PIECES: [&str; 24] = [
        "a", "b: ", ": ", "- ", "? ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ",", "\"", "'", "|\n", ">-\n", "&x ",
        "*x", "!t ", "#", "---\n", "...\n", "%YAML 1.2\n",
    ];

    #[test]
    fn any_front_matter_is_read_or_refused() {
        let (mut state, mut read_well) = (0x2545_f491_4f6c_dd1d_u64, 0);
        for _ in 0..20_000 {
            let mut text = String::from("---\n");
            for _ in 0..12 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push_str(PIECES[usize::try_from(state % 24).unwrap_or_default()]);
            }
            text.push_str("\n---\n");
            read_well += usize::from(read(&text).is_ok());
        }
        assert!((10..19_000).contains(&read_well), "{read_well}");
        for deep in ["[", "- ", "{a: ", "? ", "[{"] {
            let text = format!("---\n{}\n---\n", deep.repeat(15_000 / deep.len()));
            assert!(read(&text).is_err(), "{deep}");
        }
    }
}
