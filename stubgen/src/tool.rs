//! The stub of one tool.

use std::sync::Arc;

use serde_json::Value;

use crate::canon;

/// One tool: what scripts call, what the model reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolStub {
    /// Wire name.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Folder, when the server has category folders.
    pub category: Option<String>,
    /// First sentence of the description, cut at a word, one line.
    pub summary: String,
    /// One-line Python signature, without `def` and the colon.
    pub signature: String,
    /// Required parameters first, each group sorted.
    pub params: Vec<Param>,
    /// The tool's hints about itself.
    pub annotations: Annotations,
    /// The Python stub.
    pub pyi: String,
    /// Short content digest, as in the stub's header.
    pub digest: String,
    /// The raw entry of `tools/list`.
    pub definition: Arc<Value>,
    /// What was widened or ignored, in words.
    pub notes: Vec<String>,
}

/// One parameter of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Param {
    /// Identifier in scripts.
    pub ident: String,
    /// Name on the wire.
    pub wire: String,
    /// Whether the schema demands it.
    pub required: bool,
    /// Sanitised description.
    pub description: Option<String>,
    /// Python type.
    pub ty: String,
}

/// A tool's hints about itself; `None` where the server said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// May destroy something.
    pub destructive: Option<bool>,
    /// A repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// Reaches beyond a closed world.
    pub open_world: Option<bool>,
}

impl ToolStub {
    /// The TypeScript stub.
    pub fn dts(&self) -> String {
        format!("declare function {}(args?: Record<string, any>): Promise<any>;\n", self.ident)
    }

    /// Full documentation in Markdown.
    pub fn md(&self) -> String {
        format!("# {}\n", self.ident)
    }

    /// The raw definition, pretty-printed with sorted keys.
    pub fn json(&self) -> String {
        canon::canonical_json(&self.definition)
    }

    /// The wire name of a parameter given as identifier or wire name; the exact wire name wins.
    pub fn wire_param(&self, ident_or_wire: &str) -> Option<&str> {
        let by = |key: fn(&Param) -> &str| self.params.iter().find(|param| key(param) == ident_or_wire);
        by(|param| &param.wire).or_else(|| by(|param| &param.ident)).map(|param| param.wire.as_str())
    }

    /// The whole SHA-256 of the canonical definition.
    pub fn full_digest(&self) -> String {
        canon::digest(&canon::canonical_json(&self.definition))
    }
}
