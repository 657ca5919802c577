//! Executes a script: a value or an explained failure, and a record of its calls.

mod background;
mod concluded;
mod export;
mod failed;
mod journaled;
mod proposed;
mod render;
mod replayed;
mod saved;
mod suggested;
mod verdict;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::OptionFuture;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use wire::{Json, Language, Run};

use crate::broker::{Audit, Broker, Evidence, ExecutionContext, Judgement, Mistake, Plan, Shown};
use crate::sandbox::{self, Entry, Report};
use crate::session::Session;
use base::error::{Error, ErrorCode};
use base::labels::Labels;
use base::outcome::Outcome;
use base::random;
use base::task;
use base::text::BYTES_PER_TOKEN;
use redact::{Outgoing, Surface};
use state::audit::CallRecord;
use state::journal::Past;

pub use background::Started;
use concluded::{held, unreturned};
pub use export::{Called, Export};
pub use failed::Failed;
use journaled::Seed;
pub use journaled::Wanted;
pub use render::waiting;
pub use replayed::{Played, stall};
pub use suggested::{Outlined, Suggested};
pub use verdict::Verdict;

/// Most warnings of the check that are told beside an answer.
const MAX_WARNINGS: usize = 3;

/// The script to run.
#[derive(Debug)]
pub struct Request {
    /// Language of the script.
    pub language: Language,
    /// The script.
    pub code: String,
    /// Wall-clock timeout of this run, capped by the configured limit.
    pub timeout: Option<Duration>,
    /// Dry run: nothing is written. See [`Broker::of_script`].
    pub dry_run: bool,
    /// Calls of the runs that it continues.
    pub past: Option<Past>,
    /// Name under which the run is proposed as a script, if it succeeds.
    pub save_as: Option<String>,
}

/// Outcome of an execution. Serialised, it is the object that `run --json` prints.
#[derive(Debug, Serialize)]
pub struct Execution {
    /// True if there is a value.
    pub ok: bool,
    /// Value as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// Failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failed>,
    /// Captured output.
    pub output: String,
    /// Calls in order.
    pub calls: Vec<CallRecord>,
    /// Cost.
    pub stats: Cost,
    /// Further notes for the script's author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Id for resuming it, if it failed after calls that need not be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Calls that wait for approval; resuming makes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waiting>,
    /// True for a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Calls that the script's text shows, for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Servers whose data it held at its end.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Number in the session.
    #[serde(skip)]
    pub run: u64,
    /// Id of its record.
    #[serde(skip)]
    pub id: String,
    /// Images, audio, resources and links in the value, as MCP content blocks.
    #[serde(skip)]
    pub attachments: Vec<Value>,
    /// The page that shows the value, if it is the answer of a tool that has one.
    #[serde(skip)]
    pub page: Option<Shown>,
    /// Its part of what the client has not read, from the end of the script on.
    #[serde(skip)]
    pub answering: Option<Box<dyn Any + Send + Sync>>,
}

impl Execution {
    /// Text for the agent, of about `budget` tokens. Larger parts are stored in `session`, with their path in the text.
    pub async fn answer(&self, session: &Session, budget: usize) -> String {
        let size = self.value.as_ref().map_or(0, |value| value.get().len());
        let parts = task::work_on(size, || self.parts(budget));
        session.results.text_of(parts, &self.run.to_string(), &self.labels).await
    }
}

/// A call that waits for approval.
#[derive(Debug, Serialize)]
pub struct Waiting {
    /// Id of the approval.
    pub approval: String,
    /// The tool.
    pub call: String,
    /// Time until which it can be decided, UTC (RFC 3339).
    pub until: String,
}

/// Cost of an execution.
#[derive(Debug, Serialize)]
pub struct Cost {
    /// The engine that ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// From request to answer, in milliseconds.
    pub ms: f64,
    /// CPU time of the script, in milliseconds.
    pub cpu_ms: f64,
    /// Peak heap of the engine in bytes, if known.
    pub heap_bytes: u64,
}

impl ExecutionContext {
    /// Answers a request other than a script, with the same broker and record.
    ///
    /// # Errors
    /// Errors of `ask`.
    pub async fn request<T: Outgoing>(
        self,
        request: &'static str,
        ask: impl AsyncFnOnce(&Broker) -> base::error::Result<T>,
    ) -> base::error::Result<T> {
        let redaction = self.runs.answers.redaction;
        let broker = Arc::new(Broker::of_request(Arc::new(self), request));
        let audit = Audit::begin(Arc::clone(&broker));
        let answer = tokio::select! {
            answer = ask(&broker) => answer,
            stopped = broker.stopped() => Err(stopped),
        };
        audit.finish(Outcome::of(&answer), answer.as_ref().err().map(|error| error.message.as_str())).await;
        let writer = broker.placeholder_writer();
        answer.map(|answer| answer.redacted(Surface::Answer(redaction).with_placeholders(writer.as_ref())))
    }

