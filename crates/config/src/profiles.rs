//! Profiles: what the clients that have one may see and call. `[profiles.<name>]`, and `[clients.<name>]` beside its
//! credentials.
//!
//! A profile only narrows what servers, tools, groups and flows allow: nothing in it grants anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::clients::check_name;
use super::error::ConfigError;
use super::key::Key;
use super::patterns::{Matcher, Patterns};
use super::policy::{self, Known};
use super::raw::RawProfile;
use super::unmatched::{ListedNames, of_profile};
use super::words::{Words as _, words};
use super::{Approval, Budgets, Flow, SCRIPTS_SERVER, spending, suggest};

/// Profile of clients that name none, if it is configured.
pub const DEFAULT_PROFILE: &str = "default";

/// One `[profiles.<name>]` entry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Servers that it has; `None` for all.
    pub servers: Option<BTreeSet<String>>,
    /// Tools that it has, as `SERVER.TOOL`; `None` for all of its servers. Of a server that no entry reaches it has
    /// nothing.
    pub allow: Option<Patterns>,
    /// Tools that it does not have, whatever `allow` says.
    pub deny: Patterns,
    /// Scripts that it may call, by wire name; `None` for all.
    pub scripts: Option<Patterns>,
    /// Least approval of each call.
    pub approval: Approval,
    /// Flows beside those of all.
    pub flows: Vec<Flow>,
    /// Rate limit and budgets of all its clients together, beside those of all.
    pub budgets: Budgets,
    /// Forms in which its tools are shown.
    pub expose: Expose,
    /// Tools that `hybrid` shows beside the four, as `SERVER.TOOL`.
    pub direct: Patterns,
    /// Tokens of definitions up to which `auto` is `direct`; `None` for the usual number.
    pub auto_tokens: Option<u32>,
    /// True if an entry of `deny` that matches nothing holds no tools.
    pub allow_unmatched: bool,
}

/// Form in which a client's tools are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Expose {
    /// The four tools.
    #[default]
    Code,
    /// The servers' own tools.
    Direct,
    /// The four tools and a chosen few of the servers' own.
    Hybrid,
    /// `Direct` while the definitions are few, else `Code`.
    Auto,
}

words!(Expose: "code" = Code, "direct" = Direct, "hybrid" = Hybrid, "auto" = Auto);

impl Expose {
    /// The word for it.
    pub fn word(self) -> &'static str {
        Self::words().into_iter().find(|(_, expose)| *expose == self).map_or("code", |(word, _)| word)
    }

    /// By its word.
    pub fn named(word: &str) -> Option<Self> {
        Self::words().into_iter().find(|(known, _)| *known == word).map(|(_, expose)| expose)
    }
}

impl Profile {
    /// A profile that has nothing.
    pub fn nothing() -> &'static Self {
        static NOTHING: LazyLock<Profile> = LazyLock::new(|| Profile {
            servers: Some(BTreeSet::new()),
            scripts: Some(Patterns::default()),
            ..Profile::default()
        });
        &NOTHING
    }

    /// True if the other one hides the same.
    pub fn has_same_view(&self, other: &Self) -> bool {
        let of = |profile: &Self| {
            let Self { servers, allow, deny, scripts, allow_unmatched, .. } = profile.clone();
            (servers, allow, deny, scripts, allow_unmatched)
        };
        of(self) == of(other)
    }

    /// True if it hides nothing, whatever the servers list.
    pub fn shows_all(&self) -> bool {
        self.servers.is_none() && self.allow.is_none() && self.deny.entries().is_empty() && self.scripts.is_none()
    }
}

/// A profile, compiled: what of the servers it has.
#[derive(Debug)]
pub struct View {
    allow: Option<Matcher>,
    /// Servers that `allow` can reach.
    reach: Matcher,
    deny: Matcher,
    scripts: Option<Matcher>,
    profile: Profile,
}

