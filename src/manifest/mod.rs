//! What the servers offer: one entry a configured server, in order of identifier, whatever its state.

mod file;

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::Glob;
use stubgen::{ServerDef, ServerStubs};

use crate::config;
use crate::upstream::Listing;

pub use file::load as load_file;

/// One server as the catalog shows it.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Name in the configuration.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Whether it can be used now.
    pub state: State,
    /// Its stubs; without tools until it was listed.
    pub stubs: Arc<ServerStubs>,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Being started.
    Connecting,
    /// Listed and usable.
    Ready {
        /// Negotiated protocol revision.
        protocol: String,
    },
    /// Known only from a file.
    Offline,
    /// Could not be started or listed.
    Failed {
        /// Why, in one line.
        reason: String,
    },
    /// `enabled = false`.
    Disabled,
}

impl State {
    /// One word or line for `ls /`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Connecting => "connecting".to_owned(),
            Self::Ready { .. } => "ready".to_owned(),
            Self::Offline => "offline".to_owned(),
            Self::Failed { reason } => format!("failed: {reason}"),
            Self::Disabled => "disabled".to_owned(),
        }
    }
}

impl ServerEntry {
    /// An entry without tools.
    #[must_use]
    pub fn empty(name: &str, ident: &str, server: Option<&config::Server>, state: State) -> Self {
        Self::listed(name, ident, server, Listing::default(), state)
    }

    /// An entry with the tools of `listing`.
    #[must_use]
    pub fn listed(name: &str, ident: &str, server: Option<&config::Server>, listing: Listing, state: State) -> Self {
        let categories = server.map(|server| expand(&server.categories, &listing)).unwrap_or_default();
        let definition = ServerDef {
            name: name.to_owned(),
            description: server.and_then(|server| server.description.clone()),
            instructions: listing.instructions,
            tools: listing.tools,
            categories,
        };
        let stubs = stubgen::generate(&definition, ident);
        for note in &stubs.notes {
            tracing::warn!(server = name, "{note}");
        }
        Self { name: name.to_owned(), ident: ident.to_owned(), state, stubs: Arc::new(stubs) }
    }

    /// The same tools in another state.
    #[must_use]
    pub fn with_state(&self, state: State) -> Self {
        Self { state, ..self.clone() }
    }
}

/// Category → tool names, from category → names or globs.
fn expand(categories: &BTreeMap<String, Vec<String>>, listing: &Listing) -> BTreeMap<String, Vec<String>> {
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect();
    let matching = |patterns: &Vec<String>| {
        let globs: Vec<_> = patterns.iter().filter_map(|glob| Some(Glob::new(glob).ok()?.compile_matcher())).collect();
        let hits = |name: &&str| globs.iter().any(|glob| glob.is_match(name)) || patterns.iter().any(|p| p == name);
        names.iter().copied().filter(hits).map(str::to_owned).collect()
    };
    categories.iter().map(|(category, patterns)| (category.clone(), matching(patterns))).collect()
}
