//! `forgefs test`: scripts on the cassettes beside them.

mod cassettes;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use wire::Language;

use self::cassettes::{find, script_of};
use super::junit;
use super::replay::{nowhere, offline};
use super::reports::{Format, Problem, Report, ReportArgs, place, write};
use super::run::{language, read};
use super::{Failure, Global, Ui};
use base::error::ErrorCode;
use base::files;
use base::limits;
use base::principal::Principal;
use base::text::counted;
use catalog::findings::Severity;
use catalog::manifest::Pin;
use catalog::people;
use config::Config;
use run::broker::ExecutionContext;
use run::execution::stall;
use run::replay::{Cassette, Difference, Matching, Parting, Player, Tape, Tested, shown};
use server::gateway::Gateway;

#[derive(Args)]
pub(super) struct TestArgs {
    /// Scripts, cassettes or folders [default: this folder, and those below it]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Rewrite each cassette with what its script asks and answers now
    #[arg(long)]
    update: bool,
    /// Stub tree that `forgefs stubs generate` wrote: recorded arguments have to fit its definitions, as those of --catalog
    #[arg(long, value_name = "DIR")]
    stubs: Option<PathBuf>,
    /// Write results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// Result of one script.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) script: PathBuf,
    pub(super) seconds: f64,
    differences: Vec<Difference>,
    is_updated: bool,
    /// Servers whose definitions were not there to be compared.
    unchecked: BTreeSet<String>,
}

impl Outcome {
    pub(super) fn has_passed(&self) -> bool {
        self.differences.is_empty()
    }

    /// The differences, in lines.
    pub(super) fn details(&self) -> String {
        let part = |Difference { what, text }: &Difference| format!("{what}\n  {}", text.replace('\n', "\n  "));
        self.differences.iter().map(part).collect::<Vec<_>>().join("\n")
    }
}

/// Exits with 1 if any script differs from its cassette.
pub(super) async fn test(global: &Global, args: TestArgs, ui: Ui) -> Result<u8, Failure> {
    let here = [PathBuf::from(".")];
    let cassettes = find(if args.paths.is_empty() { &here } else { &args.paths })?;
    if cassettes.is_empty() {
        return Err(Failure::usage("no cassette is there: nothing is tested")
            .hint("`forgefs journal export RUN -o NAME.cassette.json` makes one of a recorded run"));
    }
    // The folder may be a stranger's, its forge.toml too.
    let limits =
        global.config.as_ref().map(|_| global.load(true)).transpose()?.unwrap_or_else(Config::empty).sandbox.limits;
    let gateway = offline(global, limits)?;
    let definitions = definitions(global, args.stubs.as_deref(), ui).await?;
    let mut outcomes = Vec::new();
    for cassette in &cassettes {
        let outcome = timed(&gateway, definitions.as_ref(), cassette, args.update).await;
        if args.report.format() == Format::Text {
            let verdict = match (outcome.has_passed(), outcome.is_updated) {
                (_, true) => "updated",
                (true, false) => "ok",
                (false, false) => "FAILED",
            };
            ui.out(&people::line(&format!("{} ... {verdict}", outcome.script.display())));
        }
        outcomes.push(outcome);
    }
    if let Some(file) = &args.junit {
        write(file, &junit::document(&outcomes), false)?;
    }
    let results = Results { outcomes, has_definitions: definitions.is_some() };
    let passed = results.failed() == 0;
    let report = Report { command: "test", problems: results.problems(), passed };
    report.tell(&args.report, || results.report(), || results.tell(ui), ui)?;
    Ok(u8::from(!passed))
}

/// Results of scripts.
pub(super) struct Results {
    outcomes: Vec<Outcome>,
    /// True if definitions of tools were compared.
    has_definitions: bool,
}

