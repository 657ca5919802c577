//! A server as another host has it in its file.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::references::Input;

/// A program whose configuration can be imported or edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// VS Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    OpenCode,
    /// A file of the usual `mcpServers` form from elsewhere.
    Unknown,
}

impl Host {
    /// True if the host expands `${…}` in its values.
    pub(super) fn expands(self) -> bool {
        !matches!(self, Self::ClaudeDesktop | Self::Codex | Self::Zed | Self::OpenCode)
    }
}

/// A possible source of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Host that reads the file.
    pub host: Host,
    /// The file.
    pub path: PathBuf,
    /// Project of the file; `None` for a user's file.
    pub project: Option<PathBuf>,
    /// True if the file is inside the project, where others can write it too. (Claude Code keeps servers of projects in
    /// a user's file.)
    pub is_shared: bool,
}

/// One server in its host's form.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it was found.
    pub place: Place,
    /// Its name there.
    pub name: String,
    /// Its fields there.
    pub fields: Map<String, Value>,
    /// Inputs that the file asks the user for.
    pub inputs: Vec<Input>,
    /// True if it is disabled elsewhere than in its own fields.
    pub disabled: bool,
    /// Position of its file among those that are read.
    pub file: usize,
}
