//! `tests/attacks/<family>.{js,star}`: scripts that try to escape, to lie, or to exceed their limits.
//!
//! They go straight to the worker, without the checker (oxc) in front: that layer is for early errors,
//! and what is contained here is contained without it.
//!
//! A file holds one family of attacks in one language. A case is
//!
//! ```text
//! //# name: the goal of the attack, which must fail          (Starlark: `##`)
//! //= throws TypeError: not a function                       (Starlark: `#=`)
//! body of the script
//! ```
//!
//! A case passes only if the run ends exactly as its `=` line says, so that a misspelt attack fails. `//= v8 …` is for
//! that engine alone; a line before the first case applies to all cases of the file without one. Endings are:
//!
//! - `value JSON`: the script answers this very JSON, which shows the result of each step of the attack.
//! - `throws TEXT`: an uncaught error whose message begins so. `syntax TEXT`: the code is refused, with TEXT in the
//!   message.
//! - `call CODE`: a call failed with this code. `cpu`, `heap`, `stack`, `calls`, `result`, `stalled`: that limit.
//!   Alternatives are joined by ` or `.
//!
//! `//> JSON` lines are the operations that must reach the gateway, in order. `//@` lists options: `small_heap` and
//! `short` are tighter limits, `module` sends the code unwrapped, `fatal` allows the worker to end with the run, if the
//! run says how. After any other case the same worker must still work. Only a case whose `=` line names `cpu` has a CPU
//! limit that it can meet: which of two limits comes first would depend on the machine.
//!
//! Scripts have `tried(f)`, which returns "done" or the class of the error that `f` threw. Cases named `control_…` are
//! not attacks: they show that a family's probes can detect a success.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use nix::sys::resource::{UsageWho, getrusage};
use wire::{Done, Language, Limits, ScriptErrorKind};

use crate::gateway::{Engine, LIMITS, Transcript, Worker, engines};

const SMALL_HEAP: u64 = 32 << 20;
const SHORT_MS: u64 = 300;
/// CPU limit that no machine meets, for cases that another limit must end.
const UNMET_MS: u64 = 150_000;

/// Prefix of every script, on the line of the wrapper.
const TRIED: &str = "const tried = (f) => { const name = (e) => (e instanceof Error ? e.name : `threw ${String(e)}`); \
    try { const r = f(); return r instanceof Promise ? r.then(() => 'done', name) : 'done'; } \
    catch (e) { return name(e); } };";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for ((family, language), cases) in families() {
        for engine in engines().into_iter().filter(|engine| engine.language == language) {
            let cases = cases.clone();
            trials.push(Trial::test(format!("attacks::{family}::{}", engine.name), move || {
                let mut escaped: Vec<_> = run(engine, &cases).into_iter().filter_map(Result::err).collect();
                escaped.extend(too_much_memory());
                if escaped.is_empty() { Ok(()) } else { Err(escaped.join("\n").into()) }
            }));
        }
    }
    trials.push(Trial::test("attacks::are_at_least_250", are_enough));
    trials.push(Trial::test("report::attacks", report).with_ignored_flag(true));
    trials
}

/// One attack.
#[derive(Clone)]
struct Case {
    family: String,
    language: Language,
    name: String,
    body: String,
    /// Engine, empty for any, and the required end of the run there.
    endings: Vec<(String, String)>,
    operations: Vec<serde_json::Value>,
    options: Vec<String>,
}

type Families = BTreeMap<(String, Language), Vec<Case>>;