impl Results {
    /// Number of scripts that differ from their cassettes.
    pub(super) fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.has_passed()).count()
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let of = |outcome: &Outcome| {
            let file = place(&outcome.script);
            let problem = move |Difference { what, text }: &Difference| {
                Problem::new(Severity::Error, "test", Some(file.clone()), format!("{what}: {text}"))
            };
            outcome.differences.iter().map(problem).collect::<Vec<_>>()
        };
        self.outcomes.iter().flat_map(of).collect()
    }

    /// Parts that were not compared, in words.
    fn skipped(&self) -> Option<String> {
        if !self.has_definitions {
            return Some("definitions of tools were not compared: give --catalog or --stubs".to_owned());
        }
        let unchecked: BTreeSet<&str> =
            self.outcomes.iter().flat_map(|outcome| &outcome.unchecked).map(String::as_str).collect();
        let servers = unchecked.into_iter().collect::<Vec<_>>().join(", ");
        let what = "definitions of tools were not compared, neither --catalog nor --stubs has these servers";
        (!servers.is_empty()).then(|| format!("{what}: {servers}"))
    }

    /// Prints what failed, and how many.
    pub(super) fn tell(&self, ui: Ui) {
        for outcome in self.outcomes.iter().filter(|outcome| !outcome.has_passed()) {
            let script = outcome.script.to_string_lossy();
            ui.out(&format!("\n{}\n  {}", people::line(&script), outcome.details().replace('\n', "\n  ")));
        }
        let (all, failed) = (self.outcomes.len(), self.failed());
        let updated = self.outcomes.iter().filter(|outcome| outcome.is_updated).count();
        let updated = if updated > 0 { format!(", {updated} updated") } else { String::new() };
        ui.out(&format!("\n{}: {} passed, {failed} failed{updated}", counted(all, "test"), all - failed));
        if let Some(skipped) = self.skipped() {
            ui.note(&people::line(&skipped));
        }
    }

    /// As JSON.
    pub(super) fn report(&self) -> Value {
        let test = |outcome: &Outcome| {
            json!({
                "script": outcome.script.display().to_string(),
                "passed": outcome.has_passed(),
                "updated": outcome.is_updated,
                "seconds": (outcome.seconds * 1000.0).round() / 1000.0,
                "differences": outcome.differences,
            })
        };
        let (failed, tests) = (self.failed(), self.outcomes.iter().map(test).collect::<Vec<_>>());
        json!({ "passed": tests.len() - failed, "failed": failed, "tests": tests, "skipped": self.skipped() })
    }
}

/// Tests the scripts of a folder and of those below it; `None` without a cassette.
pub(super) async fn below(global: &Global, folder: &Path) -> Result<Option<Results>, Failure> {
    let cassettes = find(&[folder.to_owned()])?;
    if cassettes.is_empty() {
        return Ok(None);
    }
    let gateway = offline(global, global.load(true)?.sandbox.limits)?;
    let mut outcomes = Vec::new();
    for cassette in &cassettes {
        outcomes.push(timed(&gateway, None, cassette, false).await);
    }
    // The lock compares definitions.
    Ok(Some(Results { outcomes, has_definitions: true }))
}

/// Tests one cassette.
async fn timed(gateway: &Gateway, definitions: Option<&Gateway>, cassette: &Path, update: bool) -> Outcome {
    let started = Instant::now();
    let tested = one(gateway, definitions, cassette, update).await;
    let outcome = tested.unwrap_or_else(|failure| broken(cassette, &failure));
    Outcome { seconds: started.elapsed().as_secs_f64(), ..outcome }
}

/// Definitions of tools from tool lists and a stub tree, if any is given.
async fn definitions(global: &Global, stubs: Option<&Path>, ui: Ui) -> Result<Option<Gateway>, Failure> {
    let mut lists = global.catalog.clone();
    let file = match stubs {
        None => None,
        Some(stubs) => {
            let tree = Pin::load(stubs)?.lists().to_string();
            let failed = |error: std::io::Error| Failure::internal(format!("no temporary file: {error}"));
            let file = tempfile::NamedTempFile::new().map_err(failed)?;
            file.as_file().write_all(tree.as_bytes()).map_err(failed)?;
            lists.push(file.path().to_owned());
            Some(file)
        }
    };
    if lists.is_empty() {
        return Ok(None);
    }
    let gateway = global.start(Config::empty(), lists)?;
    super::settle_all(&gateway, ui).await;
    drop(file);
    Ok(Some(gateway))
}

/// A test that could not be run, under the name of its cassette.
fn broken(cassette: &Path, failure: &Failure) -> Outcome {
    let hint = failure.hint.as_deref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let text = format!("{}{hint}", shown(&failure.message));
    let differences = vec![Difference { what: "cassette", text }];
    Outcome { script: cassette.to_owned(), differences, ..Outcome::default() }
}

/// A script that was played on a cassette.
struct Again {
    tested: Tested,
    tape: Tape,
    player: Player,
    /// False if it parted from the record and was stopped.
    has_result: bool,
}

