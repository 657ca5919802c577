//! The reviewed stub tree as allow-list: `[manifest] pin`.
//!
//! `stubs.lock` names what was reviewed: a tool counts if the definition in its `.json` has the digest of its line, and
//! the prompts, resources and instructions of a server if [`OFFERS`] in its folder has. Other files in the folder are
//! ignored. What a server had at first (`pin_first_use`) is a pin too, of digests alone.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};
use stubgen::ServerStubs;

use super::reviewed::{self, OFFERS, Reviewed, offers_of, reviewable};
use super::{Held, Offers};
use crate::findings::{Findings, Item};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::tree::Tree;

/// File of reviewed tools: one line per tool, with the full digest of its definition and the path of its stub.
pub const LOCK: &str = "stubs.lock";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// Reviewed definitions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// By server and tool identifier.
    tools: BTreeMap<(String, String), Reviewed>,
    /// By server identifier.
    offers: BTreeMap<String, BTreeMap<Item, Reviewed>>,
    /// True if other wording passes, unless it adds a finding.
    accepts_text: bool,
    /// The operator's way out for a tool that differs, as a sentence.
    review: String,
}

/// Reason for a quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The reason in one line.
    pub reason: String,
    /// True if the stub shows the reviewed definition; otherwise it shows nothing.
    pub is_reviewed: bool,
    /// The operator's way out, as a sentence; empty if the reason says it.
    pub review: String,
}

impl Quarantined {
    /// One whose reason says it all.
    pub(super) fn unseen(reason: &str) -> Self {
        Self { reason: reason.to_owned(), is_reviewed: false, review: String::new() }
    }

