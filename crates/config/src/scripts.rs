//! Scripts as tools: `[scripts]`, and `only_from` of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawScript, RawScripts};
use super::words::words;

/// Name of the server whose tools are scripts.
pub const SCRIPTS_SERVER: &str = "scripts";
/// Name of the lock of scripts, beside the configuration file.
pub const SCRIPTS_LOCK: &str = "scripts.lock";
/// Name of the folder of proposed scripts, beside that of the scripts.
const PROPOSALS: &str = "proposals";

/// The `[scripts]` table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scripts {
    /// Folder of the scripts, resolved against the configuration file; `None` without any.
    pub path: Option<PathBuf>,
    /// The lock, beside the configuration file; empty without a folder.
    pub lock: PathBuf,
    /// True if scripts without a lock are callable.
    pub unlocked: bool,
    /// True if agents may propose scripts.
    pub proposals: bool,
    /// Rules by wire name of the script.
    pub tools: BTreeMap<String, ScriptRule>,
}

impl Scripts {
    /// Folder of the scripts that agents propose, beside that of the scripts; `None` where there is no place for it.
    pub fn proposed(&self) -> Option<PathBuf> {
        self.path.as_deref().and_then(beside)
    }
}

/// One `[scripts.tools.<name>]` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptRule {
    /// True for an MCP tool of its own.
    pub as_tool: bool,
    /// Approval of the calls that its lock lists.
    pub approval: ScriptApproval,
    /// Labels of its result.
    pub returns: Returns,
    /// Most calls of one run; `None` leaves the limit of the sandbox.
    pub calls: Option<u32>,
}

/// Approval of what a locked script calls, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ScriptApproval {
    /// At each call, as its tool says.
    #[default]
    Each,
    /// Once for all calls of a run of the script.
    Once,
    /// Never.
    Never,
}

/// Labels of a script's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Returns {
    /// Labels of everything that it called.
    #[default]
    Labelled,
    /// None.
    Clean,
}

words!(ScriptApproval: "each" = Each, "once" = Once, "never" = Never);
words!(Returns: "labelled" = Labelled, "clean" = Clean);

pub(super) fn scripts(root: &Key<'_>, raw: RawScripts) -> Result<Scripts, ConfigError> {
    let RawScripts { path, unlocked, proposals, tools } = raw;
    let path = root.given("path", path, Key::path)?;
    let others = [("unlocked", unlocked.is_some()), ("proposals", proposals.is_some()), ("tools", !tools.is_empty())];
    if let (None, Some((name, _))) = (&path, others.iter().find(|(_, is_given)| *is_given)) {
        let error = root.key(name).at_key("there is no folder of scripts");
        return Err(error.with_hint("name it: `path = \"scripts/\"`"));
    }
    let proposals = proposals.unwrap_or(false);
    if proposals && path.as_deref().and_then(beside).is_none() {
        let error = root.key("path").at_value("no folder of proposals can be beside this one");
        return Err(error.with_hint("name a folder below another one, and not `proposals`: \"scripts/\""));
    }
    let tools = root.key("tools").entries(tools, |key, raw| {
        if !key.name().split('/').all(stubgen::is_tool_ident) {
            let error = key.at_key("not the name of a script");
            return Err(
                error.with_hint("write the path below the folder without extension: refund, \"billing/refund\"")
            );
        }
        rule(key, raw)
    })?;
    let lock = path.as_ref().map_or_else(PathBuf::new, |_| root.base.join(SCRIPTS_LOCK));
    Ok(Scripts { path, lock, unlocked: unlocked.unwrap_or(false), proposals, tools })
}

/// Folder of the proposals to a folder of scripts; `None` where there is no place for one.
fn beside(scripts: &Path) -> Option<PathBuf> {
    // Some filesystems do not tell cases apart.
    scripts.file_name().filter(|name| !name.eq_ignore_ascii_case(PROPOSALS)).map(|_| scripts.with_file_name(PROPOSALS))
}

fn rule(key: &Key<'_>, raw: RawScript) -> Result<ScriptRule, ConfigError> {
    Ok(ScriptRule {
        as_tool: raw.as_tool.unwrap_or(false),
        approval: key.key("approval").word(raw.approval)?.unwrap_or_default(),
        returns: key.key("returns").word(raw.returns)?.unwrap_or_default(),
        calls: key.key("calls").count(raw.calls, 1..=1_000_000)?,
    })
}

/// Parses `only_from`: wire names of scripts.
pub(super) fn only_from(key: &Key<'_>, raw: Vec<String>) -> Result<BTreeSet<String>, ConfigError> {
    const FORM: &str = "write `only_from = [\"scripts.NAME\"]`; `deny` takes a tool away from all";
    if raw.is_empty() {
        return Err(key.at_value("lists no script").with_hint(FORM));
    }
    key.each(Some(raw), |key, entry| {
        let entry = key.filled(entry)?;
        let name = entry.strip_prefix(SCRIPTS_SERVER).and_then(|rest| rest.strip_prefix('.'));
        match name.filter(|name| name.split('/').all(stubgen::is_tool_ident)) {
            Some(name) => Ok(name.to_owned()),
            None => Err(key.at_value("not a script").with_hint(FORM)),
        }
    })
}
