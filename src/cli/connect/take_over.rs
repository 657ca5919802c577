//! `forgefs connect --import`: a client's servers move behind ForgeFS.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use super::{Connector, change};
use crate::cli::clients::{Client, Located};
use crate::cli::init;
use crate::cli::servers::faults;
use crate::cli::signals;
use base::files::{Edited, Layout};
use base::limits;

impl Connector<'_> {
    /// Prepares to move the client's servers into the configuration; `None` when there are none.
    pub(super) async fn take_over(&self, client: &Client, located: &Located) -> Result<Option<TakeOver>, String> {
        let target = self.config.as_deref().ok_or("no home folder for a forge.toml")?;
        let file = Edited::read(target, limits::CONFIGURATION.max as u64)
            .map_err(|error| format!("{}: {error}", self.show(target)))?;
        let layout = Layout::of(file.content().unwrap_or_default()).map_err(|error| error.to_string())?;
        // Before the import reads them: they are compared once more before they are removed.
        let servers = change::servers(client, located)?;
        let take_over =
            |stays: &BTreeMap<String, String>| init::take_over(&located.path, target, layout.plain(), stays);
        let (mut moved, new) = take_over(&BTreeMap::new())?;
        if self.ui.is_interactive() && !self.args.no_check && !moved.imported.taken_over.is_empty() {
            let faults = faults(self.global, new, self.ui).await.map_err(|failure| failure.message)?;
            // Of several clients, Ctrl-C ends all.
            let faults = faults.unwrap_or_else(|| signals::end());
            let stays = faults.iter().flat_map(|(name, fault)| {
                let why = format!("it does not start behind ForgeFS: {fault}; --no-check moves it all the same");
                moved.imported.called.get(name).into_iter().flatten().map(move |called| (called.clone(), why.clone()))
            });
            (moved, _) = take_over(&stays.collect())?;
        }
        let imported = &moved.imported;
        imported.tell(self.ui);
        if imported.taken_over.is_empty() && imported.known.is_empty() {
            self.ui.note(&format!("{}: no server to move", client.name));
            return Ok(None);
        }
        let names = imported.taken_over.iter().chain(&imported.known);
        let servers = names.map(|name| (name.clone(), servers.get(name).cloned())).collect();
        let text = layout.render(&moved.text);
        Ok(Some(TakeOver { moved, servers, file, text, shown: self.show(target) }))
    }
}

/// A client's servers on their way behind ForgeFS.
pub(super) struct TakeOver {
    moved: init::Taken,
    /// The servers to remove from the client's file, with the values that were read there.
    pub(super) servers: Vec<(String, Option<serde_json::Value>)>,
    /// The configuration.
    pub(super) file: Edited,
    /// Its new content.
    text: String,
    /// Its path for people.
    shown: String,
}

impl TakeOver {
    /// Start of the question.
    pub(super) fn question(&self) -> String {
        let (imported, file) = (&self.moved.imported, &self.shown);
        let (new, known) = (imported.taken_over.join(", "), imported.known.join(", "));
        match (new.as_str(), known.as_str()) {
            (_, "") => format!("Move {new} to {file}"),
            ("", _) => format!("Take out {known}, which {file} has already"),
            _ => format!("Move {new} to {file}, take out {known}, which it has already"),
        }
    }

    /// Says what `--undo` brings back and what it leaves.
    pub(super) fn way_back(&self, client: &Client) -> String {
        let undo = format!("`forgefs connect {} --undo` brings its servers back", client.id);
        match self.moved.imported.written.as_slice() {
            [] => undo,
            written => format!("{undo}; in {} stay, until you remove them: {}", self.shown, written.join(", ")),
        }
    }

    /// Writes the configuration, readable by its owner only: not every credential is recognised.
    pub(super) fn write(&self, connector: &Connector<'_>) -> io::Result<()> {
        if self.file.content() == Some(self.text.as_bytes()) {
            return match self.file.is_current() {
                true => Ok(()),
                false => Err(io::Error::new(ErrorKind::ResourceBusy, "another program changed it; try again")),
            };
        }
        if let Some(env_file) = &self.moved.env_file {
            connector.ui.note(&env_file.write()?);
        }
        let backup = self.file.replace_private(self.text.as_bytes())?;
        let (imported, file, kept) = (&self.moved.imported, &self.shown, connector.kept(backup.as_deref()));
        connector.ui.note(&format!("{file}: added {}; {kept}", imported.written.join(", ")));
        if imported.secrets > 0 {
            let count = imported.secrets;
            let text = format!("warning: credentials in plain text in {file}: {count}; keep it out of version control");
            connector.ui.note(&text);
        }
        Ok(())
    }
}
