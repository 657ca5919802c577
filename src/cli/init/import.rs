//! Imports the servers of other hosts into one `forge.toml`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::places;
use super::read::read;
use crate::cli::Ui;
use crate::cli::clients::{Os, home, name_of, show};
use config::entries::{Credentials, Entry, Found, Host, Known, Place, plain, translated};
use config::{Config, Env, ROOT_NAMES};

/// Sources of an import.
pub(super) struct Sources<'a> {
    /// Files to read; empty searches all known places.
    pub(super) files: &'a [PathBuf],
    /// The environment, and the target's files of variables.
    pub(super) env: Env<'a>,
    /// The environment alone.
    pub(super) real: Env<'a>,
    /// Variables that the target refers to.
    pub(super) referred: BTreeSet<String>,
    /// The current folder.
    pub(super) cwd: &'a Path,
    /// File to write.
    pub(super) target: &'a Path,
    /// Servers that it already has.
    pub(super) existing: toml::Table,
    /// Write references in place of credentials.
    pub(super) leave_out: bool,
    /// Variables with these credentials, if they are kept in a file.
    pub(super) kept: Option<&'a RefCell<BTreeMap<String, String>>>,
    /// Servers that stay where they are, and why.
    pub(super) stays: &'a BTreeMap<String, String>,
    /// Leave out the servers of single projects: they go where the user's own servers go.
    pub(super) is_move: bool,
}

/// Result of an import.
#[derive(Default)]
pub(in crate::cli) struct Imported {
    /// The entries as TOML, with comments.
    pub(super) text: String,
    /// Remarks for the user, those on a file and its servers together.
    report: Vec<Remark>,
    /// Number of entries, commented ones included.
    pub(super) count: usize,
    /// Number of copied credentials.
    pub(in crate::cli) secrets: usize,
    /// Names in the source files of new entries that work in the target as they did there.
    pub(in crate::cli) taken_over: Vec<String>,
    /// Names in the source files of servers that the target has already, the very same.
    pub(in crate::cli) known: Vec<String>,
    /// Names of the new entries in the target, without commented ones.
    pub(in crate::cli) written: Vec<String>,
    /// Their names in the source files, by name in the target.
    pub(in crate::cli) called: BTreeMap<String, Vec<String>>,
    /// Variables that the new entries refer to, with the credentials to keep.
    pub(super) variables: BTreeMap<String, String>,
    /// Number of unreadable files.
    pub(super) broken: usize,
}

/// A line for the user.
struct Remark {
    /// Position of the file among those that are read.
    file: usize,
    /// Position of the server among all that were found; `None` for the file.
    server: Option<usize>,
    /// The line.
    text: String,
}

impl Imported {
    /// Tells the remarks.
    pub(in crate::cli) fn tell(&self, ui: Ui) {
        self.report.iter().for_each(|remark| ui.note(&plain(&remark.text)));
    }

    /// Adds a line on a file.
    fn say_of_file(&mut self, file: usize, text: String) {
        self.report.push(Remark { file, server: None, text });
    }

    /// Adds a line on a server.
    fn say(&mut self, file: usize, server: usize, text: &str) {
        self.report.push(Remark { file, server: Some(server), text: format!("  {text}") });
    }
}

/// Reads all sources and builds the entries.
pub(super) fn import(sources: Sources<'_>) -> Imported {
    let home = home(sources.env);
    let places = match sources.files {
        [] => places::all(Os::current(), sources.env, sources.cwd),
        files => files.iter().map(|file| places::named(file, home.as_deref())).collect(),
    };
    let mut imported = Imported::default();
    let mut found = gather(&places, &sources, home.as_deref(), &mut imported);
    let is_nothing = found.is_empty();
    for found in found.extract_if(.., |found| sources.is_move && found.place.project.is_some()) {
        let text = format!("{}: stays where it is: it is a server of one project", found.name);
        imported.say(found.file, 0, &text);
    }
    let entries = entries(&found, &sources, home.as_deref(), &mut imported);
    for entry in &entries {
        write(entry, &sources, &mut imported);
    }
    for (name, value) in sources.kept.map(RefCell::take).into_iter().flatten() {
        if imported.text.contains(&format!("${{{name}}}")) {
            imported.variables.insert(name, value);
        }
    }
    if is_nothing && imported.broken == 0 {
        let looked: Vec<String> = places.iter().map(|place| show(&place.path, home.as_deref())).collect();
        imported.say_of_file(places.len(), format!("no servers found; looked at {}", looked.join(", ")));
    }
    imported.report.sort_by_key(|remark| (remark.file, remark.server));
    imported
}

