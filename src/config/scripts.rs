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

/// The `[scripts]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// Folder of the scripts.
    pub path: std::path::PathBuf,
    /// File that says what each may do, beside the configuration.
    pub lock: std::path::PathBuf,
    /// True if scripts are callable that the lock does not have.
    pub unlocked: bool,
    /// Rights by wire name.
    pub tools: std::collections::BTreeMap<String, ScriptTool>,
}

/// Rights of one script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptTool {
    /// True if it is an MCP tool of its own.
    pub as_tool: bool,
    /// Approval of what it calls.
    pub approval: ScriptApproval,
    /// Labels of its result.
    pub returns: Returns,
    /// Most calls of one run of it.
    pub calls: Option<u32>,
}
