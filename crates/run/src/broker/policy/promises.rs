//! Tests that a configuration keeps its promises: small ones, made from a seed, against a model that is written from
//! docs/policy.md and knows no pattern, no catalog and no rule of this folder. Of each rule there are forms that are absent,
//! exact, a pattern, misspelt, contradicted by another, about a server that is down or switched off, in a profile, and
//! changed while a script runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::json;

use super::super::taint::Taint;
use super::*;
use catalog::manifest::ServerState;
use catalog::{Catalog, Catalogs};
use upstream::Listing;

/// Configurations that are made, each with one that takes its place in mid-run.
const CASES: u64 = 200;

const SERVERS: [&str; 2] = ["chat", "vault"];
/// Tools of each server; the first one is annotated as read-only.
const TOOLS: [&str; 3] = ["list_items", "add_item", "drop_item"];
/// Names and patterns, with the tools that they are about.
const ENTRIES: [(&str, &[usize]); 10] = [
    ("list_items", &[0]),
    ("add_item", &[1]),
    ("drop_item", &[2]),
    ("*_item", &[1, 2]),
    ("{add,drop}_item", &[1, 2]),
    ("?rop_item", &[2]),
    ("*", &[0, 1, 2]),
    ("drop_itme", &[]),
    ("Drop_item", &[]),
    ("delete_*", &[]),
];
/// Values of `approval`, least strict first.
const APPROVALS: [&str; 4] = ["never", "plan", "writes", "always"];
/// Scripts that rules and callers name; there is no third one.
const SCRIPTS: [&str; 2] = ["refund", "refnd"];
/// Sides of flows, with the servers of each. The group has the first server.
const PARTIES: [(&str, &[usize]); 4] = [("chat", &[0]), ("vault", &[1]), ("*", &[0, 1]), ("team", &[0])];

/// State of a server when the catalog is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Ready,
    /// It starts; its list is that of the last time.
    Cached,
    Down,
}

/// Rule about some tools of a server.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Approval(usize),
    OnlyFrom(usize),
    Cost,
}

#[derive(Debug, Clone)]
struct OfServer {
    enabled: bool,
    allow: Option<Vec<usize>>,
    deny: Vec<usize>,
    approval: Option<usize>,
    rules: Vec<(usize, Rule)>,
    allow_unmatched: bool,
}

/// Tools of a profile: a server or all, and an entry.
type Wide = (Option<usize>, usize);
/// From, to, and true if it is denied.
type Between = (usize, usize, bool);

#[derive(Debug, Clone)]
struct OfProfile {
    servers: Option<Vec<usize>>,
    allow: Option<Vec<Wide>>,
    deny: Vec<Wide>,
    approval: Option<usize>,
    flows: Vec<Between>,
    allow_unmatched: bool,
}

/// A configuration.
#[derive(Debug, Clone)]
struct Case {
    servers: [OfServer; 2],
    /// `team` is strict, and so is another group with the other server.
    is_strict: bool,
    flows: Vec<Between>,
    profile: Option<OfProfile>,
}

/// A call of a script.
#[derive(Debug, Clone, Copy)]
struct Act {
    server: usize,
    tool: usize,
    /// Server whose data it holds.
    holds: Option<usize>,
    /// Script as which it is called.
    from: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Allowed,
    Asks,
    Refused,
}

/// Some of `0..most`, each once.
fn some(rng: &mut Rng, most: usize, at_most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..most).collect();
    rng.shuffle(&mut all);
    all.truncate(rng.usize(0..=at_most));
    all
}

fn maybe<T>(rng: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.bool().then(|| make(rng))
}

fn wide(rng: &mut Rng) -> Vec<Wide> {
    some(rng, ENTRIES.len(), 2)
        .into_iter()
        .map(|entry| (maybe(rng, |rng| rng.usize(0..SERVERS.len())), entry))
        .collect()
}

fn flows(rng: &mut Rng) -> Vec<Between> {
    (0..rng.usize(0..=2)).map(|_| (rng.usize(0..PARTIES.len()), rng.usize(0..PARTIES.len()), rng.bool())).collect()
}