    /// The reason, and what the operator does about it.
    pub fn told(&self) -> String {
        [self.reason.as_str(), &self.review].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QUARANTINED, not callable: {}", self.told())
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
        let no_tree = |error: std::io::Error| wrong(LOCK, "no stub tree is here".to_owned()).caused_by(error);
        let tree = Tree::open(folder).map_err(no_tree)?;
        let lock = tree.read(LOCK, limits::PIN_TREE.max as u64).map_err(no_tree)?;
        let lock = String::from_utf8(lock).map_err(|_| wrong(LOCK, "it is not text".to_owned()))?;
        let review = "`forgefs stubs check DIR` shows the difference".to_owned();
        let mut pin = Self { review, ..Self::default() };
        let (mut left, mut names) = (limits::PIN_TREE.max, HashSet::new());
        for (number, line) in lock.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
            if pin.tools.len() >= limits::PIN_TOOLS.max {
                return Err(limits::PIN_TOOLS.exceeded(ErrorCode::InvalidArgs, pin.tools.len() + 1));
            }
            let read = |what: String| wrong(LOCK, format!("line {}: {what}", number + 1));
            if let Some((digest, server)) = Entry::offers(line).map_err(read)? {
                let path = format!("{server}/{OFFERS}");
                let text = read_signed(&tree, &path, digest, left).map_err(|what| wrong(&path, what))?;
                left = left.saturating_sub(text.len());
                let file: Value = serde_json::from_str(&text).unwrap_or_default();
                let of = |offer: &Value| Reviewed::whole(stubgen::canonical_json(offer));
                let offers = offers_of(&file).into_iter().map(|(item, offer)| (item, of(offer))).collect();
                if pin.offers.insert(server.to_owned(), offers).is_some() {
                    return Err(read(format!("the offers of {server} are named twice")));
                }
                continue;
            }
            let entry = Entry::parse(line).map_err(read)?;
            // Identifiers are compared without case, as some filesystems do.
            if !names.insert(format!("{}/{}", entry.server, entry.tool).to_lowercase()) {
                let what = format!("line {}: `{}` of {} is named twice", number + 1, entry.tool, entry.server);
                return Err(wrong(LOCK, what));
            }
            let path = format!("{}.json", entry.stem);
            let definition = entry.read(&tree, &path, left).map_err(|what| wrong(&path, what))?;
            left = left.saturating_sub(definition.len());
            pin.tools.insert((entry.server.to_owned(), entry.tool.to_owned()), Reviewed::whole(definition));
        }
        Ok(pin)
    }

    /// Tool lists of its servers, `{server: {"tools": […]}}`, as [`super::load_file`] reads them.
    pub fn lists(&self) -> Value {
        let mut servers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for ((server, _), reviewed) in &self.tools {
            servers.entry(server).or_default().extend(reviewed.tree());
        }
        servers.into_iter().map(|(server, tools)| (server.to_owned(), json!({ "tools": tools }))).collect()
    }

    /// Accepts other wording from now on, unless it adds a finding.
    #[must_use]
    pub fn accepting_text(self, accepts_text: bool) -> Self {
        Self { accepts_text, ..self }
    }

    /// A pin of one server by its first use.
    pub(super) fn of_server(
        server: &ServerStubs,
        tools: Vec<(String, Reviewed)>,
        offers: BTreeMap<Item, Reviewed>,
        accepts_text: bool,
    ) -> Self {
        let ident = &server.ident;
        let tools = tools.into_iter().map(|(tool, reviewed)| ((ident.clone(), tool), reviewed)).collect();
        let review = format!("`forgefs stubs accept {}` shows the difference and accepts it", server.name);
        Self { tools, offers: BTreeMap::from([(ident.clone(), offers)]), accepts_text, review }
    }

    /// Tools of a server that differ from their review, by identifier.
    pub(super) fn quarantined(&self, server: &ServerStubs) -> BTreeMap<String, Quarantined> {
        let review = &self.review;
        let held = |tool: &stubgen::ToolStub| match self.tools.get(&(server.ident.clone(), tool.ident.clone())) {
            None => Some(Quarantined {
                review: review.clone(),
                ..Quarantined::unseen("it is not among the reviewed stubs")
            }),
            Some(reviewed) if reviewed.digest != tool.full_digest() => {
                let item = Item::Tool(tool.name.clone());
                let reason = self.differs(reviewed, &item, &tool.definition.tree())?;
                Some(Quarantined { reason, is_reviewed: reviewed.definition.is_some(), review: review.clone() })
            }
            Some(_) => None,
        };
        server.tools.iter().filter_map(|tool| Some((tool.ident.clone(), held(tool)?))).collect()
    }

    /// Why a definition with another digest does not pass; `None` if it does.
    fn differs(&self, reviewed: &Reviewed, item: &Item, now: &Value) -> Option<String> {
        if !self.accepts_text {
            return Some("it is not what was reviewed".to_owned());
        }
        // Instructions are nothing but words.
        if *item != Item::Instructions && !reviewed.is_but_words(now) {
            return Some("it is not what was reviewed, beyond its wording".to_owned());
        }
        let found = Findings::of_definition(item, now);
        let added = reviewed.first_added(item, &found)?;
        Some(format!("its wording is not what was reviewed, and has a finding: {added}"))
    }

    /// Offers and instructions of a server that differ from their review. `None` if those are not pinned: the tree has
    /// them of no server, or has reviewed tools of this one without them, as trees from tool lists have.
    pub(super) fn held(&self, server: &ServerStubs, offers: &Offers) -> Option<Held> {
        let has_tools = || {
            let first = (server.ident.clone(), String::new());
            self.tools.range(first..).next().is_some_and(|((ident, _), _)| *ident == server.ident)
        };
        let unknown = BTreeMap::new();
        let reviewed = match self.offers.get(&server.ident) {
            Some(reviewed) => reviewed,
            None if self.offers.is_empty() || has_tools() => return None,
            None => &unknown,
        };
        let differs = |(item, now): (Item, Value)| match reviewed.get(&item) {
            Some(reviewed) if reviewed.digest == reviewed::digest(&now) => None,
            Some(reviewed) => self.differs(reviewed, &item, &now).map(|_| item),
            None => Some(item),
        };
        Some(Held(reviewable(server, offers).filter_map(differs).collect()))
    }

    /// Reviewed instructions of a server.
    pub(super) fn instructions(&self, ident: &str) -> Option<String> {
        let Value::String(text) = self.offers.get(ident)?.get(&Item::Instructions)?.tree()? else { return None };
        Some(text)
    }

    /// Definition shown for a quarantined tool: the reviewed one, or only the identifier.
    pub(super) fn shown(&self, server: &str, tool: &str) -> Value {
        let reviewed = self.tools.get(&(server.to_owned(), tool.to_owned()));
        reviewed.and_then(Reviewed::tree).unwrap_or_else(|| json!({ "name": tool }))
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
        if !is_digest(digest) {
            return Err(format!("expected a digest of {DIGITS} hexadecimal digits"));
        }
        let stem = path.strip_suffix(".pyi").ok_or_else(form)?;
        let parts: Vec<&str> = stem.split('/').collect();
        match *parts.as_slice() {
            [server, tool] | [server, _, tool] if parts.iter().all(|part| is_ident(part)) => {
                Ok(Self { digest, stem, server, tool })
            }
            _ => Err(form()),
        }
    }

    /// Digest and server of a line for [`OFFERS`]; `None` for another line.
    fn offers(line: &'a str) -> Result<Option<(&'a str, &'a str)>, String> {
        let Some((digest, path)) = line.split_once(' ') else { return Ok(None) };
        let Some(server) = path.strip_suffix(OFFERS).and_then(|path| path.strip_suffix('/')) else { return Ok(None) };
        match is_digest(digest) && is_ident(server) {
            true => Ok(Some((digest, server))),
            false => Err(format!("expected `<digest> <server>/{OFFERS}`")),
        }
    }

    /// Reads the definition at `path`, at most `left` bytes, in canonical form, and checks its digest.
    fn read(&self, tree: &Tree, path: &str, left: usize) -> Result<String, String> {
        let max = limits::PIN_FILE.max.min(left);
        // People review the stub: one that is missing or a link was not reviewed.
        tree.read(&format!("{}.pyi", self.stem), max as u64).map_err(|error| format!("its stub: {error}"))?;
        read_signed(tree, path, self.digest, left)
    }
}

/// Reads JSON of at most `left` bytes, in canonical form, and checks its digest.
fn read_signed(tree: &Tree, path: &str, digest: &str, left: usize) -> Result<String, String> {
    let text = tree.read(path, limits::PIN_FILE.max.min(left) as u64).map_err(|error| error.to_string())?;
    let read: Value = serde_json::from_slice(&text).map_err(|error| format!("not JSON: {error}"))?;
    let canonical = stubgen::canonical_json(&read);
    match stubgen::digest(&canonical) == digest {
        true => Ok(canonical),
        false => Err(format!("it is not what {LOCK} says was reviewed")),
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Identifiers have no other characters, so no path leads elsewhere or into a hidden folder.
fn is_ident(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
