//! The place of a finding.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::rules::{Rule, Severity};
use crate::people;
use base::text::head;

/// Most bytes of a name.
const MAX_NAME: usize = 128;
/// Most bytes of a JSON pointer.
const MAX_POINTER: usize = 256;
/// Most bytes of an excerpt, before its characters are escaped.
const MAX_EXCERPT: usize = 120;
/// Hexadecimal digits of a digest.
const DIGEST: usize = 16;
/// Bytes shown before the place.
const BEFORE: usize = 24;

/// Definition, or other text, of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// Its instructions.
    Instructions,
    /// A tool, by wire name.
    Tool(String),
    /// A prompt, by name.
    Prompt(String),
    /// A resource, by URI.
    Resource(String),
    /// A resource template, by URI template.
    Template(String),
    /// A file of a skill, by path below the folder of skills.
    Skill(String),
    /// An answer.
    Answer,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions => f.write_str("its instructions"),
            Self::Tool(name) => write!(f, "tool {name}"),
            Self::Prompt(name) => write!(f, "prompt {name}"),
            Self::Resource(uri) => write!(f, "resource {uri}"),
            Self::Template(uri) => write!(f, "template {uri}"),
            Self::Skill(path) => f.write_str(path),
            Self::Answer => f.write_str("the answer"),
        }
    }
}

impl Item {
    /// Kind and name.
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Instructions => ("instructions", None),
            Self::Tool(name) => ("tool", Some(name)),
            Self::Prompt(name) => ("prompt", Some(name)),
            Self::Resource(uri) => ("resource", Some(uri)),
            Self::Template(uri) => ("template", Some(uri)),
            Self::Skill(path) => ("skill", Some(path)),
            Self::Answer => ("answer", None),
        }
    }
}

impl Item {
    /// The same with its name as findings have it: made visible, and cut.
    #[must_use]
    pub fn shown(self) -> Self {
        // Names that begin alike differ when they are cut, too.
        let shown = |name: String| match name.len() > MAX_NAME {
            true => format!("{}…{}", people::line(head(&name, MAX_NAME - 11)), stubgen::short_digest(&name)),
            false => people::line(&name).into_owned(),
        };
        match self {
            Self::Tool(name) => Self::Tool(shown(name)),
            Self::Prompt(name) => Self::Prompt(shown(name)),
            Self::Resource(uri) => Self::Resource(shown(uri)),
            Self::Template(uri) => Self::Template(shown(uri)),
            item @ (Self::Instructions | Self::Skill(_) | Self::Answer) => item,
        }
    }
}

/// Place in a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The definition, by [`Item::shown`].
    pub item: Item,
    /// JSON pointer into it; empty for a whole text.
    pub pointer: String,
}

/// One finding. Texts of servers in it are made visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its rule.
    pub rule: &'static Rule,
    /// Its severity, at most that of the rule.
    pub severity: Severity,
    /// Its place.
    pub place: Place,
    /// Text at the place, on one line.
    pub excerpt: String,
    /// Digest of its rule, severity, parameter and whole text. Equal findings of a server have one digest.
    pub digest: String,
}

impl Ord for Finding {
    /// Worst first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        fn key(finding: &Finding) -> impl Ord {
            (std::cmp::Reverse(finding.severity), finding.rule.id, &finding.place, &finding.excerpt)
        }
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Finding {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Finding {
    /// A finding whose place in `text` is at byte `at`.
    pub(super) fn new(rule: &'static Rule, severity: Severity, place: &Place, text: &str, at: usize) -> Self {
        let severity = severity.min(rule.worst);
        let mut steps = place.pointer.rsplit('/');
        let parameter = [steps.next(), steps.next()].map(Option::unwrap_or_default).join("/");
        let mut digest = stubgen::digest([rule.id, severity.as_str(), &parameter, text].join("\n"));
        digest.truncate(DIGEST);
        Self { rule, severity, place: place.clone(), excerpt: excerpt(text, at), digest }
    }

    /// The finding on one line, without its server.
    pub fn line(&self) -> String {
        let Place { item, pointer } = &self.place;
        let at = if pointer.is_empty() { String::new() } else { format!(" {pointer}") };
        format!("{} {}: {item}{at}: {}", self.severity.as_str(), self.rule.id, self.excerpt)
    }

    /// The finding as JSON.
    pub fn json(&self, server: &str) -> Value {
        let (kind, name) = self.place.item.parts();
        json!({
            "rule": self.rule.id,
            "severity": self.severity.as_str(),
            "server": server,
            "kind": kind,
            "name": name,
            "pointer": self.place.pointer,
            "excerpt": self.excerpt,
            "digest": self.digest,
            "advice": self.rule.advice,
        })
    }
}

impl Place {
    /// True if it is in this definition.
    pub fn is_of(&self, item: &Item) -> bool {
        self.item == item.clone().shown()
    }
}

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, name) = self.item.parts();
        (kind, name, &self.pointer).serialize(serializer)
    }
}

/// A JSON pointer with one more step.
pub(super) fn step(pointer: &str, key: &str) -> String {
    if pointer.len() >= MAX_POINTER {
        return pointer.to_owned();
    }
    let key = people::line(head(key, MAX_NAME)).replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{key}")
}

fn excerpt(text: &str, at: usize) -> String {
    let mut from = at.saturating_sub(BEFORE).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    // Blanks would push the place out of an excerpt.
    let from = if text[from..at.max(from)].trim().is_empty() { at } else { from };
    let cut = head(&text[from..], MAX_EXCERPT);
    let (before, after) = (if from > 0 { "…" } else { "" }, if from + cut.len() < text.len() { "…" } else { "" });
    format!("{before}{}{after}", people::line(cut.trim_end()))
}
