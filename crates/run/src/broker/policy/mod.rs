//! Decides whether a call may be made. One file per rule, in a fixed order; the first refusal decides:
//!
//! 1. [`review`]: a tool that differs from its review is quarantined. Its stub shows the reviewed definition, so this
//!    comes before validation of the arguments.
//! 2. [`access`]: the server is enabled, and the tool is allowed and not denied.
//! 3. [`lock`]: a reviewed script calls what its lock lists.
//! 4. [`only_from`]: the tool may be called from here, and not from certain scripts alone.
//! 5. [`groups`]: an execution that has called one strict group calls no other.
//! 6. [`flows`]: held data may not go to this server, or only with the user's approval.
//! 7. [`approval`]: the tool needs the user's approval.
//!
//! Rules that come into force while a script runs apply to its next call, in addition to those that it began with.

mod access;
mod approval;
mod flows;
mod groups;
mod hindsight;
#[cfg(test)]
mod laundering;
mod lock;
mod only_from;
#[cfg(test)]
mod promises;
mod review;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use stubgen::ToolStub;
use wire::ErrorCode;

use super::scope::Scope;
use crate::hooks::Hooks;
use crate::scripts::SERVER;
use base::error::{Error, Result};
use base::labels::Held;
use base::labels::Labels;
use base::principal::Principal;
use catalog::manifest::ServerEntry;
use config::{
    Approval, Config, Flow, Isolation, Matcher, Patterns, PerTool, Profile, Relays, ScriptApproval, ToolRule, View,
};
use upstream::Operation;

pub(super) use groups::{admit, entered};
pub use hindsight::{Hindsight, Ruling};
pub(super) use review::reviewed;

/// Groups, flows, approvals and access of a configuration, compiled for many calls.
#[derive(Debug, Default)]
pub struct Rules {
    /// Server → its strict group.
    strict: HashMap<String, Arc<str>>,
    flows: Vec<Flow>,
    /// Server that is enabled → its own rules.
    servers: HashMap<String, OfServer>,
    /// Rules of the client's profile, if it has one.
    view: Option<View>,
    /// Least approval of each call.
    least: Approval,
    /// Hooks that decide about what these rules leave.
    hooks: Hooks,
}

/// Returns the rules in force for a principal.
pub type RulesNow = Arc<dyn Fn(&Principal) -> Arc<Rules> + Send + Sync>;

/// Rules of one server.
#[derive(Debug)]
struct OfServer {
    /// Tools that may be called; `None` means all.
    allow: Option<Matcher>,
    /// Tools that may not be called.
    deny: Matcher,
    approval: Approval,
    /// Approval of some tools.
    approvals: PerTool<Approval>,
    /// Scripts that alone may call some tools.
    callers: PerTool<BTreeSet<String>>,
    /// Questions that are forwarded.
    relays: Relays,
}

impl Rules {
    /// Rules of a configuration for the clients of a profile, or those without one.
    pub fn new(config: &Config, profile: Option<&Profile>) -> Self {
        let strict = config.policy.groups.iter().filter(|(_, group)| group.isolation == Isolation::Strict);
        let strict = strict.flat_map(|(name, group)| {
            let name: Arc<str> = name.as_str().into();
            group.servers.iter().map(move |server| (server.clone(), Arc::clone(&name)))
        });
        let enabled = config.servers.iter().filter(|(_, server)| server.enabled);
        let servers = enabled.map(|(name, server)| (name.clone(), OfServer::new(server)));
        let scripts = config.scripts.path.iter().map(|_| (SERVER.to_owned(), OfServer::of_scripts(&config.scripts)));
        Self {
            strict: strict.collect(),
            flows: config
                .policy
                .flows
                .iter()
                .chain(profile.iter().flat_map(|profile| &profile.flows))
                .cloned()
                .collect(),
            servers: servers.chain(scripts).collect(),
            view: profile.filter(|profile| !profile.shows_all()).map(View::of),
            least: profile.map_or(Approval::Never, |profile| profile.approval),
            hooks: Hooks::default(),
        }
    }

    /// These rules, with hooks.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    /// Their hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// True if any rule keeps the data of a server from another.
    pub(super) fn sets_apart(&self, server: &str) -> bool {
        self.strict.contains_key(server) || self.flows.iter().any(|flow| flow.from.covers(server))
    }