impl OfServer {
    fn new(rng: &mut Rng) -> Self {
        let rule = |rng: &mut Rng| match rng.usize(0..6) {
            0 => Rule::OnlyFrom(rng.usize(0..SCRIPTS.len())),
            1 => Rule::Cost,
            _ => Rule::Approval(rng.usize(0..APPROVALS.len())),
        };
        Self {
            enabled: rng.usize(0..16) > 0,
            allow: if rng.usize(0..6) == 0 { Some(some(rng, ENTRIES.len(), 3)) } else { None },
            deny: maybe(rng, |rng| some(rng, ENTRIES.len(), 1)).unwrap_or_default(),
            approval: maybe(rng, |rng| rng.usize(0..APPROVALS.len())),
            rules: some(rng, ENTRIES.len(), 2).into_iter().map(|entry| (entry, rule(rng))).collect(),
            allow_unmatched: rng.usize(0..4) == 0,
        }
    }

    fn toml(&self, name: &str) -> String {
        let list = |entries: &[usize]| entries.iter().map(|entry| ENTRIES[*entry].0).collect::<Vec<_>>();
        let mut text = format!("[servers.{name}]\ncommand = \"x\"\ndeny = {:?}\n", list(&self.deny));
        text += &self.allow.as_ref().map(|allow| format!("allow = {:?}\n", list(allow))).unwrap_or_default();
        text += &self.approval.map(|word| format!("approval = {:?}\n", APPROVALS[word])).unwrap_or_default();
        text += if self.enabled { "" } else { "enabled = false\n" };
        text += if self.allow_unmatched { "allow_unmatched = true\n" } else { "" };
        for (entry, rule) in &self.rules {
            text += &format!("[servers.{name}.tools.{:?}]\n", ENTRIES[*entry].0);
            text += &match rule {
                Rule::Approval(word) => format!("approval = {:?}\n", APPROVALS[*word]),
                Rule::OnlyFrom(script) => format!("only_from = [\"scripts.{}\"]\n", SCRIPTS[*script]),
                Rule::Cost => "cost = 2\n".to_owned(),
            };
        }
        text
    }

    fn approves(&self, tool: usize) -> usize {
        let own = |is_its: &dyn Fn(usize) -> bool| {
            let of = |(entry, rule): &(usize, Rule)| match rule {
                Rule::Approval(word) if is_its(*entry) => Some(*word),
                _ => None,
            };
            self.rules.iter().filter_map(of).max()
        };
        own(&|entry| ENTRIES[entry].0 == TOOLS[tool])
            .or_else(|| own(&|entry| ENTRIES[entry].1.contains(&tool)))
            .or(self.approval)
            .unwrap_or(0)
    }

    /// Rules that name no tool: key below the server, entry, and whether they narrow.
    fn misspelt(&self) -> Vec<(String, &'static str, bool)> {
        let mut found = Vec::new();
        let none = |entry: &&usize| ENTRIES[**entry].1.is_empty();
        found.extend(
            self.allow.iter().flatten().filter(none).map(|entry| ("allow".to_owned(), ENTRIES[*entry].0, false)),
        );
        found.extend(self.deny.iter().filter(none).map(|entry| ("deny".to_owned(), ENTRIES[*entry].0, true)));
        for (entry, rule) in self.rules.iter().filter(|(entry, _)| none(&entry)) {
            let name = ENTRIES[*entry].0;
            let key = if name.contains('*') { format!("tools.{name:?}") } else { format!("tools.{name}") };
            let narrows = match rule {
                Rule::Approval(word) => *word > self.approval.unwrap_or(0),
                Rule::OnlyFrom(_) => true,
                Rule::Cost => false,
            };
            found.push((key, name, narrows));
        }
        found
    }
}

impl Case {
    fn new(rng: &mut Rng) -> Self {
        let profile = |rng: &mut Rng| OfProfile {
            servers: if rng.usize(0..4) == 0 { Some(some(rng, SERVERS.len(), 2)) } else { None },
            allow: if rng.usize(0..3) == 0 { Some(wide(rng)) } else { None },
            deny: maybe(rng, wide).unwrap_or_default(),
            approval: maybe(rng, |rng| rng.usize(0..APPROVALS.len())),
            flows: flows(rng),
            allow_unmatched: rng.usize(0..4) == 0,
        };
        Self {
            servers: [OfServer::new(rng), OfServer::new(rng)],
            is_strict: rng.usize(0..3) == 0,
            flows: flows(rng),
            profile: maybe(rng, profile),
        }
    }

