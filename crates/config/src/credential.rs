//! Values that may be secrets: written in the file, or kept elsewhere and read when they are needed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawCredential, RawSource};
use super::sensitive;
use super::transport::{PLAIN, PLAIN_CREDENTIAL, words};
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

/// Reads variables of a process, or parameters of a query. `check` is for their names; none may be a secret where requests
/// are not private.
pub(super) fn variables(
    key: &Key<'_>,
    raw: BTreeMap<String, RawCredential>,
    is_private: bool,
    check: impl Fn(&Key<'_>) -> Result<(), ConfigError>,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    let found = key.entries(raw, |key, raw| {
        check(key)?;
        let (value, is_credential) = match raw {
            RawCredential::Text(text) => {
                let value = key.text(text)?;
                let is_credential = sensitive::is_credential(key.name(), &value);
                let listed = |_| Credential::Given(sensitive::variable(key.name(), value));
                (key.env.map(listed), is_credential)
            }
            RawCredential::Table(raw) => (Some(Credential::Kept(source(key, *raw, false)?)), true),
        };
        match is_private || !is_credential {
            // Where one is kept is known of a disabled server too, for redaction.
            true => Ok(value.filter(|value| key.env.is_some() || value.source().is_some())),
            false => Err(key.at_key(PLAIN_CREDENTIAL).with_hint(PLAIN)),
        }
    })?;
    Ok(found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Reads a secret that is written as a text, or as a table that names where it is kept.
pub(super) fn one(key: &Key<'_>, raw: RawCredential) -> Result<Credential, ConfigError> {
    Ok(match raw {
        RawCredential::Text(secret) => {
            let secret = key.filled(secret)?;
            Credential::Given(if key.env.is_some() { Secret::new(secret) } else { Secret::unlisted("") })
        }
        RawCredential::Table(raw) => Credential::Kept(source(key, *raw, false)?),
    })
}

/// Checks a table that names where a value is kept. Nothing is read.
pub(super) fn source(key: &Key<'_>, raw: RawSource, is_header: bool) -> Result<Source, ConfigError> {
    const FORM: &str =
        "write { file = \"token.txt\" }, { command = [\"pass\", \"show\", \"token\"] } or { keyring = \"token\" }";
    let RawSource { file, command, keyring, prefix } = raw;
    let place = match (file, command, keyring) {
        (Some(file), None, None) => Place::File(key.key("file").path(file)?),
        (None, Some(command), None) => Place::Command(words(&key.key("command"), command)?),
        (None, None, Some(name)) => Place::Keyring(key.key("keyring").filled(name)?),
        (None, None, None) => return Err(key.at_value("names no place of the value").with_hint(FORM)),
        _ => return Err(key.at_value("names several places of the value").with_hint(FORM)),
    };
    let prefix = key.key("prefix").expanded(prefix.unwrap_or_default())?;
    Ok(Source { key: key.path_text(), place, prefix, is_header })
}
