//! What the servers offer: one entry a configured server, in order of identifier, whatever its state.

mod cache;
mod file;
mod offers;
mod origin;
mod pin;
mod refresher;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use stubgen::{ServerDef, ServerStubs};

use crate::config::{self, Access, Binding, Patterns};
use crate::redact::{self, Surface};
use crate::upstream::{Health, Listed, Listing, Stderr};

pub use cache::Cache;
pub use file::load as load_file;
pub use offers::{Offer, Offers};
pub use pin::{LOCK, Pin, Quarantined};
pub use refresher::{RefreshedServer, Refresher};

/// How far the servers of a catalog have come, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A server is being started of which nothing is known yet.
    Starting,
    /// Of each server that is being started there are the tools that it listed last time.
    Usable,
    /// No server is being started any more.
    Settled,
}

/// Bytes of a server's `__init__.pyi`, about 200 tokens, up to which `binding = "auto"` lists it in place of a file a
/// tool: reading all of it then costs less than finding out which parts to read.
const SMALL_SERVER: usize = 800;

/// One server as the catalog shows it.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Name in the configuration.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Whether it can be used now.
    pub state: ServerState,
    /// Its stubs; without tools until it was listed.
    pub stubs: Arc<ServerStubs>,
    /// Its resources and prompts.
    pub offers: Arc<Offers>,
    /// What listings and search hits point at.
    pub layout: Layout,
    /// How many tools the configuration keeps from agents.
    pub hidden: usize,
    /// Which of the servers that had this name it is, counted from 1 in the order they were started; 0 for one that is
    /// not connected.
    pub instance: u64,
    /// Digest of how it is reached.
    pub origin: Arc<str>,
    /// Whether its tools have to be as they were reviewed.
    pub is_pinned: bool,
    /// Tools that differ from the reviewed ones, by identifier: named, and not callable. Their stubs are of the reviewed
    /// definition, or of none.
    pub quarantine: Arc<BTreeMap<String, Quarantined>>,
    /// How it fares right now; the one part of a catalog that changes by itself.
    health: Health,
    /// Its place among the lists of all servers.
    _room: Option<Arc<Listed>>,
}

/// How a server is laid out for the agent; every file exists in each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Listings and hits point at one file a tool.
    PerTool,
    /// Listings point at `__init__.pyi`, hits at the tool that was found.
    Small,
    /// Listings and hits point at `__init__.pyi`.
    Whole,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// Being started; tools that it has are those of the last time.
    Connecting,
    /// Not running, with tools as they were listed last; it is started by the next call.
    Resting,
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
    /// Wants a login by a person.
    NeedsLogin {
        /// The command that logs in.
        command: String,
    },
    /// `enabled = false`.
    Disabled,
}

impl ServerState {
    /// One word, for metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Resting => "resting",
            Self::Ready { .. } => "ready",
            Self::Offline => "offline",
            Self::Failed { .. } => "failed",
            Self::NeedsLogin { .. } => "needs_login",
            Self::Disabled => "disabled",
        }
    }

    /// One word or line for `ls /`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Connecting => "connecting".to_owned(),
            Self::Resting => "resting, starts at the next call".to_owned(),
            Self::Ready { .. } => "ready".to_owned(),
            Self::Offline => "offline".to_owned(),
            Self::Failed { reason } => format!("failed: {reason}"),
            Self::NeedsLogin { command } => format!("needs login: {command}"),
            Self::Disabled => "disabled".to_owned(),
        }
    }
}

impl ServerEntry {
    /// An entry without tools.
    #[must_use]
    pub fn empty(name: &str, ident: &str, server: Option<&config::Server>, state: ServerState) -> Self {
        Self::listed(name, ident, server, Listing::default(), state)
    }

    /// An entry with the tools of `listing`.
    #[must_use]
    pub fn listed(
        name: &str,
        ident: &str,
        server: Option<&config::Server>,
        mut listing: Listing,
        state: ServerState,
    ) -> Self {
        let offers = Arc::new(Offers::take(&mut listing));
        let hidden = server.map(|server| hide(name, &server.access, &mut listing)).unwrap_or_default();
        let categories = server.map(|server| expand(&server.categories, &listing)).unwrap_or_default();
        let definition = ServerDef {
            name: name.to_owned(),
            description: server.and_then(|server| server.description.clone()),
            instructions: listing.instructions,
            tools: listing.tools,
            categories,
        };
        let stubs = stubgen::generate_owned(definition, ident);
        for note in stubs.notes.iter().chain(&offers.notes) {
            tracing::warn!(server = name, "{note}");
        }
        let layout = match server.map(|server| server.binding).unwrap_or_default() {
            Binding::Server => Layout::Whole,
            Binding::Auto if stubs.init_pyi.len() <= SMALL_SERVER => Layout::Small,
            Binding::Auto | Binding::Tool => Layout::PerTool,
        };
        let stubs = Arc::new(stubs);
        Self {
            name: name.to_owned(),
            ident: ident.to_owned(),
            state,
            stubs,
            offers,
            hidden,
            layout,
            instance: 0,
            origin: server.map(origin::in_memory).unwrap_or_default().into(),
            is_pinned: false,
            quarantine: Arc::default(),
            health: Health::default(),
            _room: listing.room,
        }
    }

