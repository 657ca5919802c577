//! Findings that are made when they are first wanted: a list is usable before it was examined.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{Findings, Item};
use base::task;

/// Findings of one server, or of a part of it.
pub struct Later {
    found: OnceLock<Findings>,
    of: Of,
}

enum Of {
    Definitions(Box<dyn Fn() -> Findings + Send + Sync>),
    /// A part of another's: those about these tools, by [`Item::shown`].
    Part(Arc<Later>, BTreeSet<Item>),
}

impl Later {
    /// Findings that `make` makes.
    pub fn new(make: impl Fn() -> Findings + Send + Sync + 'static) -> Self {
        Self { found: OnceLock::new(), of: Of::Definitions(Box::new(make)) }
    }

    /// The part about tools of these wire names, and about everything that is no tool.
    #[must_use]
    pub fn keeping<'n>(self: &Arc<Self>, tools: impl Iterator<Item = &'n str>) -> Self {
        let tools = tools.map(|name| Item::Tool(name.to_owned()).shown()).collect();
        Self { found: OnceLock::new(), of: Of::Part(Arc::clone(self), tools) }
    }

    /// The findings, made if they were not yet; other tasks continue meanwhile.
    pub fn get(&self) -> &Findings {
        self.found.get_or_init(|| match &self.of {
            Of::Definitions(make) => task::work_on(task::LONG, make),
            Of::Part(whole, tools) => whole.get().keeping(tools),
        })
    }

    /// The findings, if they were made.
    pub fn known(&self) -> Option<&Findings> {
        match &self.of {
            Of::Part(whole, _) => whole.known().map(|_| self.get()),
            Of::Definitions(_) => self.found.get(),
        }
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Later").field(&self.found).finish()
    }
}
