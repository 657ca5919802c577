//! The manifest: one entry per configured server, in order of identifier, in any state.

mod cache;
mod file;
mod first_use;
mod held;
mod made;
mod observed;
mod offers;
mod origin;
mod pin;
mod refresher;
mod reviewed;
pub mod roots;
pub mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stubgen::{ServerStubs, ToolStub};

use crate::findings::Later;
use base::text::counted;
use config::Unmatched;
use redact::Surface;
use upstream::{Health, Listed as ListRoom, NO_TOOLS, Stderr};

pub use cache::Cache;
pub use file::load as load_file;
pub use first_use::{Accepted, FirstUse};
pub use held::Held;
pub use observed::Observed;
pub use offers::{Offer, Offers};
pub use origin::in_memory as origin_of;
pub use pin::{LOCK, Pin, Quarantined};
pub use refresher::{RefreshedServer, Refresher};
pub(crate) use reviewed::offers_of;
pub use reviewed::{OFFERS, offers_file};

/// Progress of a catalog's servers, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// At least one server is starting and has no tools yet.
    Starting,
    /// Every starting server has the tools of its last listing.
    Usable,
    /// No server is starting.
    Settled,
}

/// A server in the catalog.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Name in the configuration.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// State of the connection.
    pub state: ServerState,
    /// Lists beside the tools are late.
    pub is_partial: bool,
    /// Stubs; without tools until it was listed.
    pub stubs: Arc<ServerStubs>,
    /// Tools that only pages of the server call (MCP Apps), where agents' catalogs have it; else they are among the stubs.
    pub for_apps: Option<Arc<ServerStubs>>,
    /// Resources and prompts.
    pub offers: Arc<Offers>,
    /// Files that listings and search hits point at.
    pub layout: Layout,
    /// Folders below which the paths of its tools lie, in words, if that is known.
    pub paths: Option<Arc<str>>,
    /// Number of tools that the configuration hides.
    pub hidden: usize,
    /// Names of all tools that it lists, hidden ones too; `None` until it was listed.
    pub names: Option<Arc<[String]>>,
    /// Rules of its configuration that match none of them.
    pub unmatched: Arc<[Unmatched]>,
    /// Instance of this name, counted from 1 in order of start; 0 for a server that is not connected.
    pub instance: u64,
    /// Digest of its origin.
    pub origin: Arc<str>,
    /// True if its tools must match reviewed ones.
    pub is_pinned: bool,
    /// Tools that differ from their review, by identifier: shown by name, not callable. Their stubs show the reviewed
    /// definition, or none.
    pub quarantine: Arc<BTreeMap<String, Quarantined>>,
    /// Offers and instructions that differ from their review, if those are pinned: not shown, not usable.
    pub held: Option<Arc<Held>>,
    /// The server's own list, where a part of it is held back.
    pub listed: Option<Arc<Listed>>,
    /// Findings in the definitions as the server listed them.
    pub findings: Arc<Later>,
    /// Scripts that alone may call a tool, by the tool's identifier; wire names.
    pub only_from: Arc<BTreeMap<String, BTreeSet<String>>>,
    /// Observed shapes of results; with the health, the only part of a catalog that changes.
    pub observed: Observed,
    /// Current health.
    health: Health,
    /// Memory reserved among the lists of all servers.
    _room: Option<Arc<ListRoom>>,
}

/// A server's own list, before a part of it was held back.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Stubs of its tools.
    pub stubs: Arc<ServerStubs>,
    /// Its resources and prompts.
    pub offers: Arc<Offers>,
}

/// Layout of a server for the agent; every file exists in each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Listings and hits point at one file per tool.
    PerTool,
    /// Listings have signatures where these are short, or point at `__init__.pyi`; hits point at the tool's file.
    Small,
    /// Listings and hits point at `__init__.pyi`.
    Whole,
}

/// State of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// Starting, with the tools of the last listing if there is one.
    Connecting,
    /// Stopped while idle, with its last tools; the next call starts it.
    Resting,
    /// Listed and usable.
    Ready {
        /// Negotiated protocol revision.
        protocol: String,
    },
    /// Known only from a file.
    Offline,
    /// Failed to start or to list.
    Failed {
        /// Reason, in one line.
        reason: String,
    },
    /// A person must log in.
    NeedsLogin {
        /// The command that logs in.
        command: String,
    },
    /// `enabled = false`.
    Disabled,
}

