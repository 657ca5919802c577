//! Tries real servers of npm and PyPI with the executable, and writes docs/servers-tried.md.

mod attempt;
mod packages;
mod page;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::{check_stubs::Checkers, real, say};
use attempt::{End, Outcome, Tools};
use table::{Registry, Row};

#[derive(Args)]
pub(crate) struct WorldArgs {
    /// Only these servers
    names: Vec<String>,
    /// Forget what was seen before, and install every package again
    #[arg(long)]
    fresh: bool,
    /// Only the servers that CI tries
    #[arg(long, conflicts_with = "names")]
    pub(crate) sample: bool,
    /// Write the page although servers became worse
    #[arg(long)]
    accept: bool,
    /// Servers at a time [default: one for each processor]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// The executable; one is built if none is given
    #[arg(long)]
    pub(crate) forgefs: Option<PathBuf>,
}

impl WorldArgs {
    /// Servers that CI runs.
    pub(crate) fn ci() -> Self {
        Self { names: Vec::new(), fresh: false, sample: true, accept: false, jobs: None, forgefs: None }
    }
}

/// Words of a server whose tool search did not find.
const NOT_FOUND: &str = "search does not find it";
/// Hits among which a server's tool must be.
const HITS: &str = "8";

/// Tries the servers; fails when one became worse than the page says.
pub(crate) fn run(root: &Path, forgefs: PathBuf, args: &WorldArgs) -> anyhow::Result<()> {
    let rows = table::read(root)?;
    let is_asked = |row: &Row| match args.names.as_slice() {
        [] => row.sample || !args.sample,
        names => names.contains(&row.name),
    };
    if let Some(name) = args.names.iter().find(|name| rows.iter().all(|row| row.name != **name)) {
        bail!("tests/real/world.toml has no server {name}");
    }
    let world = root.join("target/world");
    if args.fresh && world.exists() {
        fs::remove_dir_all(&world)?;
    }
    fs::create_dir_all(world.join("seen"))?;
    let found = real::install_checkers(root);
    let checkers =
        Checkers { python: found.python, node: found.node, scripts: root.join("stubgen/checks"), out: world.clone() };
    let tools = Tools { root, forgefs, checkers, port: page_server()? };
    let lacking = [Registry::Npm, Registry::Pypi].map(|registry| (registry, packages::missing(registry)));
    let lacks = |row: &Row| lacking.iter().find_map(|(of, why)| why.filter(|_| *of == row.from));
    for (registry, why) in lacking {
        if let Some(why) = why {
            say::skipped(&format!("servers from {registry:?}"), format_args!("{why}"));
        }
    }
    let asked: Vec<&Row> = rows.iter().filter(|row| is_asked(row) && lacks(row).is_none()).collect();
    let kept = Kept { folder: world.join("seen"), executable: stamp(&tools.forgefs)? };
    let failed = try_all(&tools, &kept, &asked, args);
    let mut seen: BTreeMap<&str, (&Row, Outcome)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !args.sample || row.sample) {
        if let Some(outcome) = kept.load(row) {
            seen.insert(&row.name, (row, outcome));
        }
    }
    search(&tools, &mut seen)?;
    let seen: Vec<(&Row, &Outcome)> = seen.values().map(|(row, outcome)| (*row, outcome)).collect();
    conclude(root, &seen, rows.len(), &failed, args)
}

/// Compares with the page, and writes it if every server was seen.
fn conclude(
    root: &Path,
    seen: &[(&Row, &Outcome)],
    all: usize,
    failed: &[String],
    args: &WorldArgs,
) -> anyhow::Result<()> {
    let path = root.join(page::PATH);
    let worse = page::worse(&fs::read_to_string(&path).unwrap_or_default(), seen);
    for line in failed.iter().chain(&worse) {
        say::line(format_args!("{line}"));
    }
    let called = seen.iter().filter(|(_, outcome)| outcome.end == End::Called).count();
    say::output(format_args!("{} of {all} servers seen, {called} of them called", seen.len()));
    if !worse.is_empty() && !args.accept {
        bail!("{} servers became worse than {} says; --accept writes it anew", worse.len(), page::PATH);
    }
    if seen.len() == all {
        fs::write(&path, page::write(seen)).with_context(|| format!("cannot write {}", path.display()))?;
        say::line(format_args!("wrote {}", page::PATH));
    } else if !args.sample {
        say::line(format_args!("{} is written when every server was seen", page::PATH));
    }
    if !failed.is_empty() {
        bail!("{} servers could not be tried", failed.len());
    }
    Ok(())
}

