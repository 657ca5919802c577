//! Search quality: recall among the first hits, through the catalog as production builds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use forgefs::base::limits;
use forgefs::base::meter::Meter;
use forgefs::catalog::{Catalog, Fields, Found, Learned, Ranking, Signals};
use forgefs::run::discovery::Discovery;
use forgefs::run::runs::Runs;
use forgefs::run::searching::Searching;
use forgefs::run::session::Session;
use serde_json::{Value, json};

use crate::corpus::{Question, Set, root, sets};
use crate::count;
use crate::report::{Report, circumstances, table};

/// Depth of the evaluated hits.
const DEPTH: usize = 10;
/// Ranks for recall.
const RANKS: [usize; 4] = [1, 3, 5, 10];
/// Least queries of a part with a floor.
const MIN_QUESTIONS: usize = 40;
/// Tolerance below a floor.
const TOLERANCE: f64 = 0.01;

/// Options of an evaluation.
pub struct How {
    /// Folder with more sets.
    pub shared: Option<PathBuf>,
    /// Changed weights of the ranking, as JSON.
    pub ranking: Option<String>,
    /// True for ablations: parts of the ranking are switched off too.
    pub ablations: bool,
    /// Samples one query in this many.
    pub sample: usize,
    /// True to make the result the new floors.
    pub set_floors: bool,
}

/// Averages over queries.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// Number of queries.
    pub questions: usize,
    recall: [f64; RANKS.len()],
    reciprocal: f64,
    tokens: usize,
}

impl Score {
    /// Recall among the first 5 hits.
    #[must_use]
    pub fn recall_at_5(&self) -> f64 {
        self.average(self.recall[2])
    }