impl View {
    /// Compiles a profile.
    pub fn of(profile: &Profile) -> Self {
        Self {
            allow: profile.allow.as_ref().map(Patterns::matcher),
            reach: Matcher::of_servers(profile.allow.iter().flat_map(Patterns::entries)),
            deny: profile.deny.matcher(),
            scripts: profile.scripts.as_ref().map(Patterns::matcher),
            profile: profile.clone(),
        }
    }

    /// Servers whose tools are held for its clients, since an entry of its `deny` matches nothing.
    pub fn held(&self, in_use: &[&str], listed: &ListedNames) -> BTreeSet<String> {
        of_profile("", &self.profile, in_use, listed).into_iter().flat_map(|rule| rule.held).collect()
    }

    /// True if it has something of a server, by configured name.
    pub fn server(&self, server: &str) -> bool {
        if server == SCRIPTS_SERVER {
            return self.profile.scripts.as_ref().is_none_or(|scripts| !scripts.entries().is_empty());
        }
        self.profile.servers.as_ref().is_none_or(|servers| servers.contains(server))
            && (self.allow.is_none() || self.reach.is_match(server))
    }

    /// True if it has a tool, by configured name and wire name. Scripts are tools of the server `scripts`, which only
    /// `scripts` and `deny` are about.
    pub fn tool(&self, server: &str, tool: &str) -> bool {
        let full = format!("{server}.{tool}");
        let is_allowed = match server == SCRIPTS_SERVER {
            true => self.scripts.as_ref().is_none_or(|scripts| scripts.is_match(tool)),
            false => self.allow.as_ref().is_none_or(|allow| allow.is_match(&full)),
        };
        self.server(server) && is_allowed && !self.deny.is_match(&full)
    }
}

pub(super) fn profile(key: &Key<'_>, raw: RawProfile, known: Known<'_>) -> Result<Profile, ConfigError> {
    check_name(key, "profile")?;
    let servers = key.given("servers", raw.servers, |key, list| servers(key, list, known))?;
    let tools = |name: &str, list: Option<Vec<String>>| key.given(name, list, |key, list| tools(key, list, known));
    let flows = key.key("flows").each(raw.flows, |key, raw| policy::flow(key, known, raw))?;
    let auto_tokens = key.key("auto_tokens").count(raw.auto_tokens, 1..=1_000_000)?;
    let direct = tools("direct", raw.direct)?.unwrap_or_default();
    let expose = key.key("expose").word(raw.expose)?.unwrap_or_default();
    if expose == Expose::Hybrid && direct.entries().is_empty() {
        let error = key.key("expose").at_value("names no tool to show beside the four");
        return Err(error.with_hint("write `direct = [\"SERVER.TOOL\"]`, or choose \"code\""));
    }
    Ok(Profile {
        servers,
        allow: tools("allow", raw.allow)?,
        deny: tools("deny", raw.deny)?.unwrap_or_default(),
        scripts: key.given("scripts", raw.scripts, Patterns::parse)?,
        approval: key.key("approval").word(raw.approval)?.unwrap_or_default(),
        flows,
        budgets: spending::budgets(&key.key("budgets"), raw.budgets)?,
        expose,
        direct,
        auto_tokens,
        allow_unmatched: raw.allow_unmatched.unwrap_or_default(),
    })
}

/// Servers and groups, by name.
fn servers(key: &Key<'_>, list: Vec<String>, known: Known<'_>) -> Result<BTreeSet<String>, ConfigError> {
    let named = |key: &Key<'_>, entry| policy::named(key, &key.filled(entry)?, known, None);
    let named: Vec<BTreeSet<String>> = key.each(Some(list), named)?;
    Ok(named.into_iter().flatten().collect())
}

