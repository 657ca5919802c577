//! Watches the configuration file while the gateway runs.
//!
//! The file is polled every few seconds, by modification time, length and inode: unlike notifications, that works on
//! every file system, through symbolic links, and for editors that replace files.
//!
//! Any program that can write the file may have edited it, a server among them. An edit that widens anything
//! ([`Widened`]) waits as a whole until the operator confirms it, by SIGHUP (`forgefs reload`) or a restart. SIGHUP
//! also reloads reviewed stubs and lists every server again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::gateway::{Gateway, Pins, Reloaded};
use crate::running;
use base::error::{Error, ErrorCode, Result};
use base::files::{self, Version};
use base::panics;
use config::{Config, ConfigError, Edit, Env, Server, Unwritten, Widened, Written, process_env, state_folder};
use redact::Surface;
use state::Revoked;

/// Polling interval of the file, and of requests of the command line.
const LOOK: Duration = Duration::from_millis(250);
/// Time for which a changed file must have been stable.
const REST: Duration = Duration::from_secs(1);
/// Log lines about edits not in force, before they are limited to one a minute.
const COMPLAINTS: NonZeroU32 = NonZeroU32::new(30).expect("more than 0");
/// Variables that locate the gateway's folders, for any configuration.
const OWN_VARIABLES: [&str; 6] =
    ["HOME", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// Applies each permitted version of the file, and logs why others are not in force. `path` is the file that the
/// gateway was started with; `env` looks up its variables.
pub async fn follow(gateway: Arc<Gateway>, path: PathBuf, env: fn(&str) -> Option<String>) {
    let mut in_force = Version::of(&path);
    let mut seen = in_force;
    let known = read(&path, &env).map(|(_, variables)| variables).unwrap_or_default();
    let mut hangups = signal(SignalKind::hangup()).ok();
    // Only now: without the handler, SIGHUP ends a process.
    let entry = state_folder(&env).and_then(|folder| {
        let entered = running::enter(&folder, &path);
        entered.inspect_err(|error| tracing::warn!(%error, "`forgefs reload` will not find this gateway")).ok()
    });
    let complaints = Complaints::new();
    *gateway.variables().lock() = known;
    let follower = Arc::new(Follower { gateway, path, env, complaints });
    loop {
        let revoked = take_back(&follower.gateway).await;
        let asked = tokio::select! {
            () = next(&mut hangups) => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        let now = Version::of(&follower.path);
        let settled = now == seen;
        seen = now;
        let mut request = entry.as_ref().and_then(running::Entry::take);
        if let Some(taken) = request.take_if(|taken| taken.server.is_some()) {
            let gateway = Arc::clone(&follower.gateway);
            tokio::spawn(async move { rotate(&gateway, taken).await });
        }
        if asked || request.is_some() || (settled && now != in_force) {
            in_force = now;
            let follower = Arc::clone(&follower);
            // A large file takes time to read and compare, and a file that is being written must come to rest first.
            let taken = tokio::task::spawn_blocking(move || follower.take_up(asked, &revoked)).await;
            let taken = taken.unwrap_or_else(|error| {
                tracing::error!(%error, "the configuration could not be reloaded, the last one stays in force");
                Err(error.to_string())
            });
            if let Some(request) = request {
                request.answer(taken);
            }
        }
        follower.complaints.due();
        if asked {
            follower.gateway.relist();
        }
    }
}

/// Reads the secrets of a server anew, on the operator's request.
async fn rotate(gateway: &Gateway, taken: running::Taken) {
    let server = taken.server.as_deref().unwrap_or_default();
    let rotated = panics::caught(gateway.rotate(server)).await.and_then(|rotated| rotated);
    let rotated = rotated.map_err(|error| {
        let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        redact::text(Surface::Log, &format!("{}{hint}", error.message)).into_owned()
    });
    match &rotated {
        Ok(()) => tracing::warn!(server, "its secrets were read anew"),
        Err(error) => tracing::warn!(server, error, "its secrets were not replaced"),
    }
    taken.answer(rotated);
}

/// Ends the clients whose token was taken back at any replica, and returns all such tokens.
pub async fn take_back(gateway: &Gateway) -> Revoked {
    let revoked = gateway.state().revoked().await;
    // One reload at a time: an edit from the console would be lost otherwise.
    let _one = gateway.variables().lock();
    if let Some(less) = gateway.config().without_tokens(&revoked) {
        match gateway.reload(less, Pins::Keep) {
            Ok(_) => tracing::warn!("a client of forge.toml has a token that was revoked, and is refused"),
            Err(error) => {
                tracing::error!(%error, "revoked tokens are still let in");
                return revoked;
            }
        }
    }
    gateway.state().refuses(&revoked);
    revoked
}

/// Held while the configuration file is edited or taken up here, from its reading until it is in force.
static EDITING: Mutex<()> = Mutex::new(());

/// Switches a server on or off in the configuration file, as `forgefs enable` and `disable` do, and applies that. Blocks on
/// the disk. False if it was so already.
///
/// # Errors
/// The server and the text of the file are not as `is_seen` wants them. And those of [`edit`].
pub fn switch(
    gateway: &Gateway,
    revoked: &Revoked,
    (name, on): (&str, bool),
    is_seen: impl Fn(&Server, &str) -> bool,
) -> Result<bool> {
    let may = |text: &str| match gateway.config().servers.get(name).is_some_and(|server| is_seen(server, text)) {
        true => Ok(true),
        false => {
            let what = format!("the settings of `{name}` are not those that were shown");
            Err(wrong(what, "look at them again, and enable it then"))
        }
    };
    edit(gateway, revoked, may, |edit| edit.switched(name, on))
}

fn wrong(what: String, hint: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, what).hint(hint)
}

/// The file that a configuration is from.
///
/// # Errors
/// It is from none.
pub fn file(config: &Config) -> Result<PathBuf> {
    let none = || wrong("the gateway has no configuration file".to_owned(), "start it with `--config`");
    config.path.clone().ok_or_else(none)
}

/// Edits the configuration file, and applies that. Blocks on the disk. False if `may` denies it for the text of the file, or
/// `change` has nothing to change.
///
/// # Errors
/// The file has another edit that waits for the operator: with this one alone they would see what they confirm. And those of
/// `may`, of an edit, or of a reload.
pub fn edit(
    gateway: &Gateway,
    revoked: &Revoked,
    may: impl FnOnce(&str) -> Result<bool>,
    change: impl Fn(&Edit<'_>) -> Result<Option<String>, ConfigError>,
) -> Result<bool> {
    // One after the other: each compares the file with what is in force.
    let _one = EDITING.lock();
    let now = gateway.config();
    let path = file(&now)?;
    let parsed = |text: &str| noting(&process_env, |env| Config::of_text(text, &path, env)).ok();
    let valid = |config: Config| config.without_tokens(revoked).unwrap_or(config);
    let waits = || {
        let what = format!("{} has edits that are not in force", path.display());
        wrong(what, "look at them, then `forgefs reload` applies them; try again after that")
    };
    let is_in_force = |text: &str| parsed(text).is_some_and(|(config, _)| valid(config) == *now);
    let refused =
        |unwritten: Unwritten| wrong(unwritten.message, unwritten.hint.as_deref().unwrap_or("see to the file"));
    let text = config::editable(&path).map_err(refused)?.filter(|text| is_in_force(text)).ok_or_else(waits)?;
    if !may(&text)? {
        return Ok(false);
    }
    // Another program may change it meanwhile: then nothing is written.
    let is_other = Cell::new(false);
    let change = |edit: &Edit<'_>| {
        is_other.set(edit.text() != text.strip_prefix('\u{feff}').unwrap_or(&text));
        if is_other.get() { Ok(None) } else { change(edit) }
    };
    let written = config::edit_file(&path, "", &process_env, change).map_err(refused)?;
    let Some(Written { texts: [_, after], .. }) = written else {
        return if is_other.get() { Err(waits()) } else { Ok(false) };
    };
    let (after, variables) = parsed(&after).ok_or_else(waits)?;
    let mut known = gateway.variables().lock();
    gateway.reload(valid(after), Pins::Keep)?;
    *known = variables;
    Ok(true)
}

/// The configuration of a file, and the variables that it refers to.
///
/// # Errors
/// The first error in the file.
pub fn read(path: &std::path::Path, env: Env<'_>) -> Result<(Config, BTreeSet<String>), ConfigError> {
    noting(env, |env| Config::load(path, env))
}

/// A configuration, and the variables that it refers to.
fn noting(
    env: Env<'_>,
    load: impl FnOnce(Env<'_>) -> Result<Config, ConfigError>,
) -> Result<(Config, BTreeSet<String>), ConfigError> {
    let variables = RefCell::new(BTreeSet::new());
    let noted = |name: &str| {
        if !OWN_VARIABLES.contains(&name) {
            variables.borrow_mut().insert(name.to_owned());
        }
        env(name)
    };
    let config = load(&noted)?;
    Ok((config, variables.take()))
}

/// Result for a version of the file.
enum Taken {
    /// Equal to the configuration in force.
    Same,
    /// In force now.
    Reloaded(Reloaded),
    /// Waits for the operator.
    Waits(Widened),
}

struct Follower {
    gateway: Arc<Gateway>,
    path: PathBuf,
    env: fn(&str) -> Option<String>,
    complaints: Complaints,
}

impl Follower {
    /// Applies the file; a widening edit only if the operator `asked`.
    fn take_up(&self, asked: bool, revoked: &Revoked) -> Result<(), String> {
        match self.try_to_take_up(asked, revoked) {
            Ok(Taken::Same) => self.in_force(),
            Ok(Taken::Reloaded(what)) => {
                self.in_force();
                let (added, changed, removed) = (what.added.join(" "), what.changed.join(" "), what.removed.join(" "));
                tracing::warn!(added, changed, removed, "the configuration was reloaded");
            }
            Ok(Taken::Waits(widened)) => {
                let keys = widened.summary();
                self.gateway.notice(Some(format!(
                    "forge.toml was edited and nothing of it is in force yet: the operator has to confirm {keys} with \
                     `forgefs reload`"
                )));
                self.complaints.tell(format!(
                    "forge.toml was edited and waits for the operator, since it widens: {keys}. `forgefs reload`, \
                     SIGHUP or a restart applies it; until then the last configuration stays in force"
                ));
            }
            Err(reason) => {
                let first = reason.lines().next().unwrap_or_default();
                self.gateway.notice(Some(format!(
                    "forge.toml has changed and is not valid, the last one is in force: {first}"
                )));
                self.complaints.tell(format!(
                    "the configuration has changed and is not valid, the last one stays in force: {reason}"
                ));
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Notes that the file equals the configuration in force.
    fn in_force(&self) {
        self.gateway.notice(None);
        self.complaints.forget();
    }

    fn try_to_take_up(&self, asked: bool, revoked: &Revoked) -> Result<Taken, String> {
        // Locked from the reading on: what the console writes meanwhile would be undone.
        let read = || (EDITING.lock(), read(&self.path, &self.env));
        let (_one, read) = files::at_rest(&self.path, REST, read).map_err(|error| error.to_string())?;
        let (config, variables) = read.map_err(|error| error.to_string())?;
        let config = config.without_tokens(revoked).unwrap_or(config);
        let now = self.gateway.config();
        let mut known = self.gateway.variables().lock();
        if !asked {
            if config == *now {
                return Ok(Taken::Same);
            }
            let mut widened = Widened::between(&now, &config);
            variables.difference(&known).for_each(|variable| widened.reads(variable));
            if !widened.is_empty() {
                // Revocation takes effect without confirmation.
                if let Some(revoked) = now.revoked(&config) {
                    self.gateway.reload(revoked, Pins::Keep).map_err(|error| error.to_string())?;
                }
                return Ok(Taken::Waits(widened));
            }
        }
        // Reviewed stubs change on the operator's command, not through an edit of their folder.
        let pins = if asked { Pins::Read } else { Pins::Keep };
        if config == *now && config.manifest.pin.is_none() {
            return Ok(Taken::Same);
        }
        let reloaded = self.gateway.reload(config, pins).map_err(|error| error.to_string())?;
        *known = variables;
        Ok(Taken::Reloaded(reloaded))
    }
}

/// Logs why edits are not in force, rate limited, so that a file written again and again does not fill the log. The
/// last message is always logged, if late.
struct Complaints {
    limiter: DefaultDirectRateLimiter,
    /// The last message that was not logged, and the number of those that it stands for.
    waiting: Mutex<Option<(String, u32)>>,
}

impl Complaints {
    fn new() -> Self {
        let quota = Quota::per_minute(NonZeroU32::MIN).allow_burst(COMPLAINTS);
        Self { limiter: RateLimiter::direct(quota), waiting: Mutex::default() }
    }

    fn tell(&self, complaint: String) -> bool {
        let mut waiting = self.waiting.lock();
        let before = waiting.take().map_or(0, |(_, count)| count);
        *waiting = Some((complaint, before.saturating_add(1)));
        drop(waiting);
        self.due()
    }

    /// Logs the last message if it is due; true if it did.
    fn due(&self) -> bool {
        match self.waiting.lock().take_if(|_| self.limiter.check().is_ok()) {
            None => return false,
            Some((complaint, 1)) => tracing::warn!("{complaint}"),
            Some((complaint, count)) => tracing::warn!("{complaint} (the last of {count} such edits)"),
        }
        true
    }

    /// The file is valid again.
    fn forget(&self) {
        *self.waiting.lock() = None;
    }
}

/// Waits for the next SIGHUP, if there is a handler.
async fn next(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_without_end_do_not_fill_the_log() {
        let complaints = Complaints::new();
        let said = (0..1_000).filter(|n| complaints.tell(format!("edit {n}"))).count();
        assert_eq!(said, COMPLAINTS.get() as usize);
        assert_eq!(*complaints.waiting.lock(), Some(("edit 999".to_owned(), 1_000 - COMPLAINTS.get())));
        complaints.forget();
        assert!(complaints.waiting.lock().is_none() && !complaints.due());
    }
}