fn families() -> Families {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks");
    let mut families = Families::new();
    for entry in std::fs::read_dir(folder).expect("attacks") {
        let path = entry.expect("entry").path();
        let (language, mark) = match path.extension().and_then(|extension| extension.to_str()) {
            Some("js") => (Language::Javascript, "//"),
            Some("star") => (Language::Starlark, "#"),
            _ => continue,
        };
        let family = path.file_stem().expect("name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("attacks");
        families.insert((family.clone(), language), parse(&family, language, mark, &text));
    }
    families
}

fn parse(family: &str, language: Language, mark: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut defaults = Vec::new();
    for line in text.lines() {
        let directive = line.strip_prefix(mark).and_then(|rest| Some((rest.chars().next()?, rest[1..].trim())));
        match (directive.filter(|(_, rest)| !rest.is_empty()), cases.last_mut()) {
            (Some(('#', title)), _) => {
                let (name, _goal) = title.split_once(": ").unwrap_or_else(|| panic!("{family}: {title} has no goal"));
                let name = name.to_owned();
                assert!(!cases.iter().any(|case| case.name == name), "{family}: {name} is there twice");
                cases.push(Case {
                    family: family.to_owned(),
                    language,
                    name,
                    body: String::new(),
                    endings: Vec::new(),
                    operations: Vec::new(),
                    options: Vec::new(),
                });
            }
            (Some(('=', ending)), case) => {
                let engine = ["v8", "quickjs"].into_iter().find(|engine| ending.starts_with(&format!("{engine} ")));
                let engine = engine.unwrap_or_default();
                let ending = (engine.to_owned(), ending[engine.len()..].trim().to_owned());
                case.map_or(&mut defaults, |case| &mut case.endings).push(ending);
            }
            (Some(('>', operation)), Some(case)) => {
                let operation =
                    serde_json::from_str(operation).unwrap_or_else(|e| panic!("{family}: {operation}: {e}"));
                case.operations.push(operation);
            }
            (Some(('@', options)), Some(case)) => {
                case.options.extend(options.split_whitespace().map(str::to_owned));
            }
            (_, Some(case)) => {
                case.body.push_str(line);
                case.body.push('\n');
            }
            (_, None) => {}
        }
    }
    for case in cases.iter_mut().filter(|case| case.endings.is_empty()) {
        assert!(!defaults.is_empty(), "{family}: {} does not say how it must end", case.name);
        case.endings.clone_from(&defaults);
    }
    cases
}

/// Error if the peak memory of a worker exceeded its heap, the needs of the process and the pages of the executable.
fn too_much_memory() -> Option<String> {
    const MOST_KIB: i64 = 270 << 10;
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss());
    (peak > MOST_KIB).then(|| format!("a worker took {} MiB", peak >> 10))
}

/// One line per case: contained, or the reason why not.
fn run(engine: Engine, cases: &[Case]) -> Vec<Result<(), String>> {
    let mut worker = None;
    let end = |case: &Case, worker: &mut Option<Worker>| {
        // A worker that hangs fails its case, not the report.
        let ended = catch_unwind(AssertUnwindSafe(|| case.run(engine, worker)));
        let ended = ended.unwrap_or_else(|_| Err("the worker hangs".to_owned()));
        ended.map_err(|reason| format!("{}: {reason}", case.name))
    };
    cases.iter().map(|case| end(case, &mut worker)).collect()
}

impl Case {
    fn is(&self, option: &str) -> bool {
        self.options.iter().any(|own| own == option)
    }

    fn run(&self, engine: Engine, worker: &mut Option<Worker>) -> Result<(), String> {
        let mut own = worker.take().unwrap_or_else(|| Worker::start(engine));
        let code = match self.language {
            Language::Javascript if !self.is("module") => {
                format!("export default async () => {{ {TRIED}\n{}}}", self.body)
            }
            _ => self.body.clone(),
        };
        let transcript = own.run_code(code, self.limits(engine)?).ok_or("the worker ended without a word")?;
        self.ended_well(engine, &transcript)?;
        if !self.operations.is_empty() && self.operations != transcript.calls {
            return Err(format!("operations {:?}", transcript.calls));
        }
        if !self.is("fatal") {
            still_works(&mut own)?;
            *worker = Some(own);
        }
        Ok(())
    }

    fn limits(&self, engine: Engine) -> Result<Limits, String> {
        let meets_cpu = self.endings(engine)?.any(|ending| ending == "cpu");
        Ok(Limits {
            heap_bytes: if self.is("small_heap") { SMALL_HEAP } else { LIMITS.heap_bytes },
            cpu_ms: match (meets_cpu, self.is("short")) {
                (false, _) => UNMET_MS,
                (true, true) => SHORT_MS,
                (true, false) => LIMITS.cpu_ms,
            },
            ..LIMITS
        })
    }

    /// Allowed endings on this engine.
    fn endings(&self, engine: Engine) -> Result<std::str::Split<'_, &'static str>, String> {
        let own = self.endings.iter().find(|(only, _)| only == engine.name);
        let any = self.endings.iter().find(|(only, _)| only.is_empty());
        let (_, ending) = own.or(any).ok_or_else(|| format!("does not say how it ends on {}", engine.name))?;
        Ok(ending.split(" or "))
    }

