//! Runs of a client, as files below `/runs`: one in the background from memory, an ended one from its journal.

mod live;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::time::{now_ms, rfc3339};
use parking_lot::Mutex;
use serde::Serialize;
use wire::Language;

use crate::calls;
use crate::parts::Answers;
use crate::session::Session;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::outcome::Outcome;
use base::task;
use base::text::{brief, counted};
use redact::{PlaceholderTable, Surface};
use state::journal::Journals;

pub use live::{Live, Watched};
pub use run::{Run, state_name};

/// Most ended runs of a listing.
const LISTED: usize = 50;
/// Most runs of the text of a listing.
const SHOWN: usize = 20;
/// Most bytes of a script in a listing.
const MAX_CODE: usize = 80;
/// Time that a cancelled run has to end.
const ENDING: Duration = Duration::from_secs(5);

/// Runs in the background, of all clients of a gateway.
#[derive(Debug, Default)]
pub struct Background(Mutex<HashMap<String, Arc<Live>>>);

/// Most runs in the background at once: half of the places for runs, so that others find one.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of all clients.
    pub all: usize,
    /// Of one client.
    pub client: usize,
}

impl Background {
    /// Enters a run until the returned value is dropped.
    ///
    /// # Errors
    /// `BUSY` when there are too many.
    pub fn enter(self: &Arc<Self>, id: &str, live: &Arc<Live>, bounds: Bounds) -> Result<Entered> {
        let mut runs = self.0.lock();
        let own = runs.values().filter(|run| run.client == live.client).count();
        let (number, most, whose) = match own >= bounds.client {
            true => (own, bounds.client, "of this client "),
            false => (runs.len(), bounds.all, ""),
        };
        if number >= most {
            let what = format!("{number} runs {whose}are in the background already, the most at once");
            return Err(Error::new(ErrorCode::Busy, what).hint(
                "wait for one to end, or end it by forge.runs.cancel; `sandbox.limits.runs` is twice that number",
            ));
        }
        runs.insert(id.to_owned(), Arc::clone(live));
        Ok(Entered { runs: Arc::clone(self), id: id.to_owned(), live: Arc::clone(live) })
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Ends runs of clients that `is_client` does not allow.
    pub fn keep_only(&self, is_client: impl Fn(&str) -> bool) {
        self.0.lock().values().filter(|run| !is_client(&run.client)).for_each(|run| run.cancel(&Labels::new()));
    }

    fn of(&self, client: &str) -> Vec<(String, Arc<Live>)> {
        let runs = self.0.lock();
        let own = runs.iter().filter(|(_, run)| *run.client == *client);
        own.map(|(id, run)| (id.clone(), Arc::clone(run))).collect()
    }

    fn find(&self, client: &str, id: &str) -> Option<Arc<Live>> {
        self.0.lock().get(id).filter(|run| *run.client == *client).cloned()
    }
}

/// A run in the background, until dropped.
#[derive(Debug)]
pub struct Entered {
    runs: Arc<Background>,
    id: String,
    live: Arc<Live>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.runs.0.lock().remove(&self.id);
        self.live.gone();
    }
}

/// Runs of one client. Those of others are not there: an id is no right. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// Those in the background, of all clients.
    pub background: Arc<Background>,
    /// Journals of the configuration, unless they are off.
    pub journals: Option<Arc<Journals>>,
    /// The client.
    pub client: Arc<str>,
    /// Settings of answers.
    pub answers: Answers,
}

/// A run in a listing. What an ended one did is read by its id.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Language of its script.
    pub language: Language,
    /// Begin, as RFC 3339.
    pub began: String,
    /// `running`, `ok`, `failed`, `cancelled` or `died`; `ended` for one whose data may not be seen.
    pub state: &'static str,
    /// Beginning of its script.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Run that continues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Time since its begin, if it is running here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// Calls so far, if it is running here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<usize>,
    /// Its last progress report, if it is running here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

impl Runs {
    /// The run with this id.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the client has none, `INTERNAL` when its journal is damaged.
    pub async fn get(&self, id: &str) -> Result<Run> {
        if let Some(run) = self.background.find(&self.client, id).and_then(|live| live.look(id)) {
            return Ok(run);
        }
        let Some(journals) = &self.journals else { return Err(unknown(id)) };
        let found = journals.find(Some(&self.client), id).await.map_err(|error| match error.code {
            ErrorCode::InvalidArgs => unknown(id),
            _ => error,
        })?;
        let reader = journals.read(&found).await?;
        Run::read(found, reader)
    }

