//! `forgefs scripts suggest`: runs whose scripts differ in literals alone, as proposals.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Value, json};

use super::proposals::{self, Desk};
use super::save;
use crate::cli::{Failure, Format, Global, Ui, runs, shapes};
use base::outcome::Outcome;
use base::text::counted;
use catalog::people;
use redact::Mentions;
use run::broker::ExecutionContext;
use run::execution::{Called, Outlined, Suggested};
use run::proposals::{Proposal, SUGGESTED};
use state::journal::{Journals, Listed};

/// Runs that are tests of a suggestion.
const TESTS: usize = 5;

#[derive(Args)]
pub(in crate::cli) struct SuggestArgs {
    /// Fewest runs that suggest a script
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..))]
    least: u16,
    /// Propose them: `forgefs scripts proposals` shows them, and `accept` takes one
    #[arg(long)]
    propose: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs of one client with one outline, the newest first.
struct Group {
    client: String,
    runs: Vec<(String, Outlined)>,
}

/// Runs by their outlines.
struct Finder<'f> {
    journals: &'f Journals,
    context: &'f ExecutionContext,
}

impl Finder<'_> {
    /// The outline of a run, or the kind of runs that are left out.
    async fn outline(&self, run: &Listed) -> Result<Outlined, String> {
        let failed = |_| "that cannot be read".to_owned();
        if run.is_running || self.journals.outcome(&run.client, &run.id).await.map_err(failed)? != Outcome::Ok {
            return Err("that did not succeed".to_owned());
        }
        let head = self.journals.find(Some(&run.client), &run.id).await.map_err(failed)?.head;
        if head.limits.is_none() || (head.placeholders && !Mentions::of(&head.code).is_empty()) {
            return Err("with placeholders, or of an older ForgeFS".to_owned());
        }
        self.context.outlined(head.language, &head.code).await.map_err(|error| error.message)
    }

    /// Groups in the order of their newest runs, and how many runs are left out of them.
    async fn groups(&self, listed: &[Listed]) -> (Vec<Group>, Option<String>) {
        let (mut groups, mut places) = (Vec::<Group>::new(), BTreeMap::new());
        let mut left_out = BTreeMap::<String, usize>::new();
        for run in listed.iter().rev() {
            let outline = match self.outline(run).await {
                Ok(outline) => outline,
                Err(kind) => {
                    *left_out.entry(kind).or_default() += 1;
                    continue;
                }
            };
            let place = *places.entry((run.client.clone(), outline.key.clone())).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Group { client: run.client.clone(), runs: Vec::new() });
            }
            groups[place].runs.push((run.id.clone(), outline));
        }
        let kinds: Vec<String> = left_out.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let all = counted(left_out.values().sum(), "run");
        (groups, (!kinds.is_empty()).then(|| format!("left out {all}: {}", kinds.join(", "))))
    }

    /// The function that a group suggests.
    async fn suggested(&self, group: &Group) -> Result<(Suggested, u64), Failure> {
        let mut seen = BTreeSet::new();
        let mut differing: Vec<&(String, Outlined)> = group.runs.iter().collect();
        differing.retain(|(_, outlined)| seen.insert(outlined.values()));
        let mut records = Vec::new();
        for (id, _) in differing.iter().take(TESTS) {
            let run = self.journals.find(Some(&group.client), id).await?;
            let recorded = self.journals.recorded(&run).await?;
            let tools = Called::of(self.journals, &recorded).await?.tools;
            records.push((recorded, tools));
        }
        let at_ms = records.first().map_or(0, |(newest, _)| newest.head.at_ms);
        let alike: Vec<&Outlined> = differing.iter().map(|(_, outlined)| outlined).collect();
        let suggested = self.context.suggested(&alike, records).await?;
        Ok((suggested, at_ms))
    }
}

