//! One edit of one client's file: planned, shown, then applied.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::document::{self, Document, NAME};
use crate::cli::clients::{Client, Located};
use base::files::{Edited, Layout};

/// An edit of a file as it was read.
pub(super) struct Plan {
    file: Edited,
    after: After,
    /// Servers that an undo brings back into the file.
    pub(super) back: Vec<String>,
    pub(super) difference: String,
}

/// State of the file after the edit.
enum After {
    Content(String),
    /// As [`Self::Content`], without servers that moved.
    Moved(String),
    /// The content of this backup, as it was shown.
    Backup(PathBuf, Vec<u8>),
    Removed,
}

/// Ways to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undo {
    /// The bytes from before.
    Restore,
    /// No file, as before.
    Remove,
    /// The present file without the entry.
    Entry,
}

impl Plan {
    /// Plans to add ForgeFS, and to remove the servers that it takes over, with their values; `None` when there is
    /// nothing to do.
    ///
    /// # Errors
    /// Why the file cannot be edited; a server that it takes over has another value now.
    pub(super) fn connect(
        client: &Client,
        located: &Located,
        entry: &Value,
        taken_over: &[(String, Option<Value>)],
    ) -> Result<Option<Self>, String> {
        let file = read(located)?;
        let layout = layout(&file)?;
        let document = Document::parse(client, layout.plain())?;
        let now = |name: &str| document.servers().and_then(|servers| servers.get(name));
        if let Some((name, _)) = taken_over.iter().find(|(name, value)| now(name) != value.as_ref()) {
            return Err(format!("another program changed its server {name} in the meantime; try again"));
        }
        let names: Vec<&str> = taken_over.iter().map(|(name, _)| name.as_str()).collect();
        if document.has(entry) && names.is_empty() {
            return Ok(None);
        }
        let text = match file.content() {
            Some(_) => Document::parse(client, &document.without(&names)?)?.with(entry)?,
            None => document::new(client, entry)?,
        };
        let difference = document.difference(&text, file.path());
        let content = layout.render(&text);
        let after = if names.is_empty() { After::Content(content) } else { After::Moved(content) };
        Ok(Some(Self { after, back: Vec::new(), difference, file }))
    }

    /// Plans to take ForgeFS out; `None` when it is not there.
    ///
    /// # Errors
    /// Why the file cannot be edited.
    pub(super) fn undo(client: &Client, located: &Located) -> Result<Option<Self>, String> {
        let file = read(located)?;
        let layout = layout(&file)?;
        let document = Document::parse(client, layout.plain())?;
        let Some(entry) = document.entry() else { return Ok(None) };
        if let Some(backup) = file.backup().map_err(|error| error.to_string())? {
            let wrong = |problem: String| {
                format!("its backup {} is not one of this file: {problem}; check it, and remove it", backup.display())
            };
            let content = file.read_backup(&backup).map_err(|error| wrong(error.to_string()))?;
            let before = Layout::of(&content).map_err(|error| wrong(error.to_string()))?;
            Document::parse(client, before.plain()).map_err(wrong)?;
            let difference = document.difference(before.plain(), file.path());
            return Ok(Some(Self { after: After::Backup(backup, content), back: Vec::new(), difference, file }));
        }
        // A file with a backup existed before.
        let is_made = !file.has_backups().map_err(|error| error.to_string())?;
        let is_all = is_made && document::new(client, entry).is_ok_and(|new| Some(new.as_bytes()) == file.content());
        let (text, back, after) = match is_all {
            true => (String::new(), Vec::new(), After::Removed),
            false => {
                let (text, back) = with_moved(client, &file, document.without(&[NAME])?)?;
                let content = layout.render(&text);
                (text, back, After::Content(content))
            }
        };
        let difference = document.difference(&text, file.path());
        Ok(Some(Self { after, back, difference, file }))
    }

    /// True if the file is still as it was when this was planned.
    pub(super) fn is_current(&self) -> bool {
        self.file.is_current()
    }

    /// The file itself: links are resolved.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The way to undo that this is.
    pub(super) fn undo_kind(&self) -> Undo {
        match &self.after {
            After::Backup(..) => Undo::Restore,
            After::Removed => Undo::Remove,
            After::Content(_) | After::Moved(_) => Undo::Entry,
        }
    }

    /// Writes the file; returns the backup.
    ///
    /// # Errors
    /// As [`Edited::replace`].
    pub(super) fn apply(&self) -> io::Result<Option<PathBuf>> {
        match &self.after {
            After::Content(content) => self.file.replace(content.as_bytes()),
            After::Moved(content) => self.file.replace_moved(content.as_bytes()),
            After::Backup(backup, content) => self.file.restore(backup, content).map(|()| None),
            After::Removed => self.file.remove().map(|()| None),
        }
    }
}

/// The text with the servers that moved behind ForgeFS and are not in it, and their names.
fn with_moved(client: &Client, file: &Edited, mut text: String) -> Result<(String, Vec<String>), String> {
    let mut back = Vec::new();
    for (backup, is_move) in file.backups().map_err(|error| error.to_string())?.into_iter().rev() {
        let Ok(content) = file.read_backup(&backup) else { continue };
        let Ok(layout) = Layout::of(&content) else { continue };
        let Ok(before) = Document::parse(client, layout.plain()) else { continue };
        for (name, server) in before.servers().into_iter().flatten().filter(|(name, _)| is_move && *name != NAME) {
            let document = Document::parse(client, &text)?;
            if document.server(name).is_none() {
                text = document.with_server(name, server)?;
                back.push(name.clone());
            }
        }
        // What moved before ForgeFS was connected anew has its own undo.
        if before.entry().is_none() {
            break;
        }
    }
    Ok((text, back))
}

/// The servers in a client's file, by name.
///
/// # Errors
/// Why the file cannot be read.
pub(super) fn servers(client: &Client, located: &Located) -> Result<Map<String, Value>, String> {
    let file = read(located)?;
    let layout = layout(&file)?;
    Ok(Document::parse(client, layout.plain())?.servers().cloned().unwrap_or_default())
}

/// True if the client has servers besides ForgeFS.
pub(super) fn has_others(client: &Client, located: &Located) -> bool {
    servers(client, located).is_ok_and(|servers| servers.keys().any(|name| name != NAME))
}

fn read(located: &Located) -> Result<Edited, String> {
    Edited::read(&located.path, located.max).map_err(|error| error.to_string())
}

fn layout(file: &Edited) -> Result<Layout, String> {
    Layout::of(file.content().unwrap_or_default()).map_err(|error| error.to_string())
}