/// Tools as `SERVER.TOOL`. An entry whose server is not configured would leave its tool open, or nothing.
fn tools(key: &Key<'_>, list: Vec<String>, known: Known<'_>) -> Result<Patterns, ConfigError> {
    let patterns = Patterns::parse(key, list)?;
    for (index, entry) in patterns.entries().iter().enumerate() {
        let reach = Matcher::of_servers([entry]);
        let mut servers = known.servers.iter().copied().chain([SCRIPTS_SERVER]);
        if !servers.any(|server| reach.is_match(server)) {
            let error = key.index(index).at_value("there is no such server");
            let written = entry.split('.').next().unwrap_or_default();
            let hint = match entry.contains('.') {
                true => suggest::word_hint(written, known.servers),
                false => "write SERVER.TOOL, such as \"github.list_*\" or \"github.*\"".to_owned(),
            };
            return Err(error.with_hint(hint));
        }
    }
    Ok(patterns)
}

/// The profile that a key names.
pub(super) fn named(key: &Key<'_>, text: String, profiles: &BTreeMap<String, Profile>) -> Result<String, ConfigError> {
    let text = key.filled(text)?;
    if profiles.contains_key(&text) {
        return Ok(text);
    }
    let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let hint = match known.is_empty() {
        true => format!("add `[profiles.{text}]`"),
        false => suggest::word_hint(&text, &known),
    };
    Err(key.at_value("there is no such profile").with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(entries: &[&str]) -> Patterns {
        Patterns::of(entries)
    }

    #[test]
    fn a_view_has_what_its_profile_names_and_nothing_else() {
        let some = |servers: &[&str]| Some(servers.iter().map(|server| (*server).to_owned()).collect());
        let profile = |servers: Option<BTreeSet<String>>, allow: Option<&[&str]>, deny: &[&str]| Profile {
            servers,
            allow: allow.map(patterns),
            deny: patterns(deny),
            ..Profile::default()
        };
        for (profile, server, tool, is_server, is_tool) in [
            (profile(None, None, &[]), "a", "x", true, true),
            (profile(some(&["a"]), None, &[]), "a", "x", true, true),
            (profile(some(&["a"]), None, &[]), "b", "x", false, false),
            (profile(some(&[]), None, &[]), "a", "x", false, false),
            (profile(None, Some(&["a.list_*"]), &[]), "a", "list_x", true, true),
            (profile(None, Some(&["a.list_*"]), &[]), "a", "drop", true, false),
            (profile(None, Some(&["a.list_*"]), &[]), "b", "list_x", false, false),
            (profile(None, Some(&["a.*"]), &[]), "ab", "x", false, false),
            (profile(None, Some(&["*.list"]), &[]), "b", "list", true, true),
            (profile(None, Some(&["co.x.*"]), &[]), "co.x", "t", true, true),
            (profile(None, Some(&["co.x.*"]), &[]), "co", "x.t", true, true),
            (profile(None, Some(&["co.x.*"]), &[]), "co", "t", true, false),
            (profile(None, Some(&[]), &[]), "a", "x", false, false),
            (profile(None, None, &["*.drop_*"]), "a", "drop_x", true, false),
            (profile(None, Some(&["a.*"]), &["a.drop"]), "a", "drop", true, false),
            (profile(None, Some(&["a.x[1]"]), &[]), "a", "x[1]", true, true),
            (profile(some(&["a"]), Some(&["b.*"]), &[]), "b", "x", false, false),
            (profile(some(&["a"]), Some(&["a.x"]), &[]), "scripts", "refund", true, true),
            (profile(None, None, &["scripts.refund"]), "scripts", "refund", true, false),
        ] {
            let view = View::of(&profile);
            assert_eq!(
                (view.server(server), view.tool(server, tool)),
                (is_server, is_tool),
                "{server} {tool} {profile:?}"
            );
        }
        for (scripts, is_there) in
            [(None, true), (Some(&["ref*"][..]), true), (Some(&["other"]), false), (Some(&[]), false)]
        {
            let profile = Profile { scripts: scripts.map(patterns), ..Profile::default() };
            assert_eq!(View::of(&profile).tool("scripts", "refund"), is_there, "{scripts:?}");
        }
    }

    #[test]
    fn a_form_is_known_by_its_word() {
        for (word, expose) in Expose::words() {
            assert_eq!((Expose::named(word), expose.word()), (Some(expose), word));
        }
        assert_eq!(Expose::named("Code"), None);
    }
}
