//! Collections in the store: one record each, whose head lists the entries and whose fields are their values. It is
//! changed by one replica at a time, which decides about it as the embedded state does.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use redis::{Cmd, Script};
use serde::{Deserialize, Serialize};

use super::link::Call;
use super::{SESSION, SETUP, Shared};
use crate::entries::{MAX_DROPPED, Slot, room_for};
use crate::{Collection, Collections, Entry, Kind, New};
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::labels::Labels;
use base::task;

pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/look.lua")));
pub(super) static CHANGE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/change.lua")));
static NUMBER: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/number.lua")));

/// Changes that are tried again because another replica was first.
pub(super) const TRIES: usize = 50;
/// Time to live, in milliseconds, of a record that stays.
pub(super) const FOREVER: u64 = 0;
/// Memory that a parsed head may take.
const MAX_TREE: usize = 64 << 20;

/// Size of a collection, without values.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Head {
    next: u64,
    kept: Vec<Listed>,
    dropped: VecDeque<(String, Labels)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Listed {
    id: u64,
    name: String,
    labels: Labels,
    /// Bytes that it counts for.
    bytes: usize,
    lines: usize,
    /// Bytes of its value.
    size: usize,
    /// Unix milliseconds of the store at which it is gone.
    until: Option<u64>,
}

impl Listed {
    fn slot(&self) -> Slot<'_> {
        Slot { id: self.id, bytes: self.bytes, labels: &self.labels }
    }
}

/// A record as it was read.
struct Looked {
    key: String,
    version: u64,
    head: Head,
    now: u64,
}

/// Milliseconds that a collection is kept after its last use.
fn lifetime(of: &Collection) -> u64 {
    let ttl = if of.kind == Kind::Setup { SETUP } else { SESSION };
    ttl.as_millis() as u64
}

impl Shared {
    async fn look(&self, of: &Collection) -> Result<Looked> {
        let kind = match of.kind {
            Kind::Stash => "stash",
            Kind::Results => "results",
            Kind::Approvals => "consents",
            Kind::Setup => "setup",
        };
        let key = self.keys.of(kind, &format!("{}:{}", of.client, of.session));
        let call = Call::of(&LOOK, vec![key.clone()]).number(lifetime(of)).reads();
        let (version, head, now): (u64, Vec<u8>, u64) = self.link.run(call).await?;
        let mut head: Head = match head.is_empty() {
            true => Head::default(),
            false => task::work_on(head.len(), || json::parse(&head, MAX_TREE)).map_err(|_| damaged())?,
        };
        head.kept.retain(|listed| listed.until.is_none_or(|until| until > now));
        Ok(Looked { key, version, head, now })
    }

    /// Entries of a name, or all.
    async fn found(&self, of: &Collection, name: Option<&str>, with_values: bool) -> Result<Vec<Entry>> {
        let Looked { key, head, .. } = self.look(of).await?;
        let wanted: Vec<Listed> =
            head.kept.into_iter().filter(|listed| name.is_none_or(|name| listed.name == name)).collect();
        let mut values: Vec<Option<String>> = vec![None; wanted.len()];
        if with_values && !wanted.is_empty() {
            let fields: Vec<String> = wanted.iter().map(|listed| field(listed.id)).collect();
            values = self.link.command(Cmd::hmget(&key, fields)).await?;
        }
        // A value that another replica removed meanwhile is as gone as its entry.
        let found = wanted.into_iter().zip(values).filter(|(_, value)| !with_values || value.is_some());
        Ok(found
            .map(|(Listed { id, name, labels, lines, size, .. }, value)| Entry {
                id,
                name: name.into(),
                value: value.unwrap_or_default().into(),
                bytes: size,
                lines,
                labels: Arc::new(labels),
            })
            .collect())
    }

    /// See [`crate::State::dropped`].
    pub(super) async fn dropped_of(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>> {
        let dropped = self.look(of).await?.head.dropped;
        Ok(dropped.into_iter().map(|(name, labels)| (name.into(), labels)).collect())
    }

    /// Writes what was looked at and changed; false if another replica was first.
    async fn change(
        &self,
        of: &Collection,
        Looked { key, version, head, .. }: Looked,
        new: Option<(u64, &str)>,
        gone: &[u64],
    ) -> Result<bool> {
        let text = serde_json::to_vec(&head).map_err(|_| damaged())?;
        let (name, value) = new.map_or((String::new(), ""), |(id, value)| (field(id), value));
        let call = Call::of(&CHANGE, vec![key]).number(version).arg(text).number(lifetime(of));
        let call = gone.iter().fold(call.arg(name).arg(value), |call, id| call.arg(field(*id)));
        Ok(self.link.run::<u64>(call).await? == 1)
    }

    /// Number of a session's next execution.
    pub(super) async fn next_number(&self, of: &Collection) -> Result<u64> {
        let key = self.keys.of("number", &format!("{}:{}", of.client, of.session));
        self.link.run(Call::of(&NUMBER, vec![key]).number(SESSION.as_millis() as u64)).await
    }
}

#[async_trait]
impl Collections for Shared {
    async fn entries(&self, of: &Collection, name: &str) -> Result<Vec<Entry>> {
        self.found(of, Some(name), true).await
    }

    async fn listed(&self, of: &Collection) -> Result<Vec<Entry>> {
        self.found(of, None, of.kind == Kind::Setup).await
    }

    async fn insert(&self, into: &Collection, new: New) -> Result<()> {
        let New { name, value, labels, ttl, replaces, room } = new;
        let bytes = name.len() + value.len() + room.overhead;
        for _ in 0..TRIES {
            let mut looked = self.look(into).await?;
            let (head, now) = (&mut looked.head, looked.now);
            let mut gone = replaces.clone();
            let same = head.kept.iter().filter(|listed| listed.name == name && listed.labels == labels);
            gone.extend(same.map(|listed| listed.id));
            let slots: Vec<Slot<'_>> = head.kept.iter().map(Listed::slot).collect();
            for oldest in room_for(&slots, bytes, &labels, &gone, &room)? {
                if let Some(listed) = head.kept.iter().find(|listed| listed.id == oldest) {
                    head.dropped.push_back((listed.name.clone(), listed.labels.clone()));
                }
                gone.push(oldest);
            }
            while head.dropped.len() > MAX_DROPPED {
                head.dropped.pop_front();
            }
            head.kept.retain(|listed| !gone.contains(&listed.id));
            let until = ttl.map(|ttl| now.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)));
            let (id, lines, size) = (head.next, value.lines().count(), value.len());
            head.next += 1;
            head.kept.push(Listed { id, name: name.clone(), labels: labels.clone(), bytes, lines, size, until });
            if self.change(into, looked, Some((id, &value)), &gone).await? {
                return Ok(());
            }
        }
        Err(crowded())
    }

    async fn remove(&self, from: &Collection, ids: &[u64]) -> Result<()> {
        for _ in 0..TRIES {
            let mut looked = self.look(from).await?;
            looked.head.kept.retain(|listed| !ids.contains(&listed.id));
            if self.change(from, looked, None, ids).await? {
                return Ok(());
            }
        }
        Err(crowded())
    }
}

fn field(id: u64) -> String {
    format!("v{id}")
}

fn crowded() -> Error {
    let what = "other replicas change the same entries all the time";
    Error::new(ErrorCode::Internal, what).hint("try again in a moment; nothing was changed")
}

pub(super) fn damaged() -> Error {
    Error::new(ErrorCode::Internal, "an entry in the store that replicas share is damaged")
        .hint("all replicas need the same version of ForgeFS, and a prefix that nothing else uses")
}