    /// Runs that `sees` allows, oldest first; of the ended ones the newest, how they ended and what
    /// their scripts are if `tells_all` and it allows their servers.
    ///
    /// # Errors
    /// `INTERNAL` when the journals cannot be read.
    pub async fn list(&self, sees: impl Fn(&Labels) -> bool, tells_all: bool) -> Result<Vec<Listed>> {
        let live = self.background.of(&self.client);
        let mut listed = Vec::new();
        if let Some(journals) = &self.journals {
            let ended = journals.list(Some(&self.client)).await?;
            let mut ended: Vec<_> = ended.into_iter().filter(|run| live.iter().all(|(id, _)| *id != run.id)).collect();
            ended.drain(..ended.len().saturating_sub(LISTED));
            for run in ended {
                let Some(language) = run.language else { continue };
                // It may have data of all its servers.
                let is_seen = tells_all && sees(&run.servers);
                let state = match run.is_running {
                    true => "running",
                    // A journal that is removed meanwhile is no reason to list none.
                    false if is_seen => journals.outcome(&self.client, &run.id).await.map_or("ended", state_name),
                    false => "ended",
                };
                listed.push(Listed {
                    id: run.id,
                    language,
                    began: rfc3339(run.at_ms),
                    state,
                    code: if is_seen { calls::beginning(&run.code, MAX_CODE) } else { String::new() },
                    next: run.next.filter(|_| is_seen),
                    elapsed_ms: None,
                    calls: None,
                    progress: None,
                });
            }
        }
        let mut running: Vec<Run> = live.iter().filter_map(|(id, live)| live.look(id)).collect();
        running.retain(|run| sees(&run.labels));
        running.sort_by_key(|run| run.at_ms);
        listed.extend(running.into_iter().map(|run| Listed {
            language: run.language,
            began: rfc3339(run.at_ms),
            state: "running",
            code: String::new(),
            next: None,
            elapsed_ms: run.elapsed_ms,
            calls: Some(run.calls),
            progress: run.progress,
            id: run.id,
        }));
        Ok(listed)
    }

    /// Lists the newest runs, newest first, one line each.
    ///
    /// # Errors
    /// As of [`Runs::list`].
    pub async fn listing(&self, sees: impl Fn(&Labels) -> bool, tells_all: bool) -> Result<String> {
        let runs = self.list(sees, tells_all).await?;
        let older = runs.len().saturating_sub(SHOWN);
        let lines = runs.into_iter().rev().take(SHOWN).map(|run| {
            let mut line = format!("/runs/{}  {}, {}, began {}", run.id, run.state, run.language.as_str(), run.began);
            if let Some(calls) = run.calls {
                line.push_str(&format!(", {}", counted(calls, "call")));
            }
            line.push_str(&run.next.map(|next| format!(", resumed by {next}")).unwrap_or_default());
            line.push_str(&run.progress.map(|progress| format!(": {progress}")).unwrap_or_default());
            if run.code.is_empty() { line } else { format!("{line}  {}", run.code) }
        });
        let mut lines: Vec<String> = lines.collect();
        if older > 0 {
            lines.push(format!("… {older} older: `forge.runs.list()`"));
        }
        Ok(match lines.is_empty() {
            true => "/runs/  empty: execute(background=true) starts a run that goes on here".to_owned(),
            false => lines.join("\n"),
        })
    }

    /// The run for the agent of the session with these placeholders.
    pub fn redacted(&self, run: Run, placeholders: &PlaceholderTable) -> Run {
        let Answers { redaction: results, placeholders: has_placeholders, .. } = self.answers;
        let writer = has_placeholders.then(|| placeholders.writer(run.labels.clone()));
        let redaction = |surface: Surface| surface.with_placeholders(writer.as_ref());
        run.redacted(redaction(Surface::Answer(results)), redaction(Surface::Output(results)))
    }

    /// Text of a run that is redacted, with its state in front or without. Its large parts are stored in `session`. Of a
    /// run that goes on, lines of output that were `seen` are left out.
    pub async fn text(&self, run: &Run, session: &Session, has_state: bool, seen: Option<usize>) -> String {
        let state = if has_state { format!("{}\n", run.headline()) } else { String::new() };
        let size = run.output.len() + run.value.as_ref().map_or(0, |value| value.get().len());
        let parts = task::work_on(size, || run.parts(self.answers.result_tokens, seen));
        state + &session.results.text_of(parts, &run.id, &run.labels).await
    }

    /// Ends a run in the background, for one who holds data of `labels`; true if it was running.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the client has no such run.
    pub async fn cancel(&self, id: &str, labels: &Labels) -> Result<bool> {
        let Some(live) = self.background.find(&self.client, id) else {
            return match self.get(id).await?.state {
                Outcome::Running => Err(Error::new(
                    ErrorCode::InvalidArgs,
                    format!("run {} is not in the background of this gateway", brief(id)),
                )
                .hint("who waits for its answer can cancel it")),
                _ => Ok(false),
            };
        };
        live.cancel(labels);
        // It ends in any case; who waits may look too early.
        let _ = tokio::time::timeout(ENDING, live.ended()).await;
        Ok(true)
    }
}

/// The error of a run that the client does not have.
pub fn unknown(id: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("there is no run `{}`", brief(id)))
        .hint("`ls /runs` lists the runs of this client; journals are kept as long as `[journal] keep` says")
}

/// Folder or file of runs: `Some(None)` for `/runs`, `Some(Some(id))` for one of it.
pub fn path(path: &str) -> Option<Option<&str>> {
    let rest = path.trim_matches('/').strip_prefix("runs")?;
    match rest.strip_prefix('/') {
        Some(id) => Some(Some(id)),
        None => rest.is_empty().then_some(None),
    }
}

fn since(at_ms: u64) -> u64 {
    now_ms().saturating_sub(at_ms)
}