/// Tries what was not seen yet, several at a time; returns a line for each that could not be tried at all.
fn try_all(tools: &Tools<'_>, kept: &Kept, asked: &[&Row], args: &WorldArgs) -> Vec<String> {
    let left: Vec<&&Row> = asked.iter().filter(|row| args.sample || kept.load(row).is_none()).collect();
    if left.len() < asked.len() {
        say::line(format_args!("{} servers were seen before; --fresh tries them again", asked.len() - left.len()));
    }
    let (queue, failed) = (Mutex::new(left.iter().enumerate()), Mutex::new(Vec::new()));
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let (started, count) = (Instant::now(), left.len());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((at, row)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    let tried = tools.attempt(row).and_then(|outcome| {
                        kept.store(row, &outcome)?;
                        Ok(outcome)
                    });
                    let told = match &tried {
                        Ok(Outcome { end, tools, .. }) => format!("{end:?}, {tools} tools"),
                        Err(error) => format!("could not be tried: {error:#}"),
                    };
                    let (name, seconds) = (&row.name, started.elapsed().as_secs());
                    say::line(format_args!("[{} of {count}, after {seconds} s] {name}: {told}", at + 1));
                    if let (Err(_), Ok(mut failed)) = (tried, failed.lock()) {
                        failed.push(format!("{name} {told}"));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_default()
}

/// Outcomes on disk, each written as a whole: an interrupted run goes on after the last.
struct Kept {
    folder: PathBuf,
    executable: String,
}

impl Kept {
    /// Inputs of an outcome.
    fn key(&self, row: &Row) -> String {
        format!("{} {row:?}", self.executable)
    }

    fn load(&self, row: &Row) -> Option<Outcome> {
        let text = fs::read(self.folder.join(format!("{}.json", row.name))).ok()?;
        let mut kept: Value = serde_json::from_slice(&text).ok()?;
        (kept["key"] == self.key(row)).then(|| serde_json::from_value(kept["outcome"].take()).ok())?
    }

    fn store(&self, row: &Row, outcome: &Outcome) -> anyhow::Result<()> {
        let [new, path] = ["new", "json"].map(|end| self.folder.join(format!("{}.{end}", row.name)));
        fs::write(&new, json!({ "key": self.key(row), "outcome": outcome }).to_string())?;
        Ok(fs::rename(new, path)?)
    }
}

/// Changes with each build of the executable.
fn stamp(executable: &Path) -> anyhow::Result<String> {
    let metadata = fs::metadata(executable).with_context(|| format!("there is no {}", executable.display()))?;
    Ok(format!("{} {:?}", metadata.len(), metadata.modified()?))
}

/// Looks for one tool of each server among those of all of them.
fn search(tools: &Tools<'_>, seen: &mut BTreeMap<&str, (&Row, Outcome)>) -> anyhow::Result<()> {
    let mut lists = serde_json::Map::new();
    for (name, _) in seen.iter().filter(|(_, (_, outcome))| outcome.query.is_some()) {
        let list: Value = serde_json::from_slice(&fs::read(tools.folder(name).join("tools.json"))?)?;
        lists.insert((*name).to_owned(), list);
    }
    let work = tools.root.join("target/world");
    fs::create_dir_all(work.join("home"))?;
    fs::write(work.join("all.json"), Value::Object(lists).to_string())?;
    let asked: Vec<(String, String)> =
        seen.iter().filter_map(|(name, (_, outcome))| Some(((*name).to_owned(), outcome.query.clone()?))).collect();
    for some in asked.chunks(16) {
        let mut words = vec!["--catalog", "all.json", "search", "--json", "--limit", HITS, "--"];
        words.extend(some.iter().map(|(_, query)| query.as_str()));
        let answer = tools.forgefs(&work, &words)?;
        for (at, (name, _)) in some.iter().enumerate() {
            let is_hit = |hit: &Value| {
                let of = hit["queries"].as_array().is_some_and(|of| of.iter().any(|query| *query == at + 1));
                of && hit["server"] == name.as_str()
            };
            if let Some((_, outcome)) = seen.get_mut(name.as_str())
                && !answer["hits"].as_array().is_some_and(|hits| hits.iter().any(is_hit))
            {
                outcome.odd.push(NOT_FOUND.to_owned());
            }
        }
    }
    Ok(())
}

/// Serves a short page at every path of a port; as JSON it is a page that was fetched.
fn page_server() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8192]);
            let body = r#"{"success": true, "data": {"markdown": "page", "metadata": {"statusCode": 200}}}"#;
            let kind = "content-type: application/json\r\nconnection: close";
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    Ok(port)
}