    /// True if only scripts may call a tool.
    pub fn is_left_to_scripts(&self, server: &str, tool: &str) -> bool {
        self.servers.get(server).is_some_and(|server| server.callers.all(tool).next().is_some())
    }

    /// Questions of a server that are forwarded.
    pub(super) fn relays(&self, server: &str) -> Relays {
        self.servers.get(server).map(|server| server.relays).unwrap_or_default()
    }
}

impl OfServer {
    fn new(server: &config::Server) -> Self {
        Self {
            allow: server.access.allow.as_ref().map(Patterns::matcher),
            deny: server.access.deny.matcher(),
            approval: server.approval,
            approvals: ToolRule::by_tool(&server.tools, |rule| rule.approval),
            callers: ToolRule::by_tool(&server.tools, |rule| rule.only_from.clone()),
            relays: server.relays,
        }
    }

    /// Those of scripts: one that asks once asks at its own call. Those that ask at each call of theirs have none.
    fn of_scripts(scripts: &config::Scripts) -> Self {
        let at_its_own = |rights: &config::ScriptRule| match rights.approval {
            ScriptApproval::Each => None,
            ScriptApproval::Once => Some(Approval::Always),
            ScriptApproval::Never => Some(Approval::Never),
        };
        let rules = scripts.tools.iter().filter_map(|(name, rights)| Some((name.as_str(), at_its_own(rights)?)));
        Self {
            allow: None,
            deny: Patterns::default().matcher(),
            approval: Approval::Never,
            approvals: PerTool::new(rules),
            callers: PerTool::new([]),
            relays: Relays::default(),
        }
    }
}

/// A call to decide about.
#[derive(Clone, Copy)]
pub(super) struct PendingCall<'a> {
    /// The server.
    pub(super) entry: &'a ServerEntry,
    /// The tool; `None` for resources, prompts and completions.
    pub(super) stub: Option<&'a ToolStub>,
    /// The operation.
    pub(super) operation: &'a Operation,
    /// Arguments as written, before placeholders were restored: for records and people.
    pub(super) written: Option<&'a str>,
    /// The script that calls, if it is a tool itself.
    pub(super) from: Option<Caller<'a>>,
}

/// A script that is a tool, as a caller.
#[derive(Clone, Copy)]
pub(super) enum Caller<'a> {
    /// It is being reviewed; its wire name.
    Reviewed(&'a str),
    /// It runs.
    Runs(&'a Scope),
}

impl<'a> Caller<'a> {
    /// Its scope, if it runs.
    pub(super) fn scope(self) -> Option<&'a Scope> {
        match self {
            Self::Reviewed(_) => None,
            Self::Runs(scope) => Some(scope),
        }
    }

    /// Its wire name, if it is what was reviewed, or is being.
    pub(super) fn reviewed(self) -> Option<&'a str> {
        match self {
            Self::Reviewed(name) => Some(name),
            Self::Runs(scope) => scope.locked().map(|_| scope.script.source.name.as_str()),
        }
    }
}

impl<'a> PendingCall<'a> {
    /// A call without a known caller, with the arguments of its operation.
    pub(super) fn new(entry: &'a ServerEntry, stub: Option<&'a ToolStub>, operation: &'a Operation) -> Self {
        Self { entry, stub, operation, written: None, from: None }
    }

    /// True if a script with a lock makes it.
    pub(super) fn is_sealed(&self) -> bool {
        self.from.and_then(Caller::reviewed).is_some()
    }

    /// The tool's identifier, or the operation for resources and prompts.
    pub(super) fn what(&self) -> Cow<'_, str> {
        self.stub.map_or_else(|| self.operation.name(), |stub| stub.ident.as_str().into())
    }

    /// The tool or server, in messages.
    pub(super) fn label(&self) -> String {
        let server = &self.entry.ident;
        self.stub.map_or_else(|| server.clone(), |stub| format!("{server}.{}", stub.ident))
    }

    /// True if the call changes nothing according to the server: resources, prompts, and tools annotated as read-only.
    /// A tool without annotation counts as writing.
    pub(super) fn is_read(&self) -> bool {
        self.stub.is_none_or(is_read_only)
    }
}

