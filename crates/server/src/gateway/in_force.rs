//! One configuration in force, and what is derived from it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use wire::LayerName;

use base::principal::Principal;
use config::{Config, Profile, RecyclePolicy};
use run::approvals::Approvals;
use run::broker::Rules;
use run::hooks::Hooks;
use run::router::Router;
use run::sandbox::{Pool, PoolOptions};
use run::searching::Learning;
use run::telemetry::Traces;
use state::State;
use state::audit;
use state::journal::Journals;
use state::spending::Spending;

/// One configuration and everything derived from it, taken as one value and replaced as a whole, so that no call meets
/// the servers of one configuration under the rules of another.
pub(super) struct InForce {
    pub(super) config: Arc<Config>,
    pub(super) rules: Arc<Rules>,
    /// Rules of each profile.
    profiles: BTreeMap<String, Arc<Rules>>,
    pub(super) router: Arc<Router>,
    pub(super) pool: Arc<Pool>,
    pub(super) audit: Arc<audit::Log>,
    pub(super) spending: Arc<Spending>,
    pub(super) journals: Option<Arc<Journals>>,
    pub(super) waiting_approvals: Option<Arc<Approvals>>,
    pub(super) learning: Option<Arc<Learning>>,
    pub(super) traces: Option<Arc<Traces>>,
}

impl InForce {
    /// All that a configuration needs; what the same settings made `before` goes on.
    pub(super) fn new(
        (state, workers): (&Arc<dyn State>, &WorkerCommand),
        config: Config,
        router: Arc<Router>,
        traces: Option<Arc<Traces>>,
        before: Option<&Self>,
    ) -> Self {
        let same = |is_same: fn(&Config, &Config) -> bool| before.filter(|before| is_same(&before.config, &config));
        let hooks = Hooks::new(&config, before.map_or(&Hooks::default(), |before| before.rules.hooks()));
        let rules = |profile| Arc::new(Rules::new(&config, profile).with_hooks(hooks.clone()));
        let is_same_pool = |one: &Config, other: &Config| pool_needs(&one.sandbox) == pool_needs(&other.sandbox);
        let pool = same(is_same_pool).map(|before| Arc::clone(&before.pool));
        let audit = same(|one, other| one.audit == other.audit).map(|before| Arc::clone(&before.audit));
        let journals = same(|one, other| one.journal == other.journal).map(|before| before.journals.clone());
        let learning = same(|one, other| one.search == other.search).map(|before| before.learning.clone());
        Self {
            rules: rules(None),
            profiles: config.profiles.iter().map(|(name, profile)| (name.clone(), rules(Some(profile)))).collect(),
            router,
            pool: pool.unwrap_or_else(|| workers.pool(&config.sandbox)),
            audit: audit.unwrap_or_else(|| audit::Log::open(&config.audit)),
            spending: Spending::new(&config, Arc::clone(state)),
            journals: journals.unwrap_or_else(|| Journals::new(&config, state)),
            waiting_approvals: Approvals::new(&config, state),
            learning: learning.unwrap_or_else(|| Learning::new(&config, state)),
            traces,
            config: Arc::new(config),
        }
    }

    /// Rules for a principal: those of its profile.
    pub(super) fn rules(&self, principal: &Principal) -> Arc<Rules> {
        match self.profile(principal) {
            None => Arc::clone(&self.rules),
            Some((name, profile)) => match self.profiles.get(name) {
                Some(rules) => Arc::clone(rules),
                None => Arc::new(Rules::new(&self.config, Some(profile)).with_hooks(self.rules.hooks().clone())),
            },
        }
    }

    /// Profile of a principal. One that its credentials name and that is not configured has nothing.
    pub(super) fn profile<'a>(&'a self, principal: &'a Principal) -> Option<(&'a str, &'a Profile)> {
        let name = self.config.profile_of(&principal.client, principal.profile.as_deref())?;
        Some((name, self.config.profiles.get(name).unwrap_or_else(|| Profile::nothing())))
    }
}

/// Settings that a worker pool depends on.
fn pool_needs(sandbox: &config::Sandbox) -> (usize, RecyclePolicy, usize, usize, &[LayerName]) {
    (sandbox.workers, sandbox.wear, sandbox.limits.runs, sandbox.limits.queue, &sandbox.require)
}

/// Command of a worker.
pub(super) struct WorkerCommand {
    pub(super) exe: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl WorkerCommand {
    fn pool(&self, sandbox: &config::Sandbox) -> Arc<Pool> {
        Pool::new(PoolOptions {
            exe: self.exe.clone(),
            args: self.args.clone(),
            warm: sandbox.workers,
            wear: sandbox.wear,
            runs: sandbox.limits.runs,
            queue: sandbox.limits.queue,
            require: sandbox.require.clone(),
        })
    }
}
