//! `forgefs policy suggest`: the narrowest profile that allows what a client called.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item};

use super::{Past, with_times};
use crate::cli::ui::Ui;
use crate::cli::{Failure, shapes};
use base::principal::LOCAL;
use base::text::{counted, head};
use base::time::rfc3339;
use catalog::people;
use config::{Config, SCRIPTS_SERVER as SCRIPTS, process_env};
use run::broker::{Hindsight, Place, Ruling};
use state::audit::{Decided, PastCall, Seen};

/// Keys of a profile that a suggestion has itself.
const OWN: [&str; 5] = ["servers", "allow", "deny", "scripts", "allow_unmatched"];

pub(super) fn suggest(config: Config, past: &Past, ui: Ui) -> Result<ExitCode, Failure> {
    let log = past.read(&config, ui)?;
    let path = config.path.clone().unwrap_or_default();
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::of_path(&path, error))?;
    let here = Hindsight::new(config.clone()).map_err(Failure::of_usage)?;
    let mut all: BTreeMap<String, Suggestion<'_>> = BTreeMap::new();
    for (call, seen) in &log.calls.rows {
        // A person of the console acts as this machine's user.
        let client = if call.client.starts_with("console/") { LOCAL } else { &call.client };
        all.entry(client.to_owned()).or_default().take(&here, call, *seen);
    }
    let mut taken: BTreeSet<String> = config.profiles.keys().cloned().collect();
    for (client, suggestion) in &mut all {
        suggestion.add_calls_of_scripts(&here);
        suggestion.name = free(client, &taken);
        taken.insert(suggestion.name.clone());
        suggestion.write(client, &config, &text);
    }
    check(&text, &path, &all)?;
    match past.format.json {
        true => {
            let suggestions: Vec<Value> = all.iter().map(|(client, of)| of.json(client)).collect();
            shapes::print(log.told(past, json!({ "suggestions": suggestions })), ui);
        }
        false => all.values().for_each(|suggestion| ui.out(&suggestion.toml)),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a client called, and the profile for it.
#[derive(Default)]
struct Suggestion<'a> {
    name: String,
    toml: String,
    /// Server and tool, or `scripts` and a script, by configured and wire name.
    tools: BTreeMap<(String, String), Use>,
    /// Servers whose resources or prompts were read; true if they have tools.
    others: BTreeMap<String, bool>,
    /// Calls that the profile does not allow, with the reason.
    left: BTreeMap<(String, String), Seen>,
    /// Calls that it has to allow.
    calls: Vec<&'a PastCall>,
    all: Seen,
}

#[derive(Default)]
struct Use {
    seen: Seen,
    approved: u64,
    is_unlisted: bool,
}

impl<'a> Suggestion<'a> {
    fn take(&mut self, here: &Hindsight, call: &'a PastCall, seen: Seen) {
        let PastCall { server, tool, decided, .. } = call;
        let why = match decided {
            Decided::Allowed | Decided::Approved => match here.decide(call) {
                Ruling::Refused(error) => format!("refused now: {}", error.message),
                _ => {
                    self.all.add(seen);
                    self.calls.push(call);
                    let key = match here.place(server, tool) {
                        Place::Tool(server, tool) => (server, tool),
                        Place::Unlisted(server) => (server, tool.clone()),
                        Place::Server(server, has_tools) => {
                            self.others.insert(server, has_tools);
                            return;
                        }
                    };
                    let used = self.tools.entry(key).or_default();
                    used.seen.add(seen);
                    used.approved += if *decided == Decided::Approved { seen.count } else { 0 };
                    used.is_unlisted = matches!(here.place(server, tool), Place::Unlisted(_));
                    return;
                }
            },
            Decided::NotApproved => "asked about, and not approved".to_owned(),
            Decided::Refused(code) | Decided::Otherwise(code) => code.clone(),
        };
        self.left.entry((format!("{server}.{tool}"), why)).or_default().add(seen);
    }

    /// A profile does not show a script that calls what it does not have.
    fn add_calls_of_scripts(&mut self, here: &Hindsight) {
        let of_scripts = |(server, tool): &(String, String)| (server == SCRIPTS).then(|| tool.clone());
        let mut scripts: Vec<String> = self.tools.keys().filter_map(of_scripts).collect();
        while let Some(script) = scripts.pop() {
            for call in here.calls_of(&script) {
                if !self.tools.contains_key(call) {
                    self.tools.insert(call.clone(), Use::default());
                    scripts.extend(of_scripts(call));
                }
            }
        }
    }

