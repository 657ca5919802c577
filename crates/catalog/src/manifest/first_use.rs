//! Trust on first use: `[manifest] pin_first_use`. What a server lists first is kept in the state, as definitions, or as
//! digests where those are too long; what it lists later must match, until the operator accepts it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stubgen::ToolStub;

use super::reviewed::{Reviewed, reviewable};
use super::{Pin, ServerEntry};
use crate::findings::Item;
use base::error::{Cause, Error, ErrorCode, Result};
use base::json;
use base::limits;
use base::task;
use config::Config;
use state::{RecordKind, State, id_of, kept_folder};

/// Changes with the format of a record.
const FORMAT: u32 = 1;
/// Memory that the values of a record may take.
const MAX_TREE: usize = 32 * limits::FIRST_USE.max;
/// Attempts to replace a record that others replace too.
const ATTEMPTS: usize = 4;

/// Records of what servers listed first.
#[derive(Debug, Clone)]
pub struct FirstUse {
    state: Arc<dyn State>,
    folder: PathBuf,
    accepts_text: bool,
}

/// A server's list, tools by wire name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record(BTreeMap<Item, Reviewed>);

/// A record as it is kept.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    format: u32,
    tools: BTreeMap<String, Reviewed>,
    prompts: BTreeMap<String, Reviewed>,
    resources: BTreeMap<String, Reviewed>,
    templates: BTreeMap<String, Reviewed>,
    instructions: Option<Reviewed>,
}

/// Effect of an acceptance: what is new, changed or gone, as kind and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Listed for the first time.
    pub new: Vec<Item>,
    /// Listed otherwise than before, with both definitions as far as they are known.
    pub changed: Vec<(Item, Option<[Value; 2]>)>,
    /// Not listed any more.
    pub gone: Vec<Item>,
}

impl FirstUse {
    /// The records of a configuration; `None` if it does not want them.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no folder for them.
    pub fn new(config: &Config, state: &Arc<dyn State>) -> Result<Option<Self>> {
        let manifest = &config.manifest;
        if !manifest.pin_first_use {
            return Ok(None);
        }
        let Some(folder) = &manifest.state_folder else {
            let what = "`manifest.pin_first_use` needs a home folder to keep in what was seen";
            return Err(Error::new(ErrorCode::InvalidArgs, what).hint("set HOME, or XDG_STATE_HOME"));
        };
        let folder = kept_folder(folder, "first-use", config);
        Ok(Some(Self { state: Arc::clone(state), folder, accepts_text: manifest.accepts_text }))
    }

    /// Quarantines what is not as it was first; a list without a record, read just now or kept in the cache, is the first
    /// one. When the records cannot be used, all tools are quarantined.
    pub(super) async fn pinned(&self, entry: ServerEntry) -> ServerEntry {
        match self.known(&entry).await {
            Ok(record) => {
                let accepts_text = self.accepts_text;
                let (name, ident) = (entry.name.clone(), entry.ident.clone());
                let made = task::apart(move || Ok(record.quarantined(entry, accepts_text))).await;
                made.unwrap_or_else(|error| {
                    tracing::error!(server = name, %error, "its list could not be compared");
                    ServerEntry::empty(&name, &ident, None, super::ServerState::Failed { reason: error.message })
                })
            }
            Err(error) => {
                let file = self.folder.join(id_of(&entry.name)).with_extension("json");
                let file = (!self.state.is_shared()).then(|| file.display().to_string());
                let then = error.suggested_fix();
                tracing::error!(server = entry.name, %error, file, "what it listed first is not known: {then}");
                let reason = format!("what it listed first is not known: {}; {then}", error.message);
                entry.with_all_held(&reason)
            }
        }
    }

    /// The record of a server, made of its list if there is none.
    async fn known(&self, entry: &ServerEntry) -> Result<Record> {
        if let Some(text) = self.text(&entry.name).await? {
            let again = || format!("`forgefs stubs accept {}` makes a new one", entry.name);
            return Record::parse(&text).map_err(|error| error.hint(again()));
        }
        let record = Record::of(entry).await?;
        // Without all of its lists it would hold back what comes with the others.
        if entry.is_partial {
            return Ok(record);
        }
        let text = record.text()?;
        if self.keep(&entry.name, None, text).await? {
            tracing::info!(server = entry.name, tools = entry.stubs.tools.len(), "pinned as it was listed first");
            return Ok(record);
        }
        // Another gateway was first.
        let gone = || Error::new(ErrorCode::Internal, "the record comes and goes");
        Record::parse(&self.text(&entry.name).await?.ok_or_else(gone)?)
    }

    async fn text(&self, server: &str) -> Result<Option<Vec<u8>>> {
        self.state.record(RecordKind::FirstUse, &self.folder, &id_of(server)).await
    }

    async fn keep(&self, server: &str, before: Option<Vec<u8>>, text: Vec<u8>) -> Result<bool> {
        self.state.keep_record(RecordKind::FirstUse, &self.folder, &id_of(server), before, Some(text)).await
    }

    /// Effect of accepting a server's current list. A record that cannot be read counts as none.
    ///
    /// # Errors
    /// `INTERNAL` when the state cannot be read.
    pub async fn against(&self, entry: &ServerEntry) -> Result<Accepted> {
        let known = self.text(&entry.name).await?.and_then(|text| Record::parse(&text).ok()).unwrap_or_default();
        Ok(Record::of(entry).await?.since(&known))
    }