    fn toml(&self) -> String {
        let flow = |key: &str, (from, to, is_denied): &Between| {
            let (from, to) = (PARTIES[*from].0, PARTIES[*to].0);
            let action = if *is_denied { "deny" } else { "approve" };
            format!("[[{key}]]\nfrom = {from:?}\nto = {to:?}\naction = {action:?}\n")
        };
        let mut text: String = SERVERS.iter().zip(&self.servers).map(|(name, server)| server.toml(name)).collect();
        text += "[groups.team]\nservers = [\"chat\"]\n";
        text += if self.is_strict { "[groups.other]\nservers = [\"vault\"]\n" } else { "isolation = \"open\"\n" };
        text.extend(self.flows.iter().map(|between| flow("flows", between)));
        let Some(profile) = &self.profile else { return text };
        let list = |wide: &[Wide]| {
            let of = |(server, entry): &Wide| {
                format!("{}.{}", server.map_or("*", |server| SERVERS[server]), ENTRIES[*entry].0)
            };
            wide.iter().map(of).collect::<Vec<_>>()
        };
        text += &format!("[profiles.p]\ndeny = {:?}\n", list(&profile.deny));
        let servers = profile.servers.as_ref().map(|own| own.iter().map(|at| SERVERS[*at]).collect::<Vec<_>>());
        text += &servers.map(|servers| format!("servers = {servers:?}\n")).unwrap_or_default();
        text += &profile.allow.as_ref().map(|allow| format!("allow = {:?}\n", list(allow))).unwrap_or_default();
        text += &profile.approval.map(|word| format!("approval = {:?}\n", APPROVALS[word])).unwrap_or_default();
        text += if profile.allow_unmatched { "allow_unmatched = true\n" } else { "" };
        text.extend(profile.flows.iter().map(|between| flow("profiles.p.flows", between)));
        text
    }

    /// Rules that name no tool, of servers whose tools are known: where, the entry, and the servers that are held.
    fn told(&self, known: [Known; 2]) -> Vec<(String, String, Vec<&'static str>)> {
        let mut told = Vec::new();
        let is_listed = |at: usize| known[at] != Known::Down;
        for (at, server) in self.servers.iter().enumerate().filter(|(_, server)| server.enabled) {
            // Before it was listed, each rule of its tools may be one of these.
            let unlisted = || {
                let mut all = Self::all_of(server);
                all.iter_mut().for_each(|rule| rule.2 = false);
                all
            };
            let rules = if is_listed(at) { server.misspelt() } else { unlisted() };
            for (key, entry, narrows) in rules {
                let held = if narrows && !server.allow_unmatched { vec![SERVERS[at]] } else { Vec::new() };
                told.push((format!("servers.{}.{key}", SERVERS[at]), entry.to_owned(), held));
            }
        }
        if let Some(profile) = &self.profile {
            let of_profile = |told: &mut Vec<_>, key: &str, wide: &Wide, narrows: bool| {
                let about = self.about(profile, wide);
                let is_idle = ENTRIES[wide.1].1.is_empty() || !about.iter().any(|at| is_listed(*at));
                if about.is_empty() || !is_idle {
                    return;
                }
                let holds = narrows && !profile.allow_unmatched && about.iter().all(|at| is_listed(*at));
                let held = about.iter().filter(|_| holds).map(|at| SERVERS[*at]).collect();
                let server = wide.0.map_or("*", |server| SERVERS[server]);
                told.push((format!("profiles.p.{key}"), format!("{server}.{}", ENTRIES[wide.1].0), held));
            };
            profile.allow.iter().flatten().for_each(|wide| of_profile(&mut told, "allow", wide, false));
            profile.deny.iter().for_each(|wide| of_profile(&mut told, "deny", wide, true));
        }
        told.sort();
        told
    }

    /// All rules about tools of a server, as [`OfServer::misspelt`].
    fn all_of(server: &OfServer) -> Vec<(String, &'static str, bool)> {
        let lists = [("allow", server.allow.as_deref().unwrap_or_default()), ("deny", &server.deny)];
        let listed = lists.iter().flat_map(|(key, list)| list.iter().map(move |entry| ((*key).to_owned(), *entry)));
        let rules = server.rules.iter().map(|(entry, _)| {
            let name = ENTRIES[*entry].0;
            let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (if is_bare { format!("tools.{name}") } else { format!("tools.{name:?}") }, *entry)
        });
        listed.chain(rules).map(|(key, entry)| (key, ENTRIES[entry].0, false)).collect()
    }

    /// Servers in use that an entry of the profile is about.
    fn about(&self, profile: &OfProfile, (server, _): &Wide) -> Vec<usize> {
        let is_its = |at: &usize| {
            self.servers[*at].enabled
                && server.is_none_or(|server| server == *at)
                && profile.servers.as_ref().is_none_or(|servers| servers.contains(at))
        };
        (0..SERVERS.len()).filter(is_its).collect()
    }

