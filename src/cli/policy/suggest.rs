//! `forgefs policy suggest`: the narrowest profile that allows what a client called.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde_json::json;
use toml_edit::{DocumentMut, Item};

use super::Past;
use crate::cli::{Failure, Ui, shapes};
use base::principal::{LOCAL, Principal};
use base::text::{counted, head};
use base::time::rfc3339;
use catalog::people;
use config::entries::key;
use config::{Config, DEFAULT_PROFILE, SCRIPTS_SERVER as SCRIPTS, process_env};
use run::broker::{Hindsight, Ruling};
use state::audit::{Decided, PastCall, Seen};

/// Keys of a profile that a suggestion has itself.
const OWN: [&str; 5] = ["servers", "allow", "deny", "scripts", "allow_unmatched"];

pub(super) fn suggest(config: &Config, past: &Past, ui: Ui) -> Result<u8, Failure> {
    let log = past.read(config, ui)?;
    let path = config.path.clone().unwrap_or_default();
    let mut text = std::fs::read_to_string(&path).map_err(|error| Failure::of_path(&path, error))? + "\n";
    let here = Hindsight::new(config.clone()).map_err(Failure::of_usage)?;
    let mut all: BTreeMap<&str, Suggestion<'_>> = BTreeMap::new();
    let mut gone = 0;
    for (call, seen) in &log.rows {
        let client = if call.client.starts_with(Principal::CONSOLE) { LOCAL } else { &call.client };
        match here.has_client(client) {
            true => all.entry(client).or_default().take(&here, config, call, *seen),
            false => gone += seen.count,
        }
    }
    if gone > 0 {
        ui.note(&format!("note: {gone} calls are of clients that are gone"));
    }
    let mut suggested = Vec::new();
    // A profile of the default's name would be that of every client.
    let mut taken: BTreeSet<String> = config.profiles.keys().cloned().chain([DEFAULT_PROFILE.to_owned()]).collect();
    for (client, suggestion) in &mut all {
        suggestion.leave_out_unknown(&here);
        suggestion.add_calls_of_scripts(&here);
        let name = client.replace(':', "-");
        let mut names = [name.clone()].into_iter().chain((2..).map(|number| format!("{name}-{number}")));
        suggestion.profile = names.find(|name| taken.insert(name.clone())).unwrap_or_default();
        let toml = suggestion.toml(client, config, &text);
        suggested.push(json!({ "client": client, "profile": suggestion.profile, "toml": toml }));
    }
    text.extend(suggested.iter().filter_map(|one| one["toml"].as_str()));
    // With the suggestions the configuration must decide as now, by the policy itself.
    let fault = |why: &dyn Display| Failure::internal(format!("a suggestion does not fit {}: {why}", path.display()));
    let then = Config::parse(&text, &path, &process_env).map_err(|error| fault(&error))?;
    let then = Hindsight::new(then).map_err(Failure::of_usage)?;
    for (of, call) in all.values().flat_map(|of| of.calls.iter().map(move |call| (of, call))) {
        if let Ruling::Refused(error) = then.decide_as(Some(&of.profile), call) {
            return Err(fault(&error.context(format_args!("{}.{} is refused", call.server, call.tool)).message));
        }
    }
    match past.format.json {
        true => {
            let (broken, left_out) = (log.broken, log.left_out);
            shapes::print(json!({ "suggestions": suggested, "broken_lines": broken, "left_out": left_out }), ui);
        }
        false => suggested.iter().filter_map(|one| one["toml"].as_str()).for_each(|toml| ui.out(toml)),
    }
    Ok(0)
}

/// Calls of a client, and the profile for them.
#[derive(Default)]
struct Suggestion<'a> {
    profile: String,
    /// By configured name of the server and wire name of the tool, which is empty for resources and prompts.
    uses: BTreeMap<(String, String), Use>,
    /// Calls that the profile does not allow, with the reason.
    left: BTreeMap<(String, String), Seen>,
    /// Calls that it has to allow.
    calls: Vec<&'a PastCall>,
}

#[derive(Default)]
struct Use {
    seen: Seen,
    approved: u64,
    /// True if the server's tools are known.
    is_known: bool,
}

impl<'a> Suggestion<'a> {
    fn take(&mut self, here: &Hindsight, config: &Config, call: &'a PastCall, seen: Seen) {
        let (decided, held) = (&call.decided, call.labels.iter().flatten());
        let why = match (decided, here.decide(call), here.place(call)) {
            (Decided::NotApproved, ..) => "asked about, and not approved".to_owned(),
            (Decided::Refused(code) | Decided::Otherwise(code), ..) => code.clone(),
            (_, Ruling::Refused(error), _) => format!("refused now: {}", error.message),
            (.., Some((entry, tool))) if held.clone().all(|label| config.servers.contains_key(label)) => {
                // A profile without a server refuses the calls of runs that hold data of it.
                held.for_each(|label| _ = self.uses.entry((label.clone(), String::new())).or_default());
                let used = self.uses.entry((entry.name.clone(), tool.unwrap_or_default())).or_default();
                used.approved += if *decided == Decided::Approved { seen.count } else { 0 };
                used.is_known = entry.names.is_some();
                used.seen.add(seen);
                return self.calls.push(call);
            }
            _ => "its run held data of a server that is not there now".to_owned(),
        };
        self.left.entry((format!("{}.{}", call.server, call.tool), why)).or_default().add(seen);
    }

