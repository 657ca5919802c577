//! What a pin holds back besides tools: prompts, resources and instructions that differ from their review.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::findings::Item;
use base::text::counted;

/// Offers and instructions of one server that differ from their review.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held(pub(super) BTreeSet<Item>);

impl Held {
    /// True if nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if this is held back.
    pub fn has(&self, item: &Item) -> bool {
        self.0.contains(item)
    }

    /// Everything that is held back, instructions last.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        let offers = self.0.iter().filter(|item| **item != Item::Instructions);
        offers.chain(self.0.get(&Item::Instructions))
    }

    /// Number of each, in words: nothing of the server's is in them.
    pub fn note(&self) -> Option<String> {
        let held = [("prompt", "prompt"), ("resource", "resource"), ("template", "resource template")];
        let held = held.map(|(kind, what)| (self.names(kind).len(), what)).into_iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = held.map(|(count, what)| counted(count, what)).collect();
        parts.extend(self.has(&Item::Instructions).then(|| "the server's instructions".to_owned()));
        (!parts.is_empty()).then(|| format!("QUARANTINED, not shown: {}; not as reviewed", parts.join(", ")))
    }

    pub(super) fn json(&self) -> Value {
        let names = |kind| self.names(kind);
        json!([names("prompt"), names("resource"), names("template"), self.has(&Item::Instructions)])
    }

    fn names(&self, kind: &str) -> Vec<&str> {
        self.0.iter().map(Item::parts).filter_map(|(of, name)| name.filter(|_| of == kind)).collect()
    }
}
