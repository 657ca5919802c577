//! Decides about calls of a log, by a configuration that need not be in force. Nothing is started: tools are those that
//! each server listed last.
//!
//! Pins, arguments, budgets, rate limits and the answers of people are not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, json};
use stubgen::ToolStub;

use super::{Caller, PendingCall, Reason, Rules, all_of, call_of, decide_anew, reviewed};
use crate::scripts::{Folder, Lock, Locked, SERVER};
use base::error::{Error, ErrorCode, Result};
use base::labels::Held;
use base::principal::{LOCAL, Principal};
use catalog::manifest::{Cache, ServerEntry, ServerState};
use catalog::skills::{Calls, Skills};
use catalog::{Catalog, Catalogs};
use config::{Access, Config, Profile, ScriptApproval, ScriptRule, Server, View};
use state::audit::PastCall;
use upstream::{Listing, Operation};

/// A configuration with the tools of its servers, for decisions about calls of the past.
pub struct Hindsight {
    config: Config,
    catalogs: Catalogs,
    /// All that the servers list, also what the configuration denies.
    listed: Catalog,
    /// Rules of each profile, and of none.
    rules: BTreeMap<Option<String>, Rules>,
    /// Rules of a profile that is not configured.
    nothing: Rules,
    /// Tools that each script may call by its lock.
    calls: Calls,
    /// True if access tokens are read otherwise than when the log was written.
    has_other_claims: bool,
}

/// Decision about a call.
#[derive(Debug)]
pub enum Ruling {
    /// No rule is against it.
    Allowed,
    /// It needs approval; the rules that ask.
    Asks(String),
    /// A rule refuses it.
    Refused(Error),
    /// The log, or the lists of the servers, do not tell; why.
    Unknown(String),
}

impl Hindsight {
    /// Takes a configuration, and reads the last lists of its servers.
    ///
    /// # Errors
    /// When its scripts or their lock cannot be read.
    pub fn new(config: Config) -> Result<Self> {
        let cache = Cache::new(config.manifest.cache.clone());
        let mut names: Vec<&str> = config.servers.keys().map(String::as_str).collect();
        names.extend(config.scripts.path.iter().map(|_| SERVER));
        names.sort_unstable();
        let (mut shown, mut listed, mut calls) = (Vec::new(), Vec::new(), Calls::new());
        for (name, ident) in names.iter().zip(stubgen::assign_idents(&names)) {
            let Some(server) = config.servers.get(*name) else { continue };
            let listing = cache.load(name, server).map(|(listing, _)| listing);
            let known = if listing.is_some() { ready() } else { ServerState::Connecting };
            let state = if server.enabled { known.clone() } else { ServerState::Disabled };
            let open = Server { access: Access::default(), ..server.clone() };
            for (entries, server, state) in [(&mut shown, server, state), (&mut listed, &open, known)] {
                let listing = listing.clone().unwrap_or_default();
                entries.push(Arc::new(ServerEntry::listed(name, &ident, Some(server), listing, state)));
            }
        }
        if let Some(path) = &config.scripts.path {
            let lock = Lock::load(&config.scripts.lock)?.unwrap_or_default().scripts;
            for script in Folder::read(path, config.sandbox.limits.code_bytes)?.scripts {
                let of = |locked: &Locked| locked.calls.iter().cloned().map(|call| (call.server, call.tool)).collect();
                let of = lock.get(&script.name).map(of);
                if of.is_some() || config.scripts.unlocked {
                    calls.insert(script.name, of);
                }
            }
            let tools = calls.keys().map(|name| json!({ "name": name })).collect();
            let listing = Listing { tools, ..Listing::default() };
            let entry = Arc::new(ServerEntry::listed(SERVER, SERVER, None, listing, ready()));
            shown.push(Arc::clone(&entry));
            listed.push(entry);
        }
        let hides = config.profiles.iter().filter(|(_, profile)| !profile.shows_all());
        let views = hides.map(|(name, profile)| (name.clone(), Arc::new(View::of(profile)))).collect();
        let skills = Arc::new(Skills::default().with_calls(calls.clone()));
        let catalogs = Catalogs::empty().rebuilt(shown, skills, &views)?;
        let nothing = Rules::new(&config, Some(Profile::nothing()));
        let rules = |(name, profile): (&String, &Profile)| (Some(name.clone()), Rules::new(&config, Some(profile)));
        let rules = config.profiles.iter().map(rules).chain([(None, Rules::new(&config, None))]).collect();
        let listed = Catalog::build(listed);
        Ok(Self { catalogs, listed, rules, nothing, calls, config, has_other_claims: false })
    }

    /// The same for a log of the configuration `now`.
    #[must_use]
    pub fn after(mut self, now: &Config) -> Self {
        self.has_other_claims = self.config.http.oauth != now.http.oauth;
        self
    }

    /// True if the configuration lets a client of this name in.
    pub fn has_client(&self, client: &str) -> bool {
        let has = self.config.clients.contains_key(client) || is_of_person(client);
        has || client.starts_with("profile:") || config::is_of_token(client) && self.config.http.oauth.is_some()
    }

    /// Decides about a call, by the profile that its client has in this configuration.
    pub fn decide(&self, call: &PastCall) -> Ruling {
        let client = if is_of_person(&call.client) { LOCAL } else { &call.client };
        if !self.has_client(client) {
            return Ruling::Refused(Error::new(ErrorCode::ToolDenied, format!("there is no client `{client}`")));
        }
        let known = self.config.clients.get(client);
        let is_by_claims = client != LOCAL && known.is_none_or(|known| !known.claims().is_empty());
        if is_by_claims && self.has_other_claims {
            return Ruling::Unknown("its access token chooses its profile, and [http.oauth] is another one".to_owned());
        }
        let by_credentials = call.profile.as_deref().filter(|_| is_by_claims);
        self.decide_as(self.config.profile_of(client, by_credentials), call)
    }

