//! Search of one client, and learning from its use: the first call of a tool that a query found counts for the words of
//! that query, for all clients of the profile.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stubgen::ToolStub;

use base::error::{Error, ErrorCode, Result};
use base::task;
use base::time::now_secs;
use catalog::manifest::ServerEntry;
use catalog::{Catalog, Learned, Signals, Uses};
use config::Config;
use state::{RecordKind, State, id_of, kept_folder};

/// Attempts to replace a record that others replace too.
const ATTEMPTS: usize = 4;
/// Time after which other gateways may have learned something.
const FRESH: Duration = Duration::from_secs(60);
/// Most calls that wait to be saved.
const MAX_UNSAVED: usize = 256;
/// Most queries of a session whose calls are awaited.
const MAX_QUERIES: usize = 16;
/// Most tools of a query.
const MAX_FOUND: usize = 16;

/// Settings of a client's searches.
#[derive(Debug, Clone)]
pub struct Searching {
    /// True if texts that mean the same match without a common word.
    pub meaning: bool,
    /// Learning from use, with the name of the client's profile; `None` where it is off.
    pub learning: Option<(Arc<Learning>, Arc<str>)>,
}

/// Learning of all profiles.
#[derive(Debug)]
pub struct Learning {
    state: Arc<dyn State>,
    folder: PathBuf,
    profiles: Mutex<HashMap<Arc<str>, Profile>>,
    /// Held while news is saved.
    saving: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Default)]
struct Profile {
    learned: Arc<Learned>,
    /// Calls of servers when they were first asked for. Definitions have this order: it changes for no client meanwhile.
    uses: Option<Arc<Uses>>,
    /// The last look at what is kept.
    read: Option<Instant>,
    unsaved: Vec<Used>,
    /// True while a task waits to save them.
    is_due: bool,
}

impl Profile {
    /// Forgets the oldest calls that are too many to wait.
    fn bound(&mut self) {
        self.unsaved.drain(..self.unsaved.len().saturating_sub(MAX_UNSAVED));
    }
}

/// A call after words were searched for.
#[derive(Debug, Clone)]
struct Used {
    words: Vec<String>,
    path: String,
    day: u64,
}

/// A query of a session, as far as it may be learned.
#[derive(Debug, Default)]
pub struct Searched {
    /// Its words.
    pub words: Vec<String>,
    /// Paths of the tools that it found.
    pub found: Vec<String>,
    /// True if no other query was asked with it.
    pub is_alone: bool,
}

/// The last queries of a session, each with the tools that it counted for.
#[derive(Debug, Default)]
pub struct Searches(VecDeque<(Searched, Vec<String>)>);

impl Default for Searching {
    fn default() -> Self {
        Self { meaning: true, learning: None }
    }
}

impl Searching {
    /// Signals for the ranking of one search.
    pub async fn signals(&self) -> Signals {
        let learned = match &self.learning {
            Some((learning, profile)) => Some(learning.learned(profile).await),
            None => None,
        };
        Signals { meaning: self.meaning, learned }
    }

    /// Looks up the calls of servers, once, for `limit` at most.
    pub async fn look_up_uses(&self, limit: Duration) {
        let Some((learning, profile)) = self.learning.as_ref().filter(|_| self.uses().is_none()) else { return };
        let learned = tokio::time::timeout(limit, learning.learned(profile)).await.unwrap_or_default();
        let mut profiles = learning.profiles.lock();
        let known = profiles.entry(Arc::clone(profile)).or_default();
        known.uses.get_or_insert_with(|| Arc::new(learned.uses()));
    }

    /// Calls of servers, once they were looked up.
    pub fn uses(&self) -> Option<Arc<Uses>> {
        let (learning, profile) = self.learning.as_ref()?;
        learning.profiles.lock().get(profile)?.uses.clone()
    }

    /// Notes that a session called a tool. What it counts for is saved in the background.
    pub fn called(&self, searches: &Mutex<Searches>, server: &ServerEntry, tool: &ToolStub) {
        let Some((learning, profile)) = &self.learning else { return };
        let mut searches = searches.lock();
        if searches.0.is_empty() {
            return;
        }
        let path = Catalog::learned_path(server, tool);
        let Some(words) = searches.called(&path) else { return };
        drop(searches);
        if learning.add(profile, Used { words, path, day: today() }) {
            let (learning, profile) = (Arc::clone(learning), Arc::clone(profile));
            tokio::spawn(async move { learning.save(profile).await });
        }
    }
}

impl Learning {
    /// What was learned under a configuration; `None` where nothing is.
    pub fn new(config: &Config, state: &Arc<dyn State>) -> Option<Arc<Self>> {
        let folder = kept_folder(config.search.learned.as_ref()?, "learned", config);
        let (profiles, saving) = Default::default();
        Some(Arc::new(Self { state: Arc::clone(state), folder, profiles, saving }))
    }

