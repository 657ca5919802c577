//! A request with the questions to the client in between. In the revisions with a handshake it is one request and one
//! answer. Since 2026-07-28 the answer may be a question; the client then repeats its request with its answer, and the
//! suspended work continues.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{InputRequests, InputRequiredResult, InputResponses};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::admission::Counter;
use super::caller::{Asked, ClientCaller, PATIENCE};
use super::resources::rpc_error;
use super::waiting::Waiting;
use base::panics;
use base::principal::Principal;
use base::task::Task;
use state::State;
use state::journal::{Answers, run_of};
use upstream::{Caller, Level};

/// Most suspended requests of a session; beyond, the oldest is abandoned. Few of them wait for an answer (see
/// [`Waiting`]): the others have given up their question, and are kept so that the client learns their outcome.
const MAX_SUSPENDED: usize = 64;
/// Most abandoned states that are remembered for errors.
const MAX_GIVEN_UP: usize = 256;
/// Time that a question waits for others, so that concurrent calls share one round.
const GATHER: Duration = Duration::from_millis(10);

/// Suspended requests of a session.
pub(super) struct InputRounds<T>(Arc<Mutex<RoundTable<T>>>);

struct RoundTable<T> {
    suspended: HashMap<String, Suspended<T>>,
    given_up: VecDeque<String>,
}

impl<T> RoundTable<T> {
    /// Ends the request suspended longest, when there are too many.
    fn make_room(&mut self) {
        if self.suspended.len() <= MAX_SUSPENDED {
            return;
        }
        let oldest = self.suspended.iter().min_by_key(|(_, one)| one.since).map(|(state, _)| state.clone());
        if let Some(oldest) = oldest {
            self.suspended.remove(&oldest);
            self.given_up.push_back(oldest);
            if self.given_up.len() > MAX_GIVEN_UP {
                self.given_up.pop_front();
            }
        }
    }
}

impl<T> Default for InputRounds<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(RoundTable { suspended: HashMap::new(), given_up: VecDeque::new() })))
    }
}

struct Suspended<T> {
    running: Running<T>,
    asked: BTreeMap<String, Asked>,
    since: Instant,
    /// True while an answer is being written to the journal: a second one does not count.
    is_answered: bool,
    /// Abandons it after a timeout.
    _patience: Task,
}

/// Work in progress; dropping it ends the work.
struct Running<T> {
    task: JoinHandle<T>,
    questions: mpsc::Receiver<Asked>,
    caller: Arc<ClientCaller>,
    /// Subject of the request, so that another request cannot take over its answer.
    subject: String,
    /// Says when another replica has the client's answers.
    kept: Arc<dyn State>,
    /// Questions so far.
    count: usize,
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reply to the client.
enum Reply<T> {
    Done(T),
    Asks(InputRequiredResult),
}

/// The current request.
pub(super) struct RoundRequest<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
    /// Principal of the request.
    pub(super) principal: Principal,
    /// Least severe log level that the client wants.
    pub(super) level: Option<Level>,
    /// Subject in canonical form.
    pub(super) subject: String,
    /// Waiting requests of the client.
    pub(super) waiting: Waiting,
    /// Answers that it has not read.
    pub(super) unread: Counter,
    /// The client's answers, and the state that it got with the questions.
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
    /// Answers to questions of the run that this request continues.
    pub(super) answers: Option<Answers>,
    /// The gateway's state.
    pub(super) kept: Arc<dyn State>,
}

