//! Judges a script before its first call, by what a checker saw in it.
//!
//! A mistake is provable: a name, an argument or a rule that is wrong in code that certainly runs. The same elsewhere is a
//! warning. A call that is judged right here is decided about again when it is made.

mod looked;
mod names;
mod numbers;
mod plan;
mod reads;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use stubgen::ToolStub;
use wire::{Args, How, Known, Language, Outline, Place, Site, Target, Used};

use super::arguments::{self, Given};
use super::planned::Planned;
use super::policy::{self, Caller, PendingCall, Reason, Rules};
use super::{Broker, consent, misfit};
use crate::approvals::Further;
use crate::scripts::SERVER;
use base::error::{Error, ErrorCode, Result, code_name};
use base::labels::Held;
use base::text::{self, head};
use catalog::manifest::ServerEntry;
use config::Approval;
use redact::{Results, Surface};

pub(super) use looked::Looked;
pub use names::meant;
pub use plan::Plan;
pub(super) use reads::plain;

/// Longest time that a script is judged. What takes longer is left to the calls.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Most mistakes, and most warnings, that are told.
const MAX_TOLD: usize = 20;
/// Most of them that are kept until their places are known.
const MAX_KEPT: usize = 10 * MAX_TOLD;
/// Most bytes of a message, and of a fix.
const MAX_TEXT: usize = 4000;

/// Something wrong in a script, found before it ran.
#[derive(Debug, Clone, Serialize)]
pub struct Mistake {
    /// The error that the call would end with.
    pub code: ErrorCode,
    /// Message.
    pub message: String,
    /// Suggested fix.
    pub suggested_fix: String,
    /// Line of the script, from 1.
    pub line: u32,
    /// Column in that line, from 1.
    pub column: u32,
    /// Number of its call on record.
    #[serde(skip)]
    pub call: Option<u64>,
    /// True for a doubt by what answers were so far: no call ends with its error.
    #[serde(skip)]
    pub is_doubt: bool,
}

/// Facts of a script before it runs.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Mistakes in code that certainly runs, by place.
    pub mistakes: Vec<Mistake>,
    /// Mistakes in code that may run, by place.
    pub warnings: Vec<Mistake>,
    /// Rights of the script.
    pub plan: Plan,
    /// Calls of tools, by place.
    pub calls: Vec<(Place, String)>,
    /// Calls that need approval, in any chain, with all reasons for it.
    pub asks: Vec<Further>,
    /// Calls about which the user is asked before it runs.
    pub planned: Vec<Planned>,
    /// Parts of the script API that it uses, beside calls of tools.
    pub uses: BTreeSet<Used>,
    /// Calls of scripts, as written; true for one that may run more than once.
    pub scripts: Vec<(String, bool)>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place() {
            write!(f, "line {line}, column {column}: ")?;
        }
        let code = if self.is_doubt { String::new() } else { format!("{}: ", code_name(self.code)) };
        write!(f, "{code}{}; {}", self.message, self.suggested_fix)
    }
}

impl Mistake {
    /// An error at a place.
    pub fn new(error: &Error, (line, column): Place) -> Self {
        let text = |text: &str| head(&visible(text), MAX_TEXT).to_owned();
        let (message, suggested_fix) = (text(&error.message), text(error.suggested_fix()));
        Self { code: error.code, message, suggested_fix, line, column, call: None, is_doubt: false }
    }

    /// Its line and column; `None` for one of the whole script.
    pub fn place(&self) -> Option<Place> {
        (self.line > 0).then_some((self.line, self.column))
    }

    /// A doubt at a place.
    fn doubt(error: &Error, at: Place) -> Self {
        Self { is_doubt: true, ..Self::new(error, at) }
    }
}

impl Broker {
    /// Judges a script, and puts the calls that are refused here on record. `from` is its wire name, if it is a tool.
    pub async fn judge(&self, outline: &Outline, language: Language, from: Option<&str>) -> Judgement {
        let mut judge = Judge {
            broker: self,
            rules: self.context.rules_now(),
            language,
            from,
            held: self.taint.now(),
            coming: Vec::new(),
            calls: 0,
            looked: Looked::default(),
            judgement: Judgement { plan: Plan::new(outline), uses: outline.uses.clone(), ..Judgement::default() },
        };
        let is_judged = tokio::time::timeout(MAX_TIME, judge.all(outline)).await.is_ok();
        if !is_judged {
            tracing::debug!("a script takes too long to judge: the rest is judged call by call");
        }
        let Judge { mut judgement, looked, .. } = judge;
        *self.run.looked.lock() = looked;
        let mut servers = self.context.catalog.servers().iter().map(|server| server.ident.as_str()).chain([SERVER]);
        if !is_judged || servers.any(|ident| outline.own.contains(ident)) {
            judgement.plan.cut();
        }
        for list in [&mut judgement.mistakes, &mut judgement.warnings] {
            list.sort_by_key(|mistake| (mistake.line, mistake.column));
            list.dedup_by(|a, b| (a.line, a.column, &a.message) == (b.line, b.column, &b.message));
            list.truncate(MAX_TOLD);
        }
        judgement
    }
}

