//! The journal of a run: begun before its script, ended with it, and read when the run is resumed.

use std::collections::BTreeSet;

use base::time::{now_ms, rfc3339};
use wire::{Json, Language, Outline, Site, Target};

use super::{Failed, Request, Waiting};
use crate::broker::{Broker, Evidence, ExecutionContext};
use crate::sandbox::Report;
use base::error::{Error, ErrorCode, Result};
use base::outcome::Outcome;
use base::random;
use redact::Mentions;
use state::journal::{End, Head, Past, VERSION, Which};

/// Globals that only JavaScript has.
const OF_JAVASCRIPT: [&str; 7] = ["Array", "Date", "JSON", "Math", "Object", "Promise", "console"];

/// A script as a client asks for it.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Language; by default that of the resumed run, or the one in which the script parses.
    pub language: Option<Language>,
    /// The script; by default that of the resumed run.
    pub code: Option<String>,
    /// Wall-clock timeout.
    pub timeout: Option<std::time::Duration>,
    /// Dry run.
    pub dry_run: bool,
    /// Run to be resumed: its id, or `last`.
    pub resume: Option<String>,
    /// Tools (`server.tool`) whose calls are made again.
    pub fresh: Vec<String>,
    /// True if the script goes on with that run, whatever it is.
    pub anyway: bool,
    /// Name under which the run is proposed as a script.
    pub save_as: Option<String>,
}

/// Source of a script's clock and random numbers.
#[derive(Debug, Clone)]
pub(super) struct Seed {
    /// Text of which the seed of its random numbers is the digest.
    pub(super) random: String,
    /// Its clock at its begin, in Unix milliseconds.
    pub(super) now_ms: u64,
}

impl ExecutionContext {
    /// The script to run for a client, with the past of the run that it resumes.
    ///
    /// # Errors
    /// `INVALID_ARGS` when a part is missing, or the client has no such run; `TOOL_NOT_FOUND` for an unknown tool in
    /// `fresh`; `BUSY` while that run is running, or when a script without its language gets no place to be parsed in; and
    /// those of a proposal that cannot be made.
    pub async fn script(&self, wanted: Wanted) -> Result<Request> {
        let Wanted { language, code, timeout, dry_run, resume, fresh, anyway, save_as } = wanted;
        if let Some(name) = &save_as {
            self.may_propose(name, dry_run).await?;
        }
        let past = match &resume {
            Some(run) => Some(self.past(run, fresh, code.as_deref(), anyway).await?),
            None if fresh.is_empty() => None,
            None => {
                return Err(Error::new(ErrorCode::InvalidArgs, "`fresh` without `resume`")
                    .hint("`fresh` names tools that a resumed run calls again"));
            }
        };
        let head = past.as_ref().map(|past| &past.head);
        let missing = |what: &str, way: &str| {
            let hint = format!("{way}; only a resumed run has its own");
            Error::new(ErrorCode::InvalidArgs, format!("`{what}` is missing")).hint(hint)
        };
        let code = code.or_else(|| head.map(|head| head.code.clone()));
        let code = code.ok_or_else(|| missing("code", "it is the script"))?;
        let language = match language.or(head.map(|head| head.language)) {
            Some(language) => language,
            None => self.language_of(&code).await?.ok_or_else(|| {
                missing(
                    "language",
                    "it is \"javascript\" (also for TypeScript) or \"starlark\", and the script is neither",
                )
            })?,
        };
        // Before it calls anything. A script that does not parse is explained better by its run.
        if save_as.is_some() && self.workers.pool.prepare(language, &code, self.limits.code_bytes).await.is_ok() {
            let found = self.as_function(language, &code, &crate::scripts::Wanted::default()).await;
            found.map_err(|mut error| {
                let hint =
                    || "run it without, or as statements; parameters need types, or defaults that have one".to_owned();
                error.hint.get_or_insert_with(hint);
                error.context("`save_as`")
            })?;
        }
        Ok(Request { language, code, timeout, dry_run, past, save_as })
    }

