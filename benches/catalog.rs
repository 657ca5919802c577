//! Cost of discovery by number of tools: `cargo bench --workspace --bench catalog`, `-- --write docs/benchmarks.md` to
//! keep the table. Each size is measured in a process of its own, for a peak of its own.
//!
//! The tools are synthetic, always the same, 50 per server. FORGEFS_SHARED adds the tool lists of real servers.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forgefs::base::meter::Meter;
use forgefs::catalog::manifest::{ServerEntry, ServerState, load_file};
use forgefs::catalog::{Catalog, Signals};
use forgefs::upstream::Listing;
use forgefs_measure::made_up;
use forgefs_measure::report::Report;
use serde_json::Value;

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];
const COLUMNS: [&str; 12] = [
    "tools", "stubs", "index", "both", "one server anew", "peak memory", "search p50", "p99", "ls / p50",
    "ls server p50", "cat p50", "search p99 while swapped",
];
/// Measured requests of each kind.
const REQUESTS: usize = 400;
/// Environment variable with a child's task.
const CHILD: &str = "FORGEFS_BENCH_CATALOG";

fn main() {
    if let Ok(what) = std::env::var(CHILD) {
        println!("{}", measure(&what));
        return;
    }
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    println!("{}", COLUMNS.join(" | "));
    let mut sizes: Vec<String> = SIZES.map(|size| size.to_string()).into();
    sizes.extend(
        std::env::var_os("FORGEFS_SHARED").filter(|folder| Path::new(folder).is_dir()).map(|_| "real".to_owned()),
    );
    for size in sizes {
        let output = Command::new(std::env::current_exe().unwrap()).env(CHILD, &size).output().unwrap();
        assert!(output.status.success(), "{size}: {}", String::from_utf8_lossy(&output.stderr));
        let row = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        println!("{row}");
        rows.push(row.split(" | ").map(str::to_owned).collect());
    }
    Report::of_bench("catalog", &rows).keep().unwrap();
}

/// A row of the table.
fn measure(what: &str) -> String {
    let listed = || what.parse::<usize>().map_or_else(|_| real(), made_up::tools);
    let lists = listed();
    let tools: usize = lists.values().map(Vec::len).sum();
    let queries = made_up::queries();
    let started = Instant::now();
    let mut servers = entries(lists);
    let mut stubs = started.elapsed();
    let started = Instant::now();
    let catalog = searched(servers.clone());
    let mut index = started.elapsed();
    let memory = peak_memory();
    // The best of three, which on a busy machine is nearest to the true cost.
    for _ in 0..if tools > 20_000 { 0 } else { 2 } {
        let lists = listed();
        let started = Instant::now();
        let servers = entries(lists);
        stubs = stubs.min(started.elapsed());
        let started = Instant::now();
        drop(black_box(searched(servers)));
        index = index.min(started.elapsed());
    }

    // One server lists again: its stubs, and the catalog with all others unchanged.
    let (name, ident) = (servers[0].name.clone(), servers[0].ident.clone());
    let tools_of_one: Vec<Value> =
        servers[0].stubs.tools.iter().map(|tool| (*tool.definition.tree()).clone()).collect();
    let started = Instant::now();
    servers[0] = Arc::new(entry(&name, &ident, tools_of_one));
    let next = catalog.rebuild(servers.clone(), Arc::default()).unwrap();
    let mut anew = started.elapsed();
    black_box(&next);
    if tools <= 20_000 {
        let started = Instant::now();
        drop(black_box(catalog.rebuild(servers.clone(), Arc::default()).unwrap()));
        anew = anew.min(started.elapsed());
    }

    let ident = &servers[servers.len() / 2].ident;
    let tool = &servers[servers.len() / 2].stubs.tools[0].ident;
    let search = times(|n| search(&catalog, &queries[n % queries.len()]));
    let ls_root = times(|_| drop(black_box(catalog.ls("/", 1).unwrap())));
    let ls_server = times(|_| drop(black_box(catalog.ls(&format!("/{ident}"), 1).unwrap())));
    let cat = times(|_| {
        let node = catalog.resolve(&format!("/{ident}/{tool}.pyi")).unwrap();
        drop(black_box(catalog.read(node).unwrap().into_owned()));
    });
    let swapped = while_swapped(&catalog, &servers, &queries);
    let cells = [
        tools.to_string(),
        show(stubs),
        show(index),
        show(stubs + index),
        show(anew),
        format!("{} MiB", memory >> 10),
        show(quantile(&search, 50)),
        show(quantile(&search, 99)),
        show(quantile(&ls_root, 50)),
        show(quantile(&ls_server, 50)),
        show(quantile(&cat, 50)),
        show(quantile(&swapped, 99)),
    ];
    cells.join(" | ")
}

fn search(catalog: &Catalog, query: &str) {
    let found = catalog.search(query, 8, "/", &Signals::default(), &Meter::new(u64::MAX));
    assert!(black_box(found).is_ok(), "{query}");
}

/// A catalog with its index, which the first search builds.
fn searched(servers: Vec<Arc<ServerEntry>>) -> Catalog {
    let catalog = Catalog::build(servers);
    search(&catalog, "list");
    catalog
}

/// Latency of searches while another thread rebuilds the catalog and swaps it in.
fn while_swapped(first: &Catalog, servers: &[Arc<ServerEntry>], queries: &[String]) -> Vec<Duration> {
    let current = arc_swap::ArcSwap::from_pointee(first.rebuild(servers.to_vec(), Arc::default()).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let next = current.load().rebuild(servers.to_vec(), Arc::default()).unwrap();
                current.store(Arc::new(next));
            }
        });
        let times = times(|n| search(&current.load(), &queries[n % queries.len()]));
        done.store(true, Ordering::Relaxed);
        times
    })
}

fn times(mut work: impl FnMut(usize)) -> Vec<Duration> {
    work(0);
    let mut times = Vec::with_capacity(REQUESTS);
    for n in 0..REQUESTS {
        let started = Instant::now();
        work(n);
        times.push(started.elapsed());
    }
    times.sort_unstable();
    times
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn show(time: Duration) -> String {
    match time.as_micros() {
        0..100 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        micros @ 100..10_000 => format!("{micros} µs"),
        micros => format!("{} ms", micros / 1000),
    }
}

/// Peak memory of this process, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn entry(name: &str, ident: &str, tools: Vec<Value>) -> ServerEntry {
    ServerEntry::listed(name, ident, None, Listing { tools, ..Listing::default() }, ServerState::Offline)
}

fn entries(lists: BTreeMap<String, Vec<Value>>) -> Vec<Arc<ServerEntry>> {
    let names: Vec<String> = lists.keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let idents = stubgen::assign_idents(&names);
    lists.into_iter().zip(idents).map(|((name, tools), ident)| Arc::new(entry(&name, &ident, tools))).collect()
}

fn real() -> BTreeMap<String, Vec<Value>> {
    let folder = PathBuf::from(std::env::var_os("FORGEFS_SHARED").unwrap()).join("catalogs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.iter().flat_map(|file| load_file(file).unwrap()).collect()
}
