//! YAML front matter as JSON: mappings, lists and scalars. Aliases, tags and documents beside the first are refused, so
//! that the result is no larger than its text.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use crate::limits;

/// Most levels of mappings and lists.
const MAX_LEVELS: usize = 8;

/// Front matter of a `SKILL.md`.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, String> {
    let yaml = between(text)?;
    if let Some(hidden) = yaml.chars().find(|c| is_hidden(*c)) {
        return Err(format!("its front matter has the invisible character {}; remove it", hidden.escape_unicode()));
    }
    match (Reader { open: Vec::new(), whole: None }).read(yaml)? {
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
            Value::String(text) => text.chars().any(is_hidden),
            Value::Array(items) => items.iter().any(of),
            Value::Object(fields) => has_hidden(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    fields.iter().any(|(key, value)| key.chars().any(is_hidden) || of(value))
}

/// True for controls, and for characters that change what a reader sees.
fn is_hidden(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    is_control
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Values that are not complete yet.
enum Open {
    /// A mapping, with the key whose value is next.
    Mapping(Map<String, Value>, Option<String>),
    List(Vec<Value>),
}

struct Reader {
    open: Vec<Open>,
    whole: Option<Value>,
}

impl Reader {
    fn read(mut self, yaml: &str) -> Result<Value, String> {
        for event in Parser::new_from_str(yaml) {
            let (event, span) = event.map_err(|error| {
                format!("its front matter is no YAML: {} in line {}", error.info(), error.marker().line() + 1)
            })?;
            let line = span.start.line() + 1;
            self.take(event).map_err(|what| format!("its front matter {what} in line {line}"))?;
        }
        Ok(self.whole.unwrap_or_default())
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Alias(_) => Err("has an alias, which is not read,".to_owned()),
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                Err("has a tag, which is not read,".to_owned())
            }
            Event::Scalar(text, style, ..) => self.scalar(&text, style),
            Event::MappingStart(..) => self.push(Open::Mapping(Map::new(), None)),
            Event::SequenceStart(..) => self.push(Open::List(Vec::new())),
            Event::MappingEnd | Event::SequenceEnd => match self.open.pop() {
                Some(Open::Mapping(fields, _)) => self.add(Value::Object(fields)),
                Some(Open::List(items)) => self.add(Value::Array(items)),
                None => Ok(()),
            },
            Event::DocumentStart(_) if self.whole.is_some() => Err("has a second document".to_owned()),
            _ => Ok(()),
        }
    }

    fn push(&mut self, open: Open) -> Result<(), String> {
        if matches!(self.open.last(), Some(Open::Mapping(_, None))) {
            return Err("has a key that is no text".to_owned());
        }
        if self.open.len() >= MAX_LEVELS {
            return Err(format!("has more than {MAX_LEVELS} levels"));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle) -> Result<(), String> {
        if let Some(Open::Mapping(fields, key @ None)) = self.open.last_mut() {
            if fields.contains_key(text) {
                return Err(format!("has the key `{}` twice,", crate::text::brief(text)));
            }
            *key = Some(text.to_owned());
            return Ok(());
        }
        self.add(match style {
            ScalarStyle::Plain => plain(text)?,
            _ => Value::String(text.to_owned()),
        })
    }

    fn add(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            Some(Open::Mapping(fields, key)) => {
                let key = key.take().ok_or_else(|| "has a key that is no text".to_owned())?;
                fields.insert(key, value);
            }
            Some(Open::List(items)) => items.push(value),
            None => self.whole = Some(value),
        }
        Ok(())
    }
}

/// A plain scalar by YAML's core schema.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            match text.parse::<i64>() {
                Ok(whole) => whole.into(),
                Err(_) => match text.parse::<f64>() {
                    Ok(number) if is_number => Number::from_f64(number)
                        .map(Value::Number)
                        .ok_or_else(|| "has a number out of range; put it in quotes,".to_owned())?,
                    _ => Value::String(text.to_owned()),
                },
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that YAML gives a meaning to.
    const PIECES: [&str; 24] = [
        "a",
        "b: ",
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "'",
        "|\n",
        ">-\n",
        "&x ",
        "*x",
        "!t ",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
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
