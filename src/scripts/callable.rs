//! Scripts that are ready to be called, with what each may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Locked, Source};
use crate::config::{Returns, ScriptApproval};
use crate::sandbox::Script;

/// One script as it is called: read, hashed and prepared once.
#[derive(Debug)]
pub struct Callable {
    /// The file as it was read.
    pub source: Source,
    /// What a worker gets.
    pub prepared: Script,
    /// The script as scripts call it, `scripts.name`.
    pub label: String,
    /// MCP definition of its tool.
    pub definition: Value,
    /// Whole digest of the definition.
    pub digest: String,
    /// What its lock allows; `None` for one that runs without a lock.
    pub locked: Option<Locked>,
    /// Reason for which it cannot be called.
    pub held: Option<String>,
    /// Approval of what it calls.
    pub approval: ScriptApproval,
    /// Labels of its result.
    pub returns: Returns,
    /// Most calls of one run of it.
    pub most_calls: Option<u32>,
    /// True if it is an MCP tool of its own.
    pub as_tool: bool,
}

/// The scripts in force, by wire name.
#[derive(Debug, Default)]
pub struct Callables(BTreeMap<String, Arc<Callable>>);

impl Callables {
    /// The script with a wire name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Callable>> {
        self.0.get(name)
    }

    /// All of them, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Callable>> {
        self.0.values()
    }
}

impl FromIterator<Callable> for Callables {
    fn from_iter<I: IntoIterator<Item = Callable>>(scripts: I) -> Self {
        Self(scripts.into_iter().map(|script| (script.source.name.clone(), Arc::new(script))).collect())
    }
}
