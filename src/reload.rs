//! Follows the configuration file while the gateway runs.
//!
//! The file is looked at every few seconds, by its modification time, length and number: unlike the notifications of operating
//! systems that works on every file system, through symbolic links, and for editors that replace files. SIGHUP asks
//! for the same at once, and has every server listed again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, ConfigError};
use crate::files::Version;
use crate::gateway::Gateway;

/// How often the file is looked at; a change is taken up once it has stayed the same for as long.
const LOOK: Duration = Duration::from_secs(1);

/// Puts each valid version of the file into force, and says of an invalid one why the old one stays.
pub async fn follow(gateway: Arc<Gateway>, path: PathBuf, load: impl Fn(&Path) -> Result<Config, ConfigError>) {
    let mut in_force = Version::of(&path);
    let mut seen = in_force;
    let mut hangups = Hangups::new();
    loop {
        let asked = tokio::select! {
            () = hangups.next() => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        let now = Version::of(&path);
        let settled = now == seen;
        seen = now;
        if asked || (settled && now != in_force) {
            in_force = now;
            take_up(&gateway, load(&path));
        }
        if asked {
            gateway.relist();
        }
    }
}

fn take_up(gateway: &Gateway, loaded: Result<Config, ConfigError>) {
    let taken = loaded.map_err(|error| error.to_string()).and_then(|config| {
        if config == *gateway.config() {
            return Ok(None);
        }
        gateway.reload(config).map(Some).map_err(|error| error.to_string())
    });
    match taken {
        Ok(reloaded) => {
            gateway.notice(None);
            if let Some(what) = reloaded {
                let (added, changed, removed) = (what.added.join(" "), what.changed.join(" "), what.removed.join(" "));
                tracing::warn!(added, changed, removed, "the configuration was reloaded");
            }
        }
        Err(reason) => {
            tracing::error!("the configuration has changed and is not valid, the last one stays in force: {reason}");
            let reason = reason.lines().next().unwrap_or_default();
            gateway
                .notice(Some(format!("forge.toml has changed and is not valid, the last one is in force: {reason}")));
        }
    }
}

/// SIGHUP, where there is such a thing.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Self { signal: signal(SignalKind::hangup()).ok() }
        }
        #[cfg(not(unix))]
        Self {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending().await
    }
}