    /// The language in which a script parses. If it does in both, then in Starlark, unless it uses what only JavaScript has,
    /// or awaits calls with an object. It is parsed in a place for scripts, as every script.
    async fn language_of(&self, code: &str) -> Result<Option<Language>> {
        // Its run explains the fence of a Markdown block.
        if code.trim_start().starts_with("```") {
            return Ok(Some(Language::Javascript));
        }
        let pool = &self.workers.pool;
        let _place = pool.place(pool.enter(&self.workers.turn)?, self.limits.wall).await?;
        let parsed = async |language| pool.prepare(language, code, self.limits.code_bytes).await.ok();
        let starlark = parsed(Language::Starlark).await;
        let is_foreign = starlark.as_ref().is_none_or(|script| {
            script.outline.names.iter().any(|name| OF_JAVASCRIPT.contains(&name.name.as_str()))
                || code.contains("forge.callTool(")
                || (code.contains("await ") && code.contains("({"))
        });
        if is_foreign && parsed(Language::Javascript).await.is_some() {
            return Ok(Some(Language::Javascript));
        }
        Ok(starlark.map(|_| Language::Starlark))
    }

    /// For a script that may go on with another run: it is of that one's file, if it is of none itself.
    pub(super) fn going_on(self, request: &Request) -> Self {
        let file = self.file.clone();
        let file = file.or_else(|| request.past.as_ref()?.head.file.as_deref().map(Into::into));
        Self { file, ..self }
    }

    async fn past(&self, run: &str, fresh: Vec<String>, code: Option<&str>, anyway: bool) -> Result<Past> {
        let Some(journals) = &self.runs.journals else {
            return Err(Error::new(ErrorCode::InvalidArgs, "no run can be resumed: journals are off")
                .hint("`on = true` in [journal] of the configuration"));
        };
        let is_meant = anyway || !fresh.is_empty();
        let tools = fresh.iter().map(|tool| {
            let (server, tool) = tool.split_once('.').unwrap_or((tool, ""));
            let (server, tool) = self.catalog.tool(server, tool)?;
            Ok((server.name.clone(), tool.name.clone()))
        });
        let fresh = tools.collect::<Result<_>>()?;
        let principal = self.session.principal();
        // Sessions share a client: `last` is of one's own. A command has a session to itself.
        let session = self.caller.as_ref().map(|_| &*principal.session);
        let which = if run == "last" { Which::Last { session } } else { Which::Id(run) };
        let mut past = journals.past(&principal.client, which, fresh).await?;
        match self.caller.as_ref().is_some_and(|caller| caller.goes_on_with(&past.head.run)) {
            true => past.go_on(),
            false => past.is_edit = !is_meant && code.unwrap_or(&past.head.code) != past.first.1,
        }
        let is_strange = past.head.session != *principal.session;
        if is_strange && past.head.placeholders && code.is_none() && !Mentions::of(&past.head.code).is_empty() {
            let what = "the script of that run names placeholders of another session";
            return Err(Error::new(ErrorCode::InvalidArgs, what).hint(
                "placeholders of a session have no meaning in another one: give `code` with values of your own",
            ));
        }
        Ok(past)
    }

    /// Refuses a script that is no edit of that of the run which it resumes: their outlines do not share half of the tools
    /// of the shorter one. Where the text does not show the calls, those that are made tell.
    async fn check_edit(&self, request: &Request, outline: &Outline, broker: &Broker) -> Result<()> {
        let Some(past) = request.past.as_ref().filter(|past| past.is_edit && past.first_calls() > 0) else {
            return Ok(());
        };
        let head = &past.head;
        let old = self.workers.pool.prepare(head.language, &head.code, self.limits.code_bytes).await;
        let (old, new) = (old.map(|old| targets(&old.outline)).unwrap_or_default(), targets(outline));
        match old.intersection(&new).count() * 2 < old.len().min(new.len()) {
            true => broker.refuse_apart("this script is no edit of that", &head.run),
            false => Ok(()),
        }
    }

