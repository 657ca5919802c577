//! `ls`, `cat` and `search`, shared by the agent's tools, scripts and the command line.

mod lines;
pub mod objects;
mod search;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::parts;
use crate::runs::{self, Run, Runs};
use crate::searching::Searching;
use crate::session::Session;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::limits;
use base::meter::{Halt, Meter, metered_as};
use base::text::{BYTES_PER_TOKEN, brief};
use catalog::{Catalog, Node, Remote};
use redact::Surface;
use state::Entry;

pub use self::lines::Lines;
use self::search::Search;

/// Most levels of one `ls`.
const MAX_DEPTH: u32 = 4;
/// Default hits per query.
const DEFAULT_HITS: u32 = 8;
/// Default hits per query where there are several.
const HITS_OF_MANY: u32 = 4;
/// Most hits per query.
const MAX_HITS: u32 = 50;
/// Bytes of several files after which no further one starts, about 6,000 tokens.
const MAX_CAT_BYTES: usize = 24 << 10;
/// Most names of files that did not fit.
const MAX_NAMED: usize = 20;
/// Step limits of one listing, of finding and cutting the files of one `cat`, and of one search. Far more than any real
/// catalog needs, and about a second of one processor at most.
const LS_STEPS: u64 = 10_000_000;
const CAT_STEPS: u64 = 20_000_000;
/// Steps of one search.
pub const SEARCH_STEPS: u64 = 20_000_000;
/// Bytes per metered step.
const BYTES_A_STEP: u64 = 64;

/// A requested file.
pub enum File {
    /// A file with its text.
    Text {
        /// Path.
        path: String,
        /// Requested lines; empty if the files before it fill the answer.
        text: String,
        /// Servers whose data it has; their own descriptions do not count.
        labels: Labels,
        /// Node of the catalog, if it is one.
        node: Option<Node>,
    },
    /// A resource, to be read from its server.
    Resource(Remote),
}

/// Discovery of one session.
pub struct Discovery<'a> {
    /// Catalog.
    pub catalog: &'a Arc<Catalog>,
    /// Session.
    pub session: &'a Arc<Session>,
    /// Limits of a run that are set lower than usual, in words for the files of the script API.
    pub lowered: Option<String>,
    /// Runs of the client.
    pub runs: Runs,
    /// Settings of its searches.
    pub searching: Searching,
    /// A script's restricted sight; `None` for the client itself, which sees everything.
    pub sight: Option<&'a dyn Sight>,
}

/// Decides what a script may see.
pub trait Sight: Sync {
    /// True if it may see something with data of these servers; it then holds their labels.
    fn sees(&self, labels: &Labels) -> bool;

    /// True if it may see a server's number of resources, without holding a label for it.
    fn counts(&self, server: &str) -> bool;
}