    /// Runs a script. Dropping the future kills it; the audit record is written in any case.
    pub async fn execute(self, request: Request) -> Execution {
        let context = Arc::new(self.going_on(&request));
        let broker = Broker::of_script(Arc::clone(&context), request.language, &request.code, request.dry_run);
        context.executed(Arc::new(broker), request).await
    }

    /// As [`ExecutionContext::execute`], by a broker.
    async fn executed(self: Arc<Self>, broker: Arc<Broker>, mut request: Request) -> Execution {
        let started = Instant::now();
        let context = self;
        // Without a number from the state, which the run may not need, one that no other has.
        let begun = context.session.results.begin().await;
        let run = begun.unwrap_or_else(|_| u64::from(random::number()) << 20);
        let mut audit = Audit::begin(Arc::clone(&broker));
        let resumed = request.past.as_ref().map(|past| past.head.run.clone());
        let entered = tokio::select! {
            biased;
            entered = context.enter(context.wall(&request)) => entered,
            stopped = broker.stopped() => Err(stopped),
        };
        let prepared = match entered {
            Ok(entry) => {
                let pool = &context.workers.pool;
                let script = pool.prepare(request.language, &request.code, context.limits.code_bytes).await;
                script.map(|script| (script, entry))
            }
            Err(error) => Err(sandbox::Failure::NotRun(error)),
        };
        let (mut plan, mut warnings, mut answering) = (None, Vec::new(), None);
        let (result, report) = match prepared {
            Err(failure) => (Err(Failed::new(failure, &request.code, None, &broker)), None),
            Ok((script, entry)) => {
                let mut judged = broker.judge(&script.outline, request.language, None).await;
                warnings = std::mem::take(&mut judged.warnings);
                plan = request.dry_run.then(|| judged.plan.clone());
                match judged.mistakes.first() {
                    Some(first) => (Err(Failed::unrun(first, &judged.mistakes, &request.code, &broker)), None),
                    None => {
                        let run = (&mut request, &mut answering);
                        context.run_script((&script, entry), run, judged, &broker, &mut audit).await
                    }
                }
            }
        };
        let outcome = result.as_ref().map_or_else(|failed| Outcome::Failed(failed.code), |_| Outcome::Ok);
        let calls = audit.finish(outcome, result.as_ref().err().map(Failed::summary).as_deref()).await;
        let (result, _room) = held(result, &request.code, &broker).await;
        let size = result.as_ref().map_or(0, |value| value.get().len());
        let mut execution = task::work_on(size, || context.conclude(result, report, calls, &broker, started));
        execution.notes.extend(unreturned(&execution, &request));
        let wall = context.limits.wall;
        if let Some(asked) = request.timeout.filter(|asked| *asked > wall) {
            let limit = if context.live.is_some() { "background_wall" } else { "wall" };
            execution.notes.push(format!("the timeout of {asked:?} was cut to {wall:?}, `sandbox.limits.{limit}`"));
        }
        let mut warnings = broker.reread(warnings, request.language);
        if let Some(failed) = &execution.error {
            warnings.retain(|warning| !failed.says(warning));
        }
        execution.notes.extend(warnings.iter().take(MAX_WARNINGS).map(Mistake::to_string));
        if warnings.len() > MAX_WARNINGS {
            execution.notes.push(format!("{} more like this", warnings.len() - MAX_WARNINGS));
        }
        if let Some(name) = &request.save_as {
            execution.notes.push(context.propose(name, execution.ok, &request, &broker).await);
        }
        // One that ended before it began its own journal leaves the run that it was to resume.
        let resume = execution.resume.or(resumed.filter(|_| !execution.ok));
        Execution { run, plan, resume, dry_run: request.dry_run, answering, ..execution }
    }

    /// Checks a script without running it. A syntax error is its only mistake.
    ///
    /// # Errors
    /// When it could not be parsed for another reason.
    pub async fn check(self, language: Language, code: &str) -> base::error::Result<Judgement> {
        self.check_as(None, language, code).await
    }

    /// Like [`ExecutionContext::check`], of a script that is a tool, by its wire name.
    ///
    /// # Errors
    /// As there.
    pub async fn check_as(self, from: Option<&str>, language: Language, code: &str) -> base::error::Result<Judgement> {
        let context = Arc::new(self);
        let broker = Broker::of_script(Arc::clone(&context), language, code, true);
        match context.workers.pool.prepare(language, code, context.limits.code_bytes).await {
            Ok(script) => Ok(broker.judge(&script.outline, language, from).await),
            Err(sandbox::Failure::NotRun(error)) => Err(error),
            Err(failure) => {
                let failed = Failed::new(failure, code, None, &broker);
                let error = Error::new(failed.code, failed.message).hint(failed.suggested_fix);
                let mistakes = vec![Mistake::new(&error, (failed.line, failed.column))];
                Ok(Judgement { mistakes, ..Judgement::default() })
            }
        }
    }