    /// Accepts what a server lists now; `only` one item of it, if it is given.
    ///
    /// # Errors
    /// `INTERNAL` when the record cannot be read or written.
    pub async fn accept(&self, entry: &ServerEntry, only: Option<&Item>) -> Result<()> {
        let record = Record::of(entry).await?;
        for _ in 0..ATTEMPTS {
            let before = self.text(&entry.name).await?;
            // One that cannot be read is replaced: the operator accepts everything anew.
            let known = before.as_deref().and_then(|text| Record::parse(text).ok()).unwrap_or_default();
            let next = match only {
                Some(item) => known.with(item, &record),
                None => record.clone(),
            };
            if self.keep(&entry.name, before, next.text()?).await? {
                return Ok(());
            }
        }
        Err(Error::new(ErrorCode::Internal, format!("{}: other gateways change its record all the time", entry.name)))
    }
}

impl Record {
    async fn of(entry: &ServerEntry) -> Result<Self> {
        let (stubs, offers) = (Arc::clone(&entry.stubs), Arc::clone(&entry.offers));
        task::apart(move || {
            let tool = |tool: &ToolStub| (Item::Tool(tool.name.clone()), Value::clone(&tool.definition.tree()));
            let all = stubs.tools.iter().map(tool).chain(reviewable(&stubs, &offers));
            let known = |(item, definition): (Item, Value)| {
                let known = Reviewed::of(&item, &definition);
                (item, known)
            };
            Ok(Self(all.map(known).collect()))
        })
        .await
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let unknown = |what: Cause| Error::new(ErrorCode::Internal, "the record cannot be read").caused_by(what);
        let kept: Kept = json::parse(text, MAX_TREE).map_err(|error| unknown(error.into()))?;
        if kept.format != FORMAT {
            return Err(unknown(format!("format {}", kept.format).into()));
        }
        let (tools, prompts) = (items(kept.tools, Item::Tool), items(kept.prompts, Item::Prompt));
        let (resources, templates) = (items(kept.resources, Item::Resource), items(kept.templates, Item::Template));
        let instructions = kept.instructions.map(|known| (Item::Instructions, known));
        let all = tools.chain(prompts).chain(resources).chain(templates).chain(instructions);
        Ok(Self(all.collect()))
    }

    fn kept(&self) -> Kept {
        let mut kept = Kept { format: FORMAT, ..Kept::default() };
        for (item, known) in self.0.clone() {
            match item {
                Item::Tool(name) => drop(kept.tools.insert(name, known)),
                Item::Prompt(name) => drop(kept.prompts.insert(name, known)),
                Item::Resource(uri) => drop(kept.resources.insert(uri, known)),
                Item::Template(uri) => drop(kept.templates.insert(uri, known)),
                Item::Instructions => kept.instructions = Some(known),
                Item::Skill(_) | Item::Answer => {}
            }
        }
        kept
    }

    /// Its text, without the definitions if they are too long.
    fn text(&self) -> Result<Vec<u8>> {
        let write = |record: &Self| {
            serde_json::to_vec(&record.kept()).map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
        };
        let mut text = write(self)?;
        if limits::FIRST_USE.check(text.len()).is_err() {
            let mut short = self.clone();
            short.0.values_mut().for_each(|known| known.definition = None);
            text = write(&short)?;
        }
        match limits::FIRST_USE.check(text.len()) {
            Ok(()) => Ok(text),
            Err(error) => Err(error.hint("review such a server with `manifest.pin`")),
        }
    }

    /// This record with one item as another has it.
    fn with(mut self, item: &Item, other: &Self) -> Self {
        match other.0.get(item) {
            Some(known) => drop(self.0.insert(item.clone(), known.clone())),
            None => drop(self.0.remove(item)),
        }
        self
    }

    /// The entry with what differs quarantined.
    fn quarantined(self, entry: ServerEntry, accepts_text: bool) -> ServerEntry {
        let mut known: BTreeMap<Item, Reviewed> =
            self.0.into_iter().map(|(item, known)| (item, known.checked())).collect();
        let tool = |tool: &ToolStub| Some((tool.ident.clone(), known.remove(&Item::Tool(tool.name.clone()))?));
        let tools: Vec<(String, Reviewed)> = entry.stubs.tools.iter().filter_map(tool).collect();
        let pin = Pin::of_server(&entry.stubs, tools, known, accepts_text);
        entry.pinned(Some(&pin))
    }

    /// Differences from an earlier record, those of instructions last.
    fn since(&self, before: &Self) -> Accepted {
        let mut accepted = Accepted::default();
        for (item, known) in &self.0 {
            match before.0.get(item) {
                None => accepted.new.push(item.clone()),
                Some(last) if last.digest != known.digest => {
                    let both = last.tree().zip(known.tree()).map(|(before, now)| [before, now]);
                    accepted.changed.push((item.clone(), both));
                }
                Some(_) => {}
            }
        }
        accepted.gone = before.0.keys().filter(|item| !self.0.contains_key(item)).cloned().collect();
        let is_last = |item: &Item| *item == Item::Instructions;
        accepted.new.sort_by_key(is_last);
        accepted.changed.sort_by_key(|(item, _)| is_last(item));
        accepted.gone.sort_by_key(is_last);
        accepted
    }
}

/// Items of a list that is kept.
fn items(list: BTreeMap<String, Reviewed>, item: fn(String) -> Item) -> impl Iterator<Item = (Item, Reviewed)> {
    list.into_iter().map(move |(name, known)| (item(name), known))
}