struct Judge<'b> {
    broker: &'b Broker,
    rules: Arc<Rules>,
    language: Language,
    /// The script, if it is a tool.
    from: Option<&'b str>,
    /// Data that the script certainly holds by now, and its strict group.
    held: Held,
    /// Servers whose data it has once so many calls were made.
    coming: Vec<(usize, String)>,
    /// Calls that are certainly made.
    calls: u32,
    looked: Looked,
    judgement: Judgement,
}

impl Judge<'_> {
    async fn all(&mut self, outline: &Outline) {
        for (number, site) in (1..).zip(&outline.calls) {
            let here = self.coming.extract_if(.., |(calls, _)| *calls < number as usize);
            self.held.labels.extend(here.map(|(_, server)| server));
            if let Err(error) = self.call(number, site).await {
                self.tell(&error, site.at, site.is_certain, Some(number).filter(|_| site.is_certain));
            }
            // Suggestions take a millisecond or two each.
            tokio::task::yield_now().await;
        }
        for (at, literal) in &outline.numbers {
            self.tell(&numbers::rounded(literal, self.language), *at, false, None);
        }
        for name in &outline.names {
            tokio::task::yield_now().await;
            if let Some(error) = names::undefined(name, self.language, &self.broker.context.catalog) {
                self.tell(&error, name.at, name.is_certain, None);
            }
        }
    }

    fn tell(&mut self, error: &Error, at: Place, is_certain: bool, call: Option<u64>) {
        let Judgement { mistakes, warnings, .. } = &mut self.judgement;
        let list = if is_certain { mistakes } else { warnings };
        if list.len() < MAX_KEPT {
            list.push(Mistake { call, ..Mistake::new(error, at) });
        }
    }

    /// The first mistake of a call. Those of its answer are told as they are found.
    async fn call(&mut self, number: u64, site: &Site) -> Result<()> {
        let catalog = Arc::clone(&self.broker.context.catalog);
        if let Some(script) = called_script(&site.target) {
            self.judgement.scripts.push((script, site.repeats));
            if catalog.server(SERVER).is_err() {
                return Ok(());
            }
        }
        let (server, tool) = match &site.target {
            Target::Path(names) => {
                let Some((root, path)) = names.split_first() else { return Ok(()) };
                // A name of the language or an unknown one, which is judged as a name.
                if !catalog.servers().iter().any(|server| server.ident == *root) {
                    return Ok(());
                }
                (root.clone(), path.join("."))
            }
            Target::Tool(server, tool) => (server.clone(), tool.clone()),
            Target::Other(server) => {
                let entry = known(catalog.server(server))?;
                if let Some(entry) = entry {
                    self.judgement.plan.touch(entry, None, site);
                }
                return Ok(());
            }
        };
        let refused = match known(catalog.tool(&server, &tool)) {
            Ok(None) => {
                self.judgement.plan.touch_unknown(&server, site);
                return Ok(());
            }
            Ok(Some((entry, stub))) => {
                self.judgement.plan.touch(entry, Some(stub), site);
                self.judgement.calls.push((site.at, format!("{}.{}", entry.ident, stub.ident)));
                self.read(entry, stub, site);
                match self.allowed(entry, stub, site) {
                    Ok(()) => self.fits(entry, stub, site).await,
                    refused => refused,
                }
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &refused
            && site.is_certain
        {
            self.broker.record_invalid(number, &server, &tool, &shown(&site.args), error.clone());
        }
        refused
    }

    /// Rules and limits, by what the script certainly holds at this call.
    fn allowed(&mut self, entry: &ServerEntry, stub: &ToolStub, site: &Site) -> Result<()> {
        policy::reviewed(entry, stub)?;
        let operation = policy::call_of(stub, Map::new());
        let from = self.from.map(Caller::Reviewed);
        let asked = PendingCall { from, ..PendingCall::new(entry, Some(stub), &operation) };
        let reasons = self.broker.decide(&self.rules, &asked, &self.held)?;
        let label = format!("{}.{}", entry.ident, stub.ident);
        if !reasons.is_empty() {
            self.judgement.asks.push(Further {
                call: self.broker.any_like(&asked),
                label: label.clone(),
                reasons: reasons.iter().map(Reason::to_string).collect(),
                repeats: site.repeats,
            });
        }
        if let [reason @ Reason::Approval { rule: Approval::Plan, .. }] = reasons.as_slice() {
            let planned = Planned::new(consent::consent(&asked, reason), label, stub, site);
            self.judgement.planned.push(planned);
        }
        if !site.is_certain {
            return Ok(());
        }
        let limit = self.broker.context.limits.calls;
        self.calls += 1;
        if self.calls > limit {
            let message = format!("the script makes more than {limit} calls, the limit of a run");
            return Err(Error::new(ErrorCode::BudgetExceeded, message)
                .hint("make fewer calls, or raise `sandbox.limits.calls` in the configuration"));
        }
        policy::admit(&self.rules, &mut self.held.group, &entry.name)?;
        self.coming.extend(site.answered.map(|calls| (calls, entry.name.clone())));
        Ok(())
    }

    async fn fits(&self, entry: &ServerEntry, stub: &ToolStub, site: &Site) -> Result<()> {
        let (fields, is_open) = match &site.args {
            Args::Unknown => return Ok(()),
            Args::Named(fields, is_open) => (fields, *is_open),
            Args::Positional(count) => {
                let label = format!("{}.{}", entry.ident, stub.ident);
                let (takes, form) = match self.language {
                    Language::Javascript => ("one object with named arguments".to_owned(), "({ name: value })"),
                    Language::Starlark => {
                        (format!("keyword arguments only; got {count} without a name"), "(name = value)")
                    }
                };
                let message = format!("{label} takes {takes}");
                return Err(Error::new(ErrorCode::ScriptError, message).hint(format!(
                    "call {label}{form}; the signature is {}",
                    misfit::signature(entry, stub, Some(self.language))
                )));
            }
        };
        let known = fields.iter().map(|(name, value)| (name.clone(), settled(value))).collect();
        let given = Given::Shown(known, is_open);
        match arguments::fitting(&self.broker.context, (entry, stub), given, Some(self.language)).await {
            // Too much to check is no mistake.
            Err(error) if error.code == ErrorCode::InvalidArgs => Err(error),
            _ => Ok(()),
        }
    }

    fn read(&mut self, entry: &ServerEntry, stub: &ToolStub, site: &Site) {
        let Judgement { mistakes, warnings, .. } = &self.judgement;
        if site.reads.is_empty() || mistakes.len().max(warnings.len()) >= MAX_KEPT {
            return;
        }
        self.looked.watch(entry, stub, &site.reads);
        let label = format!("{}.{}", entry.ident, stub.ident);
        let observed = entry.observed.of(stub).and_then(|observed| observed.schema);
        let raw = stub.definition.tree();
        for read in &site.reads {
            let wrong = match read.how {
                How::OfPromise => Some(reads::of_promise(&label, read)),
                How::Guarded => None,
                How::Key | How::Attribute => {
                    raw.get("outputSchema").and_then(|schema| reads::absent(&label, schema, read))
                }
            };
            if let Some(error) = wrong {
                self.tell(&error, read.at, read.is_certain, None);
            } else if let Some(error) =
                observed.as_ref().and_then(|schema| reads::unseen(&label, schema, read, self.language))
            {
                // The next answer may be another.
                self.judgement.warnings.push(Mistake::doubt(&error, read.at));
            }
        }
    }
}

/// Foreign text as people and agents see it.
fn visible(text: &str) -> String {
    text::visible(&redact::text(Surface::Output(Results::Secrets), text))
}

/// The script that a call names.
fn called_script(target: &Target) -> Option<String> {
    match target {
        Target::Path(names) => match names.split_first()? {
            (root, path) if root == SERVER => Some(path.join(".")),
            _ => None,
        },
        Target::Tool(server, tool) => (server == SERVER).then(|| tool.clone()),
        Target::Other(_) => None,
    }
}

/// The catalog's answer about names, unless it cannot know yet.
fn known<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code, ErrorCode::ServerNotFound | ErrorCode::ToolNotFound) => Err(error),
        Err(_) => Ok(None),
    }
}

/// A literal as the broker will see it. Placeholders and handles of content are put in later.
fn settled(value: &Known) -> Known {
    match value {
        Known::Json(text) if text.contains("<<") || text.contains("blob:") => Known::Nothing,
        value => value.clone(),
    }
}

/// Arguments for the record, as far as they are known.
fn shown(args: &Args) -> String {
    let Args::Named(fields, _) = args else { return "{}".to_owned() };
    let fields = fields.iter().filter_map(|(name, value)| Some((name.clone(), arguments::value_of(value)?)));
    Value::Object(fields.collect()).to_string()
}
