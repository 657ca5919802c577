//! Hooks: programs and services of the operator's own that are asked about calls, with one JSON object each time, and
//! answer with another.
//!
//! No more than [`limits::HOOK_QUESTIONS`] questions to a hook are under way; others wait, which counts for their timeout.

mod program;
mod service;

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::program::Program;
use self::service::Service;
use crate::stderr::Stderr;
use base::limits;
use config::Transport;

/// A hook.
pub struct Hook {
    place: Place,
    timeout: Duration,
    turns: Semaphore,
}

enum Place {
    Program(Box<Program>),
    Service(Box<Service>),
    /// No hook has this transport.
    Nowhere,
}

impl Hook {
    /// A hook as it is configured. It is started, or reached, with its first question.
    pub fn new(name: &str, hook: &config::Hook) -> Self {
        let place = match &hook.transport {
            Transport::Stdio { .. } => Place::Program(Box::new(Program {
                name: format!("hook {name}"),
                transport: hook.transport.clone(),
                sandbox: hook.sandbox.clone(),
                stderr: Stderr::default(),
                state: tokio::sync::Mutex::default(),
            })),
            Transport::Http { url, headers, .. } => Place::Service(Box::new(Service::new(url, headers.clone()))),
            Transport::OpenApi { .. } => Place::Nowhere,
        };
        Self { place, timeout: hook.timeout, turns: Semaphore::new(limits::HOOK_QUESTIONS.max) }
    }

    /// Asks a question, which is the text of a JSON object that is not empty; returns the text of the answer.
    ///
    /// # Errors
    /// Says why there is none, without words of the hook.
    pub fn ask<'a>(&'a self, question: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        let answer = async move {
            let asked = Instant::now();
            let answer = async {
                let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
                match &self.place {
                    Place::Program(program) => program.ask(question).await,
                    Place::Service(service) => service.ask(question).await,
                    Place::Nowhere => Err("it is neither a program nor a service".to_owned()),
                }
            };
            if let Ok(answer) = tokio::time::timeout(self.timeout, answer).await {
                return answer;
            }
            if let Place::Program(program) = &self.place {
                program.end_if_quiet_since(asked);
            }
            Err(format!("it gave no answer within {:?}", self.timeout))
        };
        // What it awaits is deep, and its callers are too.
        answer.boxed()
    }

    /// Stderr of its process, for the operator; `None` for a service.
    pub fn stderr(&self) -> Option<&Stderr> {
        match &self.place {
            Place::Program(program) => Some(&program.stderr),
            Place::Service(_) | Place::Nowhere => None,
        }
    }
}
