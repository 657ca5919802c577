//! A recorded run as a function script with its first test, for people who save one and agents that propose one.

use serde_json::{Map, Value};
use wire::{Language, Signature};

use super::Export;
use crate::broker::ExecutionContext;
use crate::replay::{Cassette, Tool};
use crate::sandbox::Failure;
use crate::scripts::{Saved, Wanted, function};
use base::error::{Error, ErrorCode, Result};
use base::text::brief;
use catalog::people;
use redact::{Mentions, Results, Surface};
use state::journal::Recorded;
use state::shapes::{Given, Shape};

impl ExecutionContext {
    /// The function that the script of a run becomes, and its cassette. It is played on the answers of the run: what it
    /// asks and returns has to be the same. The type of its value comes from that of the run.
    ///
    /// # Errors
    /// `INVALID_ARGS` with what keeps the run from becoming one, `SCRIPT_ERROR` when it does something else then; without
    /// a hint where other parameters, or none, may help.
    pub async fn saved(&self, recorded: Recorded, tools: Vec<Tool>, mut wanted: Wanted) -> Result<(Saved, Cassette)> {
        let head = &recorded.head;
        if head.placeholders && !Mentions::of(&head.code).is_empty() {
            return Err(named_placeholders(&head.run));
        }
        wanted.returns = returned(&recorded).map(|shape| shape.schema(&Value::Null));
        let saved = self.as_function(head.language, &head.code, &wanted).await?;
        let cassette = self.as_test(recorded, tools, &saved.code, &Map::new()).await?;
        Ok((saved, cassette))
    }

    /// The cassette of a run, as a test of the function that its script becomes.
    ///
    /// # Errors
    /// `SCRIPT_ERROR` when the function with these arguments does something else than the run did.
    pub(super) async fn as_test(
        &self,
        recorded: Recorded,
        tools: Vec<Tool>,
        function: &str,
        args: &Map<String, Value>,
    ) -> Result<Cassette> {
        let code = recorded.head.code.clone();
        let export = Export::of(recorded, tools, self.runs.answers.redaction)?;
        let mut before = export.play(self, &code, None).await?;
        let cassette = export.play(self, function, serde_json::value::to_raw_value(args).ok()).await?;
        before.args.clone_from(&cassette.args);
        before.servers.clone_from(&cassette.servers);
        if before.text() != cassette.text() {
            let what = "as a function the script does something else: it is not saved";
            return Err(Error::new(ErrorCode::ScriptError, what));
        }
        Ok(cassette)
    }
}

/// The error of a run whose script names placeholders.
pub(super) fn named_placeholders(run: &str) -> Error {
    let what = format!("the script of run {run} names placeholders, which only its session knows");
    Error::new(ErrorCode::InvalidArgs, what).hint("pass on values that a tool answers, and record the script anew")
}

/// Shape of the value of a run; `None` without one.
pub(super) fn returned(recorded: &Recorded) -> Option<Shape> {
    let value = recorded.end.as_ref()?.value.as_ref()?;
    Some(Shape::of(&serde_json::from_str::<Value>(value.get()).ok()?, &Given::default()))
}

impl ExecutionContext {
    /// The function that a script becomes.
    ///
    /// # Errors
    /// `INVALID_ARGS` with what keeps it from becoming one; without a hint where other parameters, or none, may help.
    pub(super) async fn as_function(&self, language: Language, code: &str, wanted: &Wanted) -> Result<Saved> {
        let wrong = |what: &str, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
        if redact::text(Surface::Answer(Results::Secrets), code) != code {
            let hint = "configure them at the server, and record the script anew";
            return wrong("the script has credentials: it is not saved", hint);
        }
        let refused = |why: String| {
            let what = format!("the script cannot be made a function: {}", people::line(&why));
            Error::new(ErrorCode::InvalidArgs, what)
        };
        let max_bytes = self.limits.code_bytes;
        let parts = self.workers.pool.parts(language, code, max_bytes).await;
        let (code, parts, _) = parts.map_err(|failure| refused(reason(failure)))?;
        let saved = function(&code, language, &parts, wanted).map_err(refused)?;
        let signed = self.workers.pool.prepare_function(language, &saved.code, max_bytes).await;
        let (_, signature) = signed.map_err(|failure| refused(reason(failure)))?;
        let own: Vec<Parameter> = parameters(&signature);
        let params = match saved.params.is_empty() {
            true => own.iter().map(|own| (own.name.clone(), own.default.clone().unwrap_or_default())).collect(),
            false => saved.params,
        };
        let of_one = |Parameter { name, kind, default }: &Parameter| match default {
            Some(default) => format!("{name}: {kind} = {default}"),
            None => format!("{name}: {kind}"),
        };
        let signature = own.iter().map(of_one).collect::<Vec<_>>().join(", ");
        Ok(Saved { params, signature: people::line(&brief(&signature)).into_owned(), ..saved })
    }
}

/// A parameter of a function.
struct Parameter {
    name: String,
    /// Its JSON type.
    kind: String,
    /// Its default as JSON.
    default: Option<String>,
}

/// Parameters by a signature, in its order.
fn parameters(signature: &Signature) -> Vec<Parameter> {
    let schema: Value = serde_json::from_str(signature.params.get()).unwrap_or_default();
    let of_one = |(name, schema): (&String, &Value)| Parameter {
        name: name.clone(),
        kind: schema.get("type").and_then(Value::as_str).unwrap_or("any").to_owned(),
        default: schema.get("default").map(Value::to_string),
    };
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(of_one).collect()
}

fn reason(failure: Failure) -> String {
    match failure {
        Failure::Script(error) => format!("line {}: {}", error.line, error.message),
        Failure::NotRun(Error { message, .. }) => message,
        _ => "the checker failed".to_owned(),
    }
}
