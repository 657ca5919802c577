//! Hooks within the steps of a call, and before a script: those that the execution began with, and those in force now.
//!
//! They are asked about a call after policy and before the user, and about an answer before anything else has it: what they
//! take out is in no journal, shape, record or result. An answer of an earlier run was theirs to see then.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use wire::Language;

use super::ledger::Call;
use super::policy::{Caller, PendingCall, Reason};
use super::{Broker, Plan};
use crate::hooks::{Arguments, Decision, Heard, Hook, Question, Subject, words};
use base::error::{Effect, Error, ErrorCode, Result};
use base::labels::Labels;
use base::task;
use config::HookEvent;
use redact::Surface;
use upstream::Operation;

/// What follows from a decision.
enum Ruling {
    /// It goes on as it is.
    Pass,
    /// The decision is followed.
    Follow(Decision),
}

impl Broker {
    /// Asks the hooks about a call that policy leaves; returns the questions to the user.
    ///
    /// # Errors
    /// `TOOL_DENIED` when one of them is against it.
    pub(super) async fn hooks_about_call(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        labels: &Labels,
    ) -> Result<Vec<Reason>> {
        // A server is started or listed, and nothing is sent.
        if matches!(asked.operation, Operation::Connect | Operation::List) {
            return Ok(Vec::new());
        }
        let what = asked.what();
        let arguments = match asked.operation {
            Operation::List | Operation::Connect => None,
            Operation::Tool { arguments, .. } | Operation::Prompt { arguments, .. } => {
                Some(Arguments::Named(arguments))
            }
            Operation::Complete { params, .. } => Some(Arguments::Named(params)),
            Operation::Resource { uri, .. } => Some(Arguments::Uri(uri)),
        };
        let about = Subject { arguments, size: call.size(), ..subject(asked, &what) };
        let hooks = self.hooks(HookEvent::Call, [asked.entry.name.as_str()], true);
        let heard = self.ask_hooks(&hooks, HookEvent::Call, about, labels).await;
        call.heard(hooks.iter().zip(&heard).map(|(hook, heard)| self.hook_record(hook, HookEvent::Call, heard)));
        let mut reasons = Vec::new();
        for (hook, heard) in hooks.iter().zip(heard) {
            match self.ruling(hook, heard, &asked.label())? {
                Ruling::Follow(Decision::Ask(question)) => {
                    let question = words(&self.without_restored(&question));
                    reasons.push(Reason::Hook { hook: hook.name.clone(), question });
                }
                Ruling::Follow(_) | Ruling::Pass => {}
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
        const OF_SERVER: [ErrorCode; 3] = [ErrorCode::ToolError, ErrorCode::InvalidArgs, ErrorCode::UpstreamError];
        let hooks = self.hooks(HookEvent::Answer, [asked.entry.name.as_str()], true);
        if hooks.is_empty() || answer.as_ref().is_err_and(|error| !OF_SERVER.contains(&error.code)) {
            return answer;
        }
        let (mut value, error) = match answer {
            Ok(value) => (value, None),
            Err(error) => (json!({"message": error.message, "hint": error.hint, "data": error.data}), Some(error)),
        };
        let effect = error.as_ref().map_or(Effect::Done, |error| error.effect);
        let (what, most, size) = (asked.what(), self.context.limits.answer_bytes, call.size());
        let handles = self.attachments.mentioned(&asked.entry.ident, &value);
        for hook in hooks {
            let about = Subject { value: Some(&value), is_error: error.is_some(), size, ..subject(asked, &what) };
            let labels = self.labels();
            let heard = hook.ask(HookEvent::Answer, &self.hook_question(about, &labels)).await;
            call.heard([self.hook_record(&hook, HookEvent::Answer, &heard)]);
            let followed = self.ruling(&hook, heard, &format!("the answer of {}", asked.label()));
            let replaced = followed.and_then(|ruling| match ruling {
                Ruling::Follow(Decision::Replace(texts)) => {
                    self.attachments.rewrite(&handles, |content| texts.sweep(content, most).ok());
                    let before = value.take();
                    task::work_on(size, || {
                        let written = texts.apply(before, most);
                        let written = written.map_err(|why| unusable(&hook, &asked.label(), &why))?;
                        Ok(redact::json(self.arriving(Surface::Script), written))
                    })
                }
                Ruling::Follow(_) | Ruling::Pass => Ok(value.take()),
            });
            value = replaced.map_err(|refused| {
                self.attachments.rewrite(&handles, |_| None);
                refused.with_effect(effect)
            })?;
        }
        match error {
            None => Ok(value),
            Some(error) => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let mut error = error.map_texts(|_| String::new());
                error.message = text(&value["message"]).unwrap_or_default();
                error.hint = text(&value["hint"]);
                error.data = Some(value["data"].take()).filter(|data| !data.is_null()).map(Box::new);
                Err(error)
            }
        }
    }

    /// Asks the hooks about a script that is about to run.
    ///
    /// # Errors
    /// `TOOL_DENIED` when one of them is against it.
    pub async fn hooks_about_script(&self, language: Language, code: &str, plan: &Plan) -> Result<()> {
        let named = plan.steps.iter().map(|step| &step.server).chain(&plan.unknown);
        let server =
            |ident: &String| self.context.catalog.server(ident).map_or(ident.clone(), |entry| entry.name.clone());
        let servers: Vec<String> = named.map(server).collect();
        let hooks = self.hooks(HookEvent::Script, servers.iter().map(String::as_str), !plan.is_partial);
        let tools = plan.steps.iter().map(|step| match &step.tool {
            Some(tool) => format!("{}.{tool}", step.server),
            None => step.server.clone(),
        });
        let tools: Vec<String> = tools.chain(plan.unknown.iter().cloned()).collect();
        let about = Subject {
            language: Some(language.as_str()),
            code: Some(code),
            tools: Some(&tools),
            names_all: Some(!plan.is_partial),
            size: code.len(),
            ..Subject::default()
        };
        let heard = self.ask_hooks(&hooks, HookEvent::Script, about, &self.labels()).await;
        let record = |(hook, heard): (&Arc<Hook>, &Heard)| self.hook_record(hook, HookEvent::Script, heard);
        self.run.ledger.heard(hooks.iter().zip(&heard).map(record));
        hooks.iter().zip(heard).try_for_each(|(hook, heard)| self.ruling(hook, heard, "the script").map(drop))
    }

    fn hooks<'s>(
        &self,
        on: HookEvent,
        servers: impl IntoIterator<Item = &'s str, IntoIter: Clone>,
        are_all: bool,
    ) -> Vec<Arc<Hook>> {
        let servers = servers.into_iter();
        let mut hooks = self.context.policy.rules.hooks().and(self.context.rules_now().hooks());
        hooks.retain(|hook| hook.covers(on, servers.clone(), are_all));
        hooks
    }

