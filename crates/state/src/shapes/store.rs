//! Shapes of one server's tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MAX_DEPTH, Shape};

/// Most tools of one server; those with the fewest answers are forgotten first.
const MAX_TOOLS: usize = 512;

/// Shapes by the whole digest of the tool's definition, which has its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shapes(BTreeMap<String, Learned>);

/// Common shape of one tool's answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// Number of answers.
    answers: u64,
    /// Levels that it is pruned to.
    depth: usize,
    shape: Shape,
}

impl Learned {
    /// Of one answer.
    #[must_use]
    pub fn once(shape: Shape) -> Self {
        Self { answers: 1, depth: MAX_DEPTH, shape }
    }

    /// For stubs of the tool with this definition.
    #[must_use]
    pub fn observed(&self, definition: &Value) -> stubgen::Observed {
        stubgen::Observed { answers: self.answers, schema: Some(self.shape.schema(definition)) }
    }

    /// Adds further answers; true if views change.
    pub(super) fn merge(&mut self, other: Self) -> bool {
        let before = self.answers.max(1).ilog2();
        self.answers = self.answers.saturating_add(other.answers);
        let is_doubled = self.answers.max(1).ilog2() != before;
        if self.shape == other.shape {
            self.depth = self.depth.min(other.depth);
            return is_doubled;
        }
        let before = self.shape.clone();
        self.shape.join(other.shape);
        self.depth = self.shape.bound(self.depth.min(other.depth));
        is_doubled || self.shape != before
    }
}

impl Shapes {
    /// The shape of a tool, by the digest of its definition.
    #[must_use]
    pub fn get(&self, digest: &str) -> Option<&Learned> {
        self.0.get(digest)
    }

    /// Adds answers of a tool; true if views of it change.
    pub fn add(&mut self, digest: &str, learned: Learned) -> bool {
        match self.0.get_mut(digest) {
            Some(known) => known.merge(learned),
            None => {
                self.0.insert(digest.to_owned(), learned);
                self.forget();
                true
            }
        }
    }

    /// Adds other shapes.
    pub fn merge(&mut self, other: Self) {
        for (digest, learned) in other.0 {
            self.add(&digest, learned);
        }
    }

    /// True without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shapes of some tools, for a reviewed tree: with counts rounded as stubs show them.
    #[must_use]
    pub fn reviewed(mut self, is_wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|digest, _| is_wanted(digest));
        self.0.values_mut().for_each(|learned| learned.answers = 1 << learned.answers.max(1).ilog2());
        self
    }

    /// Shapes from a file, which may hold anything: bounded again.
    #[must_use]
    pub fn checked(mut self) -> Self {
        for learned in self.0.values_mut() {
            learned.answers = learned.answers.max(1);
            learned.depth = learned.shape.bound(learned.depth);
        }
        self.forget();
        self
    }

    fn forget(&mut self) {
        while self.0.len() > MAX_TOOLS {
            let least = self.0.iter().min_by_key(|(_, learned)| learned.answers).map(|(digest, _)| digest.clone());
            least.map(|digest| self.0.remove(&digest));
        }
    }
}
