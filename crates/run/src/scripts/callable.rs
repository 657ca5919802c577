//! Scripts that are ready to be called, with what each may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Locked, Source};
use crate::sandbox::Script;
use config::{Returns, ScriptApproval};

/// One script as it is called: read, hashed and prepared once.
#[derive(Debug)]
pub struct Callable {
    /// The file as it was read.
    pub source: Source,
    /// The script as a worker runs it.
    pub prepared: Script,
    /// The script as scripts call it, `scripts.name`.
    pub label: String,
    /// Its identifier, the name of its MCP tool if it is one.
    pub ident: String,
    /// MCP definition of its tool.
    pub definition: Value,
    /// Whole digest of the definition.
    pub digest: String,
    /// Rights by its lock; `None` for one that runs without a lock.
    pub locked: Option<Locked>,
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
pub struct Callables {
    callable: BTreeMap<String, Arc<Callable>>,
    /// Reasons for which others are not.
    held: BTreeMap<String, String>,
}

impl Callables {
    /// The script with a wire name.
    pub fn get(&self, name: &str) -> Option<&Arc<Callable>> {
        self.callable.get(name)
    }

    /// All that can be called, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Callable>> {
        self.callable.values()
    }

    /// Names of those that cannot be called, in order, with the reason.
    pub fn held(&self) -> impl Iterator<Item = (&str, &str)> {
        self.held.iter().map(|(name, reason)| (name.as_str(), reason.as_str()))
    }

    /// Reason for which the script with a wire name cannot be called.
    pub fn why_held(&self, name: &str) -> Option<&str> {
        self.held.get(name).map(String::as_str)
    }

    /// The same, without those for which `reason` has one.
    pub fn without(&self, reason: impl Fn(&Source) -> Option<String>) -> Self {
        let mut judged = Self { callable: BTreeMap::new(), held: self.held.clone() };
        for (name, script) in &self.callable {
            match reason(&script.source) {
                Some(reason) => drop(judged.held.insert(name.clone(), reason)),
                None => drop(judged.callable.insert(name.clone(), Arc::clone(script))),
            }
        }
        judged
    }

    /// Adds a script.
    pub(super) fn add(&mut self, script: Callable) {
        self.callable.insert(script.source.name.clone(), Arc::new(script));
    }

    /// Adds one that cannot be called.
    pub(super) fn hold(&mut self, name: String, reason: String) {
        self.held.insert(name, reason);
    }
}