pub(super) async fn suggest(global: &Global, args: &SuggestArgs, ui: Ui) -> Result<u8, Failure> {
    let desk = Desk::of(global)?;
    let config = &desk.place.config;
    let (journals, context) = (runs::journals(global)?, save::context(global, config)?);
    let client = global.only()?;
    let mut listed = journals.list(client.as_deref()).await?;
    // Times of files can be equal where those of runs are not.
    listed.sort_by_key(|run| run.at_ms);
    let finder = Finder { journals: &journals, context: &context };
    let (groups, left_out) = finder.groups(&listed).await;
    let (mut known, mut taken) = known(&desk, &context).await?;
    let (mut notes, mut objects) = (Vec::new(), Vec::new());
    for group in groups.iter().filter(|group| group.runs.len() >= usize::from(args.least)) {
        let Some((newest, outline)) = group.runs.first() else { continue };
        let like = format!("{} of client {} like {newest}", counted(group.runs.len(), "run"), group.client);
        let (suggested, at_ms) = match finder.suggested(group).await {
            Ok(suggested) => suggested,
            Err(failure) => {
                notes.push(format!("{like} suggest nothing: {}", failure.message));
                continue;
            }
        };
        if let Some(name) = suggested.keys.iter().find_map(|key| known.get(key)) {
            notes.push(format!("{like} are {name} already"));
            continue;
        }
        let base = outline.name();
        let names = (1..).map(|number| if number == 1 { base.clone() } else { format!("{base}_{number}") });
        let name = names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default();
        taken.insert(name.clone());
        known.extend(suggested.keys.first().map(|key| (key.clone(), format!("the suggestion {name}"))));
        let Suggested { saved, tests, .. } = suggested;
        let ids: Vec<&String> = group.runs.iter().map(|(id, _)| id).collect();
        let mut object = json!({
            "name": name, "client": group.client, "runs": ids, "params": saved.signature, "code": saved.code,
            "tests": tests.len(), "file": null, "digest": null,
        });
        if args.propose {
            let script = (saved.extension, saved.code, tests.as_slice());
            let proposal = Proposal::new(&name, SUGGESTED, Some(group.client.clone()), newest, at_ms, script);
            match desk.proposals.keep(&proposal) {
                Err(error) => notes.push(format!("{name} is not proposed: {}", error.message)),
                Ok(file) => {
                    object["file"] = desk.proposals.shown(&file).into();
                    object["digest"] = desk.find(&name).map(|kept| desk.digest(&kept)).ok().into();
                }
            }
        }
        objects.push(object);
    }
    notes.extend(left_out);
    match args.format.json {
        true => shapes::print(json!({ "suggestions": objects, "notes": notes }), ui),
        false => tell(&objects, &notes, (args, listed.len()), ui),
    }
    Ok(0)
}

/// Scripts that are there or proposed, by their outlines, and the names that they take.
async fn known(
    desk: &Desk,
    context: &ExecutionContext,
) -> Result<(BTreeMap<String, String>, BTreeSet<String>), Failure> {
    let (mut known, mut taken) = (BTreeMap::new(), BTreeSet::new());
    let proposed = desk.proposals.list()?.into_iter().flatten();
    let proposed = proposed.map(|kept| (proposals::source(desk, &kept), "the proposal"));
    for (script, what) in desk.place.folder.scripts.iter().cloned().map(|it| (it, "the script")).chain(proposed) {
        if let Ok(outline) = context.outlined(script.language, &script.code).await {
            known.insert(outline.key, format!("{what} {}", script.name));
        }
        taken.insert(script.name.replace('/', "_").to_lowercase());
    }
    Ok((known, taken))
}

fn tell(objects: &[Value], notes: &[String], (args, listed): (&SuggestArgs, usize), ui: Ui) {
    for object in objects {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (name, runs) = (text("name"), object["runs"].as_array().map_or(0, Vec::len));
        let count = format!("{} of client {}, {} as tests", counted(runs, "run"), text("client"), object["tests"]);
        ui.out(&people::line(&format!("{name}({})  {count}", text("params"))));
        text("code").lines().for_each(|line| ui.out(&format!("  {}", proposals::line(line))));
        if let Some(digest) = object["digest"].as_str() {
            ui.out(&format!("accept  forgefs scripts accept {name} --digest {digest}"));
        }
    }
    notes.iter().for_each(|note| ui.note(&people::line(note)));
    let (listed, least) = (counted(listed, "recorded run"), args.least);
    match (objects.is_empty(), args.propose) {
        (true, _) => ui.note(&format!(
            "no script to suggest, of {listed}: {least} of one client have to succeed, and to differ in literals alone"
        )),
        (false, false) => ui.note("`--propose` proposes them; nothing is called before a person accepts it"),
        (false, true) => ui.note("`forgefs scripts proposals NAME` shows what one may call, and its tests"),
    }
}
