//! Definitions of tools, kept small.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

/// A raw entry of `tools/list`. Its tree takes many times the memory of its text, and is needed for few tools at a time:
/// once settled, only the text is kept, and the tree is parsed on demand and shared while it is in use.
#[derive(Debug)]
pub struct Definition(Mutex<Kept>);

#[derive(Debug)]
enum Kept {
    Tree(Arc<Value>),
    Text(Box<str>, Weak<Value>),
}

impl Definition {
    pub(crate) fn new(tree: Arc<Value>) -> Self {
        Self(Mutex::new(Kept::Tree(tree)))
    }

    /// Its tree, parsed unless a caller holds it already. Callers that need it often keep it.
    pub fn tree(&self) -> Arc<Value> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kept {
            Kept::Tree(tree) => Arc::clone(tree),
            Kept::Text(text, tree) => tree.upgrade().unwrap_or_else(|| {
                // It was written from a tree.
                let parsed = Arc::new(serde_json::from_str(text).unwrap_or_default());
                *tree = Arc::downgrade(&parsed);
                parsed
            }),
        }
    }

    /// Bytes of its text.
    pub fn text_bytes(&self) -> usize {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Kept::Tree(tree) => tree.to_string().len(),
            Kept::Text(text, _) => text.len(),
        }
    }

    /// Keeps its text alone from now on.
    pub fn settle(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Kept::Tree(tree) = &*kept {
            *kept = Kept::Text(tree.to_string().into(), Arc::downgrade(tree));
        }
    }
}
