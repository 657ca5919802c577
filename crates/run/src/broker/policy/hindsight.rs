//! Decides about calls of a log, by a configuration that need not be in force. Nothing is started: tools are those that
//! each server listed last.
//!
//! Pins, arguments, budgets, rate limits and the answers of people are not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, json};
use stubgen::ToolStub;

use super::{Caller, PendingCall, Rules, all_of, decide_anew, reviewed};
use crate::scripts::{Folder, Lock, SERVER};
use base::error::{Error, ErrorCode, Result};
use base::labels::Held;
use base::principal::LOCAL;
use catalog::manifest::{Cache, ServerEntry, ServerState};
use catalog::skills::{Calls, Skills};
use catalog::{Catalog, Catalogs};
use config::{Access, Config, Profile, ScriptApproval, Server, View};
use state::audit::PastCall;
use upstream::{Listing, Operation, Subject};

/// A configuration with the tools of its servers, for decisions about calls of the past.
pub struct Hindsight {
    config: Config,
    catalogs: Catalogs,
    /// All that the servers list, also what the configuration denies.
    listed: Catalog,
    rules: Rules,
    profiles: BTreeMap<String, Rules>,
    /// Rules of a profile that is not configured.
    nothing: Rules,
    /// Tools that each script may call by its lock.
    calls: Calls,
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

/// What a call of a log names, by configured name and wire name.
#[derive(Debug)]
pub enum Place {
    /// A tool, or a script.
    Tool(String, String),
    /// A resource, a prompt or the start of a server; true if it has tools.
    Server(String, bool),
    /// Something of a server whose tools were never listed here, or is not there.
    Unlisted(String),
}

/// Part of a server that a call names.
enum Part<'a> {
    Tool(&'a ToolStub),
    Other(Operation),
    Unlisted,
}

impl Hindsight {
    /// Takes a configuration, and reads the last lists of its servers.
    ///
    /// # Errors
    /// When its scripts or their lock cannot be read.
    pub fn new(config: Config) -> Result<Self> {
        let cache = Cache::new(config.manifest.cache.clone());
        let scripts = config.scripts.path.as_deref();
        let mut names: Vec<&str> = config.servers.keys().map(String::as_str).chain(scripts.map(|_| SERVER)).collect();
        names.sort_unstable();
        let (mut shown, mut listed, mut calls) = (Vec::new(), Vec::new(), Calls::new());
        for (name, ident) in names.iter().zip(stubgen::assign_idents(&names)) {
            let Some(server) = config.servers.get(*name) else { continue };
            let listing = cache.load(name, server).map(|(listing, _)| listing);
            let state = match (server.enabled, &listing) {
                (false, _) => ServerState::Disabled,
                (true, Some(_)) => ready(),
                (true, None) => ServerState::Connecting,
            };
            let entry = |server: &Server, state| {
                Arc::new(ServerEntry::listed(name, &ident, Some(server), listing.clone().unwrap_or_default(), state))
            };
            let open = if listing.is_some() { ready() } else { ServerState::Connecting };
            listed.push(entry(&Server { access: Access::default(), ..server.clone() }, open));
            shown.push(entry(server, state));
        }
        if let Some(path) = scripts {
            let folder = Folder::read(path, config.sandbox.limits.code_bytes)?;
            let mut lock = Lock::load(&config.scripts.lock)?.unwrap_or_default();
            for script in folder.scripts {
                let locked = lock.scripts.remove(&script.name);
                let of = locked.map(|locked| locked.calls.into_iter().map(|call| (call.server, call.tool)).collect());
                if of.is_some() || config.scripts.unlocked {
                    calls.insert(script.name, of);
                }
            }
            let tools = calls.keys().map(|name| json!({ "name": name })).collect();
            let entry = ServerEntry::listed(SERVER, SERVER, None, Listing { tools, ..Listing::default() }, ready());
            shown.push(Arc::new(entry.clone()));
            listed.push(Arc::new(entry));
        }
        let hides = config.profiles.iter().filter(|(_, profile)| !profile.shows_all());
        let views = hides.map(|(name, profile)| (name.clone(), Arc::new(View::of(profile)))).collect();
        let catalogs =
            Catalogs::empty().rebuilt(shown, Arc::new(Skills::default().with_calls(calls.clone())), &views)?;
        let profiles = config.profiles.iter();
        Ok(Self {
            catalogs,
            listed: Catalog::build(listed),
            rules: Rules::new(&config, None),
            profiles: profiles.map(|(name, profile)| (name.clone(), Rules::new(&config, Some(profile)))).collect(),
            nothing: Rules::new(&config, Some(Profile::nothing())),
            calls,
            config,
        })
    }

    /// Decides about a call, by the profile that its client has in this configuration.
    #[must_use]
    pub fn decide(&self, call: &PastCall) -> Ruling {
        // A person of the console acts as this machine's user.
        let client = if call.client.starts_with("console/") { LOCAL } else { &call.client };
        let by_credentials = match self.config.clients.get(client) {
            Some(known) if known.claims().is_empty() => None,
            None if client == LOCAL => None,
            None if config::is_of_token(client) && self.config.http.oauth.is_none() => return no_client(client),
            None if !config::is_of_token(client) && !client.starts_with("profile:") => return no_client(client),
            _ => call.profile.as_deref(),
        };
        self.decide_as(self.config.profile_of(client, by_credentials), call)
    }

