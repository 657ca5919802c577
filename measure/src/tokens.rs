//! Token cost of a task: through the four tools, and with every tool in the model's context.
//!
//! Counted are ForgeFS's own texts: definitions, instructions, answers, the list of tools. Results of tools are left
//! out on both sides, which favours the plain list: there all of it passes through the model, here only the script's
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use forgefs::catalog::{Catalog, Found};
use forgefs::discovery::{Discovery, File, Lines, concatenate};
use forgefs::runs::Runs;
use forgefs::server::{definitions, render_instructions};
use forgefs::session::Session;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::corpus::{catalogs, entries, root};
use crate::count;
use crate::report::{Report, circumstances, table};

/// Numbers of tools for each task.
const SIZES: [usize; 7] = [10, 50, 100, 250, 500, 1000, 2000];

#[derive(Deserialize)]
struct Task {
    name: String,
    /// The agent's searches, one query per step.
    queries: Vec<String>,
    calls: Vec<Call>,
    /// The script of the task.
    script: String,
}

#[derive(Deserialize)]
struct Call {
    /// `server/tool`.
    tool: String,
    args: Value,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

/// Tokens that a model reads and writes.
#[derive(Clone, Copy, Default)]
struct Cost {
    input: usize,
    output: usize,
}

impl Cost {
    fn total(self) -> usize {
        self.input + self.output
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { input: self.input + other.input, output: self.output + other.output }
    }
}

/// Measures the surface, and every task at each number of tools.
///
/// # Errors
/// When tasks or tool lists cannot be read, or a task cannot be done with them.
pub fn run(shared: Option<&Path>) -> Result<Report> {
    let names: Vec<String> =
        ["github", "playwright", "sentry", "cloudflare", "notion", "linear"].map(str::to_owned).into();
    let instructions = count(&render_instructions(&names));
    let surface = |proposals: bool| {
        let list = serde_json::to_string(&json!({"tools": definitions(&names, proposals)}))?;
        Ok::<_, anyhow::Error>(count(&list) + instructions)
    };
    let mut text = format!(
        "{}\n\nThe four definitions and the instructions: {} tokens (o200k); {} where agents may propose scripts.",
        circumstances(),
        surface(false)?,
        surface(true)?
    );
    let Some(shared) = shared else {
        text.push_str(
            "\n\nSKIPPED: whole tasks; name the folder with real tool lists with --shared or FORGEFS_SHARED.",
        );
        return Ok(Report { name: "tokens", text, failed: false });
    };
    let tasks: Vec<Task> = serde_json::from_str(&std::fs::read_to_string(root().join("measure/tasks.json"))?)?;
    let all = catalogs(&shared.join("catalogs"))?;
    let needed: BTreeSet<&str> =
        tasks.iter().flat_map(|task| task.calls.iter().map(|call| call.tool.as_str())).collect();
    let mut by_size = vec![row([
        "tools",
        "plain: input",
        "output",
        "ForgeFS: input",
        "output",
        "plain in all",
        "ForgeFS in all",
        "saved",
    ])];
    let mut alone = Vec::new();
    for task in &tasks {
        let own: BTreeSet<&str> = task.calls.iter().map(|call| call.tool.as_str()).collect();
        alone.extend(measure(std::slice::from_ref(task), subset(&all, &own, 0))?);
    }
    by_size.push(std::iter::once("the task's own".to_owned()).chain(average(0, &alone).into_iter().skip(1)).collect());
    let mut last = Vec::new();
    for size in SIZES {
        let servers = subset(&all, &needed, size);
        let tools: usize = servers.values().map(Vec::len).sum();
        let measured = measure(&tasks, servers)?;
        by_size.push(average(tools, &measured));
        last = measured;
    }
    text.push_str("\n\nA task on average (");
    text.push_str(&format!("{} tasks):\n\n{}", tasks.len(), table(&by_size)));
    text.push_str("\n\nEach task with all the tools:\n\n");
    let mut by_task = vec![row(["task", "calls", "plain: input", "output", "ForgeFS: input", "output", "searches"])];
    for (task, (plain, ours, searches)) in tasks.iter().zip(&last) {
        let calls: usize = task.calls.iter().map(|call| call.times).sum();
        let numbers = [calls, plain.input, plain.output, ours.input, ours.output, *searches].map(|n| n.to_string());
        by_task.push(std::iter::once(task.name.clone()).chain(numbers).collect());
    }
    text.push_str(&table(&by_task));
    text.push_str("\n\nFormats of a search hit, tokens a hit over all queries of the tasks:\n\n");
    text.push_str(&table(&formats(&tasks, all)?));
    Ok(Report { name: "tokens", text, failed: false })
}

/// Required tools, and others of the servers in order until there are `size`.
fn subset(all: &BTreeMap<String, Vec<Value>>, needed: &BTreeSet<&str>, size: usize) -> BTreeMap<String, Vec<Value>> {
    let is_needed = |server: &str, tool: &Value| {
        tool["name"].as_str().is_some_and(|name| needed.contains(format!("{server}/{name}").as_str()))
    };
    let mut room = size.saturating_sub(needed.len());
    let mut servers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (server, tools) in all {
        for tool in tools {
            let is_needed = is_needed(server, tool);
            if is_needed || room > 0 {
                room -= usize::from(!is_needed);
                servers.entry(server.clone()).or_default().push(tool.clone());
            }
        }
    }
    servers
}

/// Plain cost, our cost, and number of searches, per task.
fn measure(tasks: &[Task], servers: BTreeMap<String, Vec<Value>>) -> Result<Vec<(Cost, Cost, usize)>> {
    let shown = |tool: &Value| json!({"name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"]});
    let list: Vec<Value> = servers.values().flatten().map(shown).collect();
    let list = count(&serde_json::to_string(&json!({"tools": list}))?);
    let catalog = Arc::new(Catalog::build(entries(servers))?);
    let idents: Vec<String> = catalog.servers().iter().map(|server| server.ident.clone()).collect();
    let definitions = serde_json::to_string(&json!({"tools": definitions(&idents, false)}))?;
    let surface = Cost { input: count(&definitions) + count(&render_instructions(&idents)), output: 0 };
    tasks
        .iter()
        .map(|task| {
            let args =
                |call: &Call| call.times * count(&json!({"name": call.tool, "arguments": call.args}).to_string());
            let plain = Cost { input: list, output: task.calls.iter().map(args).sum() };
            let (ours, searches) = ours(task, &catalog).with_context(|| task.name.clone())?;
            Ok((plain, surface + ours, searches))
        })
        .collect()
}