/// All servers of all files.
fn gather(places: &[Place], sources: &Sources<'_>, home: Option<&Path>, imported: &mut Imported) -> Vec<Found> {
    let mut found = Vec::new();
    let mut switched_off = Vec::new();
    for (index, place) in places.iter().enumerate() {
        // A file given by name must exist; a searched one need not.
        if sources.files.is_empty() && !place.path.exists() {
            continue;
        }
        let file = show(&place.path, home);
        match read(place, sources.cwd) {
            Ok(mut contents) => {
                contents.servers.iter_mut().for_each(|found| found.file = index);
                let names: Vec<&str> = contents.servers.iter().map(|found| found.name.as_str()).collect();
                let names = if names.is_empty() { "no servers".to_owned() } else { names.join(", ") };
                imported.say_of_file(index, format!("{}, {file}: {names}", name_of(place.host)));
                contents.notes.iter().for_each(|note| imported.say_of_file(index, format!("  {file}: {note}")));
                switched_off.extend(contents.switched_off);
                found.extend(contents.servers);
            }
            Err(error) => {
                imported.broken += 1;
                imported.say_of_file(index, format!("not read: {file}: {error}"));
            }
        }
    }
    for server in &mut found {
        let of_the_project = server.place.path.ends_with(".mcp.json") && server.place.host == Host::ClaudeCode;
        server.disabled |= of_the_project && switched_off.contains(&server.name);
    }
    found
}

/// Entries under unique names; the same server from several hosts is one entry.
fn entries(found: &[Found], sources: &Sources<'_>, home: Option<&Path>, imported: &mut Imported) -> Vec<Entry> {
    let base = match sources.target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => sources.cwd,
    };
    let nothing = Known::default();
    let Sources { env, real, ref referred, leave_out, kept, .. } = *sources;
    let mut credentials = Credentials { env, real, referred, leave_out, kept, known: &nothing };
    // A credential in one value must not be visible in another, nor be kept under a name that another refers to.
    let first = found.iter().filter(|_| leave_out).filter_map(|found| translated(found, credentials, base).ok());
    let (hidden, refers): (Vec<_>, Vec<_>) = first.map(|entry| (entry.hidden, entry.refers)).unzip();
    let known = Known::new(hidden.iter().flatten());
    let referred: BTreeSet<String> = refers.into_iter().flatten().chain(referred.clone()).collect();
    kept.map(RefCell::take);
    (credentials.known, credentials.referred) = (&known, &referred);
    let mut entries: Vec<Entry> = Vec::new();
    let mut taken: BTreeSet<String> = sources.existing.keys().map(|name| name.to_lowercase()).collect();
    // The user's own files first: they decide names and rules.
    let (shared, own): (Vec<_>, Vec<_>) = found.iter().enumerate().partition(|(_, found)| found.place.is_shared);
    for (position, found) in own.into_iter().chain(shared) {
        let origin = format!("{}, {}", name_of(found.place.host), show(&found.place.path, home));
        let mut entry = match translated(found, credentials, base) {
            Ok(entry) => entry,
            Err(reason) => {
                imported.say(found.file, position, &format!("{}: left out, {reason}", found.name));
                continue;
            }
        };
        (entry.is_shared, entry.file, entry.position) = (found.place.is_shared, found.file, position);
        if let Some(reason) = sources.stays.get(&found.name) {
            imported.say(found.file, position, &format!("{}: stays where it is: {reason}", found.name));
            continue;
        }
        if sources.is_move && !entry.lost.is_empty() {
            for loss in &entry.lost {
                let text = format!("{}: stays where it is: {}", found.name, loss.stays());
                imported.say(found.file, position, &text);
            }
            continue;
        }
        if let Some(report) = existing(&entry, found, sources, imported) {
            imported.say(found.file, position, &format!("{}: {report}", found.name));
            continue;
        }
        let same = |other: &&mut Entry| {
            let is_same = other.transport == entry.transport && other.auth == entry.auth;
            // Two servers of one client that allow different tools are two behind the gateway too.
            is_same && (!sources.is_move || other.has_rules_of(&entry))
        };
        if let Some(known) = entries.iter_mut().find(same) {
            known.join(&entry);
            known.called.push(found.name.clone());
            match known.origins.contains(&origin) {
                true => {}
                false if known.position < position => known.origins.push(origin),
                false => known.origins.insert(0, origin),
            }
            known.position = known.position.min(position);
            known.file = known.file.min(found.file);
            continue;
        }
        let is_taken = taken.contains(&found.name.to_lowercase());
        entry.name = free_name(&found.name, &mut taken);
        if is_taken && entry.is_shared {
            entry.is_doubtful = true;
            let note =
                "A file of the project has another server under a name that is taken; look at it, then enable it.";
            entry.notes.insert(0, note.to_owned());
        }
        if entry.name != found.name {
            entry.notes.insert(0, format!("Called `{}` there.", found.name));
            imported.say(found.file, position, &format!("{} is called {} here", found.name, entry.name));
        }
        entry.origins.push(origin);
        entry.called.push(found.name.clone());
        entries.push(entry);
    }
    entries.sort_by_key(|entry| entry.position);
    entries
}

