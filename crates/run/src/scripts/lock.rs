//! `scripts.lock`: what each reviewed script may call, read and change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;

use serde::Deserialize;

use base::tree::Tree;

mod parse;

/// Part of the script API that a script uses, with servers by wire name. A locked script has no other.
pub use wire::Used as Use;

/// Name of the file, beside the configuration.
pub use config::SCRIPTS_LOCK as FILE;
/// Version of the format.
const VERSION: i64 = 1;
/// First lines of the file.
const HEAD: &str = "\
# What each script may do, held while it runs. `forgefs scripts lock` writes this file: review its changes.
";

/// Rights of all locked scripts, by wire name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lock {
    /// The scripts.
    pub scripts: BTreeMap<String, Locked>,
}

/// Rights of one script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locked {
    /// SHA-256 of its text, in hex.
    pub sha256: String,
    /// Tools that it may call, sorted by server and tool.
    pub calls: Vec<LockedCall>,
    /// Servers whose data may reach another that is written to: from, to. Wire names.
    pub flows: BTreeSet<(String, String)>,
    /// Rights beside tools.
    pub uses: BTreeSet<Use>,
    /// Most calls of one run, those of scripts that it calls included; `None` if nothing in the text bounds them.
    pub most_calls: Option<u32>,
}

/// One tool that a script may call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with server, tool, writes and definition")]
pub struct LockedCall {
    /// Wire name of the server; `scripts` for another script.
    pub server: String,
    /// Wire name of the tool.
    pub tool: String,
    /// Whole digest of the tool's definition; of a script, the SHA-256 of its text.
    pub definition: String,
    /// True if its server does not annotate it as read-only, or if the script may call such a tool.
    pub writes: bool,
}

/// A use as the file has it.
pub fn in_file(used: &Use) -> String {
    match used {
        Use::Stash => "stash".to_owned(),
        Use::Results => "results".to_owned(),
        Use::Runs => "runs".to_owned(),
        Use::Discovery => "discovery".to_owned(),
        Use::Resources(server) => format!("resources:{server}"),
        Use::Prompts(server) => format!("prompts:{server}"),
    }
}

/// The use that is written so in the file.
fn read(text: &str) -> Option<Use> {
    Some(match text {
        "stash" => Use::Stash,
        "results" => Use::Results,
        "runs" => Use::Runs,
        "discovery" => Use::Discovery,
        _ => match text.split_once(':')? {
            (_, "") => return None,
            ("resources", server) => Use::Resources(server.to_owned()),
            ("prompts", server) => Use::Prompts(server.to_owned()),
            _ => return None,
        },
    })
}

impl fmt::Display for LockedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.server, self.tool)
    }
}

impl Lock {
    /// The text of the file: the same bytes for the same lock.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}version = {VERSION}\n");
        for (name, locked) in &self.scripts {
            let _ = write!(text, "\n[scripts.{}]\n{locked}", quoted(name));
        }
        text
    }

    /// Writes the file, as a whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written; the old one is still there then.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        // For everyone who reads the configuration, as the umask has it.
        Tree::open(folder)?.put(name, self.text().as_bytes(), true)
    }
}

/// The entry of the file, without its header.
impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sha256, calls, flows, uses, most_calls } = self;
        writeln!(f, "sha256 = {}", quoted(sha256))?;
        if let Some(most) = most_calls {
            writeln!(f, "most_calls = {most}")?;
        }
        let calls: BTreeSet<&LockedCall> = calls.iter().collect();
        list(f, "calls", calls.into_iter(), |LockedCall { server, tool, definition, writes }| {
            format!(
                "{{ server = {}, tool = {}, writes = {writes}, definition = {} }}",
                quoted(server),
                quoted(tool),
                quoted(definition)
            )
        })?;
        list(f, "flows", flows.iter(), |(from, to)| format!("{{ from = {}, to = {} }}", quoted(from), quoted(to)))?;
        list(f, "uses", uses.iter(), |used| quoted(&in_file(used)))
    }
}

/// A list, one item a line: a change of an item is a change of a line.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    items: impl ExactSizeIterator<Item = T>,
    text: impl Fn(T) -> String,
) -> fmt::Result {
    if items.len() == 0 {
        return writeln!(f, "{key} = []");
    }
    writeln!(f, "{key} = [")?;
    for item in items {
        writeln!(f, "    {},", text(item))?;
    }
    writeln!(f, "]")
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Invisible characters and those that turn the direction of text must be seen in a review.
            c if c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
