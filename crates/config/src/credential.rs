//! Values that may be secrets: written in the file, or kept elsewhere and read when they are needed.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess};

use super::document::KeyPath;
use super::error::ConfigError;
use super::transport::words;
use super::values::Values;
use redact::secret::{self, Secret};

/// A value that may be a secret, or where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Written in the file, with its references to variables replaced.
    Given(Secret),
    /// Kept elsewhere: read when it is needed, never when the configuration is.
    Kept(Source),
}

impl Credential {
    /// Where it is kept; `None` if the configuration has it.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        match self {
            Self::Given(_) => None,
            Self::Kept(source) => Some(source),
        }
    }
}

/// Where a value is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Key of the configuration, for errors.
    pub key: String,
    /// The place.
    pub place: Place,
    /// Text in front of the value, such as `Bearer `.
    pub prefix: String,
    /// True for a header, whose value is one line of visible text.
    pub is_header: bool,
}

/// The place of a value.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// Content of a file; relative paths were resolved against the configuration file.
    File(PathBuf),
    /// Output of a program: the program and its arguments.
    Command(Vec<String>),
    /// Entry of the desktop's keyring.
    Keyring(String),
}

impl fmt::Display for Place {
    /// Without the arguments of a program, which may tell more than its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Command(words) => {
                write!(f, "command `{}`", secret::redact(words.first().map_or("", String::as_str)))
            }
            Self::Keyring(name) => write!(f, "keyring entry `{name}`"),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text, or a table that names where it is kept.
#[derive(Debug)]
pub(super) enum RawCredential {
    Text(String),
    Table(RawSource),
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table with `file`, `command` or `keyring`")]
pub(super) struct RawSource {
    file: Option<String>,
    command: Option<Vec<String>>,
    keyring: Option<String>,
    prefix: Option<String>,
}

impl JsonSchema for RawCredential {
    fn schema_name() -> Cow<'static, str> {
        "Credential".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, generator.subschema_for::<RawSource>()] })
    }
}

impl<'de> Deserialize<'de> for RawCredential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawCredential;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string in quotes, or a table such as { file = \"token.txt\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawCredential, E> {
                Ok(RawCredential::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawCredential, A::Error> {
                RawSource::deserialize(MapAccessDeserializer::new(map)).map(RawCredential::Table)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Checks a table that names where a value is kept. Nothing is read.
pub(super) fn source(
    values: &Values<'_>,
    key: &KeyPath,
    raw: RawSource,
    is_header: bool,
) -> Result<Source, ConfigError> {
    const FORM: &str =
        "write { file = \"token.txt\" }, { command = [\"pass\", \"show\", \"token\"] } or { keyring = \"token\" }";
    let RawSource { file, command, keyring, prefix } = raw;
    let place = match (file, command, keyring) {
        (Some(file), None, None) => Place::File(values.path(&key.key("file"), file)?),
        (None, Some(command), None) => Place::Command(words(values, &key.key("command"), command)?),
        (None, None, Some(name)) => Place::Keyring(values.filled(&key.key("keyring"), name)?.text),
        (None, None, None) => return Err(values.document.at_value(key, "names no place of the value").with_hint(FORM)),
        _ => return Err(values.document.at_value(key, "names several places of the value").with_hint(FORM)),
    };
    let prefix = match prefix {
        Some(prefix) => values.text(&key.key("prefix"), prefix)?.text,
        None => String::new(),
    };
    Ok(Source { key: key.to_string(), place, prefix, is_header })
}
