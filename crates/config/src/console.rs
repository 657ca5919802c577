//! `[console.<name>]`: people who may open `/console` of `forgefs serve --http`.

use super::clients::{check_name, digest_of};
use super::error::ConfigError;
use super::key::Key;
use super::raw::RawConsole;

/// A person's token for the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleToken {
    /// SHA-256 of the token. The token itself is not kept.
    pub token: [u8; 32],
    /// True if its sessions may look, and change nothing.
    pub read_only: bool,
}

pub(super) fn console(key: &Key<'_>, raw: RawConsole) -> Result<ConsoleToken, ConfigError> {
    const FORM: &str = "`forgefs console add` makes a token and writes its digest";
    check_name(key, "person")?;
    let Some(text) = raw.token_sha256 else { return Err(key.at_key("has no `token_sha256`").with_hint(FORM)) };
    let token = digest_of(&key.key("token_sha256"), text, FORM)?;
    Ok(ConsoleToken { token, read_only: raw.read_only.unwrap_or(false) })
}