/// One search for all steps, one more for each tool that it missed, one `cat` of the stubs, one script.
fn ours(task: &Task, catalog: &Arc<Catalog>) -> Result<(Cost, usize)> {
    let session = Arc::<Session>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let discovery = Discovery { catalog, session: &session, lowered: None, runs: Runs::default(), sight: None };
    let said = |tool: &str, arguments: Value| count(&json!({"name": tool, "arguments": arguments}).to_string());
    let answer = runtime.block_on(discovery.search(&task.queries, None, None))?;
    let mut cost = Cost { input: count(&answer), output: said("search", json!({"query": task.queries})) };
    let mut searches = 1;
    let mut paths = Vec::new();
    for call in &task.calls {
        let (server, name) = call.tool.split_once('/').context("a tool is server/tool")?;
        let (entry, stub) = catalog.tool(server, name)?;
        let path = Catalog::stub_path(entry, stub);
        if !answer.lines().any(|line| line.starts_with(&path)) {
            let again = vec![format!("{server} {name}")];
            cost = cost
                + Cost {
                    input: count(&runtime.block_on(discovery.search(&again, None, None))?),
                    output: said("search", json!({"query": again})),
                };
            searches += 1;
        }
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let mut files = Vec::new();
    for file in runtime.block_on(discovery.files(&paths, Lines::parse(None)?))? {
        if let File::Text { path, text, .. } = file {
            files.push((path, text));
        }
    }
    let read = Cost { input: count(&concatenate(&files).0), output: said("cat", json!({"path": paths})) };
    let run = Cost { input: 0, output: said("execute", json!({"language": "javascript", "code": task.script})) };
    Ok((cost + read + run, searches))
}

fn average(tools: usize, measured: &[(Cost, Cost, usize)]) -> Vec<String> {
    let of =
        |part: &dyn Fn(&(Cost, Cost, usize)) -> usize| measured.iter().map(part).sum::<usize>() / measured.len().max(1);
    let (plain, ours) = (of(&|m| m.0.total()), of(&|m| m.1.total()));
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let saved = 100.0 * (1.0 - ours as f64 / plain.max(1) as f64);
    let numbers =
        [tools, of(&|m| m.0.input), of(&|m| m.0.output), of(&|m| m.1.input), of(&|m| m.1.output), plain, ours];
    numbers.iter().map(ToString::to_string).chain([format!("{saved:.1} %")]).collect()
}

/// Tokens per hit in several formats.
fn formats(tasks: &[Task], all: BTreeMap<String, Vec<Value>>) -> Result<Vec<Vec<String>>> {
    let catalog = Catalog::build(entries(all))?;
    let mut lines: [Vec<String>; 5] = Default::default();
    for query in tasks.iter().flat_map(|task| &task.queries) {
        for (found, _) in catalog.find_all(std::slice::from_ref(query), 8, "/")? {
            let as_is = catalog.hit_line(&found);
            let Found::Tool(hit) = found else { continue };
            let path = Catalog::stub_path(hit.server, hit.tool);
            lines[0].push(as_is);
            lines[1].push(format!("{path}  {}  {}", hit.tool.signature, hit.tool.summary));
            lines[2].push(format!("{path}  {}", hit.tool.signature));
            lines[3].push(format!("{path}  {}", hit.tool.summary));
            lines[4].push(path);
        }
    }
    let names = ["as it is", "path, whole signature, summary", "path, whole signature", "path, summary", "path"];
    let per_hit = |lines: &Vec<String>| (count(&lines.join("\n")) / lines.len().max(1)).to_string();
    let rows = names.iter().zip(&lines).map(|(name, lines)| vec![(*name).to_owned(), per_hit(lines)]);
    Ok(std::iter::once(row(["format", "tokens"])).chain(rows).collect())
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}
