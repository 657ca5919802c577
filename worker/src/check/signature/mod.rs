//! The signature of a function script, read from its types: TypeScript, JSDoc, or the annotations of Starlark.
//!
//! What a schema cannot say is an error with its place, and with what to write instead. A signature is bounded in types,
//! levels and bytes: aliases that name each other could make a large one of a short script.

mod default;
mod doc;
mod docstring;
mod javascript;
mod jsdoc;
mod names;
mod object;
mod refusal;
mod starlark;
#[cfg(test)]
mod tests;
mod types;

use serde_json::Value;
use serde_json::value::RawValue;
use wire::{Json, MAX_DOC, MAX_SCHEMA, MAX_TYPE_LEVELS, MAX_TYPES, ScriptError, ScriptErrorKind, Signature, position};

pub(super) use self::javascript::{of_javascript, of_typescript};
pub(super) use self::starlark::of_starlark;

/// Longest description of a parameter, in bytes.
const MAX_DESCRIPTION: usize = 2 << 10;

/// Reason why a script has no signature.
#[derive(Debug)]
struct Unfit {
    /// Byte offset in the script as written.
    at: u32,
    message: String,
    /// The correction.
    fix: Option<String>,
}

type Fit<T> = Result<T, Unfit>;

fn unfit<T>(at: u32, message: impl Into<String>, fix: impl Into<String>) -> Fit<T> {
    Err(Unfit { at, message: message.into(), fix: Some(fix.into()) })
}

impl Unfit {
    /// The error in the code of which it has an offset.
    fn within(self, code: &str) -> ScriptError {
        let place = position(code, self.at as usize);
        self.at(place)
    }

    /// The error at a line and column.
    fn at(self, (line, column): (u32, u32)) -> ScriptError {
        let mut message = self.message;
        message.truncate(message.floor_char_boundary(500));
        ScriptError { line, column, fix: self.fix, ..ScriptError::new(ScriptErrorKind::Syntax, message) }
    }
}

/// Types that the signature may still have.
struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_TYPES)
    }
}

impl Room {
    /// Takes room for a type that stands `level` levels deep.
    fn take(&mut self, at: u32, level: usize) -> Fit<()> {
        if level > MAX_TYPE_LEVELS {
            return unfit(
                at,
                format!("the types are nested more than {MAX_TYPE_LEVELS} levels deep"),
                "write `unknown` (`typing.Any` in Starlark) for the inner part",
            );
        }
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => {
                let message = format!("the signature has more than {MAX_TYPES} types");
                return unfit(at, message, "take and return less, or write `unknown` for a part");
            }
        }
        Ok(())
    }
}

/// The signature of these parts, if they are small enough.
fn finished(at: u32, doc: String, params: &Value, returns: Option<&Value>) -> Fit<Signature> {
    if doc.len() > MAX_DOC {
        let message = format!("the description has {} bytes, over the limit of {MAX_DOC}", doc.len());
        return unfit(at, message, "shorten it");
    }
    let json = |schema: &Value| -> Fit<Json> {
        let text = schema.to_string();
        if text.len() > MAX_SCHEMA {
            let message = format!("the schema has {} bytes, over the limit of {MAX_SCHEMA}", text.len());
            return unfit(at, message, "take and return less, or write `unknown` for a part");
        }
        RawValue::from_string(text).map_err(|error| Unfit { at, message: error.to_string(), fix: None })
    };
    Ok(Signature { doc, params: json(params)?, returns: returns.map(json).transpose()? })
}

/// The schema with a description.
fn described(mut schema: Value, text: &str, at: u32) -> Fit<Value> {
    if text.len() > MAX_DESCRIPTION {
        let message = format!("a description has {} bytes, over the limit of {MAX_DESCRIPTION}", text.len());
        return unfit(at, message, "shorten it");
    }
    if let (Some(schema), false) = (schema.as_object_mut(), text.is_empty()) {
        schema.insert("description".to_owned(), Value::from(text));
    }
    Ok(schema)
}
