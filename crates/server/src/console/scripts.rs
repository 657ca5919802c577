//! Scripts and calls of the operator: through the same broker as those of every client.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::Language;

use super::access::Person;
use super::chain::has_succeeded;
use super::{Console, wrong};
use base::error::{ErrorCode, Result, code_name};
use run::broker::ExecutionContext;
use run::execution::{Execution, Request, Wanted};

/// A script to be checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    language: Language,
    code: String,
}

/// A script to be run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    language: Language,
    code: String,
    #[serde(default)]
    dry_run: bool,
}

/// A tool to be called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    server: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Console {
    /// The context of a person's session.
    pub(super) fn context(&self, by: &Person) -> ExecutionContext {
        self.gateway.execution_context(&by.session)
    }

    /// Finds mistakes of a script before it runs.
    ///
    /// # Errors
    /// When it could not be parsed for another reason than a mistake of its own.
    pub(super) async fn check(&self, script: &Script, by: &Person) -> Result<Value> {
        let judged = self.context(by).check(script.language, &script.code).await?;
        Ok(json!({ "mistakes": judged.mistakes, "warnings": judged.warnings, "plan": judged.plan }))
    }

    /// Runs a script.
    ///
    /// # Errors
    /// None of the script: its failure is in the object.
    pub(super) async fn execute(self: &Arc<Self>, wanted: Execute, by: &Person) -> Result<Value> {
        let Execute { language, code, dry_run } = wanted;
        let request = Request { language, code, timeout: None, dry_run, past: None, save_as: None };
        Ok(told(&self.context(by).execute(request).await))
    }

    /// Continues a run of this machine's user: calls that it made are answered from its journal.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such run, it or the last that went on with it has succeeded, or a journal of its
    /// chain is gone; `BUSY` while it is running. Of the script none: its failure is in the object.
    pub(super) async fn resume(self: &Arc<Self>, id: &str, by: &Person) -> Result<Value> {
        // The last that went on with it is resumed. It is looked at before its past is read: both take memory.
        let last = self.last_of_chain(id).await;
        if self.journal(&last).await?.is_some_and(|(_, recorded)| has_succeeded(&recorded)) {
            let what = format!("run {last} has succeeded: nothing is left to resume");
            return Err(wrong(what, "reload the page: it shows what can be done with the run"));
        }
        let context = self.context(by);
        let wanted = Wanted { resume: Some(id.to_owned()), ..Wanted::default() };
        let request = context.script(wanted).await?;
        tracing::info!(target: "forgefs::console", run = id, by = by.name, "a run is resumed");
        Ok(told(&context.execute(request).await))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// None of the call: its failure is in the object.
    pub(super) async fn call(self: &Arc<Self>, wanted: Call, by: &Person) -> Result<Value> {
        let Call { server, tool, arguments } = wanted;
        let args = Value::Object(arguments).to_string();
        let mut run = None;
        let called = self.context(by).request("call", async |broker| {
            run = Some(broker.id().to_owned());
            broker.call_tool(1, &server, &tool, &args).await
        });
        let answer = called.await;
        let error = answer.as_ref().err().map(|error| {
            let mut fix = error.suggested_fix().to_owned();
            if error.code == ErrorCode::ApprovalDenied {
                // A page asks no person.
                fix = "run it as a script in the console: its call waits under Approvals".to_owned();
            }
            json!({ "code": code_name(error.code), "message": error.message, "suggested_fix": fix })
        });
        Ok(json!({ "run": run, "ok": answer.is_ok(), "value": answer.ok(), "error": error }))
    }
}

/// The object of other programs, with the id of the run.
fn told(execution: &Execution) -> Value {
    let mut object = serde_json::to_value(execution).unwrap_or_default();
    object["run"] = execution.id.as_str().into();
    object
}