    /// Mean reciprocal rank of the first relevant tool.
    #[must_use]
    pub fn mrr(&self) -> f64 {
        self.average(self.reciprocal)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn average(&self, sum: f64) -> f64 {
        sum / self.questions.max(1) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn add(&mut self, gold: &[String], hits: &[String], tokens: usize) {
        self.questions += 1;
        for (sum, rank) in self.recall.iter_mut().zip(RANKS) {
            let found = gold.iter().filter(|tool| hits.iter().take(rank).any(|hit| hit == *tool)).count();
            *sum += found as f64 / gold.len().max(1) as f64;
        }
        let first = hits.iter().position(|hit| gold.contains(hit));
        self.reciprocal += first.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
        self.tokens += tokens;
    }

    fn cells(&self) -> Vec<String> {
        let recalls = self.recall.iter().map(|sum| format!("{:.3}", self.average(*sum)));
        let rest = [format!("{:.3}", self.mrr()), (self.tokens / self.questions.max(1)).to_string()];
        std::iter::once(self.questions.to_string()).chain(recalls).chain(rest).collect()
    }
}

/// Evaluates every set, and compares with the floors.
///
/// # Errors
/// When a set cannot be read.
pub fn run(how: &How) -> Result<Report> {
    let sets = sets(how.shared.as_deref())?;
    let ranking = tried(how.ranking.as_deref())?;
    let mut text = format!("{}\n\n", circumstances());
    if how.shared.is_none() {
        text.push_str("SKIPPED: the shared sets; name their folder with --shared or FORGEFS_SHARED.\n\n");
    }
    let mut rows = vec![heading("set")];
    let mut failed = Vec::new();
    let floors = floors()?;
    let mut new_floors = serde_json::Map::new();
    for set in &sets {
        let scores = evaluate(set, &ranking, how.sample)?;
        rows.extend(scores.iter().map(|(part, score)| row(&format!("{} {part}", set.name), score)));
        new_floors.insert(set.name.clone(), as_floors(&scores));
        if how.sample == 1 && how.ranking.is_none() && !how.set_floors {
            failed.extend(below(&floors, &set.name, &scores));
        }
    }
    text.push_str(&table(&rows));
    if how.set_floors {
        std::fs::write(floors_file(), serde_json::to_string_pretty(&Value::Object(new_floors))? + "\n")?;
    }
    if how.ablations {
        text.push_str("\n\nWithout one part of the ranking, all questions of a set:\n\n");
        let mut rows = vec![heading("ranking")];
        for set in &sets {
            for (name, ranking) in ablations(&ranking) {
                let scores = evaluate(set, &ranking, how.sample)?;
                rows.extend(scores.get("all").map(|score| row(&format!("{}: {name}", set.name), score)));
            }
        }
        text.push_str(&table(&rows));
    }
    for line in &failed {
        text.push_str(&format!("\n\nBELOW ITS FLOOR: {line}"));
    }
    Ok(Report { name: "eval", text, failed: !failed.is_empty() })
}

/// The beginning of a query, as much as `search` accepts.
fn accepted(query: &str) -> &str {
    let end = (0..=limits::QUERY.max.min(query.len())).rev().find(|end| query.is_char_boundary(*end));
    &query[..end.unwrap_or(0)]
}

/// Scores of one set: all queries, tuned ones, held-out ones, those with one and with several relevant tools, and those
/// with steps, asked as one query per step.
///
/// # Errors
/// When the catalog cannot be searched.
pub fn evaluate(set: &Set, ranking: &Ranking, sample: usize) -> Result<BTreeMap<&'static str, Score>> {
    let catalog = Arc::new(Catalog::ranked(set.servers.clone(), ranking.clone()));
    let session = Arc::<Session>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (runs, searching) = (Runs::default(), Searching::default());
    let discovery = Discovery { catalog: &catalog, session: &session, lowered: None, runs, searching, sight: None };
    let (unused, used) = (Signals::default(), used(set, &catalog)?);
    let mut scores: BTreeMap<&'static str, Score> = BTreeMap::new();
    for (position, question) in set.questions.iter().enumerate().step_by(sample.max(1)) {
        let whole = [accepted(&question.query).to_owned()];
        let (hits, tokens) =
            (found(&catalog, &whole, &unused)?, count(&runtime.block_on(discovery.search(&whole, None, None))?));
        let mut add = |part| scores.entry(part).or_default().add(&question.gold, &hits, tokens);
        parts(question, position).into_iter().for_each(&mut add);
        if is_held_out(position) {
            let hits = found(&catalog, &whole, &used)?;
            scores.entry("held out, others used").or_default().add(&question.gold, &hits, tokens);
        }
        if !question.steps.is_empty() {
            let (hits, tokens) = (
                found(&catalog, &question.steps, &unused)?,
                count(&runtime.block_on(discovery.search(&question.steps, None, None))?),
            );
            scores.entry("with steps, a query a step").or_default().add(&question.gold, &hits, tokens);
        }
    }
    Ok(scores)
}

/// Parts to which a question belongs. Every second one is held out: nothing was tuned on it.
fn parts(question: &Question, position: usize) -> Vec<&'static str> {
    let part = if is_held_out(position) { "held out" } else { "tuned on" };
    let answers = if question.gold.len() > 1 { "several answers" } else { "one answer" };
    let steps = if question.steps.is_empty() { None } else { Some("with steps, whole question") };
    ["all", part, answers].into_iter().chain(steps).collect()
}

fn is_held_out(position: usize) -> bool {
    position % 2 == 1
}

/// What is learned from the questions that are not held out, as if the tools of each were called after it.
fn used(set: &Set, catalog: &Catalog) -> Result<Signals> {
    let mut learned = Learned::default();
    let questions = set.questions.iter().enumerate().filter(|(position, _)| !is_held_out(*position));
    for (_, question) in questions {
        let words = catalog.learnable(accepted(&question.query), &Meter::new(u64::MAX));
        let words = words.map_err(|halt| halt.error("learn"))?;
        for gold in &question.gold {
            let (server, tool) = gold.split_once('/').unwrap_or_default();
            let Ok((server, tool)) = catalog.tool(server, tool) else { continue };
            learned.add(&words, &Catalog::learned_path(server, tool), 1);
        }
    }
    Ok(Signals { learned: Some(Arc::new(learned)), ..Signals::default() })
}

fn found(catalog: &Catalog, queries: &[String], signals: &Signals) -> Result<Vec<String>> {
    let names = |found: &Found<'_>| match found {
        Found::Tool(hit) => format!("{}/{}", hit.server.name, hit.tool.name),
        Found::Offer(node) => catalog.path(*node),
    };
    Ok(catalog.find_all(queries, DEPTH, "/", signals)?.iter().map(|(found, _)| names(found)).collect())
}