    fn ended_well(&self, engine: Engine, transcript: &Transcript) -> Result<(), String> {
        let endings: Vec<&str> = self.endings(engine)?.collect();
        if endings.iter().any(|ending| is_ending(ending, transcript)) {
            return Ok(());
        }
        let ending = endings.join(" or ");
        Err(format!("must end in {ending}, but: {:?} with {:?}", transcript.done.result, transcript.calls))
    }
}

fn is_ending(ending: &str, transcript: &Transcript) -> bool {
    let (what, text) = ending.split_once(' ').unwrap_or((ending, ""));
    let error = match (&transcript.done.result, what) {
        (Ok(value), "value") => return value.get() == text,
        (Ok(_), _) => return false,
        (Err(error), _) => error,
    };
    match what {
        "throws" => {
            matches!(error.kind, ScriptErrorKind::Script | ScriptErrorKind::Stopped) && error.message.starts_with(text)
        }
        "syntax" => error.kind == ScriptErrorKind::Syntax && error.message.contains(text),
        "call" => {
            let code = error.error.as_ref().and_then(|error| serde_json::to_value(error.code).ok());
            error.kind == ScriptErrorKind::Call && code.is_some_and(|code| code == text)
        }
        limit => serde_json::to_value(error.kind).is_ok_and(|kind| kind == limit),
    }
}

fn still_works(worker: &mut Worker) -> Result<(), String> {
    let starlark = worker.language() == Language::Starlark;
    let script = if starlark { "github.echo(a = 1)" } else { "return github.echo({ a: 1 })" };
    let code = if starlark { script.to_owned() } else { format!("export default async () => {{ {script} }}") };
    let ended = worker.run_code(code, LIMITS);
    match &ended {
        Some(Transcript { done: Done { result: Ok(value), .. }, .. }) if value.get() == r#"{"a":1}"# => Ok(()),
        other => Err(format!("the next run of the worker: {other:?}")),
    }
}

fn attacks(cases: &[Case]) -> impl Iterator<Item = &Case> {
    cases.iter().filter(|case| !case.name.starts_with("control_"))
}

/// An attack in both languages counts once.
fn distinct(families: &Families) -> usize {
    let names: BTreeSet<_> = families.values().flat_map(|cases| attacks(cases)).map(|c| (&c.family, &c.name)).collect();
    names.len()
}

fn are_enough() -> Result<(), Failed> {
    match distinct(&families()) {
        250.. => Ok(()),
        count => Err(format!("only {count} attacks").into()),
    }
}

/// Prints the containment by engine: `cargo nextest run --workspace --run-ignored only --no-capture -E
/// 'test(=report::attacks)'`, with `--features v8` for all three engines.
#[expect(clippy::print_stdout, reason = "a report is there to be read")]
fn report() -> Result<(), Failed> {
    let (families, engines) = (families(), engines());
    let mut table: BTreeMap<&str, BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
    let mut escaped = Vec::new();
    for ((family, language), cases) in &families {
        for engine in engines.iter().filter(|engine| engine.language == *language) {
            let cell = table.entry(family).or_default().entry(engine.name).or_default();
            for (case, ended) in cases.iter().zip(run(*engine, cases)) {
                if let Err(reason) = &ended {
                    escaped.push(format!("{family} on {}: {reason}", engine.name));
                }
                if !case.name.starts_with("control_") {
                    cell.0 += 1;
                    cell.1 += usize::from(ended.is_ok());
                }
            }
        }
    }
    let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
    println!("\n| family | {} |\n|---|{}", names.join(" | "), "--:|".repeat(names.len()));
    let row = |title: &str, cell: &dyn Fn(&str) -> (usize, usize)| {
        let cells = names.iter().map(|engine| match cell(engine) {
            (0, _) => "–".to_owned(),
            (cases, contained) => format!("{contained} of {cases}"),
        });
        println!("| {title} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    for (family, cells) in &table {
        row(family, &|engine| cells.get(engine).copied().unwrap_or_default());
    }
    row("all", &|engine| {
        let cells = table.values().filter_map(|cells| cells.get(engine));
        cells.fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1))
    });
    println!("\n{} distinct attacks; not contained: {}", distinct(&families), escaped.len());
    escaped.iter().for_each(|line| println!("- {line}"));
    if escaped.is_empty() { Ok(()) } else { Err("not everything is contained".into()) }
}