    /// The same server with everything quarantined that `pin` does not know as it is. Nothing that was not reviewed is
    /// left of such a tool but its identifier.
    #[must_use]
    pub fn pinned(self, pin: Option<&Pin>) -> Self {
        let Some(pin) = pin else { return self };
        let quarantine = pin.quarantined(&self.stubs);
        let shown: BTreeMap<String, Value> =
            quarantine.keys().map(|tool| (tool.clone(), pin.shown(&self.stubs.ident, tool))).collect();
        let stubs = match shown.is_empty() {
            true => self.stubs,
            false => Arc::new(Arc::unwrap_or_clone(self.stubs).showing(&shown)),
        };
        Self { is_pinned: true, quarantine: Arc::new(quarantine), stubs, ..self }
    }

    /// The same server as this instance of it.
    #[must_use]
    pub fn of_instance(self, instance: u64) -> Self {
        Self { instance, ..self }
    }

    /// The same server, shown with how it fares.
    #[must_use]
    pub fn with_health(self, health: Health) -> Self {
        Self { health, ..self }
    }

    /// What it said on stderr; `None` if it is no process of ours.
    #[must_use]
    pub fn stderr(&self) -> Option<String> {
        self.health.stderr.as_ref().map(Stderr::text)
    }

    /// The state of its breaker in one word.
    #[must_use]
    pub fn breaker(&self) -> &'static str {
        self.health.health.state()
    }

    /// Whether this is its name or identifier, in any case.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.ident.eq_ignore_ascii_case(name) || self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is being started.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.state == ServerState::Connecting
    }

    /// Whether nothing is known of it because it could not be started, or wants a login: a call tries again.
    #[must_use]
    pub fn is_startable(&self) -> bool {
        match self.state {
            ServerState::NeedsLogin { .. } => true,
            ServerState::Failed { .. } => self.stubs.tools.is_empty(),
            _ => false,
        }
    }

    /// Its state in one word or line, for `ls /`.
    #[must_use]
    pub fn describe(&self) -> String {
        let complaint = self.health.health.complaint();
        match (&self.state, complaint) {
            (ServerState::Ready { .. }, Some(complaint)) => {
                format!("failing, {}", redact::text(Surface::Error, &complaint).lines().next().unwrap_or_default())
            }
            (state, _) => state.describe(),
        }
    }

    /// The same tools in another state.
    #[must_use]
    pub fn with_state(&self, state: ServerState) -> Self {
        Self { state, ..self.clone() }
    }
}

/// Category → tool names, from category → patterns.
fn expand(categories: &BTreeMap<String, Patterns>, listing: &Listing) -> BTreeMap<String, Vec<String>> {
    let names = names(&listing.tools);
    let matching = |patterns: &Patterns| {
        let matcher = patterns.matcher();
        names.iter().filter(|name| matcher.is_match(name)).map(|name| (*name).to_owned()).collect()
    };
    categories.iter().map(|(category, patterns)| (category.clone(), matching(patterns))).collect()
}

/// Takes away the tools that `access` does not grant, before anything is made of them; how many those are. An entry
/// that matches no tool is logged: in `deny`, a misspelt name would leave open what it was to close.
fn hide(server: &str, access: &Access, listing: &mut Listing) -> usize {
    let (allow, deny) = (access.allow.as_ref().map(Patterns::matcher), access.deny.matcher());
    let names = names(&listing.tools);
    if !names.is_empty() {
        for (key, matcher) in allow.iter().map(|allow| ("allow", allow)).chain([("deny", &deny)]) {
            for entry in matcher.idle(&names) {
                tracing::warn!(server, key, entry, "matches no tool");
            }
        }
    }
    let granted = |name: &str| allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !deny.is_match(name);
    let before = listing.tools.len();
    // What has no name is no tool; it is reported where stubs are made.
    listing.tools.retain(|tool| tool.get("name").and_then(Value::as_str).is_none_or(granted));
    before - listing.tools.len()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect()
}
