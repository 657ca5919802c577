//! Traffic between a server and its client during a call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use stubgen::one_line;
use tokio::sync::watch;

use super::caller::{Ask, Caller, LogEntry, Question, Speaker, TraceContext};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::memory::Reservation;
use base::pause::Pause;
use base::text::head;
use config::{Relay, Relays};
use redact::{Results, Surface};

/// Most bytes of a server's message that are forwarded.
const MAX_MESSAGE: usize = 300;

/// Progress of one call. It reports to the client, can be watched by those who wait for the call, and carries the
/// server's questions and log entries to the client.
#[derive(Clone, Default)]
pub struct Progress {
    reports: watch::Sender<Report>,
    made_for: Option<MadeFor>,
    /// Questions of the server that are forwarded.
    pub relays: Relays,
    /// Questions of the server so far.
    asked: Arc<AtomicUsize>,
    pause: Arc<Pause>,
    refused: Arc<Mutex<Option<String>>>,
    /// Trace context for the server.
    pub trace: Option<Arc<TraceContext>>,
    /// Reservation for the answer's memory.
    pub room: ReservedMemory,
    /// Number of the call in its run, and its digest.
    call: Option<(u64, Digest)>,
    /// The task that the server made for the call.
    task: Arc<Mutex<Option<String>>>,
    /// Writes down the id of such a task.
    note: Option<TaskNote>,
}

/// Writes down the id of a task that a server has made of a call.
pub type TaskNote = Arc<dyn Fn(&str) + Send + Sync>;

/// A digest that is made when a question needs it: few calls have one.
type Digest = Arc<dyn Fn() -> String + Send + Sync>;

/// Memory reserved for an answer, as long as any clone lives.
#[derive(Clone, Default)]
pub struct ReservedMemory(Arc<Mutex<Vec<Reservation>>>);

impl ReservedMemory {
    /// Reserves more.
    pub fn hold(&self, room: Reservation) {
        self.0.lock().push(room);
    }
}

#[derive(Clone)]
struct MadeFor {
    caller: Arc<dyn Caller>,
    server: String,
}

/// A progress report of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Grows with each report.
    pub progress: f64,
    /// Final value of `progress`, if the server knows it.
    pub total: Option<f64>,
    /// The server's message.
    pub message: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A task has words and no number.
        match &self.message {
            Some(message) if self.progress == 0.0 && self.total.is_none() => {
                return f.write_str(head(&one_line(message), MAX_MESSAGE));
            }
            _ => write!(f, "{}", self.progress)?,
        }
        if let Some(total) = self.total {
            write!(f, "/{total}")?;
        }
        match &self.message {
            Some(message) => write!(f, " {}", head(&one_line(message), MAX_MESSAGE)),
            None => Ok(()),
        }
    }
}

impl Progress {
    /// Progress of a call to `server` on behalf of `caller`. `pause` stops the clock while the caller is asked
    /// something.
    pub fn made_for(caller: Arc<dyn Caller>, server: &str, pause: Arc<Pause>) -> Self {
        let made_for = Some(MadeFor { caller, server: server.to_owned() });
        Self { made_for, pause, ..Self::default() }
    }

    /// Sets the number of the call in its run, and its digest.
    #[must_use]
    pub fn of_call(self, number: u64, digest: Digest) -> Self {
        Self { call: Some((number, digest)), ..self }
    }

    /// Number of the call in its run.
    pub fn call(&self) -> Option<u64> {
        self.call.as_ref().map(|(number, _)| *number)
    }

    /// Digest of the call.
    pub fn about(&self) -> String {
        self.call.as_ref().map_or_else(String::new, |(_, digest)| digest())
    }

    /// Has the id of a task that the server makes for the call written down by `note`; `known` is the one that it has made
    /// before, and is asked for the result.
    #[must_use]
    pub fn of_task(self, known: Option<String>, note: Option<TaskNote>) -> Self {
        Self { task: Arc::new(Mutex::new(known)), note, ..self }
    }

    /// Id of the task that the server has made for the call.
    pub fn task(&self) -> Option<String> {
        self.task.lock().clone()
    }

    /// Notes the task that the server has made for the call.
    pub fn made_task(&self, id: &str) {
        let known = self.task.lock().replace(id.to_owned());
        if let Some(note) = self.note.as_ref().filter(|_| known.as_deref() != Some(id)) {
            note(id);
        }
    }

    /// Forgets a task that is gone: the call is made again.
    pub fn forget_task(&self) {
        *self.task.lock() = None;
    }

    /// Reports to all watchers.
    pub fn report(&self, report: Report) {
        self.reports.send_replace(report);
    }