    /// Servers whose tools are held for a client: those of its profile too.
    fn held(&self, known: [Known; 2]) -> BTreeSet<&'static str> {
        self.told(known).into_iter().flat_map(|(_, _, held)| held).collect()
    }

    /// The verdict of the rules alone, without the lists of the servers.
    fn ruled(&self, act: Act) -> Verdict {
        let Act { server, tool, holds, from } = act;
        let own = &self.servers[server];
        let has = |entries: &[usize]| entries.iter().any(|entry| ENTRIES[*entry].1.contains(&tool));
        let is_shown = own.enabled && own.allow.as_ref().is_none_or(|allow| has(allow)) && !has(&own.deny);
        let in_profile = self.profile.as_ref().is_none_or(|profile| {
            let is_of = |(of, entry): &Wide| of.is_none_or(|of| of == server) && ENTRIES[*entry].1.contains(&tool);
            profile.servers.as_ref().is_none_or(|servers| servers.contains(&server))
                && profile.allow.as_ref().is_none_or(|allow| allow.iter().any(is_of))
                && !profile.deny.iter().any(is_of)
        });
        let is_from = |(entry, rule): &(usize, Rule)| match rule {
            Rule::OnlyFrom(script) if ENTRIES[*entry].1.contains(&tool) => Some(*script) == from,
            _ => true,
        };
        let is_lost = holds.is_some_and(|holds| !self.sees(holds));
        let holds = holds.filter(|holds| *holds != server);
        let is_between = |(of, to, _): &&Between| {
            holds.is_some_and(|holds| PARTIES[*of].1.contains(&holds)) && PARTIES[*to].1.contains(&server)
        };
        let flows = self.flows.iter().chain(self.profile.iter().flat_map(|profile| &profile.flows));
        let flows: Vec<bool> = flows.filter(is_between).map(|(_, _, is_denied)| *is_denied).collect();
        let is_apart = self.is_strict && holds.is_some();
        if !is_shown || !in_profile || !own.rules.iter().all(is_from) || is_lost || is_apart || flows.contains(&true) {
            return Verdict::Refused;
        }
        let least = self.profile.as_ref().and_then(|profile| profile.approval).unwrap_or(0);
        let asks = match APPROVALS[own.approves(tool).max(least)] {
            "never" => false,
            "plan" | "writes" => tool != 0,
            _ => true,
        };
        if asks || !flows.is_empty() { Verdict::Asks } else { Verdict::Allowed }
    }

    /// True if the client has anything of a server.
    fn sees(&self, server: usize) -> bool {
        self.profile.as_ref().is_none_or(|profile| {
            let is_of = |(of, _): &Wide| of.is_none_or(|of| of == server);
            profile.servers.as_ref().is_none_or(|servers| servers.contains(&server))
                && profile.allow.as_ref().is_none_or(|allow| allow.iter().any(is_of))
        })
    }

    /// The verdict of the model on a call of a script that began with this configuration.
    fn promised(&self, known: [Known; 2], act: Act) -> Verdict {
        match known[act.server] == Known::Down || self.held(known).contains(SERVERS[act.server]) {
            true => Verdict::Refused,
            false => self.ruled(act),
        }
    }
}

/// A configuration as the gateway takes it.
struct Taken {
    config: Config,
    rules: Arc<Rules>,
    whole: Arc<Catalog>,
    /// Catalog as the client sees it.
    catalog: Arc<Catalog>,
}

impl Taken {
    fn new(case: &Case, known: [Known; 2]) -> Self {
        let text = case.toml();
        let config = Config::parse(&text, Path::new("forge.toml"), &|_| None);
        let config = config.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let profile = config.profiles.get("p");
        let entry = |(name, known): (&&str, Known)| {
            let server = &config.servers[*name];
            let tool = |(at, name): (usize, &&str)| json!({"name": name, "annotations": {"readOnlyHint": at == 0}, "inputSchema": {"type": "object"}});
            let tools = TOOLS.iter().enumerate().map(tool).collect();
            let listing = Listing { tools, ..Listing::default() };
            Arc::new(match known {
                _ if !server.enabled => ServerEntry::empty(name, name, Some(server), ServerState::Disabled),
                Known::Ready => {
                    let protocol = "2025-11-25".to_owned();
                    ServerEntry::listed(name, name, Some(server), listing, ServerState::Ready { protocol })
                }
                Known::Cached => ServerEntry::listed(name, name, Some(server), listing, ServerState::Connecting),
                Known::Down => {
                    let reason = "it is down".to_owned();
                    ServerEntry::empty(name, name, Some(server), ServerState::Failed { reason })
                }
            })
        };
        let servers = SERVERS.iter().zip(known).map(entry).collect();
        let views = profile.filter(|profile| !profile.shows_all());
        let views = views.map(|profile| ("p".to_owned(), Arc::new(View::of(profile)))).into_iter().collect();
        let catalogs = Catalogs::empty().rebuilt(servers, Arc::default(), &views);
        let catalogs = catalogs.expect("catalogs");
        let catalog = catalogs.of("p").unwrap_or_else(|| Arc::clone(&catalogs.whole));
        let rules = Arc::new(Rules::new(&config, profile));
        Self { rules, whole: catalogs.whole, catalog, config }
    }

