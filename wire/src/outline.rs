//! What a script is seen to do without running it: its calls, as far as the text shows them.
//!
//! A checker writes it, and the gateway judges it: names against the catalog, literals against schemas, servers against
//! the policy. It is advice. The broker decides about each call when it is made.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Most calls of an outline.
pub const MAX_CALLS: usize = 500;
/// Most reads of one call's answer, and most undeclared names.
pub const MAX_READS: usize = 50;
/// Longest path of names, for tools and for reads.
pub const MAX_PATH: usize = 8;

/// Globals of JavaScript: calls on them are no calls of tools. A name that an engine lacks ends the script when it is used.
#[rustfmt::skip]
pub const JAVASCRIPT_GLOBALS: &[&str] = &[
    "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack", "AsyncIterator", "BigInt", "BigInt64Array",
    "BigUint64Array", "Boolean", "Buffer", "DOMException", "DataView", "Date", "DisposableStack", "Error", "EvalError",
    "Float16Array", "Float32Array", "Float64Array", "ForgeError", "Function", "Infinity", "Int16Array", "Int32Array",
    "Int8Array", "Intl", "Iterator", "JSON", "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy", "RangeError",
    "ReferenceError", "Reflect", "RegExp", "Set", "String", "SuppressedError", "Symbol", "SyntaxError", "Temporal",
    "TextDecoder", "TextEncoder", "TypeError", "URIError", "URL", "URLSearchParams", "Uint16Array", "Uint32Array",
    "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakSet", "WeakRef", "FinalizationRegistry", "arguments", "atob",
    "btoa", "clearInterval", "clearTimeout", "console", "crypto", "decodeURI", "decodeURIComponent", "encodeURI",
    "encodeURIComponent", "escape", "eval", "forge", "globalThis", "isFinite", "isNaN", "manifest", "parseFloat",
    "parseInt", "queueMicrotask", "setInterval", "setTimeout", "structuredClone", "undefined", "unescape",
];

/// A line and column, from 1. Columns count UTF-16 units in JavaScript, characters in Starlark.
pub type Place = (u32, u32);

/// The calls of a script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outline {
    /// In the order in which they are evaluated.
    pub calls: Vec<Site>,
    /// Names that the script uses and does not declare, other than globals of Starlark.
    pub names: Vec<Name>,
    /// True if there may be calls that are not listed: by computed names, by servers or tools that are passed on, or beyond [`MAX_CALLS`].
    pub is_partial: bool,
    /// Parts of the script API that it uses, beside calls of tools.
    #[serde(default)]
    pub uses: BTreeSet<Used>,
    /// Names of the top level that it may read before it gives them a value: in Starlark they are servers until then.
    #[serde(default)]
    pub own: BTreeSet<String>,
    /// Literals that a double does not hold, of [`crate::Facts::numbers`]; the gateway fills them in.
    #[serde(skip)]
    pub numbers: Vec<(Place, String)>,
}

/// A part of the script API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Used {
    /// The stash.
    Stash,
    /// Stored results.
    Results,
    /// Runs of the client.
    Runs,
    /// `ls`, `cat`, `search` and the manifest.
    Discovery,
    /// Resources of a server, as the script names it.
    Resources(String),
    /// Prompts of a server, as the script names it.
    Prompts(String),
}

impl Used {
    /// The part that a name of the script API stands for, or one of `forge`.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "stash" => Self::Stash,
            "results" => Self::Results,
            "runs" => Self::Runs,
            "ls" | "cat" | "search" | "manifest" => Self::Discovery,
            _ => return None,
        })
    }

    /// The server whose resources or prompts they are.
    pub fn server(&self) -> Option<&String> {
        match self {
            Self::Resources(server) | Self::Prompts(server) => Some(server),
            Self::Stash | Self::Results | Self::Runs | Self::Discovery => None,
        }
    }
}

/// One use of an undeclared name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Its place.
    pub at: Place,
    /// True if the code around it certainly runs.
    pub is_certain: bool,
    /// Another way, for a name of Node or Python.
    pub fix: Option<String>,
}

/// One call in the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Its place.
    pub at: Place,
    /// The thing that is called.
    pub target: Target,
    /// Its arguments.
    pub args: Args,
    /// True if it runs, once the script does and nothing before it fails, and fails the script if it fails: it stands in no
    /// branch, loop, callback or `try`, behind no `return`, and has no `.catch`.
    pub is_certain: bool,
    /// True if it may run more than once.
    pub repeats: bool,
    /// Calls of the outline when the script certainly has its answer; `None` if the text does not show when.
    pub answered: Option<usize>,
    /// Reads of its answer.
    pub reads: Vec<Read>,
}