    /// Writes it as TOML.
    fn write(&mut self, client: &str, config: &Config, text: &str) {
        let day = |ms| head(&rfc3339(ms), 10).to_owned();
        let times = |seen: Seen| format!("{}, last {}", counted(seen.count as usize, "call"), day(seen.last));
        let mut toml = String::new();
        let mut put = |line: String| toml.extend([&*line, "\n"]);
        let comment = |text: &str| format!("# {}", people::line(text));
        let (calls, first, last) = (self.all.count as usize, day(self.all.first), day(self.all.last));
        match calls {
            0 => put(comment(&format!("{client}: no call that is allowed; this profile has nothing"))),
            _ => put(comment(&format!("{client}: {} from {first} to {last}", counted(calls, "call")))),
        }
        if self.tools.values().any(|used| used.approved > 0) {
            put(comment("A profile only narrows: `approval` of servers and tools asks as before."));
        }
        put(format!("[profiles.{}]", quoted(&self.name)));
        let of_servers = self.tools.keys().map(|(server, _)| server).filter(|server| *server != SCRIPTS);
        let servers: BTreeSet<&String> = of_servers.chain(self.others.keys()).collect();
        put(format!("servers = [{}]", servers.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")));
        for (key, is_script) in [("allow", false), ("scripts", true)] {
            if is_script && config.scripts.path.is_none() {
                continue;
            }
            put(format!("{key} = ["));
            for ((server, tool), used) in self.tools.iter().filter(|((server, _), _)| (server == SCRIPTS) == is_script)
            {
                let name = if is_script { exactly(tool) } else { exactly(&format!("{server}.{tool}")) };
                let said = match (used.seen.count, used.approved) {
                    (0, _) => "a script that is called may call it".to_owned(),
                    (_, 0) => times(used.seen),
                    (_, approved) => format!("{}, {approved} after approval", times(used.seen)),
                };
                let unlisted = if used.is_unlisted { "; not checked: its server was never listed here" } else { "" };
                put(format!("  {}, {}", quoted(&name), comment(&format!("{said}{unlisted}"))));
            }
            let bare =
                self.others.keys().filter(|server| !is_script && !self.tools.keys().any(|(of, _)| of == *server));
            bare.for_each(|server| {
                put(format!("  {}, # resources and prompts", quoted(&format!("{}.*", exactly(server)))))
            });
            put("]".to_owned());
        }
        let has_none =
            |(server, has_tools): &(&String, &bool)| **has_tools && !self.tools.keys().any(|(of, _)| of == *server);
        let bare: Vec<String> =
            self.others.iter().filter(has_none).map(|(server, _)| quoted(&format!("{}.*", exactly(server)))).collect();
        if !bare.is_empty() {
            put(format!("deny = [{}] # their tools", bare.join(", ")));
        }
        let profile = self.calls.first().and_then(|call| config.profile_of(client, call.profile.as_deref()));
        let kept = profile.map(|profile| kept(text, profile)).unwrap_or_default();
        if let (Some(profile), false) = (profile, kept.is_empty()) {
            put(comment(&format!("as in [profiles.{profile}]")));
        }
        kept.into_iter().for_each(&mut put);
        for ((what, why), seen) in &self.left {
            put(comment(&format!("not in it: {what}: {}: {why}", times(*seen))));
        }
        match config.clients.contains_key(client) {
            true => put(comment(&format!("Write into [clients.{client}]: profile = {}", quoted(&self.name)))),
            false if client == LOCAL => put(format!("[clients.local]\nprofile = {}", quoted(&self.name))),
            false => put(comment("This client has no entry in [clients]: its credentials choose its profile.")),
        }
        self.toml = toml;
    }

    fn json(&self, client: &str) -> Value {
        let tools = self.tools.iter().map(|((server, tool), used)| {
            let seen = used.seen.count > 0;
            let tool = json!({ "server": server, "tool": tool, "approved": used.approved, "called": seen });
            if seen { with_times(used.seen, tool) } else { tool }
        });
        let left = self.left.iter().map(|((what, why), seen)| with_times(*seen, json!({ "what": what, "why": why })));
        json!({
            "client": client, "profile": self.name, "toml": self.toml, "tools": tools.collect::<Vec<_>>(),
            "resources": self.others.keys().collect::<Vec<_>>(), "not_in_it": left.collect::<Vec<_>>(),
        })
    }
}

/// Holds the suggestions to what was called, by the policy: with them the configuration must decide as now.
fn check(text: &str, path: &Path, all: &BTreeMap<String, Suggestion<'_>>) -> Result<(), Failure> {
    let text = format!("{text}\n{}", all.values().map(|suggestion| suggestion.toml.as_str()).collect::<String>());
    let fault = |why: String| Failure::internal(format!("a suggestion does not fit into {}: {why}", path.display()));
    let config = Config::parse(&text, path, &process_env).map_err(|error| fault(error.to_string()))?;
    let then = Hindsight::new(config).map_err(|error| fault(error.message))?;
    for suggestion in all.values() {
        for call in &suggestion.calls {
            if let Ruling::Refused(error) = then.decide_as(Some(&suggestion.name), call) {
                return Err(fault(format!("it refuses {}.{}: {}", call.server, call.tool, error.message)));
            }
        }
    }
    Ok(())
}

/// Keys of a profile that a narrower one keeps, as lines.
fn kept(text: &str, profile: &str) -> Vec<String> {
    let Ok(document) = text.parse::<DocumentMut>() else { return Vec::new() };
    let table = document.get("profiles").and_then(|all| all.get(profile)).and_then(Item::as_table_like);
    let keys = table.into_iter().flat_map(|table| table.iter()).filter(|(key, _)| !OWN.contains(key));
    let value =
        |(key, item): (&str, &Item)| Some(format!("{key} = {}", item.clone().into_value().ok()?.decorated("", "")));
    keys.filter_map(value).collect()
}

/// A name for a profile that no other has.
fn free(client: &str, taken: &BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = client.chars().map(plain).take(56).collect();
    let name = name.trim_start_matches(['-', '_', '.']);
    let name = if name.is_empty() { "client" } else { name };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    [name.to_owned()].into_iter().chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default()
}

/// A pattern that matches this text alone.
fn exactly(text: &str) -> String {
    text.chars().map(|c| if "?*[]{}\\".contains(c) { format!("[{c}]") } else { c.to_string() }).collect()
}

/// A string of TOML that a terminal shows as it is.
fn quoted(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic() && !"\"\\".contains(c) || c.is_alphanumeric();
    let one = |c: char| if plain(c) { c.to_string() } else { format!("\\U{:08X}", u32::from(c)) };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}