impl ServerState {
    /// The state in one word, for metrics.
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

    /// The state in one word or line, for `ls /`.
    pub fn describe(&self) -> String {
        match self {
            Self::Resting => "resting, starts at the next call".to_owned(),
            Self::Failed { reason } => format!("failed: {reason}"),
            Self::NeedsLogin { command } => format!("needs login: {command}"),
            state => state.word().to_owned(),
        }
    }
}

/// True if `called` is the name or identifier of a server, in upper or lower case.
pub fn is_called(name: &str, ident: &str, called: &str) -> bool {
    ident.eq_ignore_ascii_case(called) || name.eq_ignore_ascii_case(called)
}

impl ServerEntry {
    /// True if it has this name, and these very stubs and offers: what is derived from them is its too.
    pub(crate) fn lists(&self, name: &str, stubs: &Arc<ServerStubs>, offers: &Arc<Offers>) -> bool {
        self.name == name && Arc::ptr_eq(&self.stubs, stubs) && Arc::ptr_eq(&self.offers, offers)
    }

    /// Tools that only its pages call, where they are apart.
    pub fn tools_for_apps(&self) -> impl Iterator<Item = &ToolStub> {
        self.for_apps.iter().flat_map(|stubs| &stubs.tools)
    }

    /// Its stderr, or what it sent over HTTP that is no message; `None` if there is nothing.
    pub fn stderr(&self) -> Option<String> {
        self.health.stderr.as_ref().map(Stderr::text).filter(|text| !text.is_empty())
    }

    /// True if its process has written nothing since it was started.
    pub fn is_silent(&self) -> bool {
        self.health.stderr.as_ref().is_some_and(Stderr::is_silent)
    }

    /// State of its circuit breaker in one word.
    pub fn breaker(&self) -> &'static str {
        self.health.health.state()
    }

    /// Whether this is its name or identifier, in any case.
    pub fn is_called(&self, name: &str) -> bool {
        is_called(&self.name, &self.ident, name)
    }

    /// True if something of it differs from its review.
    pub fn holds_back(&self) -> bool {
        !self.quarantine.is_empty() || self.held.as_ref().is_some_and(|held| !held.is_empty())
    }

    /// True for the scripts that are tools: no server is behind them.
    pub fn is_scripts(&self) -> bool {
        self.name == config::SCRIPTS_SERVER
    }

    /// Whether it is being started.
    pub fn is_starting(&self) -> bool {
        self.state == ServerState::Connecting
    }

    /// True while it starts, or while one of its lists is late.
    pub fn is_listing(&self) -> bool {
        self.is_starting() || self.is_partial
    }

    /// Whether nothing is known of it because it could not be started, or wants a login: a call tries again.
    pub fn is_startable(&self) -> bool {
        match self.state {
            ServerState::NeedsLogin { .. } => true,
            ServerState::Failed { .. } => self.stubs.tools.is_empty(),
            _ => false,
        }
    }

    /// Its state in one word or line, for `ls /`.
    pub fn describe(&self) -> String {
        let complaint = self.health.health.complaint();
        match (&self.state, complaint) {
            (ServerState::Ready { .. }, Some(complaint)) => {
                format!("failing, {}", redact::text(Surface::Error, &complaint).lines().next().unwrap_or_default())
            }
            (state @ ServerState::Ready { .. }, None) if self.stubs.tools.is_empty() => {
                let state = state.describe();
                match self.offers.notes.iter().find(|note| note.starts_with(NO_TOOLS)) {
                    Some(note) => format!("{state}, {note}"),
                    None if self.hidden > 0 => {
                        format!("{state}, {} hidden by the configuration", counted(self.hidden, "tool"))
                    }
                    None => state,
                }
            }
            (state, _) => state.describe(),
        }
    }

    /// The first words of [`ServerEntry::describe`], unless its tools can be called.
    pub fn trouble(&self) -> Option<String> {
        let state = self.describe();
        let words = state.split([',', ':']).next().unwrap_or_default();
        (!matches!(words, "ready" | "resting")).then(|| words.to_owned())
    }

    /// True if its tools come after those of servers that answer.
    pub fn comes_last(&self) -> bool {
        self.state != ServerState::Connecting && self.trouble().is_some()
    }

    /// The same tools in another state.
    pub fn with_state(&self, state: ServerState) -> Self {
        Self { state, ..self.clone() }
    }
}