/// The thing that is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// `github.issues.create`: an undeclared name and what follows it.
    Path(Vec<String>),
    /// A tool of a server, both by name.
    Tool(String, String),
    /// A resource or prompt of a server.
    Other(String),
}

/// Arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Args {
    /// The text does not show them.
    Unknown,
    /// By name. Open: there may be more.
    Named(Vec<(String, Known)>, bool),
    /// Not by name, so that the call cannot be made; the number of them.
    Positional(usize),
}

/// Knowledge about a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Known {
    /// All of it, as JSON.
    Json(String),
    /// Its type, as JSON Schema names it.
    Type(JsonType),
    /// Nothing.
    Nothing,
}

/// Types of values whose parts are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    /// Text.
    String,
    /// An object.
    Object,
    /// An array.
    Array,
}

/// One read of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Its place.
    pub at: Place,
    /// The names from the answer on; `[]` is any item.
    pub path: Vec<String>,
    /// How it is read.
    pub how: How,
    /// True if the code around it certainly runs.
    pub is_certain: bool,
    /// Number of the choice in which it is one of several ways, as in `a.x ?? a.y`; 0 if it is in none.
    pub choice: u32,
}

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// A key of the answer.
    Key,
    /// A key that the script asks for, which need not be there.
    Guarded,
    /// An attribute, in Starlark, where answers have keys.
    Attribute,
    /// A property of the promise, in JavaScript, where `await` is missing.
    OfPromise,
}

impl Outline {
    /// Names under which it may reach servers; `None` if it may reach others.
    pub fn named(&self) -> Option<BTreeSet<&str>> {
        let called = self.calls.iter().filter_map(|site| match &site.target {
            Target::Path(names) => names.first(),
            Target::Tool(server, _) | Target::Other(server) => Some(server),
        });
        let used = self.uses.iter().filter_map(Used::server);
        let all = called.chain(used).chain(self.names.iter().map(|name| &name.name)).chain(&self.own);
        let is_whole = !self.is_partial && !self.uses.contains(&Used::Discovery);
        is_whole.then(|| all.map(String::as_str).collect())
    }

    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        let all = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let calls = self.calls.iter().map(|site| {
            let values = match &site.args {
                Args::Named(fields, _) => fields.iter().map(|(_, value)| value.bytes()).sum(),
                Args::Unknown | Args::Positional(_) => 0,
            };
            let reads = site.reads.iter().map(|read| all(&read.path)).sum::<usize>();
            site.target.bytes() + site.args.names() + values + reads
        });
        calls.sum::<usize>()
            + self.uses.iter().filter_map(Used::server).map(String::len).sum::<usize>()
            + self.own.iter().map(String::len).sum::<usize>()
            + self.names.iter().map(|name| name.name.len() + name.fix.as_ref().map_or(0, String::len)).sum::<usize>()
    }

    /// All its places.
    pub fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        let calls = self.calls.iter_mut();
        let of_calls =
            calls.flat_map(|site| [&mut site.at].into_iter().chain(site.reads.iter_mut().map(|r| &mut r.at)));
        of_calls.chain(self.names.iter_mut().map(|name| &mut name.at))
    }

    /// Refuses an outline that no checker of ours makes of so many bytes of code.
    ///
    /// # Errors
    /// The fault.
    pub fn judge(&self, code: usize) -> Result<(), &'static str> {
        let is_long = |path: &[String]| path.len() > MAX_PATH;
        let is_large = |site: &Site| {
            let path = if let Target::Path(names) = &site.target { is_long(names) || names.is_empty() } else { false };
            path || site.reads.len() > MAX_READS || site.reads.iter().any(|read| is_long(&read.path))
        };
        let is_long_list = self.names.len() > MAX_READS || self.uses.len() > MAX_CALLS;
        if self.calls.len() > MAX_CALLS || is_long_list || self.calls.iter().any(is_large) {
            return Err("the outline has more than a script can have");
        }
        if self.bytes() > Self::most_bytes(code) {
            return Err("the outline is larger than the script allows");
        }
        Ok(())
    }

    /// Bytes that the texts of a script's outline may take: a literal may stand in several calls by its name.
    pub const fn most_bytes(code: usize) -> usize {
        code * 4 + (16 << 10)
    }
}

impl Known {
    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        if let Self::Json(text) = self { text.len() } else { 0 }
    }
}

impl Target {
    /// Bytes of its names.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Path(names) => names.iter().map(String::len).sum(),
            Self::Tool(server, tool) => server.len() + tool.len(),
            Self::Other(server) => server.len(),
        }
    }
}

impl Args {
    /// Bytes of their names.
    pub fn names(&self) -> usize {
        match self {
            Self::Named(fields, _) => fields.iter().map(|(name, _)| name.len()).sum(),
            Self::Unknown | Self::Positional(_) => 0,
        }
    }
}
