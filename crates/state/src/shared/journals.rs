//! Journals in the store. A replica writes its journals under a lease; when the lease is over, another replica may
//! continue the run, and from then on the first one writes nothing more to it, and makes no further call.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::{Cmd, Script};

use super::link::{Call, Link};
use super::{Keys, LEASE, Shared, Unsettled, create, file_name};
use crate::folders::is_id;
use crate::journals::{taken, too_long};
use crate::{BeginJournal, Journal, JournalFile, JournalStore};
use base::error::{Error, ErrorCode, Result};
use base::random;

static BEGIN: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/begin.lua"));
static APPEND: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/append.lua"));
static FIND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/find.lua")));
static LIST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/list.lua")));
static REMOVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/remove.lua")));
static CLOSE: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/close.lua"));

/// Keys of one journal.
#[derive(Debug)]
struct Place {
    journal: String,
    lines: String,
    ids: String,
}

impl Place {
    fn of(keys: &Keys, folder: &Path, id: &str) -> Self {
        let client = file_name(folder);
        Self {
            journal: keys.of("journal", &format!("{client}:{id}")),
            lines: keys.of("lines", &format!("{client}:{id}")),
            ids: keys.of("journals", &client),
        }
    }
}

/// Writes one journal.
#[derive(Debug)]
struct Writer {
    link: Arc<Link>,
    keys: Keys,
    place: Place,
    id: String,
    /// Appends so far; `None` after one that failed and may have arrived.
    count: Mutex<Option<u64>>,
    /// The run that it continues.
    claims: Arc<Claims>,
}

/// Runs of this replica that continue others: a store that loses this learns it again.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<String, Claim>>);

#[derive(Debug)]
struct Claim {
    /// Journal that is continued.
    parent: String,
    /// End of the run. It is remembered for the time in which a store may lose it.
    ended: Option<Instant>,
}

impl Claims {
    /// Adds a run that continues a journal, and forgets those that ended long ago.
    fn add(&self, id: String, parent: String) {
        let mut claims = self.0.lock();
        claims.retain(|_, claim| claim.ended.is_none_or(|ended| ended.elapsed() < LEASE));
        claims.insert(id, Claim { parent, ended: None });
    }

    /// Journals that are continued, and the runs that continue them.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let claims = self.0.lock();
        claims.iter().map(|(id, claim)| (claim.parent.clone(), id.clone())).collect()
    }
}

impl Journal for Writer {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut count = self.count.lock();
        let Some(known) = *count else { return Err(io::Error::other("an earlier line may be missing")) };
        let Place { journal, lines: kept, ids } = &self.place;
        let keys = vec![journal.clone(), kept.clone(), ids.clone(), self.keys.lease()];
        let call = Call::of(&APPEND, keys).arg(lines).arg(self.id.as_str()).arg(self.keys.replica());
        let call = call.number(LEASE.as_millis() as u64).number(known);
        let done = self.link.run_now::<String>(call);
        *count = matches!(done.as_deref(), Ok("done")).then_some(known + 1);
        let why = match done.as_deref() {
            Ok("done") => return Ok(()),
            Ok("taken") => {
                "another replica goes on with this run, since this one did not answer for too long".to_owned()
            }
            Ok("lost") => "the store has lost a part of this journal".to_owned(),
            Ok(other) => format!("the store answers with {other}"),
            Err(error) => error.message.clone(),
        };
        Err(io::Error::other(why))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(claim) = self.claims.0.lock().get_mut(&self.id) {
            claim.ended = Some(Instant::now());
        }
        self.link.run_later(Call::of(&CLOSE, vec![self.place.journal.clone()]).arg(self.keys.replica()));
    }
}