    /// Asks all of them at once.
    async fn ask_hooks(&self, hooks: &[Arc<Hook>], on: HookEvent, about: Subject<'_>, labels: &Labels) -> Vec<Heard> {
        let question = self.hook_question(about, labels);
        join_all(hooks.iter().map(|hook| hook.ask(on, &question))).await
    }

    fn hook_question<'q>(&'q self, about: Subject<'q>, labels: &'q Labels) -> Question<'q> {
        let (session, profile) = (&self.context.session, self.context.profile.as_deref());
        let (run, client) = (self.id(), &*session.principal().client);
        Question { run, client, profile, is_dry: self.run.is_dry, labels: Some(labels), about, ..Question::default() }
    }

    /// The record of a decision, without values that took the place of placeholders.
    fn hook_record(&self, hook: &Hook, on: HookEvent, heard: &Heard) -> state::audit::HookRecord {
        let mut record = hook.record(on, heard);
        record.reason = record.reason.map(|reason| self.without_restored(&reason));
        record
    }

    /// What follows from a decision about `what`.
    fn ruling(&self, hook: &Hook, heard: Heard, what: &str) -> Result<Ruling> {
        let name = &hook.name;
        let error = match heard.decision {
            _ if hook.only_logs() => return Ok(Ruling::Pass),
            Ok(Decision::Deny(reason)) => {
                let said = words(&self.without_restored(&reason));
                let says = if reason.is_empty() { String::new() } else { format!(", which says: {said}") };
                let error = Error::new(ErrorCode::ToolDenied, format!("{what} is refused by the hook {name}{says}"));
                error.hint("a rule of the operator's is against this: do without it, or ask the user")
            }
            Ok(decision) => return Ok(Ruling::Follow(decision)),
            Err(_) if hook.fails_open() => return Ok(Ruling::Pass),
            Err(why) => unusable(hook, what, &why),
        };
        Err(redact::error(Surface::Error, error))
    }
}

fn subject<'a>(asked: &PendingCall<'a>, what: &'a str) -> Subject<'a> {
    let class = match asked.stub.and_then(|stub| stub.annotations.destructive) {
        _ if asked.is_read() => "read",
        Some(true) => "destructive",
        _ => "write",
    };
    let from = asked.from.and_then(Caller::scope).map(|scope| scope.label());
    let tool = asked.stub.map_or(what, |stub| stub.name.as_str());
    Subject { server: Some(&asked.entry.name), tool: Some(tool), class: Some(class), from, ..Subject::default() }
}

/// The error where a hook has no decision that can be followed.
fn unusable(hook: &Hook, what: &str, why: &str) -> Error {
    let message = format!("{what} is refused: the hook {} gave no decision that can be followed: {why}", hook.name);
    Error::new(ErrorCode::ToolDenied, message).hint("the operator has to look at this hook: `forgefs doctor` asks it")
}
