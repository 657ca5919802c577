//! `forgefs scripts proposals`: what agents propose, with all that a person needs to decide about it.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use similar::TextDiff;
use wire::Language;

use super::accept::left_over;
use super::examine::{self, Examined, Refusal};
use super::{Place, told};
use crate::cli::{Failure, Format, Global, Ui, shapes, test};
use base::text::counted;
use base::time::rfc3339;
use catalog::people;
use run::proposals::{Kept, Proposals, SUGGESTED};
use run::replay::Difference;
use run::scripts::{Extension, Folder, Source, in_file};

/// Longest search for a short difference of two texts.
const PATIENCE: Duration = Duration::from_secs(1);
/// Lines around a difference.
const AROUND: usize = 3;
/// Most spaces and tabs at the begin of a line that are shown as they are.
const INDENT: usize = 40;

#[derive(Args)]
pub(in crate::cli) struct ProposalsArgs {
    /// Show this proposal, such as refund_failed or billing/refund_failed
    name: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

/// The proposals of a configuration, beside its scripts.
pub(super) struct Desk {
    pub(super) place: Place,
    pub(super) proposals: Proposals,
}

impl Desk {
    pub(super) fn of(global: &Global) -> Result<Self, Failure> {
        let config = global.load(false)?;
        let (Some(path), Some(proposed)) = (config.scripts.path.clone(), config.scripts.proposed()) else {
            return Err(super::no_folder());
        };
        let proposals = Proposals::new(proposed);
        // The first script may be a proposed one.
        let folder = match path.exists() {
            true => super::folder(&path, &config)?,
            false => Folder::default(),
        };
        Ok(Self { place: Place { config, folder, path }, proposals })
    }

    /// The proposal of a name.
    pub(super) fn find(&self, name: &str) -> Result<Kept, Failure> {
        let found = self.proposals.find(name)?;
        found.ok_or_else(|| {
            let what = format!("there is no proposal {}", people::quoted(base::text::head(name, 200)));
            Failure::usage(what).hint("`forgefs scripts proposals` lists them")
        })
    }

    /// The script that a proposal changes; `None` for a new one.
    pub(super) fn current(&self, kept: &Kept) -> Option<&Source> {
        self.place.folder.get(&kept.proposal.name)
    }

    /// Digest of what is decided about: the proposal, and the script that it changes.
    pub(super) fn digest(&self, kept: &Kept) -> String {
        let current = self.current(kept).map(|current| current.sha256.as_str());
        stubgen::digest(format!("{} {}", kept.sha256, current.unwrap_or("new")))
    }

