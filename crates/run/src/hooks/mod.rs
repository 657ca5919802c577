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
use serde_json::{Map, Value};

use base::labels::Labels;
use base::limits;
use base::memory;
use base::task;
use config::{Config, HookEvent, Matcher};
use state::audit::HookRecord;

pub(crate) use decision::{Decision, words};
pub(crate) use replacing::Replacements;

/// Hooks in force, in the order of their names.
#[derive(Clone, Default)]
pub struct Hooks(Arc<[Arc<Hook>]>);

/// A hook in force.
pub struct Hook {
    /// Its name.
    pub name: String,
    config: config::Hook,
    servers: Option<Matcher>,
    asks: upstream::hook::Hook,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|hook| &hook.name)).finish()
    }
}

impl Hooks {
    /// Those of a configuration. One that is the same as `before` goes on.
    #[must_use]
    pub fn new(config: &Config, before: &Self) -> Self {
        let hook = |(name, config): (&String, &config::Hook)| {
            let known = before.0.iter().find(|hook| (&hook.name, &hook.config) == (name, config));
            known.cloned().unwrap_or_else(|| Arc::new(Hook::new(name, config)))
        };
        Self(config.hooks.iter().map(hook).collect())
    }

    /// These, and those of `others` that are not among them.
    #[must_use]
    pub(crate) fn and(&self, others: &Self) -> Vec<Arc<Hook>> {
        let is_new = |other: &&Arc<Hook>| !self.0.iter().any(|hook| Arc::ptr_eq(hook, other));
        self.0.iter().chain(others.0.iter().filter(is_new)).cloned().collect()
    }

    /// Asks each about a call that no server has, for `forgefs doctor`: its name, and how long its decision took, or why
    /// there is none.
    pub async fn probe(&self) -> Vec<(String, Result<f64, String>)> {
        let probe = async |hook: &Arc<Hook>| {
            let about = Subject { server: Some("forgefs"), tool: Some("doctor"), ..Subject::default() };
            let question = Question { run: "doctor", client: "doctor", is_probe: true, about, ..Question::default() };
            let heard = hook.ask(HookEvent::Call, &question).await;
            let said = || hook.asks.stderr().map(|stderr| stderr.text()).unwrap_or_default();
            let why = |why: String| match said().lines().next_back() {
                Some(last) => format!("{why}; its stderr ends with: {last}"),
                None => why,
            };
            (hook.name.clone(), heard.decision.map(|_| heard.ms).map_err(why))
        };
        join_all(self.0.iter().map(probe)).await
    }
}

/// What a question is about, by its event.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Subject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<&'a str>,
    /// `read`, `write` or `destructive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<&'a str>,
    /// The script that calls, if it is a tool itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Arguments<'a>>,
    /// The answer, as the script gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<&'a Value>,
    /// True if the answer is the server's error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'a str>,
    /// Tools that the script names, `SERVER.TOOL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<&'a [String]>,
    /// False if it may call others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names_all: Option<bool>,
    /// About how many bytes it has.
    #[serde(skip)]
    pub(crate) size: usize,
}

/// Arguments of a call.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum Arguments<'a> {
    /// Of a tool, a prompt or a completion.
    Named(&'a Map<String, Value>),
    /// The URI of a resource.
    Uri(&'a str),
}

/// A question; the hook and the event are added for each.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) run: &'a str,
    /// The client, by the name of its token; `local` is this machine's user.
    pub(crate) client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<&'a str>,
    #[serde(rename = "dry_run", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_dry: bool,
    #[serde(rename = "probe", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_probe: bool,
    /// Servers whose data the run holds.
    pub(crate) labels: Option<&'a Labels>,
    #[serde(flatten)]
    pub(crate) about: Subject<'a>,
}

#[derive(Serialize)]
struct Asked<'a> {
    hook: &'a str,
    on: &'static str,
    #[serde(flatten)]
    question: &'a Question<'a>,
}

/// What came of a question.
pub(crate) struct Heard {
    /// The decision, or why there is none.
    pub(crate) decision: Result<Decision, String>,
    /// Time that it took in milliseconds.
    pub(crate) ms: f64,
}

impl Hook {
    fn new(name: &str, config: &config::Hook) -> Self {
        let servers = config.servers.as_ref().map(config::Patterns::matcher);
        Self { name: name.to_owned(), config: config.clone(), servers, asks: upstream::hook::Hook::new(name, config) }
    }

    /// True if it decides about this event of any of these servers, or if not all are known.
    pub(crate) fn covers<'s>(&self, on: HookEvent, mut servers: impl Iterator<Item = &'s str>, are_all: bool) -> bool {
        let is_its = |matcher: &Matcher| !are_all || servers.any(|server| matcher.is_match(server));
        self.config.on.contains(&on) && self.servers.as_ref().is_none_or(is_its)
    }

    /// True if its decisions are only recorded.
    pub(crate) fn only_logs(&self) -> bool {
        self.config.only_logs
    }

    /// True if what it does not decide about goes on.
    pub(crate) fn fails_open(&self) -> bool {
        self.config.fails_open
    }

    /// Asks it.
    pub(crate) async fn ask(&self, on: HookEvent, question: &Question<'_>) -> Heard {
        let began = Instant::now();
        let decision = self.decision(on, question).await;
        Heard { decision, ms: (began.elapsed().as_micros() as f64) / 1000.0 }
    }

    async fn decision(&self, on: HookEvent, question: &Question<'_>) -> Result<Decision, String> {
        let asked = Asked { hook: &self.name, on: on.as_str(), question };
        let text = task::work_on(question.about.size, || serde_json::to_string(&asked));
        let text = text.map_err(|error| error.to_string())?;
        let (size, most) = (text.len(), limits::HOOK_QUESTION.max);
        if size > most {
            return Err(format!("it was not asked: the question has {size} bytes, over the limit of {most}"));
        }
        let room = async || memory::ANSWERS.wait_for(size).await.map_err(|full| full.to_string());
        let _room = if size > memory::SMALL { Some(room().await?) } else { None };
        let answer = self.asks.ask(&text).await?;
        task::work_on(answer.len(), || Decision::read(&answer, on))
    }

    /// The record of what it said.
    pub(crate) fn record(&self, on: HookEvent, heard: &Heard) -> HookRecord {
        let (decision, reason, replaced) = match &heard.decision {
            Ok(Decision::Allow) => ("allow", None, 0),
            Ok(Decision::Replace(texts)) => ("replace", None, texts.count()),
            Ok(Decision::Deny(reason)) => ("deny", Some(words(reason)), 0),
            Ok(Decision::Ask(question)) => ("ask", Some(words(question)), 0),
            Err(why) => ("none", Some(why.clone()), 0),
        };
        HookRecord {
            hook: self.name.clone(),
            on: on.as_str().to_owned(),
            decision: decision.to_owned(),
            only_logs: self.config.only_logs,
            replaced,
            reason,
            ms: heard.ms,
        }
    }
}
