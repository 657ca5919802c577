//! Hooks in force: the operator's own programs and services, which decide about calls, answers and scripts.
//!
//! A hook narrows what policy leaves: it never allows what policy refuses, and takes away no question of it. Its words are
//! text from outside: redacted, cut, and quoted.

mod decision;
mod replacing;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};

use base::limits;
use base::memory;
use base::task;
use config::{Config, HookEvent, Matcher};
use state::audit::HookRecord;

pub(crate) use decision::{Decision, words};

/// Hooks in force, in the order of their names.
#[derive(Clone, Default)]
pub struct Hooks(Arc<[Arc<Hook>]>);

/// A hook in force.
pub struct Hook {
    pub(crate) name: String,
    pub(crate) config: config::Hook,
    servers: Option<Matcher>,
    asks: upstream::hook::Hook,
}

/// A question: the text of an object, to which each hook's name and the event are added.
pub(crate) struct Question(String);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|hook| &hook.name)).finish()
    }
}

impl Hooks {
    /// Those of a configuration. One that is the same as `before` goes on.
    pub fn new(config: &Config, before: &Self) -> Self {
        let hook = |(name, config): (&String, &config::Hook)| {
            let known = before.0.iter().find(|hook| (&hook.name, &hook.config) == (name, config));
            known.cloned().unwrap_or_else(|| {
                let servers = config.servers.as_ref().map(config::Patterns::matcher);
                let asks = upstream::hook::Hook::new(name, config);
                Arc::new(Hook { name: name.clone(), config: config.clone(), servers, asks })
            })
        };
        Self(config.hooks.iter().map(hook).collect())
    }

    /// These, and those of `others` that are not among them.
    pub(crate) fn and(&self, others: &Self) -> Vec<Arc<Hook>> {
        let is_new = |other: &&Arc<Hook>| !self.0.iter().any(|hook| Arc::ptr_eq(hook, other));
        self.0.iter().chain(others.0.iter().filter(is_new)).cloned().collect()
    }

    /// Asks each about a call that no server has, for `forgefs doctor`: its name, and how many milliseconds its decision
    /// took, or why there is none.
    pub async fn probe(&self) -> Vec<(String, Result<f64, String>)> {
        let about = json!({"run": "doctor", "probe": true, "server": "forgefs", "tool": "doctor"});
        let question = Question::new(&about, "arguments", &json!({}));
        let probe = async |hook: &Arc<Hook>| {
            let (decision, ms) = hook.ask(HookEvent::Call, &question).await;
            let said = hook.asks.stderr().map(|stderr| stderr.text()).unwrap_or_default();
            let last = said.lines().next_back().map(|last| format!("; its stderr ends with: {last}"));
            (hook.name.clone(), decision.map(|_| ms).map_err(|why| why + &last.unwrap_or_default()))
        };
        join_all(self.0.iter().map(probe)).await
    }
}

impl Question {
    /// From an object with its fields, and the one that may be large.
    pub(crate) fn new(about: &Value, name: &str, large: &impl Serialize) -> Self {
        let large = serde_json::to_string(large).unwrap_or_default();
        let about = about.to_string();
        Self(format!("{},\"{name}\":{large}}}", about.trim_start_matches('{').trim_end_matches('}')))
    }
}

impl Hook {
    /// True if it decides about this event of a server, or of any where that is not known.
    pub(crate) fn covers(&self, on: HookEvent, server: Option<&str>) -> bool {
        let is_its = |matcher: &Matcher| server.is_none_or(|server| matcher.is_match(server));
        self.config.on.contains(&on) && self.servers.as_ref().is_none_or(is_its)
    }

    /// Asks it: the decision, or why there is none, and the time that it took in milliseconds.
    pub(crate) async fn ask(&self, on: HookEvent, question: &Question) -> (Result<Decision, String>, f64) {
        let began = Instant::now();
        let decision = self.decision(on, question).await;
        (decision, (began.elapsed().as_micros() as f64) / 1000.0)
    }

    async fn decision(&self, on: HookEvent, question: &Question) -> Result<Decision, String> {
        let (size, most) = (question.0.len(), limits::HOOK_QUESTION.max);
        if size > most {
            return Err(format!("it was not asked: the question has {size} bytes, over the limit of {most}"));
        }
        let room = async || memory::ANSWERS.wait_for(size).await.map_err(|full| full.to_string());
        let _room = if size > memory::SMALL { Some(room().await?) } else { None };
        let Question(rest) = question;
        let answer = self.asks.ask(&format!("{{\"hook\":\"{}\",\"on\":\"{}\",{rest}", self.name, on.as_str())).await?;
        task::work_on(answer.len(), || Decision::read(&answer, on))
    }

    /// The record of a decision.
    pub(crate) fn record(&self, on: HookEvent, decision: &Result<Decision, String>, ms: f64) -> HookRecord {
        let (decision, reason) = match decision {
            Ok(Decision::Allow) => ("allow", None),
            Ok(Decision::Replace(texts)) => ("replace", Some(format!("{} texts", texts.count()))),
            Ok(Decision::Deny(said)) => ("deny", Some(said.clone())),
            Ok(Decision::Ask(said)) => ("ask", Some(said.clone())),
            Err(why) => ("none", Some(why.clone())),
        };
        let (hook, on, decision) = (self.name.clone(), on.as_str().to_owned(), decision.to_owned());
        HookRecord { hook, on, decision, only_logs: self.config.only_logs, reason, ms }
    }
}