impl Discovery<'_> {
    /// Lists the folder `path`, `depth` levels deep.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such path, `LIMIT_EXCEEDED` when it takes too many steps.
    pub async fn ls(&self, path: &str, depth: Option<u32>) -> Result<String> {
        if is_results(path) {
            limits::PATH.check(path.len())?;
            return self.session.results.listing(path, |labels| self.sees(labels)).await;
        }
        if let Some(id) = runs::path(path) {
            limits::PATH.check(path.len())?;
            return match id {
                None => self.list_runs().await,
                Some(id) => self.run(id).await.map(|run| format!("/runs/{}  {}", run.id, runs::state_name(run.state))),
            };
        }
        let depth = depth.unwrap_or(1).clamp(1, MAX_DEPTH) as usize;
        let (catalog, path, hidden) = (Arc::clone(self.catalog), path.to_owned(), self.uncounted());
        let list = move |meter: &Meter| catalog.ls_metered(&path, depth, &|server| !hidden.contains(server), meter);
        metered_as("list the folder", LS_STEPS, list).await
    }

    /// Servers whose number of resources is hidden.
    fn uncounted(&self) -> BTreeSet<String> {
        let Some(sight) = self.sight else { return BTreeSet::new() };
        let names = self.catalog.servers().iter().map(|server| &server.name);
        names.filter(|name| !sight.counts(name)).cloned().collect()
    }

    /// True if something of these servers may be seen.
    pub fn sees(&self, labels: &Labels) -> bool {
        // Of a time when the client had another profile.
        let is_hidden = labels.iter().any(|server| self.catalog.hides(server));
        !is_hidden && self.sight.is_none_or(|sight| sight.sees(labels))
    }

    /// True if a resource of this server may be seen; `None` always may.
    fn sees_resource(&self, owner: Option<&str>) -> bool {
        owner.is_none_or(|server| self.sees(&Labels::from([server.to_owned()])))
    }

    /// Files of `paths`, globs included. Resources are only named: the broker reads them from their servers.
    ///
    /// # Errors
    /// `INVALID_ARGS` when a path is invalid or over a limit, `LIMIT_EXCEEDED` when it takes too many steps.
    pub async fn files(&self, paths: &[String], lines: Lines) -> Result<Vec<File>> {
        if paths.is_empty() {
            return Err(Error::new(ErrorCode::InvalidArgs, "`cat` needs a path"));
        }
        limits::PATHS.check(paths.len())?;
        let paths = paths.iter().map(|path| catalog::named(path)).collect::<Result<Vec<_>>>()?.concat();
        limits::PATHS.check(paths.len())?;
        let mut asked = Vec::with_capacity(paths.len());
        for path in &paths {
            asked.push(self.asked(path, lines).await?);
        }
        let (catalog, hidden) = (Arc::clone(self.catalog), self.uncounted());
        let unseen = self.unseen(&asked, &hidden).await?;
        let lowered = self.lowered.clone();
        // A script gets the text itself: it can search it.
        let budget = self.sight.is_none().then_some(self.runs.answers.result_tokens * BYTES_PER_TOKEN);
        let find = move |meter: &Meter| {
            let (hidden, unseen, lowered) = (&hidden, &unseen, lowered.as_deref());
            let (files, bytes, rooted) = (Vec::new(), 0, BTreeSet::new());
            let mut found =
                Read { catalog: &catalog, hidden, unseen, meter, lines, budget, lowered, files, bytes, rooted };
            asked.iter().try_for_each(|asked| found.add(asked))?;
            Ok(found.files)
        };
        let files = metered_as("find the files", CAT_STEPS, find).await?;
        Ok(files.into_iter().filter(|(_, owner)| self.sees_resource(owner.as_deref())).map(|(file, _)| file).collect())
    }

    /// Servers whose resources globs do not match: neither matches nor their cost may reveal a hidden server. The
    /// labels of the others are held from here on, since a glob without matches reveals something of them too.
    async fn unseen(&self, asked: &[Asked], uncounted: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        if uncounted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let paths =
            asked.iter().filter_map(|asked| if let Asked::Path(path) = asked { Some(path.clone()) } else { None });
        let (catalog, paths) = (Arc::clone(self.catalog), paths.collect::<Vec<_>>());
        let find = move |meter: &Meter| {
            let mut servers = BTreeSet::new();
            for path in &paths {
                servers.extend(catalog.resource_servers(path, meter)?);
            }
            Ok(servers)
        };
        let mut reached = metered_as("find the files", CAT_STEPS, find).await?;
        reached.retain(|server| uncounted.contains(server) && !self.sees(&Labels::from([server.clone()])));
        Ok(reached)
    }

    async fn asked(&self, path: &str, lines: Lines) -> Result<Asked> {
        if let Some(id) = runs::path(path) {
            limits::PATH.check(path.len())?;
            return self.asked_run(id, lines).await;
        }
        if !is_results(path) {
            return Ok(Asked::Path(path.to_owned()));
        }
        limits::PATH.check(path.len())?;
        // The broker decides about its text.
        let sees = |labels: &Labels| self.sees(labels);
        let result = self.session.results.get(path, sees, sees).await?;
        Ok(Asked::Result(result))
    }

    /// A run that may be seen, redacted.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none.
    pub async fn run(&self, id: &str) -> Result<Run> {
        let run = self.runs.get(id).await?;
        if !self.sees(&run.labels) {
            return Err(runs::unknown(id));
        }
        Ok(self.runs.redacted(run, self.session.placeholders()))
    }

    /// Lists the runs. A listing gives no labels: where these count, it does not say what ended runs are.
    async fn list_runs(&self) -> Result<String> {
        let tells_all = self.sight.is_none() && self.session.held().is_none();
        self.runs.listing(|labels| self.sees(labels), tells_all).await
    }

    /// The text of a run, whose large parts are stored; or lines of its output.
    async fn asked_run(&self, id: Option<&str>, lines: Lines) -> Result<Asked> {
        let Some(id) = id else {
            let listing = self.list_runs().await?;
            return Err(Error::new(ErrorCode::InvalidArgs, format!("/runs is a folder\n{listing}"))
                .hint("`cat` one of the runs in it"));
        };
        let run = self.run(id).await?;
        let text = match lines {
            Lines::All => {
                // A script's look is not the agent's.
                let look = || self.session.looked(&run.id, run.output.lines().count());
                let seen = if self.sight.is_none() { look() } else { None };
                self.runs.text(&run, self.session, true, seen).await
            }
            _ if run.output.is_empty() => format!("run {} has printed nothing\n", run.id),
            _ => run.output,
        };
        Ok(Asked::Run { path: format!("/runs/{}", run.id), text, labels: run.labels })
    }

    /// Notes the stubs that the agent was shown.
    pub fn saw(&self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            if let (Some(digest), Some(text)) = (self.catalog.node_digest(node), self.catalog.read(node)) {
                // Redacted as for the agent, so that records contain no secret either.
                self.session.saw(self.catalog.path(node), &digest, &redact::text(Surface::Log, &text));
            }
        }
    }

    /// One line per hit, grouped by query where there are several, one per step of a task. A hit stands once, under the
    /// query that ranks it best, and ends with the numbers of the others. A query that is a server's name lists the
    /// server.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no query, no such folder, or a limit is exceeded; `LIMIT_EXCEEDED` when it takes
    /// too many steps.
    pub async fn search(&self, queries: &[String], limit: Option<u32>, path: Option<&str>) -> Result<String> {
        let queries: Vec<String> =
            queries.iter().map(|query| query.trim().to_owned()).filter(|q| !q.is_empty()).collect();
        if queries.is_empty() {
            return Err(Error::new(ErrorCode::InvalidArgs, "`search` needs words to look for")
                .hint("describe what the tool should do, such as `create issue`"));
        }
        limits::QUERIES.check(queries.len())?;
        queries.iter().try_for_each(|query| limits::QUERY.check(query.len()))?;
        limits::QUERY_TOTAL.check(queries.iter().map(String::len).sum())?;
        let path = path.unwrap_or("/").to_owned();
        let default = if queries.len() == 1 { DEFAULT_HITS } else { HITS_OF_MANY };
        let limit = limit.unwrap_or(default).clamp(1, MAX_HITS) as usize;
        let unsearched = self.catalog.unsearched().filter(|_| path.trim_matches('/').is_empty());
        let (catalog, hidden) = (Arc::clone(self.catalog), self.uncounted());
        let signals = self.searching.signals().await;
        let find = move |meter: &Meter| {
            let (queries, path, hidden, signals) = (&queries, &path, &hidden, &signals);
            Search { catalog: &catalog, queries, limit, path, hidden, signals, meter }.groups()
        };
        let mut groups = metered_as("search", SEARCH_STEPS, find).await?;
        self.session.searches.lock().add(groups.iter_mut().map(|group| std::mem::take(&mut group.searched)));
        for group in &mut groups {
            group.lines.retain(|line| self.sees_resource(line.owner.as_deref()));
        }
        Ok([search::shown(&groups)].into_iter().chain(unsearched).collect::<Vec<_>>().join("\n"))
    }
}

