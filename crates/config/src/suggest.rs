//! Suggestions for unknown words.

/// Names from other tools, and their names here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("mcpServers", "[servers.<name>]"),
    ("mcp_servers", "[servers.<name>]"),
    ("type", "transport"),
    ("disabled", "enabled = false"),
    ("environment", "env"),
    ("working_dir", "cwd"),
    ("workdir", "cwd"),
    ("timeout_secs", "timeout = \"30s\""),
    ("timeout_ms", "timeout = \"500ms\""),
    ("startup_timeout", "connect_timeout"),
    ("startup_timeout_sec", "connect_timeout = \"30s\""),
    ("http_headers", "headers"),
];

/// Suggests a key.
pub(super) fn key_hint(key: &str, valid: &[&str]) -> String {
    let meant = ELSEWHERE
        .iter()
        .find(|(name, here)| *name == key && valid.iter().any(|valid| here.trim_start_matches('[').starts_with(valid)))
        .map(|(_, here)| (*here).to_owned())
        .or_else(|| nearest(key, valid));
    match meant {
        Some(meant) => format!("did you mean `{meant}`? Valid here: {}", valid.join(", ")),
        None => format!("valid here: {}", valid.join(", ")),
    }
}

/// Suggests one of a few words.
pub(super) fn word_hint(word: &str, valid: &[&str]) -> String {
    let list = valid.iter().map(|valid| format!("\"{valid}\"")).collect::<Vec<_>>().join(", ");
    match nearest(word, valid) {
        Some(meant) => format!("did you mean \"{meant}\"? Valid here: {list}"),
        None if valid.is_empty() => "there are none here".to_owned(),
        None => format!("valid here: {list}"),
    }
}

fn nearest(word: &str, valid: &[&str]) -> Option<String> {
    base::error::nearest(word, valid.iter().copied()).into_iter().next()
}
