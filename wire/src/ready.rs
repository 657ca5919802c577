//! First frame of a worker: its engines and its sandbox layers.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

use crate::Language;

/// Engines and confinement of a worker; a checker runs nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// [`crate::PROTOCOL`] of the worker's build.
    pub protocol: u32,
    /// One entry per language.
    pub engines: Vec<EngineInfo>,
    /// Sandbox layers, for `doctor` and the audit record.
    #[serde(default)]
    pub confinement: Vec<Layer>,
}

/// A layer of a sandbox, as the process applied it to itself: a worker's, or by other names a server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer<N = LayerName> {
    /// Name.
    pub name: N,
    /// True if it is in force.
    pub active: bool,
    /// Its effect here, or the reason why it is not in force.
    pub detail: String,
}

impl<N> Layer<N> {
    /// The state of a layer: its effect, or the reason why it is not in force.
    pub fn of(name: N, outcome: Result<String, String>) -> Self {
        let active = outcome.is_ok();
        Self { name, active, detail: outcome.unwrap_or_else(|reason| reason) }
    }
}

impl<N: PartialEq + fmt::Display> Layer<N> {
    /// Error for the first of the `required` layers that is not in force.
    pub fn missing(layers: &[Self], required: &[N]) -> Option<String> {
        required.iter().find_map(|name| {
            let why = match layers.iter().find(|layer| layer.name == *name) {
                Some(layer) if layer.active => return None,
                Some(layer) => &layer.detail,
                None => "this platform does not have it",
            };
            Some(format!("the sandbox layer `{name}` is required and does not hold: {why}"))
        })
    }
}

/// Layers of the process sandbox, as `sandbox.require` names them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LayerName {
    /// The kernel kills the worker when the gateway ends.
    ParentDeath,
    /// Executing a file gains no privileges.
    NoNewPrivs,
    /// Other processes of the user cannot read its memory.
    Dumpable,
    /// No file, TCP port or signal.
    Landlock,
    /// No core dump; few descriptors; bounded data memory.
    Rlimits,
    /// No further process or thread.
    Processes,
    /// Filter of system calls.
    Seccomp,
}

impl LayerName {
    /// Every layer.
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// Engines, each behind one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// JavaScript on V8.
    V8,
    /// JavaScript on QuickJS.
    QuickJs,
    /// Starlark.
    Starlark,
}

impl EngineName {
    /// Name in `--engine`, `doctor`, metrics and the audit record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V8 => "v8",
            Self::QuickJs => "quickjs",
            Self::Starlark => "starlark",
        }
    }
}

/// The engine behind a language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// The language it runs.
    pub language: Language,
    /// Engine.
    pub engine: EngineName,
    /// The engine's own version, for `doctor` and the audit record.
    pub version: String,
}

/// Name and, if known, version.
impl fmt::Display for EngineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format!("{} {}", self.engine.as_str(), self.version).trim_end())
    }
}
