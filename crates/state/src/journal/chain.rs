//! Chains of runs: finds the end that a resumed run continues, and reads what all of its runs have done.

use std::collections::HashMap;

use super::line::outcome_of;
use super::{Journals, Past, Reader, Run, head, room_for};
use crate::journals::running;
use base::error::{Error, ErrorCode, Result};
use base::outcome::Outcome;
use base::{limits, task};

/// Newest journals that are looked at for one that can be resumed.
const LOOKED_AT: usize = 50;
/// Bytes of a last line that are enough to see how the run ended.
const ENDING: usize = 256;

/// The run to be resumed.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// With this id.
    Id(&'a str),
    /// The newest that did not end with a value; of this session, if one is given.
    Last {
        /// The session.
        session: Option<&'a str>,
    },
}

impl Journals {
    /// The end of the chain that a run of `client` is in, to be continued.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the client has no such run, or a journal of its chain is gone; `BUSY` while the chain's last
    /// run is running; `BUDGET_EXCEEDED` when there is no memory for it; `INTERNAL` when a journal is damaged.
    pub async fn past(&self, client: &str, which: Which<'_>, fresh: Vec<(String, String)>) -> Result<Past> {
        let named = match which {
            Which::Id(id) => self.find(Some(client), id).await?,
            Which::Last { session } => self.last(client, session).await?,
        };
        let last = self.end_of_chain(client, named).await?;
        if last.file.is_running {
            return Err(running(&last.file.id));
        }
        let folder = self.of(client);
        let chain: Vec<String> = last.head.after.iter().chain([&last.head.run]).cloned().collect();
        limits::JOURNAL_CHAIN.check(chain.len())?;
        let ids = self.state.journal_ids(&folder).await?;
        let sizes: HashMap<String, u64> = ids.into_iter().map(|(id, bytes, _)| (id, bytes)).collect();
        if let Some(missing) = chain.iter().find(|id| !sizes.contains_key(*id)) {
            return Err(gone(&last.file.id, missing));
        }
        let bytes = chain.iter().filter_map(|id| sizes.get(id)).fold(0, |sum: u64, more| sum.saturating_add(*more));
        let room = room_for(bytes).await?;
        let mut past = Past::new(last.head, fresh, self.key().await?, room);
        for id in &chain {
            let lines = self.state.journal_lines(&folder, id, limits::JOURNAL_READ.max).await?;
            task::work_on(lines.len(), || past.add(Reader::new(id, lines, None)))?;
        }
        Ok(past)
    }

    /// The last run of the chain that a run is in.
    async fn end_of_chain(&self, client: &str, mut run: Run) -> Result<Run> {
        let folder = self.of(client);
        let mut steps = 0;
        // One that was killed before its chain named it has done nothing.
        while let Some(parent) = run.head.after.last() {
            steps += 1;
            limits::JOURNAL_CHAIN.check(steps)?;
            let file = self.state.journal(&folder, parent).await?.ok_or_else(|| gone(&run.file.id, parent))?;
            if file.next.as_ref() == Some(&run.file.id) {
                break;
            }
            run = Run { head: head(&file, client)?, file };
        }
        while let Some(next) = &run.file.next {
            steps += 1;
            limits::JOURNAL_CHAIN.check(steps)?;
            let file = self.state.journal(&folder, next).await?.ok_or_else(|| gone(&run.file.id, next))?;
            run = Run { head: head(&file, client)?, file };
        }
        Ok(run)
    }

    /// The newest run of a client, or of one of its sessions, that did not end with a value. One that cannot be read may be
    /// it, and is an error.
    async fn last(&self, client: &str, session: Option<&str>) -> Result<Run> {
        let folder = self.of(client);
        let ids = self.state.journal_ids(&folder).await?;
        for (id, ..) in ids.iter().rev().take(LOOKED_AT) {
            let Some(file) = self.state.journal(&folder, id).await? else { continue };
            let head = head(&file, client)?;
            if session.is_some_and(|session| session != head.session) {
                continue;
            }
            let run = Run { head, file };
            if run.file.is_running || run.file.next.is_some() || !self.is_done(&run).await? {
                return Ok(run);
            }
        }
        let whose = if session.is_some() { "this session has" } else { "there is" };
        Err(Error::new(ErrorCode::InvalidArgs, format!("{whose} no run that failed and can be resumed"))
            .hint("name the run by its id; `ls /runs` and `forgefs runs list` show them"))
    }

    /// True if a run ended with a value.
    async fn is_done(&self, run: &Run) -> Result<bool> {
        Ok(self.outcome(&run.head.client, &run.file.id).await? == Outcome::Ok)
    }

    /// Outcome of a client's run that is not being written, by the end of its journal.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read.
    pub async fn outcome(&self, client: &str, id: &str) -> Result<Outcome> {
        let last = self.state.journal_end(&self.of(client), id, ENDING).await?;
        Ok(outcome_of(&last).unwrap_or(Outcome::Unfinished))
    }
}

/// The error of a chain without all of its journals: a resumed run would repeat the calls of the missing one.
fn gone(run: &str, missing: &str) -> Error {
    let what = format!("run {run} cannot be resumed: the journal of run {missing} in the same chain is gone");
    Error::new(ErrorCode::InvalidArgs, what).hint(format!(
        "the calls and answers of run {missing} are lost, and a resumed run would make its calls again: look at what is \
         done, then run a script for the rest; `forgefs runs show {run}` shows the calls of run {run}"
    ))
}
