//! `[approvals]`: approvals that wait for a person.

use std::path::PathBuf;
use std::time::Duration;

use super::Journal;
use super::error::ConfigError;
use super::key::Key;
use super::raw::RawApprovals;
use super::transport::{address, words};
use super::units::{DAY, SECOND};
use redact::secret::Secret;

/// The `[approvals]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// State folder that they are kept in; `None` for a user without a home.
    pub folder: Option<PathBuf>,
    /// Time that a call waits for its approval, and an approval for its call; `None` if none waits.
    pub wait: Option<Duration>,
    /// Who is told.
    pub notify: Vec<Notify>,
}

/// Receiver of the news that an approval waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notify {
    /// Program and arguments; the news are on its stdin.
    Command(Vec<String>),
    /// URL that they are posted to. Often it is a credential.
    Webhook(Secret),
}

impl Notify {
    /// Key that configures it.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Command(_) => "notify",
            Self::Webhook(_) => "webhook",
        }
    }
}

pub(super) fn approvals(key: &Key<'_>, raw: RawApprovals, journal: &Journal) -> Result<Approvals, ConfigError> {
    let fault = |name: &str, message: &str, hint: &str| Err(key.key(name).at_key(message).with_hint(hint));
    let folder = key.state_folder();
    let wait = key.key("wait").duration(raw.wait, SECOND..=365 * DAY)?;
    if wait.is_some() && folder.is_some() && journal.folder.is_none() {
        return fault("wait", "nothing waits without journals", "remove `on = false` from [journal], or this key");
    }
    if wait.is_some_and(|wait| wait > journal.keep) {
        let message = "longer than the journals are kept that runs are resumed from";
        return fault("wait", message, "raise `keep` in [journal]");
    }
    let mut notify = Vec::new();
    if let Some(raw) = raw.notify {
        notify.push(Notify::Command(words(&key.key("notify"), raw)?));
    }
    if let Some(raw) = raw.webhook {
        notify.push(Notify::Webhook(webhook(&key.key("webhook"), raw)?));
    }
    if let (None, Some(first)) = (wait, notify.first()) {
        return fault(first.key(), "there is nothing to tell: no approval waits", "add `wait = \"24h\"`");
    }
    Ok(Approvals { folder, wait, notify })
}

fn webhook(key: &Key<'_>, raw: String) -> Result<Secret, ConfigError> {
    match address(key, raw)? {
        (url, true) => Ok(Secret::new(url)),
        (_, false) => Err(key
            .at_value("plain http to another machine")
            .with_hint("use https: what is posted shows the arguments of calls")),
    }
}
