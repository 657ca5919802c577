//! Runs in the background: started by a client, and read below `/runs` by any session of it.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Execution, Request};
use crate::broker::{Broker, ExecutionContext};
use crate::error::{Error, ErrorCode, Result};
use crate::principal::Principal;
use crate::runs::{Bounds, Live};
use crate::upstream::{Caller, Level, LogEntry, Question, Speaker, Step, TraceContext};

/// What came of a script for the background.
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
    /// Starts a script in the background: it goes on without its request, up to the wall limit of its own. `done`
    /// gets its outcome, unless it is cancelled.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a dry run, or without journals; `BUSY` when too many are in the background.
    pub async fn start(
        mut self,
        request: Request,
        bounds: Bounds,
        done: impl FnOnce(Option<&Execution>) + Send + 'static,
    ) -> Result<Started> {
        let wrong = |what: &str, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
        if request.dry_run {
            return wrong("`background` with `dry_run`", "a dry run has no journal to be read from: run it in the foreground");
        }
        if self.journals.is_none() {
            return wrong("`background` without journals", "`on = true` in [journal] of the configuration");
        }
        let live = Live::new(Arc::clone(&self.session.principal().client), request.language);
        self.limits.wall = self.limits.background_wall;
        self.caller = Some(Arc::new(Absent { live: Arc::clone(&live), client: self.caller.take(), own: self.session.principal().clone() }));
        self.live = Some(Arc::clone(&live));
        let context = Arc::new(self);
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
                mut labels = own.cancelled() => {
                    // The first branch has dropped the script, and with it the worker.
                    labels.extend(broker.labels());
                    if let Some(evidence) = broker.evidence() {
                        evidence.cancelled(labels);
                    }
                    done(None);
                }
                execution = executed => {
                    done(Some(&execution));
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

/// The client of a run in the background: it may be gone, so nobody can be asked.
struct Absent {
    live: Arc<Live>,
    /// The client of the request that started it, whose trace goes on.
    client: Option<Arc<dyn Caller>>,
    own: Principal,
}

#[async_trait]
impl Caller for Absent {
    fn principal(&self) -> &Principal {
        &self.own
    }

    fn abilities(&self) -> Value {
        json!({})
    }

    async fn ask(&self, _: Speaker<'_>, _: Question) -> Result<Value> {
        Err(Error::new(ErrorCode::ApprovalDenied, "nobody can be asked: the run is in the background")
            .hint("run it in the foreground, or let a rule allow the call"))
    }

    fn log_level(&self) -> Option<Level> {
        None
    }

    fn log(&self, _: &str, _: LogEntry) {}

    fn trace(&self) -> Option<TraceContext> {
        self.client.as_ref().and_then(|client| client.trace())
    }

    fn progress(&self, step: Step) {
        self.live.report(step.message);
    }
}
