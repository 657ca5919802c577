//! Options of every command, and what they lead to: the configuration, the client, and a gateway.

use std::path::PathBuf;

use clap::Args;

use super::{Color, Failure};
use base::error::{did_you_mean, nearest};
use base::principal::{LOCAL, Principal};
use config::{Config, ConfigError, Start, process_env};
use server::gateway::{Gateway, Options};

/// Head of the options of [`Global`].
const EVERY: &str = "Options of every command";

/// Options of every command.
#[derive(Args)]
pub(super) struct Global {
    /// Configuration file [default: $FORGEFS_CONFIG, ./forge.toml, then ~/.config/forgefs/forge.toml]
    #[arg(long, global = true, help_heading = EVERY, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Tool list from a file instead of a live server; may be repeated
    #[arg(long, global = true, help_heading = EVERY, value_name = "FILE")]
    pub(super) catalog: Vec<PathBuf>,
    /// JavaScript engine: quickjs, or v8 where it is built in [default: v8 where it is built in]
    #[arg(long, global = true, help_heading = EVERY)]
    pub(super) engine: Option<String>,
    /// What is logged to stderr, such as `info` or `forgefs=debug` [default: $RUST_LOG, else errors, and warnings while
    /// it serves]
    #[arg(long, global = true, help_heading = EVERY, value_name = "FILTER")]
    pub(super) log: Option<String>,
    /// See and act as a client of the configuration, or as one of this profile [default: local]
    #[arg(long = "as", global = true, help_heading = EVERY, value_name = "CLIENT")]
    pub(super) client: Option<String>,
    /// Colours: auto (on a terminal without NO_COLOR), always or never
    #[arg(long, global = true, help_heading = EVERY, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub(super) color: Color,
}

/// The way to an engine that a build has not.
pub(super) fn way_to(engine: &str) -> Option<String> {
    (engine == "v8").then(|| "`cargo build --features v8` links V8".to_owned())
}

impl Global {
    /// True if there is no configuration, and none is named.
    pub(super) fn is_unconfigured(&self) -> bool {
        self.catalog.is_empty() && matches!(self.find(), Ok(None))
    }

    /// The configuration file in force.
    pub(super) fn find(&self) -> Result<Option<PathBuf>, ConfigError> {
        let cwd = std::env::current_dir().unwrap_or_default();
        Config::find(self.config.as_deref(), &process_env, &cwd)
    }

    /// Like [`Self::find`]; an error without a file.
    pub(super) fn file(&self) -> Result<PathBuf, Failure> {
        self.find()?.ok_or_else(Failure::unconfigured)
    }

    /// Loads the configuration; without a file, an error unless there are catalogs or `optional` is set.
    pub(super) fn load(&self, optional: bool) -> Result<Config, Failure> {
        match self.find()? {
            // Offline commands do not need the servers' secrets, unless the file is given explicitly.
            Some(_) if !self.catalog.is_empty() && self.config.is_none() => Ok(Config::empty()),
            Some(path) => Ok(Config::load(&path, &process_env)?),
            None if optional || !self.catalog.is_empty() => Ok(Config::empty()),
            None => Err(Failure::unconfigured()),
        }
    }

    /// A new session of the client that `--as` names.
    pub(super) fn principal(&self, config: &Config) -> Result<Principal, Failure> {
        let Some(name) = self.client.as_deref().filter(|name| *name != LOCAL) else { return Ok(Principal::local()) };
        let of = |client: &str, profile: Option<&str>| Principal {
            profile: profile.map(Into::into),
            ..Principal::of(client)
        };
        if config.clients.contains_key(name) {
            // It keeps its current value, if the file is removed meanwhile.
            return Ok(of(name, config.profile_of(name, None)));
        }
        if config.profiles.contains_key(name) {
            return Ok(of(&format!("profile:{name}"), Some(name)));
        }
        let known = config.clients.keys().chain(config.profiles.keys()).map(String::as_str).chain([LOCAL]);
        let failure = Failure::usage(format!("--as: there is no client `{name}`, and no profile"));
        let hint = did_you_mean(&nearest(name, known));
        Err(failure.hint(hint.unwrap_or_else(|| "`forgefs clients list` shows the clients".to_owned())))
    }

    /// The client that `--as` names, whose records alone are meant; `None` without it: the operator sees all.
    pub(super) fn only(&self) -> Result<Option<String>, Failure> {
        self.client.as_ref().map(|_| Ok(self.principal(&self.load(false)?)?.client.to_string())).transpose()
    }

    fn worker_args(&self) -> Vec<std::ffi::OsString> {
        match &self.engine {
            None => vec!["worker".into()],
            Some(engine) => vec!["worker".into(), "--engine".into(), engine.into()],
        }
    }

    /// Starts a gateway; an error here is one of the configuration or the catalogs.
    pub(super) fn gateway(&self, config: Config) -> Result<Gateway, Failure> {
        self.start(config, self.catalog.clone())
    }

    /// A gateway on `config` alone that starts every server.
    pub(super) fn alone(&self, mut config: Config) -> Result<Gateway, Failure> {
        config.servers.values_mut().for_each(|server| server.start = Start::Eager);
        self.start(config, Vec::new())
    }

    pub(super) fn start(&self, config: Config, catalogs: Vec<PathBuf>) -> Result<Gateway, Failure> {
        let started =
            Gateway::start(Options { config, catalogs, worker: own_executable()?, worker_args: self.worker_args() });
        started.map_err(Failure::of_usage)
    }
}

/// This very executable, also after the file was replaced on disk. Never one that is looked up by name: whatever is first
/// on PATH would be trusted with every script.
pub(super) fn own_executable() -> Result<PathBuf, Failure> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe().map_err(|error| Failure::internal(format!("this executable cannot be found: {error}")))
}
