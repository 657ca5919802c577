//! What stands where a secret would stand and is none: `YOUR_API_KEY`, `xxxx`, `<token>`, `${TOKEN}`.
//!
//! The example keys of a vendor's documentation that look like any other key count as keys; those that say
//! `EXAMPLE` count as placeholders.

/// Parts that only placeholders have, in lower case.
const PARTS: &[&str] = &[
    "xxxx",
    "your",
    "example",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "dummy",
    "insert",
    "replace",
    "****",
    "....",
    "…",
    "todo",
    "goes-here",
    "goes_here",
    "<",
    "{{",
    "${",
    "$(",
    "}}",
    "%s",
    "process.env",
    "os.environ",
    "getenv",
    "env.",
    "env(",
    "config.",
    "settings.",
    "secrets.",
    "fixme",
    "not-set",
    "undefined",
];

/// Whether a value, or a part of it, is a placeholder.
pub(super) fn is_in(value: &str) -> bool {
    super::scan::spent(value.len());
    let value = value.to_ascii_lowercase();
    PARTS.iter().any(|part| value.contains(part)) || is_counted(&value)
}

/// `123456789…` and `abcdefgh…`, as people type when they need something.
fn is_counted(value: &str) -> bool {
    let mut up = 0;
    value.as_bytes().windows(2).any(|pair| {
        up = if pair[1] == pair[0].wrapping_add(1) { up + 1 } else { 0 };
        up >= 8
    })
}
