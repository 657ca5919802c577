//! Has each script checked, and says what its lock has to list or why it cannot be locked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Place;
use super::rights::{self, Reach};
use crate::cli::{Failure, Global, OTHERS, Ui, wait_for};
use base::error::{ErrorCode, code_name};
use base::principal::Principal;
use catalog::Catalog;
use catalog::manifest::ServerEntry;
use config::Start;
use run::broker::{Judgement, Mistake, is_read_only};
use run::sandbox::Failure as Failed;
use run::scripts::{Folder, Lock, Locked, LockedCall, SERVER, Source, Use, declared};

/// One script as the checker sees it.
pub(super) struct Examined {
    pub(super) source: Source,
    /// Why it cannot be locked.
    pub(super) refused: Vec<Refusal>,
    /// Mistakes in code that may run.
    pub(super) warnings: Vec<Mistake>,
    /// Rights by its lock, as far as they are known.
    pub(super) locked: Locked,
    /// Scripts that it calls, by wire name; true for a call that may run more than once.
    pub(super) calls: Vec<(String, bool)>,
}

/// A reason against a lock.
pub(super) struct Refusal {
    /// Line and column.
    pub(super) at: Option<(u32, u32)>,
    /// Error code, or a name.
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) fix: String,
    /// True if a server did not answer.
    pub(super) is_unknown: bool,
}

impl Refusal {
    pub(super) fn json(&self) -> Value {
        let (line, column) = self.at.unzip();
        json!({ "message": self.message, "suggested_fix": self.fix, "line": line, "column": column })
    }

    pub(super) fn new(at: Option<(u32, u32)>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at, rule: "not-lockable".to_owned(), message: message.into(), fix: fix.into(), is_unknown: false }
    }
}

/// The lock of all scripts.
pub(super) fn lock_of(examined: &[Examined]) -> Lock {
    let scripts = examined.iter().map(|examined| (examined.source.name.clone(), examined.locked.clone()));
    Lock { scripts: scripts.collect() }
}

/// Examines all scripts of a folder, with the servers that they name.
pub(super) async fn all(global: &Global, place: &Place, ui: Ui) -> Result<Vec<Examined>, Failure> {
    let mut config = place.config.clone();
    let max_bytes = config.sandbox.limits.code_bytes;
    // They are judged by their texts, whatever is locked now.
    config.scripts = config::Scripts::default();
    config.servers.values_mut().for_each(|server| server.start = Start::Eager);
    let gateway = global.gateway(config)?;
    let folder = &place.folder;
    let is_named = |server: &ServerEntry| {
        folder.scripts.iter().any(|script| script.code.contains(&server.ident) || script.code.contains(&server.name))
    };
    wait_for(&gateway, is_named, OTHERS, ui).await;
    let session = gateway.open_only_session(Principal::local());
    let catalog = gateway.catalog();
    let mut examined = Vec::new();
    for source in &folder.scripts {
        let context = gateway.execution_context(&session);
        let judgement = context.check_as(Some(&source.name), source.language, &source.code).await?;
        let is_parsed = judgement.mistakes.iter().all(|mistake| mistake.code != ErrorCode::SyntaxError);
        let mut script = one(source, judgement, folder, &catalog);
        if is_parsed
            && let Err(failure) = gateway.pool().prepare_function(source.language, &source.code, max_bytes).await
        {
            script.refused.push(unsigned(failure));
        }
        examined.push(script);
    }
    refuse_cycles(&mut examined);
    rights::complete(&mut examined);
    Ok(examined)
}

