//! Decisions of hooks, as records have them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRecord {
    /// Name of the hook.
    pub hook: String,
    /// `call`, `answer` or `script`.
    pub on: String,
    /// `allow`, `deny`, `ask` or `replace`; `none` if it gave no decision.
    pub decision: String,
    /// True if it was not followed: `mode = "log"`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_logs: bool,
    /// Its reason or question, in quotation marks; how many texts it replaces; or why there is no decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time that it took in milliseconds.
    pub ms: f64,
}

impl HookRecord {
    /// Notes that a decision could not be followed.
    pub fn was_unusable(&mut self, why: &str) {
        (self.decision, self.reason) = ("none".to_owned(), Some(why.to_owned()));
    }
}

impl fmt::Display for HookRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hook, on, decision, only_logs, reason, ms } = self;
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(", {reason}"));
        let logs = if *only_logs { ", only logged" } else { "" };
        write!(f, "{hook} on {on}: {decision}{reason}{logs} ({ms} ms)")
    }
}