/// Looks for the server in the target; says what becomes of it if it is there.
fn existing(entry: &Entry, found: &Found, sources: &Sources<'_>, imported: &mut Imported) -> Option<String> {
    let is_on = |table: &toml::Value| table.get("enabled").and_then(toml::Value::as_bool).unwrap_or(true);
    let there: Vec<_> = sources.existing.iter().filter(|(_, table)| entry.is_at(table)).collect();
    let same = there.iter().find(|(_, table)| entry.is_same(table) && is_on(table));
    let (name, table) = same.or(there.first())?;
    imported.known.extend(same.map(|_| found.name.clone()));
    Some(match (sources.is_move, same) {
        (false, _) | (true, Some(_)) => format!("left out, {name} in this file is the same server"),
        (true, None) if entry.is_same(table) => format!("stays where it is, as {name} in this file is disabled"),
        (true, None) => {
            let what = "with another `env`, `cwd`, `headers`, `auth` or rule for tools";
            format!("stays where it is: {name} in this file is the same server {what}")
        }
    })
}

/// A free name that `forge.toml` allows: other characters become `-`, a number is added.
fn free_name(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let name: String = wanted.trim().chars().map(|c| if valid(c) { c } else { '-' }).collect();
    let name: String = name.trim_start_matches(['-', '_', '.']).chars().take(56).collect();
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "server" } else { name };
    let is_reserved = ROOT_NAMES.iter().any(|reserved| reserved.eq_ignore_ascii_case(name));
    let mut candidate = if is_reserved { format!("{name}-server") } else { name.to_owned() };
    let mut number = 2;
    while !taken.insert(candidate.to_lowercase()) {
        candidate = format!("{name}-{number}");
        number += 1;
    }
    candidate
}

/// Adds an entry to the text, as a comment if the configuration would refuse it.
fn write(entry: &Entry, sources: &Sources<'_>, imported: &mut Imported) {
    let known = |name: &str| (sources.env)(name).or_else(|| sources.kept?.borrow().get(name).cloned());
    let refused = Config::parse(&entry.table(), sources.target, &known).err();
    let reason = refused.map(|error| match error.key.is_empty() {
        true => error.message,
        false => format!("{}: {}", error.key, error.message),
    });
    imported.text.push('\n');
    imported.text.push_str(&entry.render(reason.as_deref()));
    imported.count += 1;
    if reason.is_none() && entry.unset.is_empty() && !entry.is_doubtful {
        imported.taken_over.extend(entry.called.iter().cloned());
    }
    if reason.is_none() {
        imported.written.push(entry.name.clone());
        imported.called.insert(entry.name.clone(), entry.called.clone());
    }
    let name = &entry.name;
    let mut say = |text: String| imported.say(entry.file, entry.position, &format!("{name}: {text}"));
    match &reason {
        Some(reason) => say(format!("written as a comment, {reason}")),
        None => {
            if !entry.unset.is_empty() {
                say(format!("disabled until you export {}", entry.unset.join(", ")));
            } else if entry.disabled {
                say("disabled, as it was".to_owned());
            }
        }
    }
    entry.notes.iter().filter(|note| !note.starts_with("Called ")).for_each(|note| say(note.clone()));
    entry.secrets.iter().for_each(|secret| say(format!("{secret} is a credential and was copied as it is")));
    imported.secrets += entry.secrets.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_valid_and_unique() {
        let mut taken = BTreeSet::from(["files".to_owned()]);
        let names: Vec<String> =
            ["files", "Files", "My Server!", "@scope/pkg", "…", "results", "Runs", &"x".repeat(90)]
                .into_iter()
                .map(|name| free_name(name, &mut taken))
                .collect();
        let long = "x".repeat(56);
        assert_eq!(
            names,
            ["files-2", "Files-3", "My-Server", "scope-pkg", "server", "results-server", "Runs-server", &long]
        );
    }
}
