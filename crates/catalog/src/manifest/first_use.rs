//! Trust on first use: `[manifest] pin_first_use`. What a server lists first is kept in the state, as definitions, or as
//! digests where those are too long; what it lists later must match, until the operator accepts it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pin::{Digests, Reviewed, ReviewedOffers};
use super::{Offer, Pin, ServerEntry};
use crate::findings::Item;
use base::error::{Cause, Error, ErrorCode, Result};
use base::json;
use base::limits;
use config::Config;
use state::{RecordKind, State, id_of, kept_folder};
use upstream::offer_bare;

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

/// A server's list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// By wire name.
    tools: BTreeMap<String, Digests>,
    prompts: BTreeMap<String, Digests>,
    resources: BTreeMap<String, Digests>,
    templates: BTreeMap<String, Digests>,
    instructions: Option<Digests>,
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
                let name = entry.name.clone();
                let made = tokio::task::spawn_blocking(move || record.quarantined(entry, accepts_text)).await;
                made.unwrap_or_else(|error| {
                    tracing::error!(server = name, %error, "its list could not be compared");
                    ServerEntry::empty(&name, &name, None, super::ServerState::Failed { reason: error.to_string() })
                })
            }
            Err(error) => {
                tracing::error!(server = entry.name, %error, "what it listed first is not known");
                let reason = format!("what it listed first is not known: {}", error.message);
                entry.with_all_held(&reason)
            }
        }
    }

    /// The record of a server, made of its list if there is none.
    async fn known(&self, entry: &ServerEntry) -> Result<Record> {
        if let Some(text) = self.text(&entry.name).await? {
            return Record::parse(&text);
        }
        let record = Record::of(entry).await?;
        // Without all of its lists it would hold back what comes with the others.
        if entry.is_partial {
            return Ok(record);
        }
        let text = record.text()?;
        if self.keep(&entry.name, None, text).await? {
            tracing::info!(server = entry.name, tools = record.tools.len(), "pinned as it was listed first");
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
        let made = tokio::task::spawn_blocking(move || {
            let of = |list: &[Offer], item: fn(String) -> Item| {
                let known = |offer: &Offer| Digests::of(&item(offer.id.clone()), &offer_bare(&offer.definition));
                list.iter().map(|offer| (offer.id.clone(), known(offer))).collect()
            };
            let tool = |tool: &stubgen::ToolStub| {
                (tool.name.clone(), Digests::of(&Item::Tool(tool.name.clone()), &tool.definition.tree()))
            };
            let instructions = stubs.instructions.clone().map(Value::String);
            Self {
                format: FORMAT,
                tools: stubs.tools.iter().map(tool).collect(),
                prompts: of(&offers.prompts, Item::Prompt),
                resources: of(&offers.resources, Item::Resource),
                templates: of(&offers.templates, Item::Template),
                instructions: instructions.map(|text| Digests::of(&Item::Instructions, &text)),
            }
        });
        made.await.map_err(|error| Error::new(ErrorCode::Internal, &*entry.name).caused_by(error))
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let unknown = |what: Cause| {
            Error::new(ErrorCode::Internal, "the record cannot be read")
                .caused_by(what)
                .hint("`forgefs stubs accept` makes a new one")
        };
        let record: Self = json::parse(text, MAX_TREE).map_err(|error| unknown(error.into()))?;
        if record.format == FORMAT { Ok(record) } else { Err(unknown(format!("format {}", record.format).into())) }
    }

    /// Its text, without the definitions if they are too long.
    fn text(&self) -> Result<Vec<u8>> {
        let write = |record: &Self| {
            serde_json::to_vec(record).map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
        };
        let mut text = write(self)?;
        if limits::FIRST_USE.check(text.len()).is_err() {
            let mut short = self.clone();
            let lists = [&mut short.tools, &mut short.prompts, &mut short.resources, &mut short.templates];
            let all = lists.into_iter().flat_map(BTreeMap::values_mut).chain(&mut short.instructions);
            all.for_each(|known| known.definition = None);
            text = write(&short)?;
        }
        match limits::FIRST_USE.check(text.len()) {
            Ok(()) => Ok(text),
            Err(error) => Err(error.hint("review such a server with `manifest.pin`")),
        }
    }

    /// This record with one item as another has it.
    fn with(&self, item: &Item, other: &Self) -> Self {
        let mut record = Self { format: FORMAT, ..self.clone() };
        let taken = |own: &mut BTreeMap<String, Digests>, from: &BTreeMap<String, Digests>, name: &String| match from
            .get(name)
        {
            Some(digests) => drop(own.insert(name.clone(), digests.clone())),
            None => drop(own.remove(name)),
        };
        match item {
            Item::Tool(name) => taken(&mut record.tools, &other.tools, name),
            Item::Prompt(name) => taken(&mut record.prompts, &other.prompts, name),
            Item::Resource(name) => taken(&mut record.resources, &other.resources, name),
            Item::Template(name) => taken(&mut record.templates, &other.templates, name),
            Item::Instructions => record.instructions.clone_from(&other.instructions),
            Item::Skill(_) | Item::Answer => {}
        }
        record
    }

    /// The entry with what differs quarantined.
    fn quarantined(self, entry: ServerEntry, accepts_text: bool) -> ServerEntry {
        let Self { mut tools, prompts, resources, templates, instructions, .. } = self;
        let idents: Vec<(String, String)> =
            entry.stubs.tools.iter().map(|tool| (tool.name.clone(), tool.ident.clone())).collect();
        let seen = idents.into_iter().filter_map(|(name, ident)| Some((ident, Reviewed::from(tools.remove(&name)?))));
        let all = |known: BTreeMap<String, Digests>| {
            known.into_iter().map(|(id, known)| (id, Reviewed::from(known))).collect()
        };
        let offers = ReviewedOffers {
            prompts: all(prompts),
            resources: all(resources),
            templates: all(templates),
            instructions: instructions.map(Reviewed::from),
        };
        let pin = Pin::of_server(&entry.stubs, seen, offers, accepts_text);
        entry.pinned(Some(&pin))
    }

    /// Differences from an earlier record.
    fn since(&self, before: &Self) -> Accepted {
        let mut accepted = Accepted::default();
        accepted.compare(&self.tools, &before.tools, Item::Tool);
        accepted.compare(&self.prompts, &before.prompts, Item::Prompt);
        accepted.compare(&self.resources, &before.resources, Item::Resource);
        accepted.compare(&self.templates, &before.templates, Item::Template);
        let instructions =
            |record: &Self| record.instructions.iter().map(|text| (String::new(), text.clone())).collect();
        accepted.compare(&instructions(self), &instructions(before), |_| Item::Instructions);
        accepted
    }
}

impl Accepted {
    fn compare(
        &mut self,
        now: &BTreeMap<String, Digests>,
        before: &BTreeMap<String, Digests>,
        item: fn(String) -> Item,
    ) {
        for (name, digests) in now {
            match before.get(name) {
                None => self.new.push(item(name.clone())),
                Some(known) if known.whole != digests.whole => {
                    let read = |known: &Digests| serde_json::from_str(known.definition.as_deref()?).ok();
                    let both = read(known).zip(read(digests)).map(|(before, now)| [before, now]);
                    self.changed.push((item(name.clone()), both));
                }
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        self.gone.extend(gone.map(|name| item(name.clone())));
    }
}
