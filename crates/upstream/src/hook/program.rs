//! A hook that is a program: a line for each question and each answer, with the same `id`, in any order.
//!
//! It is started with its first question. It is ended, and started again with a later question, when it breaks the
//! protocol, or when a question got no answer in time and no other did either.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::process::{Process, Stdin};
use crate::program::{self, Started};
use crate::stderr::Stderr;
use base::error::{Error, ErrorCode};
use base::limits;
use base::lines::{self, Line};
use base::task::{self, Task};
use config::secrets::{self, Resolved};
use config::{Confinement, Transport};

/// Pause between two starts of a program that answers; each start after which it answers nothing doubles it.
const PAUSE: Duration = Duration::from_millis(100);
/// Most doublings.
const DOUBLINGS: u32 = 8;
/// Longest rest of a pause that questions wait for.
const PATIENCE: Duration = Duration::from_millis(400);
/// Time after the start in which a program may be silent, as while it loads a model.
const LOADING: Duration = Duration::from_secs(60);

pub(super) struct Program {
    settings: Arc<Settings>,
    state: Mutex<State>,
}

struct Settings {
    name: String,
    transport: Transport,
    sandbox: Option<Confinement>,
    stderr: Stderr,
}

#[derive(Default)]
struct State {
    current: Option<Starting>,
    /// Time of the last start.
    began: Option<Instant>,
    /// Starts without an answer since the last one.
    in_vain: u32,
    /// Why the last process is no more.
    why: Option<String>,
}

/// A process that runs, or is being started.
type Starting = Shared<BoxFuture<'static, Result<Arc<Running>, String>>>;

/// A running process. Dropping it ends it.
struct Running {
    lines: mpsc::Sender<Vec<u8>>,
    inbox: Arc<Inbox>,
    _tasks: [Task; 2],
    _process: Process,
    /// Keeps its secrets redacted.
    _env: Resolved,
}

/// Questions of one process that wait for their answers.
struct Inbox(Mutex<Questions>);

struct Questions {
    waiting: HashMap<u64, oneshot::Sender<Vec<u8>>>,
    asked: u64,
    /// Time of its last answer, or before the first one, up to which it may load.
    quiet_since: Instant,
    has_answered: bool,
    /// Why it answers no more.
    ended: Option<String>,
}

#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

impl Program {
    pub(super) fn new(name: &str, transport: Transport, sandbox: Option<Confinement>) -> Self {
        let (name, stderr) = (format!("hook {name}"), Stderr::default());
        Self { settings: Arc::new(Settings { name, transport, sandbox, stderr }), state: Mutex::default() }
    }

    pub(super) fn stderr(&self) -> &Stderr {
        &self.settings.stderr
    }

    pub(super) async fn ask(&self, question: &str) -> Result<Vec<u8>, String> {
        let running = self.running()?.await?;
        let (id, answer) = running.inbox.expect()?;
        let _waiting = Waiting { inbox: &running.inbox, id };
        let line = format!("{{\"id\":{id},{}\n", question.strip_prefix('{').unwrap_or(question));
        let answer = match running.lines.send(line.into_bytes()).await {
            Ok(()) => answer.await.ok(),
            Err(_) => None,
        };
        answer.ok_or_else(|| {
            self.end(&running, "its process ended");
            running.inbox.ended().unwrap_or_default()
        })
    }

    /// Ends the process if it has answered nothing since then.
    pub(super) fn end_if_quiet_since(&self, asked: Instant) {
        let current = self.state.lock().current.clone();
        if let Some(Ok(running)) = current.as_ref().and_then(Shared::peek)
            && running.inbox.0.lock().quiet_since < asked
        {
            tracing::warn!(hook = self.settings.name, "its process is ended: it answers nothing");
            self.end(running, "its process was ended, since it answered nothing");
        }
    }

    /// Ends a process, as all its questions are told.
    fn end(&self, running: &Arc<Running>, why: &str) {
        running.inbox.end(why.to_owned());
        let mut state = self.state.lock();
        let is_current = state.current.as_ref().and_then(Shared::peek);
        if is_current.and_then(|now| now.as_ref().ok()).is_some_and(|now| Arc::ptr_eq(now, running)) {
            state.failed(running.inbox.has_answered(), running.inbox.ended());
        }
    }

