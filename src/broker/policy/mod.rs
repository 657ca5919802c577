//! Whether a call may be made. One rule a file, asked in a fixed order; the first that refuses decides:
//!
//! 1. [`review`]: a tool that is not as reviewed is quarantined.
//! 2. [`groups`]: an execution that has called one strict group calls no other.
//! 3. [`flows`]: what the execution holds may not go to this server, or only if the user says so.
//! 4. [`approval`]: the user is asked before this tool is called.
//!
//! What the configuration hides (`allow`, `deny`) never comes this far: it is not in the catalog.

mod approval;
mod flows;
mod groups;
#[cfg(test)]
mod laundering;
mod review;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use stubgen::ToolStub;
use wire::ErrorCode;

use super::labels::Held;
use crate::config::{self, Approval, Config, Flow, Isolation, PerTool, ToolRule};
use crate::error::{Error, Result, code_name};
use crate::manifest::ServerEntry;
use crate::upstream::Operation;

pub(super) use groups::admit;

/// What a configuration says of groups, flows and approvals, made ready for many calls.
#[derive(Debug, Default)]
pub struct Rules {
    /// Server → its strict group.
    strict: HashMap<String, Arc<str>>,
    flows: Vec<Flow>,
    /// Server → when the user is asked.
    approvals: HashMap<String, Approvals>,
}

/// When the user is asked before tools of one server are called.
#[derive(Debug)]
struct Approvals {
    otherwise: Approval,
    tools: PerTool<Approval>,
}

impl Rules {
    /// The rules of a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let strict = config.policy.groups.iter().filter(|(_, group)| group.isolation == Isolation::Strict);
        let strict = strict.flat_map(|(name, group)| {
            let name: Arc<str> = name.as_str().into();
            group.servers.iter().map(move |server| (server.clone(), Arc::clone(&name)))
        });
        let approvals = config.servers.iter().map(|(name, server)| (name.clone(), Approvals::new(server)));
        Self { strict: strict.collect(), flows: config.policy.flows.clone(), approvals: approvals.collect() }
    }
}

impl Approvals {
    fn new(server: &config::Server) -> Self {
        Self { otherwise: server.approval, tools: ToolRule::by_tool(&server.tools, |rule| rule.approval) }
    }
}

/// A call that is to be decided about.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The server.
    pub(super) entry: &'a ServerEntry,
    /// The tool; `None` for resources, prompts and completions.
    pub(super) stub: Option<&'a ToolStub>,
    /// What is to be done.
    pub(super) operation: &'a Operation,
}

impl Asked<'_> {
    /// The tool's identifier, or the operation for resources and prompts.
    pub(super) fn what(&self) -> Cow<'_, str> {
        self.stub.map_or_else(|| self.operation.name(), |stub| stub.ident.as_str().into())
    }

    /// The tool or server, in messages.
    pub(super) fn label(&self) -> String {
        let server = &self.entry.ident;
        self.stub.map_or_else(|| server.clone(), |stub| format!("{server}.{}", stub.ident))
    }

    /// Whether it changes nothing, as far as the server says: reading resources and prompts does not, and neither does
    /// a tool that is annotated so. A tool without annotation is taken for one that writes.
    pub(super) fn is_read(&self) -> bool {
        self.stub.is_none_or(|stub| {
            let hint = stub.definition.pointer("/annotations/readOnlyHint");
            hint.and_then(serde_json::Value::as_bool) == Some(true)
        })
    }
}

/// Why the user has to be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Reason {
    /// The server's or the tool's `approval`.
    Approval {
        /// The server's identifier.
        server: String,
        /// Whether it is asked for writes only.
        writes: bool,
    },
    /// A flow with `action = "approve"`.
    Flow {
        /// The server whose data is held.
        from: String,
        /// The server that is called.
        to: String,
    },
}

/// Also what a consent is remembered under.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval { server, writes: true } => write!(f, "{server} asks before anything that may write"),
            Self::Approval { server, writes: false } => write!(f, "{server} asks before this, always"),
            Self::Flow { from, to } => write!(f, "data of {from} may go to {to}"),
        }
    }
}

/// Decides about a call of an execution that holds `held`, before it is counted or sent. Answers why the user has to be
/// asked; nobody is when there is no reason.
///
/// # Errors
/// The code of the rule that refuses it.
pub(super) fn decide(rules: &Rules, asked: &Asked<'_>, held: &Held) -> Result<Vec<Reason>> {
    review::check(asked)?;
    groups::admit(rules, &mut held.group.clone(), &asked.entry.name)?;
    let mut reasons = flows::check(rules, &asked.entry.name, &held.labels)?;
    reasons.extend(approval::wanted(rules, asked));
    Ok(reasons)
}

/// What records say of a call that is not made.
pub(super) fn refusal(error: &Error) -> String {
    match error.code {
        ErrorCode::ToolDenied | ErrorCode::GroupPolicyDenied | ErrorCode::ApprovalDenied => {
            format!("denied: {}", error.message)
        }
        code => format!("refused: {}: {}", code_name(code), error.message),
    }
}
