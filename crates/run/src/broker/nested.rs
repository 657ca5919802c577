//! A script that is a tool, run for its caller: in a worker of its own, by a broker that shares everything of the
//! caller's run but its scope, and its taint where its result is declared clean.

use std::sync::Arc;

use base::time::now_ms;
use serde_json::Value;
use wire::{Limits, Run, ScriptError, ScriptErrorKind};

use super::Broker;
use super::ledger::Call;
use super::policy::PendingCall;
use super::scope::Scope;
use super::steps::{Admitted, no_room};
use crate::sandbox::Failure;
use crate::scripts::{Callable, SERVER};
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::memory;
use base::task;
use base::text::head;
use config::Returns;
use upstream::Operation;

/// Most bytes of the message of a script's error.
const MAX_MESSAGE: usize = 2000;

impl Broker {
    /// Sets the text from which the random numbers of the scripts that it calls follow, before its first call.
    pub fn seeded(&self, seed: &str) {
        self.run.nesting.seeded(seed);
    }

    /// Runs the script behind an admitted call.
    ///
    /// # Errors
    /// `TOOL_DENIED` when it is quarantined, `TOOL_CHANGED` when it was replaced since the catalog was built, and the
    /// error that ended it, with its place.
    pub(super) async fn call_script(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        admitted: &Admitted,
    ) -> Result<Value> {
        let script = self.script_to_run(asked).and_then(|script| Scope::within(self.scope.clone(), script));
        let scope = Arc::new(script.map_err(|error| call.refused(error))?);
        let script = Arc::clone(&scope.script);
        let (_, args_hash) = call.key();
        let frame = self.frame_of(&script, asked, &args_hash)?;
        let is_clean = script.returns == Returns::Clean && script.locked.is_some();
        let nested = self.nested(Arc::clone(&scope), is_clean);
        let turn = self.scope.as_ref().map_or(&self.run.nesting.turn, |outer| &outer.turn).acquire().await;
        let approval = admitted.approval.as_deref();
        let ready = async {
            self.still_admitted(asked, admitted)?;
            self.use_up(call, approval).await
        };
        if let Err(error) = ready.await {
            return Err(call.refused(error));
        }
        let wall = self.context.limits.wall;
        let report = self.context.workers.pool.run_nested(&frame, &nested, wall).await;
        drop(turn);
        if report.result.is_err() && !report.begun {
            self.give_back(call, approval).await;
        }
        let taken = scope.take_back();
        match &report.result {
            // A failed script has not returned what was reviewed, and may be called again: its past is not used up.
            Err(_) => {
                if let Some(evidence) = self.evidence() {
                    evidence.give_back(taken);
                }
                self.taint.take_in(&script.label, &nested.labels())?;
            }
            Ok(_) => {
                self.scope.iter().for_each(|outer| outer.took(taken.clone()));
                let cleaned = nested.labels().difference(&self.labels()).cloned().collect();
                call.note(|record| record.cleaned = cleaned);
            }
        }
        let text = report.result.map_err(|failure| failed(&script, failure))?;
        let found = task::work_on(text.get().len(), || json::measure(text.get().as_bytes())).map_err(|unfit| {
            ended(&script, ErrorCode::LimitExceeded, format!("its value cannot be returned: {unfit}"))
        })?;
        let _room = match found.tree_bytes {
            small if small < memory::SMALL => None,
            large => Some(memory::ANSWERS.wait_for(large).await.map_err(|full| no_room(asked, &full))?),
        };
        call.note(|record| record.answer_bytes = text.get().len());
        let parse = || serde_json::from_str::<Value>(text.get());
        task::work_on(text.get().len(), parse)
            .map_err(|error| ended(&script, ErrorCode::Internal, "its value is no JSON".to_owned()).caused_by(error))
    }

