//! Runs in the background: started by a client, and read below `/runs` by any session of it.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Execution, Request};
use crate::broker::{Broker, ExecutionContext};
use crate::runs::{Bounds, Live};
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::principal::Principal;
use upstream::{Caller, Level, LogEntry, Question, Speaker, Step, TraceContext};

/// Result of a script in the background.
pub enum Started {
    /// It goes on.
    Running {
        /// Id of the run.
        run: String,
        /// The run.
        live: Arc<Live>,
    },
    /// It was refused before it began, or has ended before its journal was there.
    Ended(Box<Execution>),
}

impl ExecutionContext {
    /// Starts a script in the background: it goes on without its request, up to a wall limit of its own. Its caller is
    /// asked if that `follows` it.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a dry run or a proposal, or without journals; `BUSY` when too many are in the background.
    pub async fn start(mut self, request: Request, bounds: Bounds, follows: bool) -> Result<Started> {
        let wrong = |what: &str, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
        if request.dry_run {
            return wrong(
                "`background` with `dry_run`",
                "a dry run has no journal to be read from: run it in the foreground",
            );
        }
        if request.save_as.is_some() {
            let hint = "its answer comes before its end: run it in the foreground";
            return wrong("`background` with `save_as`", hint);
        }
        if self.runs.journals.is_none() {
            return wrong("`background` without journals", "`on = true` in [journal] of the configuration");
        }
        let live = Live::new(Arc::clone(&self.session.principal().client), request.language);
        self.limits.wall = self.limits.background_wall;
        let principal = self.session.principal().clone();
        let until = self.caller.as_ref().and_then(|caller| caller.until());
        let caller = Follower { live: Arc::clone(&live), principal, client: self.caller.take(), follows };
        self.caller = Some(Arc::new(caller));
        self.live = Some(Arc::clone(&live));
        let context = Arc::new(self.going_on(&request));
        let broker = Broker::of_script(Arc::clone(&context), request.language, &request.code, false);
        let broker = Arc::new(broker);
        let run = broker.id().to_owned();
        let weak: Weak<Broker> = Arc::downgrade(&broker);
        live.watch(weak);
        let entered = context.runs.background.enter(&run, &live, bounds)?;
        let (early, ended) = tokio::sync::oneshot::channel();
        let own = Arc::clone(&live);
        tokio::spawn(async move {
            let executed = Box::pin(context.executed(Arc::clone(&broker), request));
            tokio::select! {
                biased;
                mut labels = over(&own, until) => {
                    // The first branch has dropped the script, and with it the worker.
                    labels.extend(broker.labels());
                    if let Some(evidence) = broker.evidence() {
                        evidence.cancelled(labels);
                    }
                }
                execution = executed => {
                    // No request waits for it once its journal was begun.
                    let _ = early.send(execution);
                }
            }
            drop(broker);
            drop(entered);
        });
        tokio::select! {
            () = live.begun() => Ok(Started::Running { run, live }),
            execution = ended => match execution {
                Ok(execution) => Ok(Started::Ended(Box::new(execution))),
                Err(_) => Err(Error::new(ErrorCode::Cancelled, "the run was cancelled before it began")),
            },
        }
    }
}

/// Waits until a run is to end: it is cancelled, or the access token that started it expires.
async fn over(live: &Live, until: Option<Instant>) -> Labels {
    match until {
        Some(end) => tokio::time::timeout_at(end, live.cancelled()).await.unwrap_or_default(),
        None => live.cancelled().await,
    }
}

/// The client of a run in the background. Only one that follows the run can be asked.
struct Follower {
    live: Arc<Live>,
    principal: Principal,
    /// The client of the request that started it.
    client: Option<Arc<dyn Caller>>,
    follows: bool,
}

impl Follower {
    fn client(&self) -> Option<&Arc<dyn Caller>> {
        self.client.as_ref().filter(|_| self.follows)
    }
}

#[async_trait]
impl Caller for Follower {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn abilities(&self) -> Value {
        self.client().map_or_else(|| json!({}), |client| client.abilities())
    }

    async fn ask(&self, speaker: Speaker<'_>, question: Question) -> Result<Value> {
        match self.client() {
            Some(client) => client.ask(speaker, question).await,
            None => Err(Error::new(ErrorCode::ApprovalDenied, "no client can be asked: the run is in the background")
                .hint("run it in the foreground, or have a rule allow the call")),
        }
    }

    fn log_level(&self) -> Option<Level> {
        None
    }

    fn log(&self, _: &str, _: LogEntry) {}

    fn trace(&self) -> Option<TraceContext> {
        self.client.as_ref().and_then(|client| client.trace())
    }

    fn progress(&self, step: Step) {
        self.live.step(step.message);
    }
}
