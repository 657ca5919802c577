//! `scripts.lock`: what each reviewed script may call, read and change.

use std::collections::{BTreeMap, BTreeSet};

/// Name of the file, beside the configuration.
pub const FILE: &str = "scripts.lock";

/// What all locked scripts may do, by wire name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lock {
    /// The scripts.
    pub scripts: BTreeMap<String, Locked>,
}

/// What one script may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locked {
    /// SHA-256 of its text, in hex.
    pub sha256: String,
    /// Tools that it may call, sorted by server and tool.
    pub calls: Vec<LockedCall>,
    /// Servers whose data may reach another that is written to: from, to. Wire names.
    pub flows: BTreeSet<(String, String)>,
    /// What it may use beside tools.
    pub uses: BTreeSet<Use>,
    /// Most calls of one run; `None` if nothing in its text bounds them.
    pub most_calls: Option<u32>,
}

/// One tool that a script may call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedCall {
    /// Wire name of the server.
    pub server: String,
    /// Wire name of the tool.
    pub tool: String,
    /// Whole digest of the tool's definition.
    pub definition: String,
    /// True if its server does not annotate it as read-only.
    pub writes: bool,
}

/// Part of the script API that a script uses. A locked script has no other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// The stash.
    Stash,
    /// Stored results.
    Results,
    /// Runs of the client.
    Runs,
    /// `ls`, `cat`, `search` and the manifest.
    Discovery,
    /// Resources of a server, by wire name.
    Resources(String),
    /// Prompts of a server, by wire name.
    Prompts(String),
}

/// A lock that cannot be taken, with the place of the mistake.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LockError {
    /// Message with file and line.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
}