async fn again(gateway: &Gateway, cassette: &Cassette, language: Language, code: String) -> Result<Again, Failure> {
    let context = nowhere(gateway);
    let script = cassette.script(language, code, context.run_limits(0))?;
    let tape = cassette.tape()?;
    let player = Player::new(tape.clone(), Matching::Kind(cassette.redaction.surface()), stall(&script.limits));
    let played = context.replay(script, &player).await?;
    let actual = played.expected().redacted(cassette.redaction);
    let has_result = played.result.is_some();
    let parting = match player.parting() {
        // The calls that it did not make are told together.
        Some(Parting::Missing { .. }) if has_result => None,
        parting => parting,
    };
    let tested = Tested { actual, parting, missing: player.missing() };
    Ok(Again { tested, tape, player, has_result })
}

/// Differences of a script from a cassette, of which no file is there.
pub(super) async fn differences(
    global: &Global,
    cassette: &Cassette,
    language: Language,
    code: &str,
) -> Result<Vec<Difference>, Failure> {
    let again =
        again(&offline(global, global.load(true)?.sandbox.limits)?, cassette, language, code.to_owned()).await?;
    Ok(again.tested.differences(&cassette.expected))
}

async fn one(gateway: &Gateway, definitions: Option<&Gateway>, path: &Path, update: bool) -> Result<Outcome, Failure> {
    let text = files::read_text(path, limits::CASSETTE.max as u64).map_err(|error| Failure::of_path(path, error))?;
    let mut cassette = Cassette::parse(&text)?;
    let file = script_of(path)?;
    let language = language(None, &file)?;
    let Again { tested, tape, player, has_result } = again(gateway, &cassette, language, read(&file)?).await?;
    let mut differences = tested.differences(&cassette.expected);
    let is_recorded = has_result && player.asked().iter().all(|(_, recorded)| recorded.is_some());
    let is_updated = update && !differences.is_empty() && is_recorded;
    if is_updated {
        cassette.record(&tape, &player);
        cassette.language = language;
        cassette.expected = tested.actual;
        write(path, &cassette.text(), false)?;
        differences.clear();
    }
    let mut unchecked = BTreeSet::new();
    if let Some(definitions) = definitions {
        let session = definitions.open_only_session(Principal::local());
        let context = definitions.execution_context(&session);
        (unchecked, differences) = fits(&context, &cassette, differences).await;
    }
    Ok(Outcome { script: file, differences, is_updated, unchecked, seconds: 0.0 })
}

/// Adds calls whose arguments do not fit the definitions of now, and names servers that have none.
async fn fits(
    context: &ExecutionContext,
    cassette: &Cassette,
    mut differences: Vec<Difference>,
) -> (BTreeSet<String>, Vec<Difference>) {
    let mut unchecked = BTreeSet::new();
    for tool in &cassette.tools {
        let label = format!("{}.{}", tool.server, tool.tool);
        // A stub tree has identifiers in place of names.
        let ident = cassette.servers.iter().find(|server| server.name == tool.server).map(|server| &server.ident);
        let in_tree = |_| context.catalog.tool(ident.unwrap_or(&tool.server), &tool.tool);
        let (server, current) = match context.catalog.tool(&tool.server, &tool.tool).or_else(in_tree) {
            Ok((server, stub)) => (&server.name, stub.full_digest()),
            Err(error) if error.code == ErrorCode::ServerNotFound => {
                unchecked.insert(tool.server.clone());
                continue;
            }
            Err(_) => {
                let text = format!("{} is no longer there", shown(&label));
                differences.push(Difference { what: "definition", text });
                continue;
            }
        };
        if current == tool.definition {
            continue;
        }
        for entry in cassette.operations.iter().filter(|entry| entry.request == "tool") {
            let field = |name: &str| entry.ask.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_this = context
                .catalog
                .tool(field("server"), field("tool"))
                .is_ok_and(|(entry, stub)| entry.name == *server && stub.name == tool.tool);
            let args = entry.ask.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            if is_this && let Err(error) = context.still_fits(server, &tool.tool, &args, cassette.language).await {
                let text = format!(
                    "operation {}: the definition of {} has changed, and the arguments no longer fit\n  {}",
                    entry.op,
                    shown(&label),
                    shown(&error.message)
                );
                differences.push(Difference { what: "definition", text });
            }
        }
    }
    (unchecked, differences)
}