    /// The verdict of the broker on a call; `None` where a script cannot hold what it should. `next` has
    /// come into force meanwhile.
    fn verdict(&self, act: Act, next: Option<&Rules>) -> Option<Verdict> {
        let taint = Taint::new(Arc::clone(&self.rules), Arc::default());
        if let Some(holds) = act.holds {
            taint.enter(SERVERS[holds]).ok()?;
            taint.receive(SERVERS[holds]);
        }
        let decided = || {
            let (entry, stub) = self.catalog.tool(SERVERS[act.server], TOOLS[act.tool])?;
            reviewed(entry, stub)?;
            let operation = call_of(stub, Default::default());
            let from = act.from.map(|script| Caller::Reviewed(SCRIPTS[script]));
            let asked = PendingCall { from, ..PendingCall::new(entry, Some(stub), &operation) };
            let mut reasons = decide(&self.rules, &asked, &taint.now())?;
            reasons.extend(next.map(|rules| decide_anew(rules, &asked, &taint.now())).transpose()?.unwrap_or_default());
            Ok::<_, Error>(reasons)
        };
        Some(match decided() {
            Err(_) => Verdict::Refused,
            Ok(reasons) if reasons.is_empty() => Verdict::Allowed,
            Ok(_) => Verdict::Asks,
        })
    }
}

/// Every call of a script with every holding.
fn acts() -> impl Iterator<Item = Act> {
    let nobody_or = |most: usize| std::iter::once(None).chain((0..most).map(Some));
    (0..SERVERS.len()).flat_map(move |server| {
        (0..TOOLS.len()).flat_map(move |tool| {
            nobody_or(SERVERS.len())
                .flat_map(move |holds| nobody_or(SCRIPTS.len()).map(move |from| Act { server, tool, holds, from }))
        })
    })
}

#[test]
fn what_a_configuration_promises_it_holds() {
    let mut met: BTreeMap<(Verdict, bool), usize> = BTreeMap::new();
    for seed in 0..CASES {
        let mut rng = Rng::with_seed(seed);
        let known = [(); 2].map(|()| [Known::Ready, Known::Ready, Known::Cached, Known::Down][rng.usize(0..4)]);
        let case = Case::new(&mut rng);
        let next = Case::new(&mut rng);
        let (taken, after) = (Taken::new(&case, known), Taken::new(&next, known));
        let shown = || format!("seed {seed}, {known:?}\n{}\n--- then\n{}", case.toml(), next.toml());
        let found = taken.config.unmatched(&taken.whole.listed_names());
        let mut found: Vec<_> = found.into_iter().map(|rule| (rule.key, rule.entry, rule.held)).collect();
        found.sort();
        let told: Vec<_> = case.told(known);
        let told: Vec<_> = told
            .into_iter()
            .map(|(key, entry, held)| (key, entry, held.into_iter().map(str::to_owned).collect::<Vec<_>>()))
            .collect();
        assert_eq!(found, told, "rules that name nothing; {}", shown());
        for act in acts() {
            let promised = case.promised(known, act);
            let Some(verdict) = taken.verdict(act, None) else { continue };
            assert_eq!(verdict, promised, "{act:?}; {}", shown());
            *met.entry((promised, false)).or_default() += 1;
            // Rules that come into force while a script runs only take rights away. The hold of a rule that
            // names nothing is in the catalog, and the script has its own.
            let promised = promised.max(next.ruled(act));
            let verdict = taken.verdict(act, Some(&after.rules)).unwrap_or(Verdict::Refused);
            assert_eq!(verdict, promised, "after a reload: {act:?}; {}", shown());
            *met.entry((promised, true)).or_default() += 1;
        }
    }
    assert_eq!(met.len(), 6, "{met:?}");
    assert!(met.values().all(|count| *count > 300), "{met:?}");
}