    /// Leaves out servers of which no tool was called, and none is known: an entry for one could not deny its tools.
    fn leave_out_unknown(&mut self, here: &Hindsight) {
        let is_unknown = |(server, tool): &&(String, String)| {
            let others = self.uses.keys().any(|(of, tool)| of == server && !tool.is_empty());
            tool.is_empty() && !others && server != SCRIPTS && !here.has_tools(server)
        };
        let unknown: Vec<_> = self.uses.keys().filter(is_unknown).cloned().collect();
        for (server, tool) in unknown {
            let seen = self.uses.remove(&(server.clone(), tool)).unwrap_or_default().seen;
            let why = "none of its tools is known or was called".to_owned();
            self.left.entry((server.clone(), why)).or_default().add(seen);
            self.calls.retain(|call| {
                let is_its = here.place(call).is_some_and(|(entry, _)| entry.name == server);
                !is_its && !call.labels.iter().flatten().any(|label| *label == server)
            });
        }
    }

    /// A profile does not show a script that calls what it does not have.
    fn add_calls_of_scripts(&mut self, here: &Hindsight) {
        let scripts = self.uses.keys().filter(|(server, _)| server == SCRIPTS);
        let mut scripts: Vec<String> = scripts.map(|(_, script)| script.clone()).collect();
        while let Some(script) = scripts.pop() {
            for call in here.calls_of(&script) {
                if !self.uses.contains_key(call) {
                    self.uses.insert(call.clone(), Use::default());
                    scripts.extend((call.0 == SCRIPTS).then(|| call.1.clone()));
                }
            }
        }
    }

    fn toml(&self, client: &str, config: &Config, text: &str) -> String {
        let day = |ms| head(&rfc3339(ms), 10).to_owned();
        let times = |seen: Seen| format!("{}, last {}", counted(seen.count as usize, "call"), day(seen.last));
        let comment = |text: &str| format!("# {}", people::line(text));
        let mut lines = vec![comment(&format!("{client}, as it called"))];
        lines.push(format!("[profiles.{}]", key(&self.profile)));
        let servers: BTreeSet<&String> = self.uses.keys().map(|(server, _)| server).collect();
        let servers: Vec<String> = servers.into_iter().filter(|of| *of != SCRIPTS).map(|of| quoted(of)).collect();
        lines.push(format!("servers = [{}]", servers.join(", ")));
        let (mut allow, mut scripts, mut deny) = (Vec::new(), Vec::new(), Vec::new());
        for ((server, tool), used) in &self.uses {
            let said = match (used.seen.count, used.approved) {
                (0, _) if tool.is_empty() => "its data was held".to_owned(),
                (0, _) => "a script that is called may call it".to_owned(),
                (_, 0) if !used.is_known => {
                    format!("{}; not checked: its server's tools are not known", times(used.seen))
                }
                (_, 0) => times(used.seen),
                (_, approved) => format!("{}, {approved} after approval, which goes on", times(used.seen)),
            };
            let entry = |name: &str, said: &str| format!("  {}, {}", quoted(name), comment(said));
            match (server == SCRIPTS, tool.is_empty()) {
                (true, _) => scripts.push(entry(&exactly(tool), &said)),
                (_, false) => allow.push(entry(&exactly(&format!("{server}.{tool}")), &said)),
                // Without an entry that reaches the server, it is hidden.
                _ if !self.uses.keys().any(|(of, tool)| of == server && !tool.is_empty()) => {
                    let all = format!("{}.*", exactly(server));
                    allow.push(entry(&all, &format!("no tool: {said}")));
                    deny.push(entry(&all, "its tools"));
                }
                _ => {}
            }
        }
        let (has_deny, has_scripts) = (!deny.is_empty(), config.scripts.path.is_some());
        let lists = [("allow", allow, true), ("deny", deny, has_deny), ("scripts", scripts, has_scripts)];
        for (key, list, _) in lists.into_iter().filter(|(.., is_written)| *is_written) {
            let list = if list.is_empty() { String::new() } else { format!("\n{}\n", list.join("\n")) };
            lines.push(format!("{key} = [{list}]"));
        }
        if let Some(profile) = self.calls.first().and_then(|call| config.profile_of(client, call.profile.as_deref())) {
            lines.push(comment(&format!("As in [profiles.{profile}], but for its lists:")));
            lines.extend(kept(text, profile));
        }
        let left = self.left.iter();
        lines.extend(left.map(|((what, why), seen)| comment(&format!("not in it: {what}: {}: {why}", times(*seen)))));
        lines.push(match config.clients.contains_key(client) {
            true => comment(&format!("Write into [clients.{client}]: profile = {}", quoted(&self.profile))),
            false if client == LOCAL => format!("[clients.local]\nprofile = {}", quoted(&self.profile)),
            false => "# This client has no entry in [clients]: its credentials choose its profile.".to_owned(),
        });
        lines.join("\n") + "\n"
    }
}

/// Keys of a profile that a narrower one keeps, as lines.
fn kept(text: &str, profile: &str) -> Vec<String> {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let table = document.get("profiles").and_then(|all| all.get(profile)).and_then(Item::as_table_like);
    let line = |(key, item): (&str, &Item)| {
        let value = item.clone().into_value().ok().filter(|_| !OWN.contains(&key))?;
        Some(format!("{key} = {}", value.decorated("", "")))
    };
    table.into_iter().flat_map(|table| table.iter()).filter_map(line).collect()
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
