//! Names that sound like a credential: `DB_PASSWORD`, `api-key`, not `nextPageToken`. Three widths: a field of foreign
//! data ([`label`]), a name in a configuration ([`sounds_secret`]), a variable of `env` ([`variable_sounds_secret`]). The
//! more of the text near a name is configured, the less a false alarm costs.

use super::scan::spent;

/// Labels of secret names by their endings, which are without separators and in lower case.
#[rustfmt::skip]
const ENDINGS: &[(&str, &[&str])] = &[
    ("password", &["password", "passwd", "passphrase", "passcode", "pwd"]),
    ("api-key", &["apikey"]),
    ("token", &["token"]),
    ("secret", &[
        "secret", "secretvalue", "secretkey", "secretkeybase", "accesskey", "privatekey", "accountkey",
        "signingkey", "encryptionkey", "masterkey", "authkey", "sharedkey", "servicekey", "servicerolekey",
        "storagekey", "appkey", "licensekey", "subscriptionkey", "functionskey", "credential", "credentials",
        "connectionstring", "npmauth", "sessioncookie",
    ]),
];

/// Exceptions: cursors, counts and the like, which an agent needs.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "pagetoken", "nexttoken", "synctoken", "continuationtoken", "continuetoken", "cursortoken", "startingtoken",
    "paginationtoken", "resumetoken", "changetoken", "maxtoken", "stoptoken", "eostoken", "bostoken", "padtoken",
    "unktoken", "progresstoken", "clienttoken", "idempotencytoken", "watchtoken", "deltatoken", "skiptoken",
    "csstoken", "designtoken", "publicapikey", "publickey",
];

/// The label for a secret field of this name.
pub(super) fn label(name: &str) -> Option<&'static str> {
    spent(name.len());
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if HARMLESS.iter().any(|harmless| plain.ends_with(harmless)) {
        return None;
    }
    if matches!(&*plain, "sig" | "xamzsignature" | "xgoogsignature" | "xamzsecuritytoken") {
        return Some("signature");
    }
    if matches!(name, "_auth" | "_password") {
        return Some("password");
    }
    if matches!(&*plain, "authorization" | "proxyauthorization") {
        return Some("authorization");
    }
    let is_one = |(_, endings): &&(&str, &[&str])| endings.iter().any(|ending| plain.ends_with(ending));
    ENDINGS.iter().find(is_one).map(|(label, _)| *label)
}

/// True if a field of foreign data with this name holds a credential.
pub fn names_credential(name: &str) -> bool {
    label(name).is_some()
}

/// Parts of a name in a configuration, anywhere in it.
const PARTS: &[&str] = &["token", "secret", "passw", "credential", "bearer", "cookie", "private"];
/// Words of a name in a configuration.
const WORDS: &[&str] = &["auth", "authorization", "dsn", "key", "keys", "pass", "pat", "pwd"];
/// Further words of a variable's name.
const VARIABLE_WORDS: &[&str] = &["jwt", "mnemonic", "otp", "pin", "psk", "salt", "seed", "totp"];

/// True if the name of a header, option or parameter sounds like a credential.
pub fn sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
        || lower.ends_with("key")
        || has_word(&lower, WORDS)
        || label(name).is_some()
}

/// True if the name of a variable of `env` sounds like a credential.
pub fn variable_sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let ends_in_pass = lower.ends_with("pass") && !lower.ends_with("bypass") && !lower.ends_with("compass");
    ends_in_pass || sounds_secret(name) || has_word(&lower, VARIABLE_WORDS)
}

fn has_word(name: &str, words: &[&str]) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word))
}

/// Fields of an object under a secret name that describe the secret.
#[rustfmt::skip]
const ABOUT: &[&str] = &[
    "name", "id", "type", "kind", "algorithm", "alg", "hash", "format", "pattern", "description", "title", "label",
    "version", "versions", "url", "uri", "href", "link", "path", "file", "region", "arn", "ref", "status", "state",
    "policy", "user", "username", "login", "email", "owner", "host", "hostname", "server", "database", "scope",
    "scopes", "created", "updated", "expires", "rotated", "hint", "example", "default", "message", "error",
    "provider", "source",
];

/// True if a field of an object under a secret name may be the secret.
pub(super) fn may_inherit(key: &str) -> bool {
    let plain = key.to_ascii_lowercase();
    let is_part =
        |part: &&&str| plain == **part || plain.ends_with(&format!("_{part}")) || plain.ends_with(&format!("-{part}"));
    let is_time = plain.ends_with("_at") || plain.ends_with("_on") || key.ends_with("At") || plain.contains("date");
    !is_time && !plain.starts_with('$') && !ABOUT.iter().any(|part| is_part(&part)) && !key.ends_with("Id")
}
