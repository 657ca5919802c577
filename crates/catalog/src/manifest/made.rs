//! Entries: made of a listing, compared with a pin, and narrowed to what some may see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use stubgen::{ServerDef, ServerStubs, ToolStub};

use super::{
    Held, Layout, Listed, Observed, Offer, Offers, Pin, Quarantined, ServerEntry, ServerState, origin, reviewed, roots,
};
use crate::findings::{Findings, Item, Later, Listed as Definitions};
use config::{Access, Binding, MEND, Patterns, ToolRule, Transport, Unmatched};
use redact::Surface;
use upstream::openapi::spec;
use upstream::{Health, Listing};

/// Most bytes of `__init__.pyi`, about 200 tokens, for which `binding = "auto"` lists it in place of one file per tool:
/// reading it whole then costs less than finding out which parts to read.
const SMALL_SERVER: usize = 800;

impl ServerEntry {
    /// An entry without tools.
    pub fn empty(name: &str, ident: &str, server: Option<&config::Server>, state: ServerState) -> Self {
        Self::listed(name, ident, server, Listing::default(), state)
    }

    /// An entry with the tools of `listing`.
    pub fn listed(
        name: &str,
        ident: &str,
        server: Option<&config::Server>,
        mut listing: Listing,
        state: ServerState,
    ) -> Self {
        let is_partial = listing.is_partial;
        let is_listed = !listing.tools.is_empty() || matches!(state, ServerState::Ready { .. });
        let names: Option<Arc<[String]>> =
            is_listed.then(|| names(&listing.tools).into_iter().map(str::to_owned).collect());
        let unmatched = server.filter(|_| is_listed).map(|server| config::unmatched_of(name, server, names.as_deref()));
        let unmatched: Arc<[Unmatched]> = unmatched.unwrap_or_default().into();
        unmatched.iter().for_each(|rule| tracing::warn!(server = name, "{}", rule.brief()));
        let hidden = server.map(|server| hide(&server.access, &mut listing)).unwrap_or_default();
        let offers = Arc::new(Offers::take(&mut listing));
        let categories = server.map(|server| match &server.transport {
            Transport::OpenApi { .. } if server.categories.is_empty() => tagged(&listing),
            _ => expand(&server.categories, &listing),
        });
        let categories = categories.unwrap_or_default();
        let definition = ServerDef {
            name: name.to_owned(),
            description: server.and_then(|server| server.description.clone()),
            instructions: listing.instructions.clone(),
            tools: listing.tools,
            categories,
        };
        let stubs = stubgen::generate(definition, ident);
        let findings = examined(&stubs, &offers, listing.instructions);
        for note in stubs.notes.iter().chain(&offers.notes) {
            tracing::warn!(server = name, "{note}");
        }
        let layout = match server.map(|server| server.binding).unwrap_or_default() {
            Binding::Server => Layout::Whole,
            Binding::Auto if is_small(&stubs) => Layout::Small,
            Binding::Auto | Binding::Tool => Layout::PerTool,
        };
        let stubs = Arc::new(stubs);
        let mut quarantine = held(&stubs, &listing.misfits);
        if let Some(rule) = unmatched.iter().find(|rule| !rule.held.is_empty()) {
            quarantine.extend(all_held(&stubs, &format!("{}; all tools of the server are held {MEND}", rule.brief())));
        }
        let quarantine = Arc::new(quarantine);
        let paths = roots::of(&stubs, server).map(Into::into);
        let only_from = Arc::new(server.map(|server| left_to_scripts(server, &stubs)).unwrap_or_default());
        Self {
            name: name.to_owned(),
            ident: ident.to_owned(),
            state,
            is_partial,
            stubs,
            for_apps: None,
            offers,
            hidden,
            names,
            unmatched,
            paths,
            layout,
            instance: 0,
            origin: server.map(origin::in_memory).unwrap_or_default().into(),
            is_pinned: false,
            quarantine,
            held: None,
            listed: None,
            findings: Arc::new(findings),
            only_from,
            observed: Observed::default(),
            health: Health::default(),
            _room: listing.room,
        }
    }

    /// Quarantines every tool that differs from `pin`, and holds back offers and instructions that do. Of a tool that was
    /// never reviewed only the identifier remains.
    #[must_use]
    pub fn pinned(self, pin: Option<&Pin>) -> Self {
        let Some(pin) = pin else { return self };
        let mut quarantine = pin.quarantined(&self.stubs);
        // A misfit differs from what was reviewed too.
        for (tool, held) in self.quarantine.iter() {
            quarantine.entry(tool.clone()).or_insert_with(|| held.clone()).reason.clone_from(&held.reason);
        }
        let ident = &self.stubs.ident;
        let shown = quarantine.keys().map(|tool| (tool.clone(), pin.shown(ident, tool))).collect();
        let (held, instructions) = (pin.held(&self.stubs, &self.offers), pin.instructions(ident));
        self.holding(quarantine, &shown, held, instructions)
    }

