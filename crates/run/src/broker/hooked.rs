//! Hooks within the steps of a call, and before a script: those that the execution began with, and those in force now.
//!
//! They are asked about a call after policy and before the user, and about an answer before anything else has it: what they
//! take out is in no journal, shape, record or result. An answer of an earlier run was theirs to see then.

use std::slice;
use std::sync::Arc;

use futures::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use wire::Language;

use super::ledger::Call;
use super::policy::{Caller, PendingCall, Reason};
use super::{Broker, Plan, Rules};
use crate::hooks::{Decision, Hook, Question, words};
use base::error::{Effect, Error, ErrorCode, Result};
use base::task;
use config::HookEvent;
use redact::Surface;
use state::audit::HookRecord;
use upstream::Operation;

impl Broker {
    /// Asks the hooks about a call that policy leaves; returns their questions to the user.
    ///
    /// # Errors
    /// `TOOL_DENIED` when one of them is against it.
    pub(super) async fn hooks_about_call(&self, call: &mut Call<'_>, asked: &PendingCall<'_>) -> Result<Vec<Reason>> {
        let hooks = self.hooks(HookEvent::Call, Some(&asked.entry.name));
        // A server that is started or listed is sent nothing.
        if hooks.is_empty() || matches!(asked.operation, Operation::List | Operation::Connect) {
            return Ok(Vec::new());
        }
        let question = task::work_on(call.size(), || {
            self.hook_question(subject(asked), "arguments", &asked.operation.parameters())
        });
        let (records, rulings) = self.ask_hooks(&hooks, HookEvent::Call, &question, &asked.label()).await;
        call.note(|record| record.hooks.extend(records));
        let mut reasons = Vec::new();
        for (hook, ruling) in hooks.iter().zip(rulings) {
            if let Some(Decision::Ask(question)) = ruling? {
                reasons.push(Reason::Hook { hook: hook.name.clone(), question });
            }
        }
        Ok(reasons)
    }

    /// Asks the hooks about an answer, or a server's error in its place, one after the other: each sees what those before it
    /// have left.
    ///
    /// # Errors
    /// The server's error, and `TOOL_DENIED` when a hook is against the answer.
    pub(super) async fn hooks_about_answer(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        answer: Result<Value>,
    ) -> Result<Value> {
        // Without words of a server. Every other error may have some, such as the body of a refusal or the last of its stderr.
        const OWN: [ErrorCode; 6] = [
            ErrorCode::Timeout,
            ErrorCode::Cancelled,
            ErrorCode::BudgetExceeded,
            ErrorCode::RateLimit,
            ErrorCode::CircuitOpen,
            ErrorCode::Busy,
        ];
        let hooks = self.hooks(HookEvent::Answer, Some(&asked.entry.name));
        if hooks.is_empty() || answer.as_ref().is_err_and(|error| OWN.contains(&error.code)) {
            return answer;
        }
        let (mut value, error) = match answer {
            Ok(value) => (value, None),
            Err(error) => (json!({"message": error.message, "hint": error.hint, "data": error.data}), Some(error)),
        };
        let handles = self.attachments.mentioned(&asked.entry.ident, &value);
        let mut about = subject(asked);
        about["is_error"] = error.is_some().into();
        let is_pair = error.is_none() && self.wants_whole(asked);
        for hook in hooks {
            let question =
                task::work_on(call.size(), || match value.as_array().filter(|_| is_pair).map(Vec::as_slice) {
                    Some([value, whole]) => {
                        about["result"] = whole.clone();
                        self.hook_question(about.clone(), "value", value)
                    }
                    _ => self.hook_question(about.clone(), "value", &value),
                });
            let what = format!("the answer of {}", asked.label());
            let (mut records, ruling) =
                self.ask_hooks(slice::from_ref(&hook), HookEvent::Answer, &question, &what).await;
            let size = call.size();
            let left = ruling.into_iter().collect::<Result<Vec<_>>>().and_then(|ruling| match ruling.first() {
                Some(Some(Decision::Replace(texts))) => task::work_on(size, || {
                    let most = self.context.limits.answer_bytes;
                    let written = texts.apply(value.take(), most).map_err(|why| {
                        records.iter_mut().for_each(|record| record.was_unusable(&why));
                        unusable(&hook, &what, &why)
                    })?;
                    // Of the content beside it there are two forms.
                    let mut room = most.saturating_mul(2);
                    self.attachments.rewrite(&handles, |content| texts.sweep(content, &mut room).ok());
                    Ok(redact::json(self.arriving(Surface::Script), written))
                }),
                _ => Ok(value.take()),
            });
            call.note(|record| record.hooks.extend(records));
            value = left.map_err(|refused| {
                self.attachments.rewrite(&handles, |_| None);
                refused.with_effect(error.as_ref().map_or(Effect::Done, |error| error.effect))
            })?;
        }
        let Some(error) = error else { return Ok(value) };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut error = error.map_texts(|_| String::new());
        (error.message, error.hint) = (text(&value["message"]).unwrap_or_default(), text(&value["hint"]));
        error.data = Some(value["data"].take()).filter(|data| !data.is_null()).map(Box::new);
        Err(error)
    }