    /// Decides about a call of a client of this profile.
    pub fn decide_as(&self, profile: Option<&str>, call: &PastCall) -> Ruling {
        self.ruled(profile, call).unwrap_or_else(Ruling::Refused)
    }

    fn ruled(&self, profile: Option<&str>, call: &PastCall) -> Result<Ruling> {
        let rules = self.rules.get(&profile.map(str::to_owned)).unwrap_or(&self.nothing);
        let (entry, stub, operation) = self.part(&call.server, &call.tool)?;
        let script = call.from.as_deref().map(|from| from.strip_prefix("scripts.").unwrap_or(from));
        let held = Held { labels: call.labels.clone().unwrap_or_default(), group: None };
        let decide = |entry, stub| {
            let from = script.map(Caller::Reviewed);
            decide_anew(rules, &PendingCall { from, ..PendingCall::new(entry, stub, &operation) }, &held)
        };
        let narrowed = profile.and_then(|profile| self.catalogs.of(profile));
        let catalog = narrowed.as_ref().unwrap_or(&self.catalogs.whole);
        let mut reasons = match stub.map(|stub| (stub, catalog.any_tool(&entry.ident, &stub.ident))) {
            None => decide(entry, None)?,
            Some((_, Ok((entry, stub)))) => reviewed(entry, stub).and_then(|()| decide(entry, Some(stub)))?,
            // The rule that hides it refuses it too, but for a script that calls what is hidden.
            Some((stub, Err(hidden))) => decide(entry, Some(stub)).and(Err(hidden))?,
        };
        let is_script = |name: &str| script.is_some_and(|script| name.replace('/', "_") == script);
        let locked = self.calls.iter().find(|(name, _)| is_script(name)).and_then(|(_, calls)| calls.as_ref());
        if let Some((calls, stub)) = locked.zip(stub)
            && !calls.contains(&(entry.name.clone(), stub.name.clone()))
        {
            let what =
                format!("{} may not call {}.{}", call.from.as_deref().unwrap_or_default(), entry.ident, stub.ident);
            return Err(Error::new(ErrorCode::ToolDenied, format!("{what}: it is not in its lock")));
        }
        // A locked script asks for its calls, or need not.
        let is_covered =
            |(name, rule): (&String, &ScriptRule)| is_script(name) && rule.approval != ScriptApproval::Each;
        if locked.is_some() && self.config.scripts.tools.iter().any(is_covered) {
            reasons.retain(|reason| !matches!(reason, Reason::Approval { .. }));
        }
        let hook = self.config.hooks.iter().find(|(_, hook)| {
            let covers = |patterns: &config::Patterns| patterns.matcher().is_match(&entry.name);
            hook.on.contains(&config::HookEvent::Call) && !hook.only_logs && hook.servers.as_ref().is_none_or(covers)
        });
        Ok(if let Some((name, _)) = hook {
            Ruling::Unknown(format!("the hook {name} is asked about it"))
        } else if matches!(operation, Operation::List) {
            Ruling::Unknown(format!("what {} lists, as this configuration starts it, is not known here", entry.name))
        } else if !reasons.is_empty() {
            Ruling::Asks(all_of(&reasons))
        } else if call.labels.is_none() && !(rules.flows.is_empty() && rules.strict.is_empty()) {
            Ruling::Unknown("the data that its run held is not on record".to_owned())
        } else {
            Ruling::Allowed
        })
    }

    /// The server that a call of a log names, and its tool by wire name; `None` for a resource or prompt, and for a
    /// server or tool that is not there. A tool of a server whose list is not known is as in the log.
    pub fn place(&self, call: &PastCall) -> Option<(&ServerEntry, Option<String>)> {
        let (entry, stub, operation) = self.part(&call.server, &call.tool).ok()?;
        let unlisted = || matches!(operation, Operation::List).then(|| call.tool.clone());
        Some((entry, stub.map(|stub| stub.name.clone()).or_else(unlisted)))
    }

    /// True if a server, by configured name, listed tools.
    pub fn has_tools(&self, server: &str) -> bool {
        self.listed.servers().iter().any(|entry| entry.name == server && !entry.stubs.tools.is_empty())
    }

    /// Server and tool of each call that a script's lock lists.
    pub fn calls_of(&self, script: &str) -> impl Iterator<Item = &(String, String)> {
        self.calls.get(script).into_iter().flatten().flatten()
    }

    /// Server and tool that a call names, or an operation that asks as it does; [`Operation::List`] where the
    /// server's tools are not known. A tool comes before an operation of its name.
    fn part(&self, server: &str, tool: &str) -> Result<(&ServerEntry, Option<&ToolStub>, Operation)> {
        let entry = self.listed.server(server)?;
        let operation = match (self.listed.tool(server, tool), tool) {
            (Ok((_, stub)), _) => {
                return Ok((entry, Some(stub), call_of(stub, Map::new())));
            }
            (_, "connect" | "complete") => Operation::Connect,
            (_, "read_resource") => Operation::Resource { uri: String::new(), definition: None },
            _ if tool.starts_with("prompt ") => Operation::Resource { uri: String::new(), definition: None },
            _ if entry.names.is_none() => Operation::List,
            (Err(missing), _) => return Err(missing),
        };
        Ok((entry, None, operation))
    }
}

fn ready() -> ServerState {
    ServerState::Ready { protocol: String::new() }
}

/// True for this machine's user, as whom people of the console act.
fn is_of_person(client: &str) -> bool {
    client == LOCAL || client.starts_with(Principal::CONSOLE)
}
