//! A hook that is a program: a line for each question and each answer, with the same `id`, in any order.
//!
//! It is started with its first question. It is ended, and started again with a later question, when it breaks the
//! protocol, or when a question got no answer in time and no other did either.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::process::{Process, Stdin};
use crate::program::{self, Started};
use crate::stderr::Stderr;
use base::error::{Error, ErrorCode, Result};
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
    pub(super) name: String,
    pub(super) transport: Transport,
    pub(super) sandbox: Option<Confinement>,
    pub(super) stderr: Stderr,
    pub(super) state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    running: Option<Arc<Running>>,
    /// Time of the last start.
    began: Option<Instant>,
    /// Starts without an answer since the last one.
    in_vain: u32,
    /// Why the last process is no more.
    why: String,
}

/// A process that was started.
struct Running {
    lines: mpsc::Sender<Vec<u8>>,
    inbox: Arc<Inbox>,
    _tasks: [Task; 2],
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
    /// Dropping it ends it.
    process: Option<Process>,
    /// Why it answers no more.
    ended: Option<String>,
}

#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

impl Program {
    pub(super) async fn ask(&self, question: &str) -> Result<Vec<u8>, String> {
        let running = self.running().await?;
        let (id, answer) = running.inbox.expect();
        let _waiting = scopeguard::guard((), |()| drop(running.inbox.0.lock().waiting.remove(&id)));
        let line = format!("{{\"id\":{id},{}\n", question.strip_prefix('{').unwrap_or(question));
        // Where the writer has ended, the reader tells why.
        let _ = running.lines.send(line.into_bytes()).await;
        let told = answer.await;
        told.map_err(|_| running.inbox.0.lock().ended.clone().unwrap_or_default())
    }

    /// Ends the process if it has answered nothing since then.
    pub(super) fn end_if_quiet_since(&self, asked: Instant) {
        // While it is being started, there is none.
        let Ok(state) = self.state.try_lock() else { return };
        if let Some(running) = &state.running
            && running.inbox.0.lock().quiet_since < asked
        {
            tracing::warn!(hook = self.name, "its process is ended: it answers nothing");
            running.inbox.end("its process was ended, since it answered nothing".to_owned());
        }
    }

    /// The process, which is started if none runs.
    async fn running(&self) -> Result<Arc<Running>, String> {
        let mut state = self.state.lock().await;
        if let Some(running) = state.running.clone() {
            let questions = running.inbox.0.lock();
            let Some(why) = questions.ended.clone() else {
                drop(questions);
                return Ok(running);
            };
            let in_vain = if questions.has_answered { 0 } else { state.in_vain + 1 };
            *state = State { running: None, why, in_vain, ..*state };
        }
        let pause = PAUSE * (1 << state.in_vain.min(DOUBLINGS));
        let begin = state.began.map_or_else(Instant::now, |began| began + pause);
        if let Some(rest) = begin.checked_duration_since(Instant::now() + PATIENCE) {
            return Err(format!("{}; it is started again in {} s", state.why, (rest + PATIENCE).as_secs() + 1));
        }
        sleep_until(begin).await;
        state.began = Some(Instant::now());
        match self.start().await {
            Ok(running) => Ok(Arc::clone(state.running.insert(Arc::new(running)))),
            Err(error) => {
                tracing::warn!(hook = self.name, %error, "it did not start");
                (state.in_vain, state.why) = (state.in_vain + 1, error.message);
                Err(state.why.clone())
            }
        }
    }

    async fn start(&self) -> Result<Running> {
        let Transport::Stdio { command, args, env, cwd } = &self.transport else {
            return Err(Error::new(ErrorCode::Internal, "it is no program"));
        };
        let env = secrets::resolve(env).await?;
        let (name, cwd, sandbox) = (self.name.as_str(), cwd.as_deref(), self.sandbox.as_ref());
        let program = program::Program { name, program: command, args, env: env.values(), cwd, sandbox };
        let Started { stdin, stdout, process } = program.start(&self.stderr).await?;
        let (lines, questions) = mpsc::channel(limits::HOOK_QUESTIONS.max);
        let inbox = Arc::new(Inbox(Mutex::new(Questions {
            waiting: HashMap::new(),
            asked: 0,
            quiet_since: Instant::now() + LOADING,
            has_answered: false,
            process: Some(process),
            ended: None,
        })));
        let reading = read(stdout, Arc::clone(&inbox), self.name.clone(), self.stderr.clone());
        let tasks = [Task::spawn(write(stdin, questions)), Task::spawn(reading)];
        Ok(Running { lines, inbox, _tasks: tasks, _env: env })
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
    let most = limits::HOOK_ANSWER.max;
    let why = loop {
        let taken = match lines::next(&mut stdout, most).await {
            Some(Line::Whole(line)) => inbox.take(line),
            Some(Line::Skipped { bytes, .. }) => {
                Err(format!("it answered with {bytes} bytes, over the limit of {most}"))
            }
            None => Err("its process ended".to_owned()),
        };
        if let Err(why) = taken {
            break why;
        }
    };
    inbox.end(why.clone());
    let error = stderr.with_last_words(Error::new(ErrorCode::TransportDead, why)).await;
    tracing::warn!(hook, "{}; {}", error.message, error.hint.unwrap_or_default());
}

impl Inbox {
    /// Expects the answer to one more question; of a process that has ended none comes.
    fn expect(&self) -> (u64, oneshot::Receiver<Vec<u8>>) {
        let mut questions = self.0.lock();
        let (tell, told) = oneshot::channel();
        questions.asked += 1;
        let id = questions.asked;
        if questions.ended.is_none() {
            questions.waiting.insert(id, tell);
        }
        (id, told)
    }

    /// Takes an answer. One to a question that was given up is late.
    fn take(&self, line: Vec<u8>) -> Result<(), String> {
        let numbered = task::work_on(line.len(), || serde_json::from_slice::<Numbered>(&line));
        let Numbered { id } =
            numbered.map_err(|_| "it answered with what is no JSON object with the `id` of its question".to_owned())?;
        let mut questions = self.0.lock();
        if id == 0 || id > questions.asked {
            return Err(format!("it answered to the question {id}, which was not asked"));
        }
        (questions.quiet_since, questions.has_answered) = (Instant::now(), true);
        // The question may be given up at this moment.
        questions.waiting.remove(&id).map(|tell| tell.send(line));
        Ok(())
    }

    /// Ends it for all its questions; the first reason counts.
    fn end(&self, why: String) {
        let mut questions = self.0.lock();
        questions.ended.get_or_insert(why);
        questions.process = None;
        questions.waiting.clear();
    }
}
