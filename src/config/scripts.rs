//! The table `[scripts]`.

/// Approval of what a reviewed script calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptApproval {
    /// Each call, as its tool wants it.
    #[default]
    Each,
    /// Once, before the script runs.
    Once,
    /// None.
    Never,
}

/// Labels of a script's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// Those of what it read.
    #[default]
    Labelled,
    /// None.
    Clean,
}