    /// The process, which is started if none runs.
    fn running(&self) -> Result<Starting, String> {
        let mut state = self.state.lock();
        let current = state.current.clone();
        let failed = match current.as_ref().map(|current| (current, current.peek())) {
            None => None,
            Some((_, Some(Ok(running)))) if running.inbox.ended().is_some() => {
                Some((running.inbox.has_answered(), running.inbox.ended()))
            }
            Some((_, Some(Err(error)))) => Some((false, Some(error.clone()))),
            Some((current, _)) => return Ok(current.clone()),
        };
        if let Some((has_answered, why)) = failed {
            state.failed(has_answered, why);
        }
        let pause = PAUSE * (1 << state.in_vain.min(DOUBLINGS));
        let begin = state.began.map_or_else(Instant::now, |began| began + pause);
        if let Some(rest) = begin.checked_duration_since(Instant::now() + PATIENCE) {
            let why = state.why.clone().unwrap_or_default();
            return Err(format!("{why}; it is started again in {} s", (rest + PATIENCE).as_secs() + 1));
        }
        state.began = Some(begin.max(Instant::now()));
        let settings = Arc::clone(&self.settings);
        // Goes on when the question that began it is given up.
        let started = tokio::spawn(async move {
            sleep_until(begin).await;
            settings.start().await.map(Arc::new).map_err(|error| {
                tracing::warn!(hook = settings.name, %error, "it did not start");
                error.message
            })
        });
        let started = async { started.await.unwrap_or_else(|error| Err(error.to_string())) };
        Ok(state.current.insert(started.boxed().shared()).clone())
    }
}

impl State {
    /// Notes that there is no process any more.
    fn failed(&mut self, has_answered: bool, why: Option<String>) {
        self.in_vain = if has_answered { 0 } else { self.in_vain + 1 };
        (self.current, self.why) = (None, why);
    }
}

impl Settings {
    async fn start(&self) -> Result<Running, Error> {
        let Transport::Stdio { command, args, env, cwd } = &self.transport else {
            return Err(Error::new(ErrorCode::Internal, "no program"));
        };
        let env = secrets::resolve(env).await?;
        let (name, cwd, sandbox) = (self.name.as_str(), cwd.as_deref(), self.sandbox.as_ref());
        let program = program::Program { name, program: command, args, env: env.values(), cwd, sandbox };
        let Started { stdin, stdout, process } = program.start(&self.stderr).await?;
        let (lines, questions) = mpsc::channel(limits::HOOK_QUESTIONS.max);
        let inbox = Arc::new(Inbox::new());
        let reading = read(stdout, Arc::clone(&inbox), self.name.clone(), self.stderr.clone());
        let tasks = [Task::spawn(write(stdin, questions)), Task::spawn(reading)];
        Ok(Running { lines, inbox, _tasks: tasks, _process: process, _env: env })
    }
}

/// Writes whole lines: a question that is given up does not cut its line.
async fn write(stdin: Stdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        let mut stdin = stdin.lock().await;
        let Some(stdin) = stdin.as_mut() else { return };
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(mut stdout: BufReader<ChildStdout>, inbox: Arc<Inbox>, hook: String, stderr: Stderr) {
    let why = loop {
        match lines::next(&mut stdout, limits::HOOK_ANSWER.max).await {
            Some(Line::Whole(line)) => match inbox.take(line) {
                Ok(()) => {}
                Err(why) => break why,
            },
            Some(Line::Skipped { bytes, .. }) => {
                break format!("it answered with {bytes} bytes, over the limit of {}", limits::HOOK_ANSWER.max);
            }
            None => break "its process ended".to_owned(),
        }
    };
    inbox.end(why.clone());
    let error = stderr.with_last_words(Error::new(ErrorCode::TransportDead, why)).await;
    tracing::warn!(hook, "{}; {}", error.message, error.hint.unwrap_or_default());
}

impl Inbox {
    fn new() -> Self {
        let quiet_since = Instant::now() + LOADING;
        Self(Mutex::new(Questions { waiting: HashMap::new(), asked: 0, quiet_since, has_answered: false, ended: None }))
    }

    /// Expects the answer to one more question.
    fn expect(&self) -> Result<(u64, oneshot::Receiver<Vec<u8>>), String> {
        let mut questions = self.0.lock();
        if let Some(why) = &questions.ended {
            return Err(why.clone());
        }
        let (tell, told) = oneshot::channel();
        questions.asked += 1;
        let id = questions.asked;
        questions.waiting.insert(id, tell);
        Ok((id, told))
    }

    /// Takes an answer. One to a question that was given up is late.
    fn take(&self, line: Vec<u8>) -> Result<(), String> {
        let numbered = task::work_on(line.len(), || serde_json::from_slice::<Numbered>(&line));
        let Ok(Numbered { id }) = numbered else {
            return Err("it answered with what is no JSON object with the `id` of its question".to_owned());
        };
        let mut questions = self.0.lock();
        if id == 0 || id > questions.asked {
            return Err(format!("it answered to the question {id}, which was not asked"));
        }
        (questions.quiet_since, questions.has_answered) = (Instant::now(), true);
        if let Some(tell) = questions.waiting.remove(&id) {
            // The question may be given up at this moment.
            let _ = tell.send(line);
        }
        Ok(())
    }

    fn ended(&self) -> Option<String> {
        self.0.lock().ended.clone()
    }

    fn has_answered(&self) -> bool {
        self.0.lock().has_answered
    }

    /// Ends it for all its questions; the first reason counts.
    fn end(&self, why: String) {
        let mut questions = self.0.lock();
        questions.ended.get_or_insert(why);
        questions.waiting.clear();
    }
}

/// A question that waits, until it is dropped.
struct Waiting<'i> {
    inbox: &'i Inbox,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inbox.0.lock().waiting.remove(&self.id);
    }
}
