//! What a pin holds back besides tools: prompts, resources and instructions that differ from their review.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use base::text::counted;

/// Offers and instructions of one server that differ from their review, by identifier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Prompts.
    pub prompts: BTreeSet<String>,
    /// Resources.
    pub resources: BTreeSet<String>,
    /// Resource templates.
    pub templates: BTreeSet<String>,
    /// True if the instructions differ.
    pub instructions: bool,
}

impl Held {
    /// True if nothing is held back.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Number of each, in words: nothing of the server's is in them.
    pub fn note(&self) -> Option<String> {
        let held = [
            (self.prompts.len(), "prompt"),
            (self.resources.len(), "resource"),
            (self.templates.len(), "resource template"),
        ];
        let held = held.into_iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = held.map(|(count, what)| counted(count, what)).collect();
        parts.extend(self.instructions.then(|| "the server's instructions".to_owned()));
        (!parts.is_empty()).then(|| format!("QUARANTINED, not shown: {}; not as reviewed", parts.join(", ")))
    }

    pub(super) fn json(&self) -> Value {
        json!([self.prompts, self.resources, self.templates, self.instructions])
    }
}