    /// Asks the hooks about a script that is about to run.
    ///
    /// # Errors
    /// `TOOL_DENIED` when one of them is against it.
    pub async fn hooks_about_script(&self, language: Language, code: &str, plan: &Plan) -> Result<()> {
        // Whatever servers a hook is about: a text can reach one without its name.
        let hooks = self.hooks(HookEvent::Script, None);
        let about = json!({"language": language.as_str(), "plan": plan});
        let question = self.hook_question(about, "code", &code);
        let (records, rulings) = self.ask_hooks(&hooks, HookEvent::Script, &question, "the script").await;
        self.run.ledger.heard(records);
        rulings.into_iter().try_for_each(|ruling| ruling.map(drop))
    }

    fn hooks(&self, on: HookEvent, server: Option<&str>) -> Vec<Arc<Hook>> {
        let mut hooks = self.context.policy.rules.hooks().and(self.context.rules_now().hooks());
        hooks.retain(|hook| hook.covers(on, server));
        hooks
    }

    /// True if `rules` have hooks for a call that neither those of `before` nor those of the begin have.
    pub(super) fn has_further_hooks(&self, asked: &PendingCall<'_>, rules: &Rules, before: &Rules) -> bool {
        let known = self.context.policy.rules.hooks().and(before.hooks());
        let is_new = |hook: &Arc<Hook>| known.iter().all(|known| !Arc::ptr_eq(known, hook));
        let covers = |hook: &Arc<Hook>| hook.covers(HookEvent::Call, Some(&asked.entry.name));
        rules.hooks().and(rules.hooks()).iter().any(|hook| is_new(hook) && covers(hook))
    }

    fn hook_question(&self, mut about: Value, name: &str, large: &impl Serialize) -> Question {
        about["run"] = self.id().into();
        about["client"] = (*self.context.session.principal().client).into();
        about["profile"] = self.context.profile.as_deref().into();
        about["dry_run"] = self.run.is_dry.into();
        about["labels"] = json!(self.labels());
        Question::new(&about, name, large)
    }

    /// Asks all of them at once: their records, and of each the decision if it is to be followed.
    async fn ask_hooks(
        &self,
        hooks: &[Arc<Hook>],
        on: HookEvent,
        question: &Question,
        what: &str,
    ) -> (Vec<HookRecord>, Vec<Result<Option<Decision>>>) {
        let heard = join_all(hooks.iter().map(|hook| hook.ask(on, question))).await;
        let ruled = heard.into_iter().zip(hooks).map(|((decision, ms), hook)| {
            let decision = decision.map(|said| said.map_words(|said| words(&self.without_restored(&said))));
            (hook.record(on, &decision, ms), ruling(hook, decision, what))
        });
        ruled.unzip()
    }
}

/// The decision about `what`, if it is to be followed.
fn ruling(hook: &Hook, decision: Result<Decision, String>, what: &str) -> Result<Option<Decision>> {
    let error = match decision {
        _ if hook.config.only_logs => return Ok(None),
        Err(_) if hook.config.fails_open => return Ok(None),
        Ok(Decision::Deny(said)) => {
            let message = format!("{what} is refused by the hook {}, which says: {said}", hook.name);
            let hint = "a rule of the operator's is against this: do without it, or ask the user";
            Error::new(ErrorCode::ToolDenied, message).hint(hint)
        }
        Ok(decision) => return Ok(Some(decision)),
        Err(why) => unusable(hook, what, &why),
    };
    Err(redact::error(Surface::Error, error))
}

/// Part of a question that tells of a call.
fn subject(asked: &PendingCall<'_>) -> Value {
    let class = match asked.stub.and_then(|stub| stub.annotations.destructive) {
        _ if asked.is_read() => "read",
        Some(true) => "destructive",
        _ => "write",
    };
    let from = asked.from.and_then(Caller::scope).map(|scope| scope.label());
    json!({"server": asked.entry.name, "tool": asked.operation.name(), "class": class, "from": from})
}

/// The error where a hook has no decision that can be followed.
fn unusable(hook: &Hook, what: &str, why: &str) -> Error {
    let message = format!("{what} is refused: the hook {} gave no decision that can be followed: {why}", hook.name);
    Error::new(ErrorCode::ToolDenied, message).hint("the operator has to look at this hook: `forgefs doctor` asks it")
}