    fn wall(&self, request: &Request) -> Duration {
        request.timeout.unwrap_or(self.limits.wall).min(self.limits.wall)
    }

    /// Waits for a place, before the script is parsed, and holds none while the client leaves too much unread. A run in the
    /// background is read by its journal while it waits: it has the place later.
    async fn enter(&self, wait: Duration) -> base::error::Result<Entry> {
        let (pool, until) = (&self.workers.pool, tokio::time::Instant::now() + wait);
        loop {
            let room = || self.caller.as_ref().map(|caller| caller.room());
            let unread = tokio::time::timeout_at(until, OptionFuture::from(room())).await;
            unread.map_err(|_| {
                let what = format!("the client left too many answers unread for {wait:?}");
                Error::new(ErrorCode::Busy, what).hint("read the answers that were sent")
            })?;
            let entry = pool.enter(&self.workers.turn)?;
            if self.live.is_some() {
                return Ok(entry);
            }
            let place = pool.place(entry, until.saturating_duration_since(tokio::time::Instant::now())).await?;
            if OptionFuture::from(room()).now_or_never().is_some() {
                return Ok(Entry::Placed(place));
            }
        }
    }

    /// Runs a script in a worker.
    async fn run_script(
        &self,
        (script, entry): (&sandbox::Script, Entry),
        (request, answering): (&mut Request, &mut Option<Box<dyn Any + Send + Sync>>),
        judged: Judgement,
        broker: &Arc<Broker>,
        audit: &mut Audit,
    ) -> (Result<Json, Failed>, Option<Report>) {
        // The plan of a run that has made calls has those too: new ones are asked about one by one.
        let planned = match &request.past {
            Some(past) if past.calls() > 0 => Vec::new(),
            _ => judged.planned,
        };
        let wall = self.wall(request);
        let begin = async {
            let seed = self.begin_journal(request, &script.outline, broker).await?;
            broker.seeded(&seed.random);
            broker.hooks_about_script(request.language, &request.code, &judged.plan).await?;
            broker.approve_plan(planned, &judged.plan).await?;
            Ok::<_, base::error::Error>(seed)
        };
        let mut run = async |seed: Seed| {
            let inherited = broker.evidence().map_or(0, Evidence::expected);
            let report = self.workers.pool.run_nested(&self.run_frame(script, &seed, inherited), &**broker, wall).await;
            // Before the place is free for the next one. A larger value is stored.
            let bytes = report.result.as_ref().map_or(0, |value| value.get().len());
            let shown = bytes.min(self.limits.result_tokens * BYTES_PER_TOKEN);
            *answering = self.caller.as_ref().and_then(|caller| caller.answering(shown));
            report
        };
        let ran = async {
            match self.live.is_some() {
                // It is read by its journal while it waits for a place.
                true => {
                    let seed = begin.await?;
                    self.workers.pool.within(entry, &self.workers.turn, (&**broker, wall), run(seed)).await
                }
                // Refused, it leaves no journal.
                false => {
                    let begun = async { Ok(run(begin.await?).await) };
                    self.workers.pool.within(entry, &self.workers.turn, (&**broker, wall), begun).await?
                }
            }
        };
        let ran = tokio::select! {
            biased;
            ran = Box::pin(ran) => ran,
            // Leaving the first branch kills the script and its calls.
            stopped = broker.stopped() => Err(stopped),
        };
        let failed = |failure, code: &str| Failed::new(failure, code, Some(script), broker);
        let (result, report) = match ran {
            Ok(mut report) => {
                audit.ran_in(&report);
                let result = std::mem::replace(&mut report.result, Err(sandbox::Failure::Timeout(wall)));
                (result.map_err(|failure| failed(failure, &request.code)), Some(report))
            }
            Err(error) => (Err(failed(sandbox::Failure::NotRun(error), &request.code)), None),
        };
        journaled::end(broker, report.as_ref(), &result);
        (result, report)
    }

    fn run_frame(&self, script: &sandbox::Script, seed: &Seed, inherited: usize) -> Run {
        Run {
            run: 0,
            language: script.language,
            code: script.code.clone(),
            servers: self.namespaces(),
            limits: self.run_limits(inherited),
            seed: Sha256::digest(&seed.random).into(),
            now_ms: seed.now_ms,
            args: None,
        }
    }
}