    async fn learned(&self, profile: &Arc<str>) -> Arc<Learned> {
        let known = self.profiles.lock().get(profile).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.read.is_some_and(|read| read.elapsed() < FRESH)) {
            return Arc::clone(&known.learned);
        }
        match self.record(profile).await {
            Ok(learned) => self.read(profile, learned),
            Err(error) => {
                tracing::warn!(%error, "what was learned from use is not known");
                known.map(|known| known.learned).unwrap_or_default()
            }
        }
    }

    /// Takes what is kept, with the news that is not.
    fn read(&self, profile: &Arc<str>, mut learned: Learned) -> Arc<Learned> {
        let mut profiles = self.profiles.lock();
        let known = profiles.entry(Arc::clone(profile)).or_default();
        known.unsaved.iter().for_each(|used| learned.add(&used.words, &used.path, used.day));
        (known.learned, known.read) = (Arc::new(learned), Some(Instant::now()));
        Arc::clone(&known.learned)
    }

    /// Adds a call to what is known; true if no task waits to save it.
    fn add(&self, profile: &Arc<str>, used: Used) -> bool {
        let mut profiles = self.profiles.lock();
        let known = profiles.entry(Arc::clone(profile)).or_default();
        Arc::make_mut(&mut known.learned).add(&used.words, &used.path, used.day);
        known.unsaved.push(used);
        known.bound();
        !std::mem::replace(&mut known.is_due, true)
    }

    /// Saves news, and loads what other gateways have learned. A failure is only logged: the next call tries again.
    async fn save(&self, profile: Arc<str>) {
        let _alone = self.saving.lock().await;
        let take = |known: &mut Profile| {
            known.is_due = false;
            std::mem::take(&mut known.unsaved)
        };
        let mut news = self.profiles.lock().get_mut(&profile).map(take).unwrap_or_default();
        match self.keep(&profile, &news).await {
            Ok(learned) => drop(self.read(&profile, learned)),
            Err(error) => {
                tracing::warn!(%error, "what was learned from use is not kept");
                let mut profiles = self.profiles.lock();
                let known = profiles.entry(profile).or_default();
                news.append(&mut known.unsaved);
                known.unsaved = news;
                known.bound();
            }
        }
    }

    /// Adds to what is kept, and returns all of it.
    async fn keep(&self, profile: &str, news: &[Used]) -> Result<Learned> {
        for _ in 0..ATTEMPTS {
            let before = self.text(profile).await?;
            let (learned, text) = task::work_on(task::LONG, || {
                let mut learned = before.as_deref().map(Learned::parse).unwrap_or_default();
                news.iter().for_each(|used| learned.add(&used.words, &used.path, used.day));
                let text = learned.text();
                (learned, text)
            });
            if self.state.keep_record(RecordKind::Learned, &self.folder, &id_of(profile), before, Some(text)).await? {
                return Ok(learned);
            }
        }
        Err(Error::new(ErrorCode::Busy, "other gateways are learning too"))
    }

    async fn record(&self, profile: &str) -> Result<Learned> {
        let text = self.text(profile).await?;
        Ok(task::work_on(task::LONG, || text.as_deref().map(Learned::parse).unwrap_or_default()))
    }

    async fn text(&self, profile: &str) -> Result<Option<Vec<u8>>> {
        self.state.record(RecordKind::Learned, &self.folder, &id_of(profile)).await
    }
}

impl Searches {
    /// Notes the queries of one search.
    pub fn add(&mut self, searched: impl IntoIterator<Item = Searched>) {
        for mut one in searched.into_iter().filter(|one| !one.words.is_empty()) {
            one.found.truncate(MAX_FOUND);
            self.0.push_back((one, Vec::new()));
        }
        self.0.drain(..self.0.len().saturating_sub(MAX_QUERIES));
    }

    /// Words that the call of a tool counts for: those of the last query that found it, else of the last search, if that
    /// was one query and led nowhere yet. A query counts once for a tool.
    fn called(&mut self, path: &str) -> Option<Vec<String>> {
        let found = self.0.iter().rposition(|(one, _)| one.found.iter().any(|found| found == path));
        let (one, called) = match found {
            Some(position) => self.0.get_mut(position)?,
            None => self.0.back_mut().filter(|(one, called)| one.is_alone && called.is_empty())?,
        };
        if called.len() >= MAX_FOUND || called.iter().any(|known| known == path) {
            return None;
        }
        called.push(path.to_owned());
        Some(one.words.clone())
    }
}

/// Days since 1970.
fn today() -> u64 {
    now_secs() / (24 * 60 * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(words: &str, found: &str, is_alone: bool) -> Searched {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Searched { words: list(words), found: list(found), is_alone }
    }

    #[test]
    fn a_call_counts_once_for_the_last_query_that_found_the_tool() {
        let mut searches = Searches::default();
        let called = |searches: &mut Searches, path: &str| searches.called(path).unwrap_or_default().join(" ");
        assert_eq!(called(&mut searches, "a/b"), "", "nothing was searched for");
        searches.add([searched("open ticket", "jira/create jira/get", true)]);
        assert_eq!(called(&mut searches, "jira/create"), "open ticket");
        assert_eq!(called(&mut searches, "jira/create"), "", "a loop counts once");
        assert_eq!(called(&mut searches, "jira/get"), "open ticket");
        assert_eq!(called(&mut searches, "mail/send"), "", "the query led somewhere");
        searches.add([searched("write person", "x/y", true)]);
        assert_eq!(called(&mut searches, "mail/send"), "write person", "a query that led nowhere");
        assert_eq!(called(&mut searches, "mail/list"), "");
        searches.add([searched("a", "s/a s/ab", false), searched("b", "s/b s/ab", false), searched("", "s/c", false)]);
        assert_eq!(called(&mut searches, "s/ab"), "b");
        assert_eq!(called(&mut searches, "s/a"), "a");
        assert_eq!(called(&mut searches, "s/elsewhere"), "", "which of several is not known");
        searches.add((0..100).map(|_| searched("many", "s/many", true)));
        assert_eq!(searches.0.len(), MAX_QUERIES);
    }
}
