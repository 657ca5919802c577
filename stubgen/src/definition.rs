//! Definitions of tools, kept small.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

/// A raw entry of `tools/list`. Its tree takes many times the memory of its text, and is needed for few tools at a time: it
/// is parsed on demand, and shared while it is in use.
#[derive(Debug)]
pub struct Definition {
    text: Box<str>,
    tree: Mutex<Weak<Value>>,
}

impl Definition {
    pub(crate) fn new(tree: &Value) -> Self {
        Self { text: tree.to_string().into(), tree: Mutex::default() }
    }

    /// Its tree, parsed unless a caller holds it already. Callers that need it often keep it.
    pub fn tree(&self) -> Arc<Value> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.upgrade().unwrap_or_else(|| {
            // It was written from a tree.
            let parsed = Arc::new(serde_json::from_str(&self.text).unwrap_or_default());
            *tree = Arc::downgrade(&parsed);
            parsed
        })
    }

    /// Bytes of its text.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }
}
