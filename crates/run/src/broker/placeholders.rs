//! Placeholders in an execution's requests: which ones it may use, and which servers may get their values.
//!
//! The value of a placeholder is data of the servers that the run which produced it had read from. Restoring it sends
//! that data: the rules decide first, and from then on the execution holds the data. Values are restored only in
//! arguments of tools and prompts. Elsewhere a placeholder would reach a server unchanged, and the server could place
//! it in a page, so it is refused.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{Broker, arguments, policy};
use crate::session::Session;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::principal::Principal;
use base::task;
use catalog::manifest::ServerEntry;
use redact::{Outgoing, PlaceholderWriter, Redaction, Restored, Results, Surface};
use upstream::{Caller, Level, LogEntry, Question, Speaker, Step, TraceContext};

impl Broker {
    /// Writer of placeholders for this execution's answers, if they are on.
    pub fn placeholder_writer(&self) -> Option<PlaceholderWriter<'_>> {
        self.run.placeholders.as_ref().map(|_| self.context.session.placeholders().writer(self.taint.now().labels))
    }

    /// A text without the values that took the place of placeholders before.
    pub(super) fn without_restored(&self, text: &str) -> String {
        task::work_on(text.len(), || self.outgoing(Surface::Output(Results::Secrets), text))
    }

    /// A text as it may go there, with placeholders if they are on.
    pub(super) fn outgoing(&self, surface: Surface, text: &str) -> String {
        redact::text(surface.with_placeholders(self.placeholder_writer().as_ref()), text).into_owned()
    }

    /// Redaction of a server's text.
    pub(super) fn arriving(&self, surface: Surface) -> Redaction<'_> {
        surface.arriving(self.context.session.placeholders())
    }

    /// Admits the placeholders in a kept value: an earlier script of the agent wrote them, or the gateway did when it
    /// stored a result.
    pub(super) fn reads_kept(&self, text: &str) {
        if let Some(mentions) = &self.run.placeholders {
            mentions.lock().add(text);
        }
    }

    /// Replaces placeholders in arguments by values that may go to `server`. The execution then holds data of their
    /// servers.
    pub(super) fn restore_placeholders(&self, server: &str, args: &str) -> Result<Option<Restored>> {
        let most = self.context.limits.args_bytes;
        arguments::small_enough(args, most)?;
        let Some(mentions) = &self.run.placeholders else { return Ok(None) };
        // A script gets placeholders as they are: its own calls have their values.
        if self.context.catalog.server(server).is_ok_and(ServerEntry::is_scripts) {
            return Ok(None);
        }
        let back = {
            let mentions = mentions.lock();
            self.context.session.placeholders().restore(args, &mentions, most)?
        };
        if let Some(back) = &back {
            let entry = self.context.catalog.server(server)?;
            policy::release(&self.context.policy.rules, &self.taint.now(), &entry.name, &back.origins)?;
            self.taint.take_in("a placeholder", &back.origins)?;
            // Once they may go there: a length tells of a value too.
            arguments::small_enough(&back.args, most)?;
        }
        Ok(back)
    }

    /// The client as the called server may reach it.
    pub(super) fn reachable(&self, caller: &Arc<dyn Caller>) -> Arc<dyn Caller> {
        match &self.run.placeholders {
            Some(_) => Arc::new(Hiding { caller: Arc::clone(caller), session: Arc::clone(&self.context.session) }),
            None => Arc::clone(caller),
        }
    }

    /// Refuses placeholders where none are restored.
    ///
    /// # Errors
    /// `INVALID_ARGS` when `text` has one of this session.
    pub(super) fn without_placeholders(&self, what: &str, text: &str) -> Result<()> {
        match self.run.placeholders.as_ref().and_then(|_| self.context.session.placeholders().first_in(text)) {
            None => Ok(()),
            Some(name) => Err(Error::new(ErrorCode::InvalidArgs, format!("{name} is not put back in {what}"))
                .hint("values take the place of placeholders in the arguments of tools and prompts only")),
        }
    }
}

/// The client of a call. The server's questions and log entries do not show it restored values.
struct Hiding {
    caller: Arc<dyn Caller>,
    session: Arc<Session>,
}

impl Hiding {
    /// Words of a server, as the client may see them.
    fn hidden<T: Outgoing>(&self, server: &str, said: T) -> T {
        let placeholder_writer = self.session.placeholders().writer(Labels::from([server.to_owned()]));
        said.redacted(Surface::Output(Results::Secrets).with_placeholders(Some(&placeholder_writer)))
    }
}

#[async_trait]
impl Caller for Hiding {
    fn principal(&self) -> &Principal {
        self.caller.principal()
    }

    fn abilities(&self) -> Value {
        self.caller.abilities()
    }

    async fn ask(&self, speaker: Speaker<'_>, question: Question) -> Result<Value> {
        let question = match speaker {
            Speaker::Server(server) => Question {
                params: self.hidden(server, question.params),
                name: question.name.map(|name| self.hidden(server, name)),
                ..question
            },
            Speaker::Gateway => question,
        };
        self.caller.ask(speaker, question).await
    }

    fn log_level(&self) -> Option<Level> {
        self.caller.log_level()
    }

    fn log(&self, server: &str, entry: LogEntry) {
        let logger = entry.logger.map(|logger| self.hidden(server, logger));
        self.caller.log(server, LogEntry { data: self.hidden(server, entry.data), logger, ..entry });
    }

    fn trace(&self) -> Option<TraceContext> {
        self.caller.trace()
    }

    fn progress(&self, step: Step) {
        self.caller.progress(step);
    }
}

/// Replaces restored values in an error about the arguments.
pub(super) fn hidden(back: &Option<Restored>, error: Error) -> Error {
    match back {
        Some(back) => back.hide(error),
        None => error,
    }
}
