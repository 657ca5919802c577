//! Dummy values in place of a secret: `YOUR_API_KEY`, `xxxx`, `<token>`, `${TOKEN}`.
//!
//! Example keys of a vendor's documentation count as keys if they look like real ones; those with `EXAMPLE` count as
//! dummies.

/// Substrings found only in dummies, in lower case.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "xxxx", "your", "example", "placeholder", "changeme", "change-me", "change_me", "redacted", "dummy", "insert",
    "replace", "****", "....", "…", "todo", "goes-here", "goes_here", "<", "{{", "${", "$(", "}}", "%s",
    "process.env", "os.environ", "getenv", "env.", "env(", "config.", "settings.", "secrets.", "fixme", "not-set",
    "undefined",
];

/// True if a value, or a part of it, is a dummy.
pub(super) fn is_in(value: &str) -> bool {
    super::scan::spent(value.len());
    let value = value.to_ascii_lowercase();
    PARTS.iter().any(|part| value.contains(part)) || is_counted(&value)
}

/// True for `123456789…` and `abcdefgh…`, as people type when they need any value.
fn is_counted(value: &str) -> bool {
    let mut up = 0;
    value.as_bytes().windows(2).any(|pair| {
        up = if pair[1] == pair[0].wrapping_add(1) { up + 1 } else { 0 };
        up >= 8
    })
}
