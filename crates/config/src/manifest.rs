//! `[manifest]`: cache, refresh and review of tool lists.

use std::path::PathBuf;
use std::time::Duration;

use super::cache_folder;
use super::error::ConfigError;
use super::key::Key;
use super::raw::RawManifest;
use super::units::{HOUR, SECOND};
use super::words::words;

/// The `[manifest]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Interval of tool list refreshes; `None` relies on the servers' notifications.
    pub refresh: Option<Duration>,
    /// Folder of reviewed stubs, the allow-list; resolved against the configuration file.
    pub pin: Option<PathBuf>,
    /// True if what a server lists first is the allow-list.
    pub pin_first_use: bool,
    /// True if a changed wording passes a pin, unless it adds a finding.
    pub accepts_text: bool,
    /// Folder of the gateway's state; `None` without a home folder.
    pub state_folder: Option<PathBuf>,
    /// Folder of cached tool lists; `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Servers that are started or listed at once; calls start theirs beside them.
    pub startup_concurrency: usize,
    /// True if the shapes of answers are learned, for stubs of tools that declare none.
    pub observe: bool,
    /// True if the gateway calls tools that only read and declare no result, for the shapes of their answers.
    pub probe: bool,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            refresh: None,
            pin: None,
            pin_first_use: false,
            accepts_text: false,
            state_folder: None,
            cache: None,
            startup_concurrency: 16,
            observe: true,
            probe: false,
        }
    }
}

/// A change that a pin accepts, as `pin_accept` has it.
#[derive(Clone, Copy)]
pub(super) enum PinAccept {
    Text,
}

words!(PinAccept: "text" = Text);

pub(super) fn manifest(key: &Key<'_>, raw: RawManifest) -> Result<Manifest, ConfigError> {
    let usual = Manifest::default();
    let refresh = key.key("refresh").duration(raw.refresh, SECOND..=24 * HOUR)?;
    let pin = key.given("pin", raw.pin, Key::path)?;
    let pin_first_use = raw.pin_first_use.unwrap_or(usual.pin_first_use);
    if pin_first_use && pin.is_some() {
        let error = key.key("pin_first_use").at_value("what is pinned by `pin` is not pinned by its first use");
        return Err(error.with_hint("remove one of the two"));
    }
    let accepts_text = !key.key("pin_accept").word_list(raw.pin_accept)?.is_empty();
    if accepts_text && !pin_first_use && pin.is_none() {
        let error = key.key("pin_accept").at_value("nothing is pinned");
        return Err(error.with_hint("set `pin` or `pin_first_use` too"));
    }
    let (observe, probe) = (raw.observe.unwrap_or(usual.observe), raw.probe.unwrap_or(usual.probe));
    if probe && !observe {
        let error = key.key("probe").at_value("what a probe answers is not observed");
        return Err(error.with_hint("leave out `observe = false`"));
    }
    let cache_key = key.key("cache");
    let cache = match raw.cache {
        Some(text) if cache_key.expanded(text.clone())? == "off" => None,
        Some(path) => Some(cache_key.path(path)?),
        None => key.env.and_then(cache_folder),
    };
    let starts = key.key("startup_concurrency").count(raw.startup_concurrency, 1..=1_000)?;
    Ok(Manifest {
        refresh,
        pin,
        pin_first_use,
        accepts_text,
        state_folder: key.state_folder().filter(|_| pin_first_use),
        cache,
        startup_concurrency: starts.unwrap_or(usual.startup_concurrency),
        observe,
        probe,
    })
}