    /// Decides about a call of a client of this profile.
    #[must_use]
    pub fn decide_as(&self, profile: Option<&str>, call: &PastCall) -> Ruling {
        let rules = profile.map_or(&self.rules, |name| self.profiles.get(name).unwrap_or(&self.nothing));
        match self.ruled(rules, profile, call) {
            Ok(ruling) => ruling,
            Err(error) => Ruling::Refused(error),
        }
    }

    fn ruled(&self, rules: &Rules, profile: Option<&str>, call: &PastCall) -> Result<Ruling> {
        let (entry, part) = self.part(&call.server, &call.tool)?;
        let held = Held { labels: call.labels.clone().unwrap_or_default(), group: None };
        let decide = |entry, stub, operation: &Operation| {
            let from = call.from.as_deref().map(|from| self.caller(from));
            let reasons = decide_anew(rules, &PendingCall { entry, stub, operation, written: None, from }, &held)?;
            Ok::<_, Error>(match reasons.is_empty() {
                false => Ruling::Asks(all_of(&reasons)),
                true if call.labels.is_none() && !(rules.flows.is_empty() && rules.strict.is_empty()) => {
                    Ruling::Unknown("the data that its run held is not on record".to_owned())
                }
                true => Ruling::Allowed,
            })
        };
        let stub = match part {
            Part::Tool(stub) => stub,
            Part::Other(operation) => return decide(entry, None, &operation),
            Part::Unlisted => {
                decide(entry, None, &Operation::Connect)?;
                let why =
                    format!("the tools of {}, as this configuration starts it, were never listed here", entry.name);
                return Ok(Ruling::Unknown(why));
            }
        };
        let (name, definition) = (stub.name.clone(), String::new());
        let operation = Operation::Tool { name, definition, arguments: Map::new(), repeatable: false };
        let narrowed = profile.and_then(|profile| self.catalogs.of(profile));
        let catalog = narrowed.as_ref().unwrap_or(&self.catalogs.whole);
        match catalog.tool(&entry.ident, &stub.ident) {
            Ok((entry, stub)) => {
                reviewed(entry, stub)?;
                decide(entry, Some(stub), &operation)
            }
            // The rule that hides it refuses it too, but for a script that calls what is hidden.
            Err(hidden) => decide(entry, Some(stub), &operation)
                .and_then(|_| Err(hidden.context("it calls what the profile does not have"))),
        }
    }

    /// What a call of a log names now.
    #[must_use]
    pub fn place(&self, server: &str, tool: &str) -> Place {
        match self.part(server, tool) {
            Ok((entry, Part::Tool(stub))) => Place::Tool(entry.name.clone(), stub.name.clone()),
            Ok((entry, Part::Other(_))) => Place::Server(entry.name.clone(), !entry.stubs.tools.is_empty()),
            Ok((entry, Part::Unlisted)) => Place::Unlisted(entry.name.clone()),
            Err(_) => Place::Unlisted(server.to_owned()),
        }
    }

    /// Server and tool of each call that a script's lock lists.
    pub fn calls_of(&self, script: &str) -> impl Iterator<Item = &(String, String)> {
        self.calls.get(script).into_iter().flatten().flatten()
    }

    /// A server that is called so in a log, and its part. A tool comes before an operation of its name.
    fn part(&self, server: &str, tool: &str) -> Result<(&ServerEntry, Part<'_>)> {
        let entry = self.listed.server(server)?;
        let part = match self.listed.tool(server, tool) {
            Ok((_, stub)) => Part::Tool(stub),
            Err(missing) => Part::Other(match tool {
                "read_resource" => Operation::Resource { uri: String::new(), definition: None },
                "connect" => Operation::Connect,
                "complete" => {
                    let (subject, params) = (Subject::Prompt(String::new()), Map::new());
                    Operation::Complete { subject, definition: None, params }
                }
                _ if tool.starts_with("prompt ") => {
                    let (name, arguments) = (tool.to_owned(), Map::new());
                    Operation::Prompt { name, definition: None, arguments }
                }
                _ if entry.names.is_none() => return Ok((entry, Part::Unlisted)),
                _ => return Err(missing),
            }),
        };
        Ok((entry, part))
    }

    /// The script of a call, `scripts.name`.
    fn caller<'c>(&self, from: &'c str) -> Caller<'c> {
        let name = from.strip_prefix(SERVER).and_then(|name| name.strip_prefix('.')).unwrap_or(from);
        let is = |script: &str| script.replace('/', "_") == name;
        let is_locked = self.calls.iter().any(|(script, calls)| calls.is_some() && is(script));
        let asks = self.config.scripts.tools.iter().find(|(script, _)| is(script)).map(|(_, rule)| rule.approval);
        Caller::Past { name, is_asked: !is_locked || asks.unwrap_or_default() == ScriptApproval::Each }
    }
}

fn ready() -> ServerState {
    ServerState::Ready { protocol: String::new() }
}

fn no_client(client: &str) -> Ruling {
    Ruling::Refused(Error::new(ErrorCode::ToolDenied, format!("there is no client `{client}`")))
}