/// A path of one request.
enum Asked {
    Result(Entry),
    Run { path: String, text: String, labels: Labels },
    Path(String),
}

/// Files of one request found so far.
struct Read<'a> {
    catalog: &'a Catalog,
    /// Servers whose number of resources is hidden.
    hidden: &'a BTreeSet<String>,
    /// Servers whose resources globs do not match.
    unseen: &'a BTreeSet<String>,
    meter: &'a Meter,
    lines: Lines,
    /// Bytes of a stored result that is shown as a whole; `None` for a script.
    budget: Option<usize>,
    /// See [`Discovery::lowered`].
    lowered: Option<&'a str>,
    /// Each with its server's name if it is one of several resources of a glob.
    files: Vec<(File, Option<String>)>,
    /// Bytes of their texts.
    bytes: usize,
    /// Servers of which it says where their paths lead.
    rooted: BTreeSet<usize>,
}

impl Read<'_> {
    fn add(&mut self, asked: &Asked) -> Result<(), Halt> {
        let path = match asked {
            Asked::Result(result) => {
                let text = match self.budget.filter(|_| self.lines == Lines::All) {
                    Some(budget) => {
                        self.meter.spend(1 + result.value.len() as u64 / BYTES_A_STEP)?;
                        parts::opening(&result.value, &result.name, budget)
                    }
                    None => self.cut(&result.value, &result.name)?,
                };
                return self.push(result.name.to_string(), text, (*result.labels).clone(), None);
            }
            Asked::Run { path, text, labels } => {
                // Lines are those of its output; its text is within its budget.
                let text = if self.lines == Lines::All { text.clone() } else { self.cut(text, path)? };
                return self.push(path.clone(), text, labels.clone(), None);
            }
            Asked::Path(path) => path,
        };
        if let Some(remote) = self.catalog.resource_by_uri(path) {
            limits::URI.check(remote.uri.len())?;
            return self.push_file(File::Resource(remote), None);
        }
        let nodes = self.catalog.files(path, self.unseen, self.meter)?;
        let several = nodes.len() > 1;
        nodes.into_iter().try_for_each(|node| self.add_node(node, path, several))
    }

    fn add_node(&mut self, node: Node, asked: &str, several: bool) -> Result<(), Halt> {
        if let Some(remote) = self.catalog.remote(node) {
            let owner = self.catalog.resource_owner(node).filter(|_| several).map(str::to_owned);
            return self.push_file(File::Resource(remote), owner);
        }
        let path = self.catalog.path(node);
        if self.bytes > MAX_CAT_BYTES && !node.is_folder() {
            return self.push(path, String::new(), Labels::new(), None);
        }
        let Some(content) = self.catalog.read(node) else {
            let listing = self.catalog.ls_metered(&path, 1, &|server| !self.hidden.contains(server), self.meter)?;
            let message = format!("{} is a folder\n{listing}", brief(asked));
            let hint = format!("`cat` a file in it, or {path}*.pyi for all stubs");
            return Err(Error::new(ErrorCode::InvalidArgs, message).hint(hint).into());
        };
        // Unlike descriptions, a server's output at work may contain data.
        let labels = self.catalog.stderr_of(node).map(str::to_owned).into_iter().collect();
        let content = match (self.lowered, node) {
            (Some(lowered), Node::ForgePyi) => after_first_line(&content, &format!("# {lowered}")).into(),
            (Some(lowered), Node::ForgeDts) => after_first_line(&content, &format!("// {lowered}")).into(),
            _ => content,
        };
        let mut text = self.cut(&content, &path)?;
        if let Some((server, paths)) = self.catalog.paths_of(node)
            && self.rooted.insert(server)
        {
            text.insert_str(0, &paths);
        }
        if let Some(callers) = self.catalog.callers_of(node) {
            text.insert_str(0, &callers);
        }
        self.push(path, text, labels, Some(node))
    }

    fn push(&mut self, path: String, text: String, labels: Labels, node: Option<Node>) -> Result<(), Halt> {
        self.bytes += text.len();
        self.push_file(File::Text { path, text, labels, node }, None)
    }

    fn push_file(&mut self, file: File, owner: Option<String>) -> Result<(), Halt> {
        self.files.push((file, owner));
        Ok(limits::FILES.check(self.files.len())?)
    }

    fn cut(&self, content: &str, path: &str) -> Result<String, Halt> {
        self.meter.spend(1 + content.len() as u64 / BYTES_A_STEP)?;
        Ok(self.lines.of(content, path))
    }
}