    /// Reports that the server is at work, with its words for what it does.
    pub fn is_alive(&self, words: Option<&str>) {
        self.reports.send_modify(|last| last.message = words.map(str::to_owned).or(last.message.take()));
    }

    /// Watches further reports; one that is replaced before it is read is lost.
    pub fn watch(&self) -> watch::Receiver<Report> {
        self.reports.subscribe()
    }

    /// Client capabilities that the server may be told of.
    pub fn abilities(&self) -> Option<Value> {
        let mut abilities = self.caller()?.abilities();
        if let Value::Object(offered) = &mut abilities {
            offered.retain(|ability, _| match ability.as_str() {
                "elicitation" => self.relays.elicitation == Relay::Ask,
                "sampling" => self.relays.sampling == Relay::Ask,
                _ => true,
            });
        }
        Some(abilities)
    }

    /// The client behind the call, if any.
    pub fn caller(&self) -> Option<&Arc<dyn Caller>> {
        self.made_for.as_ref().map(|made_for| &made_for.caller)
    }

    /// Time that does not count for the call.
    pub fn pause(&self) -> &Arc<Pause> {
        &self.pause
    }

    /// Asks the client a question of the server.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` without a client to ask, or without an answer; [`Progress::refusal`] keeps it.
    pub async fn ask(&self, question: Question) -> Result<Value> {
        let method = question.ask.method();
        let answer = match (&self.made_for, self.admit(question.ask)) {
            (Some(MadeFor { caller, server }), Ok(())) => {
                let _held = self.pause.hold();
                let params = redact::json(Surface::Output(Results::Secrets), question.params);
                let name = question.name.filter(|name| is_plain(name));
                caller.ask(Speaker::Server(server), Question { params, name, ..question }).await
            }
            (Some(_), Err(refused)) => Err(refused),
            (None, _) => Err(denied("no client is connected that could be asked")),
        };
        if let Err(error) = &answer {
            self.refuse(method, &error.message);
        }
        answer
    }

    /// Notes why a question of the server stays unanswered.
    pub fn refuse(&self, method: &str, why: &str) {
        *self.refused.lock() = Some(format!("the server asked for `{method}`: {why}"));
    }

    /// Counts a question, and refuses those not configured or over the limit.
    fn admit(&self, ask: Ask) -> Result<()> {
        let (relay, key) = match ask {
            Ask::Elicitation => (self.relays.elicitation, "elicitation"),
            Ask::Sampling => (self.relays.sampling, "sampling"),
            Ask::Roots => (Relay::Ask, ""),
        };
        if relay == Relay::Never {
            let hint = format!("`{key} = \"ask\"` of the server in forge.toml passes its questions on");
            return Err(denied("the configuration does not let this server ask").hint(hint));
        }
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        if before < limits::CALL_QUESTIONS.max {
            return Ok(());
        }
        Err(limits::CALL_QUESTIONS.exceeded(ErrorCode::ApprovalDenied, before + 1))
    }

    /// Reason why a question of the server stayed unanswered.
    pub fn refusal(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    /// Forwards a log entry of the server if the client wants it.
    pub fn log(&self, entry: LogEntry) {
        if let Some(MadeFor { caller, server }) = &self.made_for
            && caller.log_level().is_some_and(|level| entry.level >= level)
        {
            // Measured before redaction: a cut could leave half of a secret.
            let size = entry.data.to_string().len() + entry.logger.as_ref().map_or(0, String::len);
            let surface = Surface::Output(Results::Secrets);
            let (logger, data) = match size <= limits::LOG_ENTRY.max {
                true => {
                    let logger = entry.logger.map(|logger| redact::text(surface, &logger).into_owned());
                    (logger, redact::json(surface, entry.data))
                }
                false => (None, json!(limits::LOG_ENTRY.exceeded(ErrorCode::LimitExceeded, size).message)),
            };
            caller.log(server, LogEntry { level: entry.level, logger, data });
        }
    }
}

/// True for a name that may reach a client as it is: short, and without secrets.
fn is_plain(name: &str) -> bool {
    name.len() <= MAX_MESSAGE && redact::text(Surface::Output(Results::Secrets), name) == name
}

fn denied(why: &str) -> Error {
    Error::new(ErrorCode::ApprovalDenied, why)
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("last", &*self.reports.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_of_a_question_and_one_with_a_secret_stay_here() {
        redact::secret::list_token("question-secret-4f1d9c2a");
        let long = "x".repeat(301);
        for (name, is) in [("who", true), ("for question-secret-4f1d9c2a", false), (long.as_str(), false)] {
            assert_eq!(is_plain(name), is, "{name}");
        }
    }
}