    /// Effect of accepting a proposal on the folder.
    fn effect(&self, kept: &Kept) -> String {
        match self.current(kept) {
            Some(current) => format!("changes {}", told::file(&self.place.path, current)),
            None => "new".to_owned(),
        }
    }
}

/// The script of a proposal, as if it were in the folder.
pub(super) fn source(desk: &Desk, kept: &Kept) -> Source {
    let proposal = &kept.proposal;
    let language = match proposal.extension {
        Extension::Js | Extension::Ts => Language::Javascript,
        Extension::Star => Language::Starlark,
    };
    let path = desk.place.path.join(format!("{}.{}", proposal.name, proposal.extension.as_str()));
    let code: Arc<str> = proposal.code.as_str().into();
    Source { name: proposal.name.clone(), language, path, sha256: stubgen::digest(&*code), code }
}

pub(super) async fn proposals(global: &Global, args: ProposalsArgs, ui: Ui) -> Result<u8, Failure> {
    let desk = Desk::of(global)?;
    match &args.name {
        Some(name) => show(global, desk, name, args.format, ui).await,
        None => list(&desk, args.format, ui),
    }
}

/// Facts of a proposal, on which all else follows.
fn facts(desk: &Desk, kept: &Kept) -> Value {
    let proposal = &kept.proposal;
    json!({
        "name": proposal.name,
        "file": desk.proposals.shown(&kept.file),
        "client": proposal.client,
        "agent": proposal.agent,
        "run": proposal.run,
        "at": rfc3339(proposal.at_ms),
        "changes": desk.current(kept).map(|current| told::file(&desk.place.path, current)),
        "digest": desk.digest(kept),
    })
}

/// Who proposed it, in words; the name that a client gives itself is its own claim.
fn who(kept: &Kept) -> String {
    let proposal = &kept.proposal;
    if let (SUGGESTED, Some(client)) = (proposal.client.as_str(), &proposal.agent) {
        return format!("`forgefs scripts suggest`, by runs of client {}", people::line(client));
    }
    let agent = proposal.agent.as_deref().map(|agent| format!(", as {}", people::quoted(base::text::head(agent, 200))));
    format!("client {}{}", people::line(&proposal.client), agent.unwrap_or_default())
}

fn list(desk: &Desk, Format { json }: Format, ui: Ui) -> Result<u8, Failure> {
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    for found in desk.proposals.list()? {
        match found {
            Ok(kept) => {
                if !json {
                    let (name, effect, at) = (&kept.proposal.name, desk.effect(&kept), rfc3339(kept.proposal.at_ms));
                    let run = people::line(base::text::head(&kept.proposal.run, 40)).into_owned();
                    ui.out(&format!("{name}  {effect}  {at}  run {run}  {}", who(&kept)));
                }
                entries.push(facts(desk, &kept));
            }
            Err((file, why)) => {
                let why = people::line(base::text::head(&why, 300)).into_owned();
                if !json {
                    ui.out(&format!("{}  damaged: {why}", people::line(&file)));
                }
                damaged.push(json!({ "file": file, "reason": why }));
            }
        }
    }
    if json {
        shapes::print(json!({ "proposals": entries, "damaged": damaged }), ui);
    } else if entries.is_empty() && damaged.is_empty() {
        ui.note("no script is proposed");
    } else {
        ui.note("`forgefs scripts proposals NAME` shows one");
    }
    Ok(0)
}

async fn show(global: &Global, mut desk: Desk, name: &str, format: Format, ui: Ui) -> Result<u8, Failure> {
    let kept = desk.find(name)?;
    let (facts, effect, digest) = (facts(&desk, &kept), desk.effect(&kept), desk.digest(&kept));
    let before = desk.current(&kept).map(|current| Arc::clone(&current.code)).unwrap_or_default();
    let diff = difference(&before, &kept.proposal.code);
    let source = source(&desk, &kept);
    let language = source.language;
    desk.place.folder.scripts.retain(|script| script.name != source.name);
    desk.place.folder.scripts.push(source);
    desk.place.folder.scripts.sort_by(|a, b| a.name.cmp(&b.name));
    // Its plan is that of the folder with it: it may call other scripts.
    let mut examined = examine::all(global, &desk.place, ui).await?;
    examined.retain(|examined| examined.source.name == kept.proposal.name);
    let mut tested = Vec::new();
    for cassette in &kept.tests {
        let differences = test::differences(global, cassette, language, &kept.proposal.code).await;
        tested.extend(differences.unwrap_or_else(|it| vec![Difference { what: "cassette", text: it.message }]));
    }
    if format.json {
        let mut object = facts;
        object["code"] = kept.proposal.code.as_str().into();
        object["difference"] = diff.join("\n").into();
        object["plan"] = examined.first().map_or(Value::Null, plan);
        let test = json!({ "passed": tested.is_empty(), "differences": tested });
        object["test"] = if kept.tests.is_empty() { Value::Null } else { test };
        shapes::print(object, ui);
        return Ok(0);
    }
    ui.out(&format!("{}  {effect}", kept.proposal.name));
    ui.out(&format!("from    {}", who(&kept)));
    let run = people::line(base::text::head(&kept.proposal.run, 40)).into_owned();
    ui.out(&format!("run     {run}, {}", rfc3339(kept.proposal.at_ms)));
    ui.out(&format!("file    {}", desk.proposals.shown(&kept.file)));
    ui.out("script");
    diff.iter().for_each(|line| ui.out(&format!("  {line}")));
    examined.iter().for_each(|examined| tell_plan(&desk, examined, ui));
    ui.out(match (kept.tests.is_empty(), tested.is_empty()) {
        (true, _) => "test    none: it is of a dry run, which made no write",
        (false, true) => "test    passed",
        (false, false) => "test    FAILED",
    });
    for Difference { what, text } in &tested {
        text.lines().for_each(|line| ui.out(&people::line(&format!("  {what}: {line}"))));
    }
    let removed = left_over(&desk.place.path, &kept);
    if !removed.is_empty() {
        let files = removed.join(", ");
        ui.out(&people::line(&format!("        accepting it removes the tests of the script it replaces: {files}")));
    }
    let replace = if before.is_empty() { "" } else { " --replace" };
    ui.out(&format!("accept  forgefs scripts accept {name}{replace} --digest {digest}"));
    ui.out(&format!("reject  forgefs scripts reject {name}"));
    Ok(0)
}

/// The lines that differ, each with a sign before it; all of a new script.
fn difference(before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut lines = Vec::new();
    for (number, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if number > 0 {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            lines.push(format!("{} {}", change.tag(), line(change.value().trim_end_matches('\n'))));
        }
    }
    lines
}

/// A line of code, with its indentation.
pub(super) fn line(code: &str) -> String {
    let indent = code.len() - code.trim_start_matches([' ', '\t']).len();
    let (indent, rest) = code.split_at(indent.min(INDENT));
    // A tab may be eight columns wide: code must not be out of sight.
    let indent = indent.replace('\t', "    ");
    format!("{}{}", &indent[..indent.len().min(INDENT)], people::line(rest))
}

/// Rights of a script by its text, as its lock would list them.
fn plan(examined: &Examined) -> Value {
    let locked = &examined.locked;
    let calls = locked.calls.iter().map(|call| json!({ "tool": call.to_string(), "writes": call.writes }));
    let flows = locked.flows.iter().map(|(from, to)| json!({ "from": from, "to": to }));
    json!({
        "calls": calls.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "uses": locked.uses.iter().map(in_file).collect::<Vec<_>>(),
        "most_calls": locked.most_calls,
        "mistakes": examined.refused.iter().map(Refusal::json).collect::<Vec<_>>(),
        "warnings": examined.warnings,
    })
}

fn tell_plan(desk: &Desk, examined: &Examined, ui: Ui) {
    let locked = &examined.locked;
    let most = locked.most_calls.map(|most| format!("{} at most", counted(most as usize, "call")));
    ui.out(&format!("plan    {}", most.unwrap_or_else(|| "any number of calls".to_owned())));
    for call in &locked.calls {
        let writes = if call.writes { "  writes" } else { "  reads" };
        ui.out(&people::line(&format!("  {call}{writes}")));
    }
    for (from, to) in &locked.flows {
        ui.out(&people::line(&format!("  data of {from} may reach {to}")));
    }
    locked.uses.iter().for_each(|used| ui.out(&people::line(&format!("  uses {}", in_file(used)))));
    told::findings(&desk.place.path, examined, true, ui);
}