/// The default ranking with the changes in `json`.
fn tried(json: Option<&str>) -> Result<Ranking> {
    let mut ranking = serde_json::to_value(Ranking::default())?;
    if let Some(json) = json {
        merge(&mut ranking, serde_json::from_str(json).context("--ranking is not JSON")?);
    }
    Ok(serde_json::from_value(ranking)?)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Textbook BM25 over all text of a tool, as a baseline.
#[must_use]
pub fn plain() -> Ranking {
    let fields = Fields { name: 1, category: 0, description: 1, ..Ranking::default().fields };
    Ranking {
        fields,
        k1: 1.2,
        b: 0.75,
        rarity: 1.0,
        repeats: 1.0,
        stems: false,
        stop_words: false,
        synonyms: 0.0,
        typos: 0.0,
        coverage: 0.0,
        server_named: 0.0,
        fusion: 0,
        clauses: 0.0,
        even: 0.0,
        server_matched: 0.0,
        meaning: 0.0,
        near: 0.0,
        learned: 0.0,
        fillers: 0.0,
        weak: 0.0,
        names_first: false,
    }
}

fn ablations(whole: &Ranking) -> Vec<(&'static str, Ranking)> {
    let fields = whole.fields;
    let no_params = Fields { param_names: 0, param_descriptions: 0, enum_values: 0, output_fields: 0, ..fields };
    let mut variants = vec![("as it is", whole.clone()), ("plain BM25, the floor", plain())];
    let mut without = |name, change: &dyn Fn(&mut Ranking)| {
        let mut ranking = whole.clone();
        change(&mut ranking);
        variants.push((name, ranking));
    };
    without("no parameters", &|r| r.fields = no_params);
    without("no weights of fields", &|r| r.fields = Fields { name: 1, description: 1, ..fields });
    without("no stems", &|r| r.stems = false);
    without("no stop words", &|r| r.stop_words = false);
    without("no synonyms", &|r| r.synonyms = 0.0);
    without("no typos", &|r| r.typos = 0.0);
    without("no fusion of sentences", &|r| r.fusion = 0);
    without("no name coverage", &|r| r.coverage = 0.0);
    without("no server favoured", &|r| r.server_named = 0.0);
    without("no server of most words favoured", &|r| r.server_matched = 0.0);
    without("no clauses", &|r| r.clauses = 0.0);
    without("no evenness of parts", &|r| r.even = 0.0);
    without("no meaning", &|r| r.meaning = 0.0);
    without("nothing learned", &|r| r.learned = 0.0);
    without("no fillers left out", &|r| r.fillers = 0.0);
    variants
}

fn heading(first: &str) -> Vec<String> {
    [first, "questions", "R@1", "R@3", "R@5", "R@10", "MRR", "tokens/query"].map(str::to_owned).into()
}

fn row(name: &str, score: &Score) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(score.cells()).collect()
}

fn floors_file() -> PathBuf {
    root().join("tests/fixtures/retrieval/floors.json")
}

/// Floors: set → part → figure.
///
/// # Errors
/// When the file cannot be read.
pub fn floors() -> Result<Value> {
    let path = floors_file();
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Figures below their floor, one line each.
#[must_use]
pub fn below(floors: &Value, set: &str, scores: &BTreeMap<&'static str, Score>) -> Vec<String> {
    let mut lines = Vec::new();
    for (part, floor) in floors[set].as_object().into_iter().flatten() {
        let score = scores.get(part.as_str()).copied().unwrap_or_default();
        for (name, value) in [("recall_at_5", score.recall_at_5()), ("mrr", score.mrr())] {
            let wanted = floor[name].as_f64().unwrap_or(0.0);
            if value < wanted - TOLERANCE {
                lines.push(format!("{set}, {part}: {name} is {value:.3}, its floor {wanted:.3}"));
            }
        }
    }
    lines
}

/// `scores` as floors, for parts with enough queries to be stable.
fn as_floors(scores: &BTreeMap<&'static str, Score>) -> Value {
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    let floor = |score: &Score| json!({"recall_at_5": rounded(score.recall_at_5()), "mrr": rounded(score.mrr())});
    let parts = scores.iter().filter(|(_, score)| score.questions >= MIN_QUESTIONS);
    parts.map(|(part, score)| ((*part).to_owned(), floor(score))).collect::<serde_json::Map<_, _>>().into()
}