fn one(source: &Source, judgement: Judgement, folder: &Folder, catalog: &Catalog) -> Examined {
    let Judgement { mistakes, warnings, plan, uses, scripts, .. } = judgement;
    let mut refused: Vec<Refusal> = mistakes.iter().map(wrong).collect();
    let steps = plan.steps.iter().filter(|step| step.server != SERVER);
    let tools = steps.filter_map(|step| named(catalog, &step.server, step.tool.as_ref()?));
    let mut tools: BTreeMap<(String, String), LockedCall> = tools.collect();
    refused.extend(plan.unknown.iter().map(|server| {
        let state = catalog.server(server).map(|entry| format!(" ({})", entry.state.describe())).unwrap_or_default();
        let message = format!("the tools of {server} are not known{state}");
        Refusal { is_unknown: true, ..Refusal::new(None, message, "start the server, then lock again") }
    }));
    let mut called: Vec<(String, bool)> = Vec::new();
    for (name, repeats) in scripts {
        match folder.called(&name) {
            Some(script) => called.push((script.name.clone(), repeats)),
            None => refused.push(Refusal::new(None, format!("there is no script `{name}`"), "`forgefs scripts list`")),
        }
    }
    let mut is_declared = false;
    match declared(source.language, &source.code) {
        Err((line, message)) => refused.push(Refusal::new(Some((line, 1)), message, HEAD)),
        Ok(declared) => {
            is_declared = !declared.is_empty();
            for entry in declared {
                let script = (entry.server == SERVER).then(|| folder.called(&entry.tool)).flatten();
                match (script, named(catalog, &entry.server, &entry.tool)) {
                    (Some(script), _) => called.push((script.name.clone(), true)),
                    (None, Some(tool)) if entry.server != SERVER => tools.extend([tool]),
                    _ => {
                        let message = format!("there is no tool `{}.{}`", entry.server, entry.tool);
                        refused.push(Refusal::new(Some((entry.line, 1)), message, HEAD));
                    }
                }
            }
        }
    }
    if plan.is_partial && !is_declared && mistakes.is_empty() {
        let message =
            "it may call more than its text shows: names are computed, or `forge`, a server or a tool is passed on";
        refused.push(Refusal::new(None, message, HEAD));
    }
    let wire = |server: &String| catalog.server(server).map_or_else(|_| server.clone(), |entry| entry.name.clone());
    let uses: BTreeSet<Use> = uses.into_iter().map(|used| of(used, wire)).collect();
    // Calls of scripts are counted with what these call.
    let nested: usize = plan.steps.iter().filter(|step| step.server == SERVER).map(|step| step.places).sum();
    let most_calls = plan.most_calls.filter(|_| !is_declared);
    let most_calls = most_calls.and_then(|most| u32::try_from(most.saturating_sub(nested)).ok());
    let flows = plan.flows.iter().map(|(from, to)| (wire(from), wire(to))).collect();
    let calls: Vec<LockedCall> = tools.into_values().collect();
    let locked = Locked { sha256: source.sha256.clone(), calls, flows, uses, most_calls };
    Examined { source: source.clone(), refused, warnings, locked, calls: called }
}

/// Fix of a script whose calls are not in its text.
const HEAD: &str = "name each tool in the first lines: `// calls: shop.refund_order, crm.find`, in Starlark with `#`";

fn wrong(mistake: &Mistake) -> Refusal {
    let rule = code_name(mistake.code);
    let message = format!("{rule}: {}", mistake.message);
    Refusal { rule, ..Refusal::new(mistake.place(), message, mistake.suggested_fix.clone()) }
}

/// The refusal of a script that has no signature.
fn unsigned(failure: Failed) -> Refusal {
    const FORM: &str = "write `export default async function ({ id }: { id: string }) {…}`, or `def main(id: str):`";
    match failure {
        Failed::Script(error) => {
            let at = Some((error.line, error.column)).filter(|(line, _)| *line > 0);
            Refusal::new(at, error.message, error.fix.unwrap_or_else(|| FORM.to_owned()))
        }
        Failed::NotRun(error) => Refusal::new(None, error.message.clone(), error.suggested_fix()),
        Failed::Timeout(_) | Failed::Cpu(_) | Failed::Crashed(_) | Failed::Protocol(_) => {
            Refusal::new(None, "its checker was ended: the code is too large or too deep", FORM)
        }
    }
}

/// A tool by its wire names.
fn named(catalog: &Catalog, server: &str, tool: &str) -> Option<((String, String), LockedCall)> {
    let (entry, stub) = catalog.tool(server, tool).ok()?;
    let call = LockedCall {
        server: entry.name.clone(),
        tool: stub.name.clone(),
        definition: stub.full_digest(),
        writes: !is_read_only(stub),
    };
    Some(((entry.name.clone(), stub.name.clone()), call))
}

fn of(used: Use, wire: impl Fn(&String) -> String) -> Use {
    match used {
        Use::Resources(server) => Use::Resources(wire(&server)),
        Use::Prompts(server) => Use::Prompts(wire(&server)),
        Use::Stash | Use::Results | Use::Runs | Use::Discovery => used,
    }
}

/// Refuses each script that calls itself through others, with the path.
fn refuse_cycles(examined: &mut [Examined]) {
    let called = |script: &Examined| script.calls.iter().map(|(name, _)| name.clone()).collect();
    let edges: BTreeMap<String, BTreeSet<String>> =
        examined.iter().map(|script| (script.source.name.clone(), called(script))).collect();
    for script in examined {
        if let Some(path) = rights::way_back(&edges, &script.source.name) {
            let message = format!("it calls itself: {}", path.join(" → "));
            script.refused.push(Refusal::new(None, message, "take one of these calls out"));
        }
    }
}

impl Examined {
    /// Tools that this script alone reaches.
    pub(super) fn reach(&self) -> Reach {
        let servers = self.locked.calls.iter().map(|call| call.server.clone());
        let offers = self.locked.uses.iter().filter_map(|used| used.server().cloned());
        let written = self.locked.calls.iter().filter(|call| call.writes).map(|call| call.server.clone());
        Reach { servers: servers.chain(offers).collect(), written: written.collect(), most: self.locked.most_calls }
    }
}
