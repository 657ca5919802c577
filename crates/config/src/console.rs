//! `[console.<name>]`: people who may open `/console` of `forgefs serve --http`.

use std::collections::BTreeMap;

use super::document::KeyPath;
use super::error::ConfigError;
use super::http::{is_client_name, parse_digest};
use super::raw::RawConsole;
use super::values::Values;

/// A person's token for the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleToken {
    /// SHA-256 of the token. The token itself is not kept.
    pub token: [u8; 32],
    /// True if its sessions may look, and change nothing.
    pub read_only: bool,
}

pub(super) fn console(
    values: Values<'_>,
    raw: BTreeMap<String, RawConsole>,
) -> Result<BTreeMap<String, ConsoleToken>, ConfigError> {
    let mut people = BTreeMap::new();
    for (name, raw) in raw {
        let key = KeyPath::root("console").key(&name);
        let fault = |message: &str, hint: &str| Err(values.document.at_key(&key, message.to_owned()).with_hint(hint));
        if !is_client_name(&name) {
            let hint = "use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first";
            return fault("not usable as the name of a person", hint);
        }
        let form = "`forgefs console add` makes a token and writes its digest";
        let Some(text) = raw.token_sha256 else { return fault("has no `token_sha256`", form) };
        let text = values.filled(&key.key("token_sha256"), text)?.text;
        let Some(token) = parse_digest(&text) else {
            let message = "not a SHA-256 digest of 64 hexadecimal digits".to_owned();
            return Err(values.document.at_value(&key.key("token_sha256"), message).with_hint(form));
        };
        people.insert(name, ConsoleToken { token, read_only: raw.read_only.unwrap_or(false) });
    }
    Ok(people)
}