    /// Quarantines everything for one reason.
    #[must_use]
    pub(super) fn with_all_held(self, reason: &str) -> Self {
        let unseen = |tool: &ToolStub| (tool.ident.clone(), json!({ "name": tool.ident }));
        let shown = self.stubs.tools.iter().map(unseen).collect();
        let held = Held(reviewed::reviewable(&self.stubs, &self.offers).map(|(item, _)| item).collect());
        let quarantine = all_held(&self.stubs, reason).collect();
        self.holding(quarantine, &shown, Some(held), None)
    }

    /// Quarantines tools, which have the definitions `shown` then, and holds back offers and instructions, with these
    /// instructions in their place.
    fn holding(
        mut self,
        quarantine: BTreeMap<String, Quarantined>,
        shown: &BTreeMap<String, Value>,
        held: Option<Held>,
        instructions: Option<String>,
    ) -> Self {
        let listed = Arc::new(Listed { stubs: Arc::clone(&self.stubs), offers: Arc::clone(&self.offers) });
        if let Some(held) = held {
            if held.has(&Item::Instructions) {
                // The folders of its tools may be its instructions' words.
                self.paths = None;
                let mut stubs = Arc::unwrap_or_clone(self.stubs);
                stubs.instructions = instructions;
                self.stubs = Arc::new(stubs);
            }
            self.offers = Arc::new(Arc::unwrap_or_clone(self.offers).without(&held));
            self.held = Some(Arc::new(held));
        }
        if !shown.is_empty() {
            self.stubs = Arc::new(Arc::unwrap_or_clone(self.stubs).showing(shown));
        }
        let is_held = !quarantine.is_empty() || self.held.is_some();
        Self { is_pinned: true, quarantine: Arc::new(quarantine), listed: is_held.then_some(listed), ..self }
    }

    /// The entry as the server listed it.
    pub fn as_listed(&self) -> Self {
        match &self.listed {
            Some(listed) => {
                let Listed { stubs, offers } = Listed::clone(listed);
                Self { stubs, offers, ..self.clone() }
            }
            None => self.clone(),
        }
    }

    /// The same server for agents: tools that only its pages call are apart. `last` is this server as it was, in both forms.
    #[must_use]
    pub fn for_agents(self: &Arc<Self>, last: Option<(&Self, &Self)>) -> Arc<Self> {
        if !self.stubs.tools.iter().any(ToolStub::is_for_pages) {
            return Arc::clone(self);
        }
        let known = last.filter(|(whole, _)| Arc::ptr_eq(&whole.stubs, &self.stubs));
        let (stubs, for_apps) = match known {
            Some((_, part)) => (Arc::clone(&part.stubs), part.for_apps.clone()),
            None => (
                Arc::new(ServerStubs::clone(&self.stubs).keeping(|tool| !tool.is_for_pages())),
                Some(Arc::new(ServerStubs::clone(&self.stubs).keeping(ToolStub::is_for_pages))),
            ),
        };
        Arc::new(Self { stubs, for_apps, ..Self::clone(self) })
    }

    /// The same server with some of its tools, by wire name; nothing tells of the others. `last` is this server as it was,
    /// with its part for the same question. `is_held`: a rule of the asking profile matches nothing.
    #[must_use]
    pub fn narrowed(
        self: &Arc<Self>,
        has: impl Fn(&str) -> bool,
        last: Option<(&Self, &Self)>,
        is_held: bool,
    ) -> Arc<Self> {
        let for_apps =
            self.for_apps.as_ref().map(|tools| Arc::new(ServerStubs::clone(tools).keeping(|tool| has(&tool.name))));
        let is_whole = self.stubs.tools.iter().chain(self.tools_for_apps()).all(|tool| has(&tool.name));
        if is_whole && self.hidden == 0 && self.unmatched.is_empty() && !is_held {
            return Arc::clone(self);
        }
        let is_held = is_held || self.unmatched.iter().any(|rule| !rule.held.is_empty());
        let known = last.filter(|(whole, _)| Arc::ptr_eq(&whole.stubs, &self.stubs) && !self.is_scripts());
        let stubs = match known {
            _ if is_whole => Arc::clone(&self.stubs),
            Some((_, part)) => Arc::clone(&part.stubs),
            None => Arc::new(ServerStubs::clone(&self.stubs).keeping(|tool| has(&tool.name))),
        };
        let findings = match known {
            _ if is_whole => Arc::clone(&self.findings),
            Some((_, part)) => Arc::clone(&part.findings),
            None => {
                let tools = stubs.tools.iter().chain(for_apps.iter().flat_map(|stubs| &stubs.tools));
                Arc::new(self.findings.keeping(tools.map(|tool| tool.name.as_str())))
            }
        };
        let is_kept = |ident: &str| {
            [Some(&stubs), for_apps.as_ref()].into_iter().flatten().any(|stubs| stubs.position(ident).is_some())
        };
        let kept = self.quarantine.iter().filter(|(ident, _)| is_kept(ident));
        let mut quarantine: BTreeMap<_, _> = kept.map(|(ident, held)| (ident.clone(), held.clone())).collect();
        if is_held {
            // The rule itself may name what the profile hides.
            for stubs in [Some(&stubs), for_apps.as_ref()].into_iter().flatten() {
                let why = "a rule of the configuration matches nothing: `forgefs doctor` tells which";
                quarantine.extend(all_held(stubs, why));
            }
        }
        let (quarantine, unmatched) = (Arc::new(quarantine), Arc::default());
        Arc::new(Self { stubs, for_apps, quarantine, findings, hidden: 0, names: None, unmatched, ..Self::clone(self) })
    }
}