impl<T: Send + 'static> InputRounds<T> {
    /// Answers a request: starts its work, or resumes it with the client's answers. `start` creates the work, which
    /// ends when the client cancels its request or does not come back; `done` turns its result into the answer.
    ///
    /// # Errors
    /// `-32602` for an unknown state, and the errors of `done`. A cancelled request gets an error too, which is not
    /// sent.
    pub(super) async fn answer<F, R>(
        &self,
        round: RoundRequest<'_>,
        start: impl FnOnce(Arc<dyn Caller>) -> F,
        done: impl FnOnce(T) -> Result<R, ErrorData>,
    ) -> Result<R, ErrorData>
    where
        F: Future<Output = T> + Send + 'static,
        R: From<InputRequiredResult>,
    {
        match Box::pin(self.take(round, start)).await? {
            Reply::Done(result) => done(result),
            Reply::Asks(questions) => Ok(questions.into()),
        }
    }

    /// True while the work of this state is suspended here.
    pub(super) fn holds(&self, state: &str) -> bool {
        self.0.lock().suspended.contains_key(state)
    }

    async fn take<F>(
        &self,
        round: RoundRequest<'_>,
        start: impl FnOnce(Arc<dyn Caller>) -> F,
    ) -> Result<Reply<T>, ErrorData>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (running, asked) = match &round.state {
            Some(state) => {
                let Suspended { running, mut asked, .. } = self.resumed(state, &round.subject)?;
                running.caller.resume(round.context, round.level);
                for (key, response) in round.responses.unwrap_or_default() {
                    if let Some(asked) = asked.remove(&key) {
                        // The work may have given up its question.
                        let _ = asked.answer.send(response);
                    }
                }
                (running, asked)
            }
            None => {
                let RoundRequest { principal, context, level, waiting, unread, answers, kept, .. } = round;
                let (caller, questions) = ClientCaller::new(principal, context, level, (waiting, unread), answers);
                let task = tokio::spawn(start(Arc::<ClientCaller>::clone(&caller)));
                (Running { task, questions, caller, subject: round.subject, kept, count: 0 }, BTreeMap::new())
            }
        };
        tokio::select! {
            reply = self.next(running, asked) => reply,
            // Dropping the other branch ends the work; the answer is no longer wanted.
            () = round.context.ct.cancelled() => Err(ErrorData::internal_error("the client cancelled the request", None)),
        }
    }

    /// Asks what is `asked` and not answered, else waits for the next questions or the end of the work.
    async fn next(&self, mut running: Running<T>, mut asked: BTreeMap<String, Asked>) -> Result<Reply<T>, ErrorData> {
        loop {
            asked.retain(|_, asked| !asked.answer.is_closed());
            if !asked.is_empty() {
                return Ok(self.suspend(running, asked).await);
            }
            let first = tokio::select! {
                biased;
                done = &mut running.task => {
                    running.caller.pause().await;
                    // It panicked: nothing else aborts it here.
                    return done.map(Reply::Done).map_err(|_| rpc_error(&panics::defect()));
                }
                Some(first) = running.questions.recv() => first,
            };
            tokio::time::sleep(GATHER).await;
            let mut next = Some(first);
            while let Some(question) = next {
                running.count += 1;
                // A name from a server is clearer than a number; two servers may use the same name.
                let named = question.name.clone().filter(|name| !asked.contains_key(name));
                asked.insert(named.unwrap_or_else(|| format!("question-{}", running.count)), question);
                next = running.questions.try_recv().ok();
            }
        }
    }

    /// Suspends the work until the client comes back with the state in the answer.
    async fn suspend(&self, running: Running<T>, asked: BTreeMap<String, Asked>) -> Reply<T> {
        running.caller.pause().await;
        let questions: InputRequests = asked.iter().map(|(key, asked)| (key.clone(), asked.request.clone())).collect();
        let state = running.caller.state_for(&running.subject, asked.iter());
        let (all, own) = (Arc::clone(&self.0), state.clone());
        let kept = Arc::clone(&running.kept);
        // Patience may end at once, but not before there is something to abandon.
        let mut table = self.0.lock();
        let patience = Task::spawn(async move {
            // Another replica, which has the answers, goes on with the run from its journal.
            let elsewhere = kept.wanted(run_of(&own));
            let _ = tokio::time::timeout(PATIENCE, elsewhere).await;
            all.lock().suspended.remove(&own);
        });
        let suspended = Suspended { running, asked, since: Instant::now(), is_answered: false, _patience: patience };
        table.suspended.insert(state.clone(), suspended);
        table.make_room();
        drop(table);
        Reply::Asks(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Takes the suspended work of a state whose answers have come, once the journal of its run says so. Where that cannot
    /// be written, the work stays suspended, and the client can answer again.
    fn resumed(&self, state: &str, subject: &str) -> Result<Suspended<T>, ErrorData> {
        let wrong = |why: &str| ErrorData::invalid_params(format!("this requestState is not valid: {why}"), None);
        let unknown = || {
            wrong(
                "it was answered before, is too old, or the gateway has restarted since: make the request anew without it",
            )
        };
        let caller = {
            let mut all = self.0.lock();
            if all.given_up.iter().any(|given_up| given_up == state) {
                let why = format!("the request was given up, since {MAX_SUSPENDED} later ones stand still too");
                return Err(wrong(&why));
            }
            let own = all.suspended.get_mut(state).ok_or_else(unknown)?;
            if own.running.subject != subject {
                return Err(wrong("it was given with the answer to another request"));
            }
            if std::mem::replace(&mut own.is_answered, true) {
                return Err(unknown());
            }
            Arc::clone(&own.running.caller)
        };
        if let Err(error) = caller.heard(state) {
            if let Some(own) = self.0.lock().suspended.get_mut(state) {
                own.is_answered = false;
            }
            return Err(rpc_error(&error));
        }
        self.0.lock().suspended.remove(state).ok_or_else(unknown)
    }
}