    /// Begins the journal of a run. Without a disk to write to, a run that continues none runs without one.
    ///
    /// # Errors
    /// Why the run that it resumes cannot be continued, by this script or at all.
    pub(super) async fn begin_journal(
        &self,
        request: &mut Request,
        outline: &Outline,
        broker: &Broker,
    ) -> Result<Seed> {
        self.check_edit(request, outline, broker).await?;
        let past = request.past.take();
        let seed = match &past {
            Some(past) => Seed { random: past.head.seed.clone(), now_ms: past.head.now_ms },
            None => Seed { random: format!("{}{}", random::token(), random::token()), now_ms: now_ms() },
        };
        let principal = self.session.principal();
        let writer = match &self.runs.journals {
            Some(journals) if !request.dry_run => {
                let head = Head {
                    version: VERSION,
                    forgefs: env!("CARGO_PKG_VERSION").to_owned(),
                    run: broker.id().to_owned(),
                    after: past.as_ref().map(|past| past.chain.clone()).unwrap_or_default(),
                    suspended: past.as_ref().map(|past| past.suspended.clone()).unwrap_or_default(),
                    at_ms: now_ms(),
                    client: principal.client.to_string(),
                    session: principal.session.to_string(),
                    language: request.language,
                    code: request.code.clone(),
                    seed: seed.random.clone(),
                    now_ms: seed.now_ms,
                    placeholders: self.runs.answers.placeholders,
                    servers: self.namespaces(),
                    limits: Some(self.run_limits(past.as_ref().map_or(0, Past::calls))),
                    file: self.file.as_deref().map(str::to_owned),
                    gateway: None,
                };
                match journals.begin(head).await {
                    Ok(writer) => {
                        if let Some(caller) = &self.caller {
                            caller.begun(&writer);
                        }
                        Some(writer)
                    }
                    // A run in the background is read from its journal when it has ended.
                    Err(error) if past.is_some() || self.live.is_some() || journals.required => {
                        return Err(error);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a run has no journal");
                        broker.keep_evidence(Evidence::new(None, None, seed.now_ms));
                        None
                    }
                }
            }
            _ => None,
        };
        if writer.is_some() || past.is_some() {
            broker.keep_evidence(Evidence::new(writer, past, seed.now_ms));
        }
        if let Some(live) = &self.live {
            live.begin();
        }
        Ok(seed)
    }
}

/// Tools that a script calls, as it names them; none where the text does not show all.
fn targets(outline: &Outline) -> BTreeSet<String> {
    let name = |site: &Site| match &site.target {
        Target::Path(names) => Some(names.join(".")),
        Target::Tool(server, tool) => Some(format!("{server}.{tool}")),
        Target::Other(_) => None,
    };
    outline.calls.iter().filter(|_| !outline.is_partial).filter_map(name).collect()
}

/// Calls of a run that wait for approval.
pub(super) fn waits(broker: &Broker) -> Vec<Waiting> {
    let waiting = broker.evidence().map(Evidence::waiting).unwrap_or_default();
    let told = waiting.into_iter().map(|(waits, call)| Waiting {
        approval: waits.approval,
        call,
        until: rfc3339(waits.until_ms),
    });
    told.collect()
}

/// Writes the end of a run; without a report its script has not begun.
pub(super) fn end(broker: &Broker, report: Option<&Report>, result: &Result<Json, Failed>) {
    let Some(evidence) = broker.evidence() else { return };
    let outcome = result.as_ref().map_or_else(|failed| Outcome::Failed(failed.code), |_| Outcome::Ok);
    evidence.ended(End {
        at_ms: now_ms(),
        outcome,
        engine: report.and_then(|report| report.engine.as_ref()).map(ToString::to_string),
        value: result.as_ref().ok().cloned(),
        error: result.as_ref().err().map(Failed::summary),
        explained: result.as_ref().err().map(Failed::describe),
        output: report.map(|report| report.output.text.clone()).unwrap_or_default(),
        labels: broker.labels(),
    });
}