/// The call of a tool.
pub(super) fn call_of(stub: &ToolStub, arguments: Map<String, Value>) -> Operation {
    let (name, definition, repeatable) = (stub.name.clone(), stub.full_digest(), is_repeatable(stub));
    Operation::Tool { name, definition, arguments, repeatable }
}

/// True if the server annotates a tool as read-only.
pub fn is_read_only(stub: &ToolStub) -> bool {
    stub.annotations.read_only == Some(true)
}

/// True if the server annotates a tool as read-only or idempotent.
pub(super) fn is_repeatable(stub: &ToolStub) -> bool {
    is_read_only(stub) || stub.annotations.idempotent == Some(true)
}

/// Reason to ask the user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Reason {
    /// The server's or the tool's `approval`.
    Approval {
        /// The server's identifier.
        server: String,
        /// The rule: `never` is none.
        rule: config::Approval,
    },
    /// A flow with `action = "approve"`.
    Flow {
        /// The server whose data is held.
        from: String,
        /// The server that is called.
        to: String,
    },
    /// A hook that asks.
    Hook {
        /// Its name.
        hook: String,
        /// Its question, quoted.
        question: String,
    },
}

/// Also the key of a remembered consent.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval { server, rule: config::Approval::Always } => {
                write!(f, "{server} asks before this, always")
            }
            Self::Approval { server, rule: config::Approval::Plan } => {
                write!(f, "{server} asks before a script that may write, and before what is not in its plan")
            }
            Self::Approval { server, .. } => write!(f, "{server} asks before anything that may write"),
            Self::Flow { from, to } => write!(f, "data of {from} may go to {to}"),
            Self::Hook { hook, question } => write!(f, "the hook {hook} asks: {question}"),
        }
    }
}

/// Decides about a call of an execution that holds `held`, before it is counted or sent. Returns the reasons to ask the
/// user; without any, the user is not asked.
///
/// # Errors
/// The code of the rule that refuses it.
pub(super) fn decide(rules: &Rules, asked: &PendingCall<'_>, held: &Held) -> Result<Vec<Reason>> {
    review::offered(asked)?;
    access::check(rules, asked)?;
    lock::check(asked)?;
    only_from::check(rules, asked)?;
    // A call of a script sends nothing out: the calls that the script makes are decided about.
    if asked.entry.is_scripts() {
        return Ok(approval::wanted(rules, asked).into_iter().collect());
    }
    groups::entered(rules, held.group.as_ref(), [&asked.entry.name])?;
    let mut reasons = flows::check(rules, &asked.entry.name, &held.labels)?;
    reasons.extend(approval::wanted(rules, asked));
    Ok(reasons)
}

/// Completes the error of a call whose definition differs between connection and catalog. If a reviewer or the user
/// approved the old definition, a script cannot call the new one.
pub(super) fn changed(asked: &PendingCall<'_>, is_vouched: bool, error: &mut Error) {
    let label = match asked.stub {
        Some(_) => asked.label(),
        None => format!("{}, {}", asked.label(), asked.what()),
    };
    error.message = format!("{label}: {}", error.message);
    if is_vouched {
        error.code = ErrorCode::ToolDenied;
        error.hint = Some("it was reviewed or approved as it was; use another tool, or look at it again".to_owned());
    }
}

/// Like [`decide`], by rules that came into force after the execution began. The execution's group follows from the
/// data that it holds.
///
/// # Errors
/// The code of the rule that refuses it.
pub(super) fn decide_anew(rules: &Rules, asked: &PendingCall<'_>, held: &Held) -> Result<Vec<Reason>> {
    let group = groups::entered(rules, None, &held.labels)?;
    decide(rules, asked, &Held { group, ..held.clone() })
}

/// Decides whether data of `origins`, behind placeholders, may go to `server`.
///
/// # Errors
/// `GROUP_POLICY_DENIED` with the rule against it.
pub(super) fn release(rules: &Rules, held: &Held, server: &str, origins: &Labels) -> Result<()> {
    let groups = groups::entered(rules, held.group.as_ref(), origins.iter().map(String::as_str).chain([server]));
    let decided = groups.and_then(|_| flows::check(rules, server, origins));
    decided.map(drop).map_err(|error| error.context(format_args!("a placeholder is not put back for `{server}`")))
}

/// The reasons to ask, as one text.
pub(super) fn all_of(reasons: &[Reason]) -> String {
    reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
}