    /// The script that a call names, as it is in force now.
    fn script_to_run(&self, asked: &PendingCall<'_>) -> Result<Arc<Callable>> {
        let Operation::Tool { name, definition, .. } = asked.operation else {
            let what = format!("{} has tools and nothing else", asked.entry.ident);
            return Err(Error::new(ErrorCode::ToolNotFound, what));
        };
        let scripts = self.context.scripts.now.load();
        if let Some(reason) = scripts.why_held(name) {
            let what = format!("{} is quarantined: {reason}", asked.label());
            return Err(
                Error::new(ErrorCode::ToolDenied, what).hint("the operator reviews it and runs `forgefs scripts lock`")
            );
        }
        let Some(script) = scripts.get(name) else {
            let what = format!("{} is no script any more", asked.label());
            return Err(Error::new(ErrorCode::ToolNotFound, what).hint("`ls /scripts` shows those that are"));
        };
        let called = |scope: &Scope| {
            let calls = scope.locked().map(|locked| &locked.calls)?;
            calls.iter().find(|call| call.server == SERVER && call.tool == *name).map(|call| call.definition.clone())
        };
        if self.scope.as_deref().and_then(called).is_some_and(|text| text != script.source.sha256) {
            let what = format!("{} is not what it was when its caller was reviewed", asked.label());
            return Err(Error::new(ErrorCode::ToolChanged, what)
                .hint("the operator reviews both and runs `forgefs scripts lock`"));
        }
        match script.digest == *definition {
            true => Ok(Arc::clone(script)),
            false => Err(Error::new(ErrorCode::ToolChanged, format!("{} has another signature now", asked.label()))
                .hint("run the script again: it sees the new one")),
        }
    }

    fn frame_of(&self, script: &Callable, asked: &PendingCall<'_>, args_hash: &str) -> Result<Run> {
        let args = asked.operation.arguments();
        let args = serde_json::value::RawValue::from_string(args)
            .map_err(|error| Error::new(ErrorCode::Internal, "arguments that are no JSON").caused_by(error))?;
        let limits = self.context.run_limits(0);
        let seed = self.run.nesting.seed(&script.source.name, args_hash);
        Ok(Run {
            run: 0,
            language: script.prepared.language,
            code: script.prepared.code.clone(),
            servers: self.context.namespaces(),
            limits: Limits { calls: script.most_calls.map_or(limits.calls, |most| most.min(limits.calls)), ..limits },
            seed: stubgen::sha256(&seed),
            now_ms: self.evidence().map_or_else(now_ms, |evidence| evidence.now_ms()),
            args: Some(args),
        })
    }

    /// The broker of a script within this run.
    fn nested(&self, scope: Arc<Scope>, is_clean: bool) -> Self {
        // Handles are numbers: content of a script that returns without labels is not for those who guess them.
        let (taint, attachments) = match is_clean {
            true => (Arc::new(self.taint.fork()), Arc::default()),
            false => (Arc::clone(&self.taint), Arc::clone(&self.attachments)),
        };
        let (context, run) = (Arc::clone(&self.context), Arc::clone(&self.run));
        Self { context, run, taint, attachments, language: Some(scope.script.source.language), scope: Some(scope) }
    }
}

/// The error of a call whose script failed, with the place in the script.
fn failed(script: &Callable, failure: Failure) -> Error {
    match failure {
        Failure::Script(error) => {
            let ScriptError { kind, message, line, column, error, fix, .. } = *error;
            let (line, column) = script.prepared.original(line, column);
            let place = if line > 0 { format!(" at line {line}, column {column}") } else { String::new() };
            let code = match (&kind, &error) {
                (ScriptErrorKind::Call, Some(call)) => call.code,
                (kind, _) => kind.code(),
            };
            let message = format!("{} failed{place}: {}", script.label, head(&message, MAX_MESSAGE));
            let (call_fix, data) = error.map(|call| (call.suggested_fix, call.data)).unwrap_or_default();
            let again = || {
                format!(
                    "find out by a call that reads; then catch this error and call {} again with the same arguments: of \
                     what it did, only this call is repeated",
                    script.label
                )
            };
            let call_fix = if code == ErrorCode::MaybeDone { Some(again()) } else { call_fix };
            let by_author = || "its author has to look at it; other arguments may do".to_owned();
            let mut failed = Error::new(code, message).hint(call_fix.or(fix).unwrap_or_else(by_author));
            failed.data = data.and_then(|data| serde_json::from_str(data.get()).ok());
            failed
        }
        Failure::NotRun(error) => error,
        Failure::Timeout(limit) => ended(script, ErrorCode::Timeout, format!("it was stopped after {limit:?}")),
        Failure::Cpu(limit) => {
            ended(script, ErrorCode::LimitExceeded, format!("it used more than {limit:?} of CPU time"))
        }
        Failure::Crashed(how) => {
            ended(script, ErrorCode::LimitExceeded, format!("it brought its sandbox process down ({how})"))
        }
        Failure::Protocol(what) => {
            ended(script, ErrorCode::Internal, format!("its sandbox process broke the protocol: {what}"))
        }
    }
}

fn ended(script: &Callable, code: ErrorCode, message: String) -> Error {
    Error::new(code, format!("{}: {}", script.label, head(&message, MAX_MESSAGE)))
}
