//! Token cost of a task: through the four tools, with every tool in the model's context, and in the forms of `expose`.
//!
//! Counted are ForgeFS's own texts: definitions, instructions, answers, the list of tools. Results of tools are left
//! out on both sides, which favours the plain list: there all of it passes through the model, here only the script's
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use forgefs::catalog::{Catalog, Found, Signals};
use forgefs::run::discovery::{Discovery, File, Lines, concatenate};
use forgefs::run::runs::Runs;
use forgefs::run::searching::Searching;
use forgefs::run::session::Session;
use forgefs::server::mcp::{AUTO_TOKENS, DIRECT_INSTRUCTIONS, definitions, has_few, render_instructions};
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
        "tools", "plain: input", "output", "ForgeFS: input", "output", "plain in all", "ForgeFS in all", "saved",
        "direct", "hybrid", "auto",
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
    text.push_str(&format!(
        "{} tasks); the last columns are all tokens in the other forms of `expose`, hybrid with the task's own tools:\n\n{}",
        tasks.len(),
        table(&by_size)
    ));
    text.push_str("\n\nEach task with all the tools:\n\n");
    let mut by_task = vec![row(["task", "calls", "plain: input", "output", "ForgeFS: input", "output", "searches"])];
    for (task, Measured { plain, ours, searches, .. }) in tasks.iter().zip(&last) {
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

/// Costs of one task.
struct Measured {
    /// With every tool in the model's context.
    plain: Cost,
    /// Through the four tools.
    ours: Cost,
    searches: usize,
    /// With every tool through the gateway, `expose = "direct"`.
    direct: Cost,
    /// With the four tools and the task's own, `expose = "hybrid"`.
    hybrid: Cost,
    /// `expose = "auto"`.
    auto: Cost,
}

/// Costs of each task with these servers.
fn measure(tasks: &[Task], servers: BTreeMap<String, Vec<Value>>) -> Result<Vec<Measured>> {
    let shown = |tool: &Value, name: &Value| json!({"name": name, "description": tool["description"], "inputSchema": tool["inputSchema"]});
    let list: Vec<Value> = servers.values().flatten().map(|tool| shown(tool, &tool["name"])).collect();
    let counted = |list: Vec<Value>| Ok::<_, anyhow::Error>(count(&serde_json::to_string(&json!({"tools": list}))?));
    let list = counted(list)?;
    let catalog = Arc::new(Catalog::build(entries(servers)));
    let named: Vec<(String, String, Value)> = catalog
        .named_tools()
        .map(|of| {
            let definition = shown(&of.tool.definition.tree(), &of.name.into());
            (format!("{}/{}", of.server.name, of.tool.name), of.name.to_owned(), definition)
        })
        .collect();
    let instructions = count(DIRECT_INSTRUCTIONS);
    let all = instructions + counted(named.iter().map(|(_, _, definition)| definition.clone()).collect())?;
    let idents: Vec<String> = catalog.servers().iter().map(|server| server.ident.clone()).collect();
    let definitions = serde_json::to_string(&json!({"tools": definitions(&idents, false)}))?;
    let surface = Cost { input: count(&definitions) + count(&render_instructions(&idents)), output: 0 };
    tasks
        .iter()
        .map(|task| {
            let name_of = |call: &Call| {
                named
                    .iter()
                    .find(|(path, ..)| *path == call.tool)
                    .map_or(call.tool.clone(), |(_, name, _)| name.clone())
            };
            let said = |call: &Call, name: &str| {
                call.times * count(&json!({"name": name, "arguments": call.args}).to_string())
            };
            let plain = Cost { input: list, output: task.calls.iter().map(|call| said(call, &call.tool)).sum() };
            let output = task.calls.iter().map(|call| said(call, &name_of(call))).sum();
            let direct = Cost { input: all, output };
            let is_own = |path: &String| task.calls.iter().any(|call| call.tool == *path);
            let own = named.iter().filter(|(path, ..)| is_own(path)).map(|(_, _, definition)| definition.clone());
            let hybrid = Cost { input: surface.input + counted(own.collect())?, output };
            let (ours, searches) = ours(task, &catalog).with_context(|| task.name.clone())?;
            let ours = surface + ours;
            let auto = if has_few(&catalog, AUTO_TOKENS) { direct } else { ours };
            Ok(Measured { plain, ours, searches, direct, hybrid, auto })
        })
        .collect()
}

/// One search for all steps, one more for each tool that it missed, one `cat` of the stubs, one script.
fn ours(task: &Task, catalog: &Arc<Catalog>) -> Result<(Cost, usize)> {
    let session = Arc::<Session>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let discovery = Discovery {
        catalog,
        session: &session,
        lowered: None,
        runs: Runs::default(),
        searching: Searching::default(),
        sight: None,
    };
    let said = |tool: &str, arguments: Value| count(&json!({"name": tool, "arguments": arguments}).to_string());
    let answer = runtime.block_on(discovery.search(&task.queries, None, None))?;
    let mut cost = Cost { input: count(&answer), output: said("search", json!({"query": task.queries})) };
    let mut searches = 1;
    let mut paths = Vec::new();
    for call in &task.calls {
        let (server, name) = call.tool.split_once('/').context("a tool is server/tool")?;
        let (_, stub) = catalog.tool(server, name)?;
        let path = Catalog::stub_path(stub);
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

fn average(tools: usize, measured: &[Measured]) -> Vec<String> {
    let of = |part: &dyn Fn(&Measured) -> usize| measured.iter().map(part).sum::<usize>() / measured.len().max(1);
    let (plain, ours) = (of(&|m| m.plain.total()), of(&|m| m.ours.total()));
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let saved = 100.0 * (1.0 - ours as f64 / plain.max(1) as f64);
    let inputs = [tools, of(&|m| m.plain.input), of(&|m| m.plain.output), of(&|m| m.ours.input)];
    let totals = [of(&|m| m.ours.output), plain, ours];
    let forms = [of(&|m| m.direct.total()), of(&|m| m.hybrid.total()), of(&|m| m.auto.total())];
    let totals = inputs.iter().chain(&totals).map(ToString::to_string).chain([format!("{saved:.1} %")]);
    totals.chain(forms.iter().map(ToString::to_string)).collect()
}

/// Tokens per hit in several formats.
fn formats(tasks: &[Task], all: BTreeMap<String, Vec<Value>>) -> Result<Vec<Vec<String>>> {
    let catalog = Catalog::build(entries(all));
    let mut lines: [Vec<String>; 5] = Default::default();
    for query in tasks.iter().flat_map(|task| &task.queries) {
        for (found, _) in catalog.find_all(std::slice::from_ref(query), 8, "/", &Signals::default())? {
            let as_is = catalog.hit_line(&found);
            let Found::Tool(hit) = found else { continue };
            let path = Catalog::stub_path(hit.tool);
            lines[0].push(as_is);
            lines[1].push(format!("{path}  {}  {}", hit.tool.signature(), hit.tool.summary));
            lines[2].push(format!("{path}  {}", hit.tool.signature()));
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
