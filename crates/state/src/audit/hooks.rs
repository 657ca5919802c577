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
    /// Texts that it replaced.
    #[serde(skip_serializing_if = "is_zero")]
    pub replaced: usize,
    /// Its reason or question, in quotation marks; or why there is no decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time that it took in milliseconds.
    pub ms: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl fmt::Display for HookRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hook, on, decision, only_logs, replaced, reason, ms } = self;
        write!(f, "{hook} on {on}: {decision}")?;
        if *replaced > 0 {
            write!(f, " {replaced} texts")?;
        }
        if let Some(reason) = reason {
            write!(f, ", {reason}")?;
        }
        let logs = if *only_logs { ", only logged" } else { "" };
        write!(f, "{logs} ({ms} ms)")
    }
}
