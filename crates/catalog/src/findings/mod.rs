//! Findings: suspicious text and values in servers' definitions and answers.
//!
//! A finding is advice for people, with a place and a severity; nothing is refused by it except drift that a pin would
//! otherwise accept. Work is linear in the text. What is over a bound is itself a finding.

mod alike;
mod encoded;
mod fold;
mod hidden;
mod later;
mod names;
mod phrases;
mod place;
mod rules;
mod values;
mod walk;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use base::limits;

pub use alike::{Across, across};
pub use later::Later;
pub use place::{Finding, Item, Place};
pub use rules::{RULES, Rule, Severity};

use alike::Traits;
use walk::Walk;

/// Most findings kept of a server; further ones are counted.
const MAX_FINDINGS: usize = 200;

/// Findings of one server, and what the comparison with other servers needs.
#[derive(Debug, Default)]
pub struct Findings {
    /// Worst first.
    pub list: Vec<Finding>,
    /// Number of findings beyond [`Findings::list`].
    pub more: usize,
    traits: Traits,
}

/// Definitions of one server as it listed them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listed<'a> {
    /// Entries of `tools/list`.
    pub tools: &'a [&'a Value],
    /// Entries of `prompts/list`.
    pub prompts: &'a [&'a Value],
    /// Entries of `resources/list`.
    pub resources: &'a [&'a Value],
    /// Entries of `resources/templates/list`.
    pub templates: &'a [&'a Value],
    /// The server's instructions.
    pub instructions: Option<&'a str>,
}

impl Findings {
    /// Examines the definitions of a server.
    pub fn of(listed: Listed<'_>) -> Self {
        let found = Self::by(|walk| {
            walk.list(listed.tools, "name", Item::Tool);
            walk.list(listed.prompts, "name", Item::Prompt);
            walk.list(listed.resources, "uri", Item::Resource);
            walk.list(listed.templates, "uriTemplate", Item::Template);
            if let Some(instructions) = listed.instructions {
                walk.prose(&Item::Instructions, instructions);
            }
        });
        Self { traits: Traits::of(listed), ..found }
    }

    /// Examines one definition alone, or instructions.
    pub fn of_definition(item: &Item, definition: &Value) -> Self {
        Self::by(|walk| match (item, definition) {
            (Item::Instructions, Value::String(text)) => walk.prose(item, text),
            _ => walk.definition(item, definition),
        })
    }

    /// Examines text that is no definition: instructions, or an answer.
    pub fn of_text(item: &Item, text: &str) -> Self {
        Self::by(|walk| walk.prose(item, text))
    }

    fn by(examine: impl FnOnce(&mut Walk)) -> Self {
        let mut walk = Walk::new(limits::EXAMINED_LIST.max);
        examine(&mut walk);
        let Walk { found: mut list, mut more, .. } = walk;
        list.sort();
        more += list.len().saturating_sub(MAX_FINDINGS);
        list.truncate(MAX_FINDINGS);
        Self { list, more, traits: Traits::default() }
    }

    /// Findings at least as severe as `least`.
    pub fn from(&self, least: Severity) -> impl Iterator<Item = &Finding> {
        self.list.iter().filter(move |finding| finding.severity >= least)
    }

    /// The part about these tools, by [`Item::shown`], and about everything that is no tool.
    pub fn keeping(&self, tools: &BTreeSet<Item>) -> Self {
        let is_kept = |item: &Item| !matches!(item, Item::Tool(_)) || tools.contains(item);
        let list = self.list.iter().filter(|finding| is_kept(&finding.place.item)).cloned().collect();
        Self { list, more: 0, traits: self.traits.keeping(is_kept) }
    }
}

/// Findings by severity.
pub fn counts<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> BTreeMap<Severity, usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.severity).or_default() += 1;
    }
    counts
}

/// The findings of a server on one line, by rule, worst first: `2 findings: secrecy, hidden-text`. Notes do not count.
pub fn summary<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Option<String> {
    let mut worst: Vec<&Finding> = findings.into_iter().filter(|found| found.severity > Severity::Note).collect();
    worst.sort();
    let mut rules: Vec<&str> = Vec::new();
    for finding in &worst {
        if !rules.contains(&finding.rule.id) {
            rules.push(finding.rule.id);
        }
    }
    match worst.len() {
        0 => None,
        1 => Some(format!("1 finding: {}", rules.concat())),
        count => Some(format!("{count} findings: {}", rules.join(", "))),
    }
}