/// True if `__init__.pyi` has at most [`SMALL_SERVER`] bytes. Names and summaries alone are more in most servers, whose
/// schemas then need not be translated.
fn is_small(stubs: &ServerStubs) -> bool {
    let least: usize = stubs.tools.iter().map(|tool| tool.ident.len() + tool.summary.len()).sum();
    least <= SMALL_SERVER && stubs.init_pyi(|_| None).len() <= SMALL_SERVER
}

/// Findings in the definitions of a server.
fn examined(stubs: &ServerStubs, offers: &Arc<Offers>, instructions: Option<String>) -> Later {
    let tools: Vec<Arc<stubgen::Definition>> = stubs.tools.iter().map(|tool| Arc::clone(&tool.definition)).collect();
    let offers = Arc::clone(offers);
    fn all(list: &[Offer]) -> Vec<&Value> {
        list.iter().map(|offer| &offer.definition).collect()
    }
    Later::new(move || {
        let tools: Vec<Arc<Value>> = tools.iter().map(|tool| tool.tree()).collect();
        Findings::of(Definitions {
            tools: &tools.iter().map(|tool| &**tool).collect::<Vec<_>>(),
            prompts: &all(&offers.prompts),
            resources: &all(&offers.resources),
            templates: &all(&offers.templates),
            instructions: instructions.as_deref(),
        })
    })
}

/// Tools that are quarantined for a reason, by wire name; of them only the identifier is shown.
fn held(stubs: &ServerStubs, reasons: &BTreeMap<String, String>) -> BTreeMap<String, Quarantined> {
    let held = |tool: &ToolStub| {
        let reason = redact::text(Surface::Error, reasons.get(&tool.name)?).into_owned();
        Some((tool.ident.clone(), Quarantined::unseen(&reason)))
    };
    stubs.tools.iter().filter_map(held).collect()
}

/// All tools, quarantined for one reason.
fn all_held(stubs: &ServerStubs, reason: &str) -> impl Iterator<Item = (String, Quarantined)> {
    let quarantined = Quarantined::unseen(reason);
    stubs.tools.iter().map(move |tool| (tool.ident.clone(), quarantined.clone()))
}

/// Scripts that alone may call a tool, by the tool's identifier. Every rule for a tool counts.
fn left_to_scripts(server: &config::Server, stubs: &ServerStubs) -> BTreeMap<String, BTreeSet<String>> {
    if server.tools.iter().all(|rule| rule.only_from.is_none()) {
        return BTreeMap::new();
    }
    let rules = ToolRule::by_tool(&server.tools, |rule| rule.only_from.clone());
    let scripts = |tool: &ToolStub| {
        let all = rules.all(&tool.name).map(|(_, scripts)| scripts.clone());
        Some((tool.ident.clone(), all.reduce(|one, other| one.intersection(&other).cloned().collect())?))
    };
    stubs.tools.iter().filter_map(scripts).collect()
}

/// Category → tool names, from category → patterns.
fn expand(categories: &BTreeMap<String, Patterns>, listing: &Listing) -> BTreeMap<String, Vec<String>> {
    let names = names(&listing.tools);
    let matching = |patterns: &Patterns| {
        let matcher = patterns.matcher();
        names.iter().filter(|name| matcher.is_match(name)).map(|name| (*name).to_owned()).collect()
    };
    categories.iter().map(|(category, patterns)| (category.clone(), matching(patterns))).collect()
}

/// Tools by the folder that the tag of their operation names.
fn tagged(listing: &Listing) -> BTreeMap<String, Vec<String>> {
    let mut categories: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tool in &listing.tools {
        let category = tool.get("_meta").and_then(|meta| meta.get(spec::CATEGORY)).and_then(Value::as_str);
        if let (Some(category), Some(name)) = (category, tool.get("name").and_then(Value::as_str)) {
            categories.entry(category.to_owned()).or_default().push(name.to_owned());
        }
    }
    categories
}

/// Removes tools that `access` hides, before anything is made of them; returns their number.
fn hide(access: &Access, listing: &mut Listing) -> usize {
    let (allow, deny) = (access.allow.as_ref().map(Patterns::matcher), access.deny.matcher());
    let granted = |name: &str| allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !deny.is_match(name);
    let before = listing.tools.len();
    // An entry without a name is not a tool; the stubs report it.
    listing.tools.retain(|tool| tool.get("name").and_then(Value::as_str).is_none_or(granted));
    before - listing.tools.len()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect()
}