fn after_first_line(text: &str, line: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{first}\n{line}\n{rest}")
}

/// Cuts the requested lines of a text outside the catalog.
///
/// # Errors
/// `LIMIT_EXCEEDED` when it takes too many steps.
pub async fn cut(content: String, lines: Lines, path: &str) -> Result<String> {
    let path = path.to_owned();
    let cut = move |meter: &Meter| {
        meter.spend(1 + content.len() as u64 / BYTES_A_STEP)?;
        Ok(lines.of(&content, &path))
    };
    metered_as("cut the text", CAT_STEPS, cut).await
}

/// Joins several files, given as path and text, with a line of the path before each that does not name its tool; returns
/// how many fit.
pub fn concatenate(files: &[(String, String)]) -> (String, usize) {
    let many = files.len() > 1;
    let mut text = String::new();
    for (position, (path, content)) in files.iter().enumerate() {
        if text.len() > MAX_CAT_BYTES {
            let left: Vec<&str> = files[position..].iter().map(|(path, _)| path.as_str()).collect();
            let more = left.len().saturating_sub(MAX_NAMED);
            text.push_str(&format!("… enough for one answer; not read: {}", left[..left.len() - more].join(" ")));
            text.push_str(&if more > 0 { format!(" and {more} more\n") } else { "\n".to_owned() });
            return (text, position);
        }
        if many && !names_itself(path, content) {
            text.push_str(&format!("# {path}\n"));
        }
        text.push_str(content.trim_end_matches('\n'));
        text.push('\n');
    }
    (text, files.len())
}

/// True for a tool's stub whose header is in `text`: `# server.tool`.
fn names_itself(path: &str, text: &str) -> bool {
    let comment = match path.rsplit_once('.') {
        Some((stem, "pyi")) => Some((stem, "# ")),
        Some((stem, "ts")) => stem.strip_suffix(".d").map(|stem| (stem, "// ")),
        _ => None,
    };
    let Some((stem, comment)) = comment else { return false };
    let mut parts = stem.trim_start_matches('/').split('/');
    let (Some(server), Some(tool)) = (parts.next(), parts.next_back()) else { return false };
    if parts.next().is_some_and(|folder| matches!(folder, "resources" | "prompts")) {
        return false;
    }
    let comments = text.lines().map_while(|line| line.strip_prefix(comment));
    comments.into_iter().any(|line| {
        line.strip_prefix(server)
            .and_then(|rest| rest.strip_prefix('.')?.strip_prefix(tool))
            .is_some_and(|rest| rest.starts_with(' '))
    })
}

fn is_results(path: &str) -> bool {
    let path = path.trim_start_matches('/');
    path == "results" || path.starts_with("results/")
}
