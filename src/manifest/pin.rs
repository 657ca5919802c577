//! The reviewed stub tree as allow-list: `[manifest] pin`.
//!
//! `stubs.lock` names what was reviewed: a tool counts if the definition in its `.json` has the digest of its line.
//! Other files in the folder are ignored.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};
use stubgen::ServerStubs;

use crate::error::{Error, ErrorCode, Result};
use crate::limits;
use crate::tree::Tree;

/// File of reviewed tools: one line per tool, with the full digest of its definition and the path of its stub.
pub const LOCK: &str = "stubs.lock";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// Reviewed definitions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// By server and tool identifier.
    tools: BTreeMap<(String, String), Reviewed>,
}

#[derive(Debug, PartialEq, Eq)]
struct Reviewed {
    digest: String,
    /// Canonical JSON.
    definition: String,
}

/// Reason for a quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The reason in one line.
    pub reason: String,
    /// True if the stub shows the reviewed definition; otherwise it shows nothing.
    pub is_reviewed: bool,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QUARANTINED, not callable: {}", self.reason)
    }
}

impl Pin {
    /// Loads the definitions that the lock of a tree names; `forgefs stubs generate` writes it.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the folder is not a stub tree, or a definition of its lock is missing or differs.
    pub fn load(folder: &Path) -> Result<Self> {
        let wrong = |path: &str, what: String| {
            let place = folder.join(path);
            Error::new(ErrorCode::InvalidArgs, format!("`manifest.pin`: {}: {what}", place.display()))
                .hint("review the tools, then write the tree with `forgefs stubs generate --out DIR`")
        };
        let no_tree = |error: std::io::Error| wrong(LOCK, format!("no stub tree is here: {error}"));
        let tree = Tree::open(folder).map_err(no_tree)?;
        let lock = tree.read(LOCK, limits::PIN_TREE.max as u64).map_err(no_tree)?;
        let lock = String::from_utf8(lock).map_err(|_| wrong(LOCK, "it is not text".to_owned()))?;
        let mut pin = Self::default();
        let (mut left, mut names) = (limits::PIN_TREE.max, HashSet::new());
        for (number, line) in lock.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
            if pin.tools.len() >= limits::PIN_TOOLS.max {
                return Err(limits::PIN_TOOLS.exceeded(ErrorCode::InvalidArgs, pin.tools.len() + 1));
            }
            let entry = Entry::parse(line).map_err(|what| wrong(LOCK, format!("line {}: {what}", number + 1)))?;
            // Identifiers are compared without case, as some filesystems do.
            if !names.insert(format!("{}/{}", entry.server, entry.tool).to_lowercase()) {
                let what = format!("line {}: `{}` of {} is named twice", number + 1, entry.tool, entry.server);
                return Err(wrong(LOCK, what));
            }
            let path = format!("{}.json", entry.stem);
            let reviewed = entry.read(&tree, &path, left).map_err(|what| wrong(&path, what))?;
            left = left.saturating_sub(reviewed.definition.len());
            pin.tools.insert((entry.server.to_owned(), entry.tool.to_owned()), reviewed);
        }
        Ok(pin)
    }

    /// Tool lists of its servers, `{server: {"tools": […]}}`, as [`super::load_file`] reads them.
    #[must_use]
    pub fn lists(&self) -> Value {
        let mut servers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for ((server, _), reviewed) in &self.tools {
            servers.entry(server).or_default().extend(serde_json::from_str::<Value>(&reviewed.definition));
        }
        servers.into_iter().map(|(server, tools)| (server.to_owned(), json!({ "tools": tools }))).collect()
    }

    /// Tools of a server that differ from their review, by identifier.
    pub(super) fn quarantined(&self, server: &ServerStubs) -> BTreeMap<String, Quarantined> {
        let held = |tool: &stubgen::ToolStub| match self.tools.get(&(server.ident.clone(), tool.ident.clone())) {
            None => Some(Quarantined { reason: "it is not among the reviewed stubs".to_owned(), is_reviewed: false }),
            Some(reviewed) if reviewed.digest != tool.full_digest() => {
                Some(Quarantined { reason: "it is not what was reviewed".to_owned(), is_reviewed: true })
            }
            Some(_) => None,
        };
        server.tools.iter().filter_map(|tool| Some((tool.ident.clone(), held(tool)?))).collect()
    }

    /// Definition shown for a quarantined tool: the reviewed one, or only the identifier.
    pub(super) fn shown(&self, server: &str, tool: &str) -> Value {
        let reviewed = self.tools.get(&(server.to_owned(), tool.to_owned()));
        let definition = reviewed.and_then(|reviewed| serde_json::from_str(&reviewed.definition).ok());
        definition.unwrap_or_else(|| json!({ "name": tool }))
    }
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

/// A line of the lock.
struct Entry<'a> {
    digest: &'a str,
    /// The path without its suffix.
    stem: &'a str,
    server: &'a str,
    tool: &'a str,
}

impl<'a> Entry<'a> {
    /// `<digest> server/[category/]tool.pyi`
    fn parse(line: &'a str) -> Result<Self, String> {
        let form = || "expected `<digest> <server>/<tool>.pyi`".to_owned();
        let (digest, path) = line.split_once(' ').ok_or_else(form)?;
        if digest.len() != DIGITS || !digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(format!("expected a digest of {DIGITS} hexadecimal digits"));
        }
        let stem = path.strip_suffix(".pyi").ok_or_else(form)?;
        let parts: Vec<&str> = stem.split('/').collect();
        // Identifiers have no other characters, so no path leads elsewhere or into a hidden folder.
        let is_ident = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match *parts.as_slice() {
            [server, tool] | [server, _, tool] if parts.iter().all(|part| is_ident(part)) => {
                Ok(Self { digest, stem, server, tool })
            }
            _ => Err(form()),
        }
    }

    /// Reads the definition at `path`, at most `left` bytes, and checks its digest.
    fn read(&self, tree: &Tree, path: &str, left: usize) -> Result<Reviewed, String> {
        let max = limits::PIN_FILE.max.min(left);
        // People review the stub: one that is missing or a link was not reviewed.
        tree.read(&format!("{}.pyi", self.stem), max as u64).map_err(|error| format!("its stub: {error}"))?;
        let text = tree.read(path, max as u64).map_err(|error| error.to_string())?;
        let definition: Value = serde_json::from_slice(&text).map_err(|error| format!("not JSON: {error}"))?;
        let definition = stubgen::canonical_json(&definition);
        match stubgen::digest(&definition) == self.digest {
            true => Ok(Reviewed { digest: self.digest.to_owned(), definition }),
            false => Err(format!("it is not what {LOCK} says was reviewed")),
        }
    }
}