#[async_trait]
impl JournalStore for Shared {
    async fn begin_journal(&self, begin: BeginJournal) -> Result<Arc<dyn Journal>> {
        let BeginJournal { folder, id, first, after, .. } = begin;
        let (link, keys, claims) = (Arc::clone(&self.link), self.keys.clone(), Arc::clone(&self.claims));
        let place = Place::of(&keys, &folder, &id);
        // First: a journal whose begin is given up, or has lost its answer, is closed as any other.
        let writer = Writer { link, keys, place, id: id.clone(), count: Mutex::new(None), claims };
        let (keys, Place { journal, lines, ids }) = (&self.keys, &writer.place);
        // A user of the store may be confined to keys with the prefix: no key is empty.
        let parent = after.last().map_or_else(|| journal.clone(), |after| Place::of(keys, &folder, after).journal);
        let unsettled = Unsettled::new();
        let answer = loop {
            let all = vec![journal.clone(), lines.clone(), ids.clone(), keys.of("journals", ""), keys.lease()];
            let all = all.into_iter().chain([parent.clone(), keys.epoch()]).collect();
            let call = Call::of(&BEGIN, all).arg(format!("{first}\n")).arg(id.as_str()).arg(file_name(&folder));
            let call = call.arg(keys.replica()).number(LEASE.as_millis() as u64).arg(keys.leases());
            let answer: String = self.link.run(after.iter().fold(call, |call, id| call.arg(id.as_str()))).await?;
            if answer != "unsettled" {
                break answer;
            }
            unsettled.wait().await?;
        };
        let before = after.last().map(String::as_str).unwrap_or_default();
        match answer.as_str() {
            "done" => {
                if !after.is_empty() {
                    self.claims.add(id.clone(), parent);
                }
                *writer.count.lock() = Some(1);
                Ok(Arc::new(writer))
            }
            "running" => Err(running(before)),
            "taken" => Err(taken(before)),
            "lost" => {
                let what = format!(
                    "run {before} cannot be resumed: the store was started anew or failed over while it ran, and its last \
                     calls may be missing"
                );
                let hint =
                    format!("the audit log has what was called; look at what run {before} did, then run the rest anew");
                Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint))
            }
            "gone" => {
                let what = format!("the journal of run {before} is gone");
                Err(Error::new(ErrorCode::InvalidArgs, what).hint("run the script anew"))
            }
            _ => Err(Error::new(ErrorCode::Internal, format!("the journal {id} is there already"))),
        }
    }

    async fn journal_folders(&self, _: &Path) -> Result<Vec<String>> {
        let mut clients: Vec<String> = self.link.command(Cmd::smembers(self.keys.of("journals", ""))).await?;
        clients.sort_unstable();
        Ok(clients)
    }

    async fn journal_ids(&self, folder: &Path) -> Result<Vec<(String, u64, Duration)>> {
        let client = file_name(folder);
        let call = Call::of(&LIST, vec![self.keys.of("journals", &client)]);
        let call = call.arg(self.keys.of("journal", &format!("{client}:"))).reads();
        let found: Vec<(String, u64, u64)> = self.link.run(call).await?;
        Ok(found.into_iter().map(|(id, bytes, age)| (id, bytes, Duration::from_millis(age))).collect())
    }

    async fn journal_key(&self, _: &Path) -> Result<String> {
        let name = self.keys.of("journal-key", "");
        let new = format!("{}{}", random::token(), random::token());
        self.link.command::<Option<String>>(create(&name, &new, None)).await?;
        self.link.command(Cmd::get(&name)).await
    }

    async fn journal(&self, folder: &Path, id: &str) -> Result<Option<JournalFile>> {
        if !is_id(id) {
            return Ok(None);
        }
        let Place { journal, lines, ids } = Place::of(&self.keys, folder, id);
        let call = Call::of(&FIND, vec![journal, lines, ids]).arg(id).arg(self.keys.leases()).reads();
        let found: Vec<redis::Value> = self.link.run(call).await?;
        let Ok((first, bytes, changed, runs, next)) =
            redis::from_redis_value::<(String, u64, f64, u64, String)>(redis::Value::Array(found))
        else {
            return Ok(None);
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(changed / 1000.0).unwrap_or_default();
        let next = Some(next).filter(|next| is_id(next));
        Ok(Some(JournalFile { id: id.to_owned(), first, bytes, changed, is_running: runs == 1, next }))
    }

    async fn journal_lines(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        let place = Place::of(&self.keys, folder, id);
        let size: Option<u64> = self.link.command(Cmd::hget(&place.journal, "bytes")).await?;
        let Some(bytes) = size else { return Ok(Vec::new()) };
        if bytes > max as u64 {
            return Err(too_long(id, max));
        }
        self.range(place, 0).await
    }

    async fn journal_end(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        let mut last = self.range(Place::of(&self.keys, folder, id), -1).await?;
        let whole = last.strip_suffix(b"\n").unwrap_or(&last);
        let start = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end = whole.len();
        last.truncate(end);
        last.drain(..start);
        last.truncate(max);
        Ok(last)
    }

    async fn remove_journal(&self, folder: &Path, id: &str) -> Result<bool> {
        let Place { journal, lines, ids } = Place::of(&self.keys, folder, id);
        let call = Call::of(&REMOVE, vec![journal, lines, ids]).arg(id).arg(self.keys.leases());
        match self.link.run::<String>(call).await?.as_str() {
            "running" => Err(running(id)),
            done => Ok(done == "done"),
        }
    }
}

impl Shared {
    /// Lines of a journal from a position on, as they were appended.
    async fn range(&self, of: Place, from: isize) -> Result<Vec<u8>> {
        let lines: Vec<Vec<u8>> = self.link.command(Cmd::lrange(of.lines, from, -1)).await?;
        Ok(lines.concat())
    }
}

fn running(id: &str) -> Error {
    let what = format!("run {id} is still running, or its replica ended less than {} s ago", LEASE.as_secs());
    Error::new(ErrorCode::Busy, what).hint("wait for its end, or cancel it first")
}
