//! The client of one request, as servers reach it meanwhile: questions, log entries, progress.
#![expect(deprecated, reason = "clients go on to use sampling, roots and logging, which 2026-07-28 deprecates")]

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientResult, CreateMessageRequest, CreateMessageResult,
    ElicitRequest, ElicitResult, ExtensionCapabilities, GetExtensions as _, InputRequest, ListRootsRequest,
    ListRootsResult, RequestId, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestContext, RoleServer, ServiceError};
use scopeguard::ScopeGuard;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::admission::Counter;
use super::notices::Notices;
use super::waiting::Waiting;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::principal::Principal;
use base::random;
use catalog::people;
use state::journal::{Answers, Asking, Writer};
use upstream::{APPS, Ask, Caller, Level, LogEntry, PAGE_TYPE, Question, Speaker, Step, TraceContext};

/// True for a client that shows pages of servers, of the type that there is.
pub(super) fn shows_apps(extensions: &ExtensionCapabilities) -> bool {
    let types = extensions.get(APPS).map(|settings| settings.get("mimeTypes").and_then(Value::as_array));
    let is_page =
        |known: &Value| known.as_str().is_some_and(|known| known.replace(' ', "").eq_ignore_ascii_case(PAGE_TYPE));
    types.is_some_and(|types| types.is_none_or(|types| types.iter().any(is_page)))
}

/// Time that a person has to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Timeout for withdrawing a question.
const CANCEL: Duration = Duration::from_secs(5);

/// End of the access token of a request over HTTP, among the extensions of that.
#[derive(Clone, Copy)]
pub(super) struct Until(pub(super) Instant);

/// The client of one request.
pub(super) struct ClientCaller {
    principal: Principal,
    /// End of its access token.
    until: Option<Instant>,
    channel: Channel,
    /// Capabilities of the client's latest request.
    abilities: Mutex<ClientCapabilities>,
    notices: Notices,
    /// Trace context of its request.
    trace: Option<TraceContext>,
    /// Waiting requests of this client, and the number of this one.
    waiting: Waiting,
    number: u64,
    /// Answers that it has not read.
    unread: Counter,
    /// Journal of its run, which ends with the run.
    journal: Mutex<Weak<Writer>>,
    /// Answers to questions of the run that this one continues.
    answers: Mutex<Option<Answers>>,
}

/// Channel for questions.
enum Channel {
    /// As requests, in the revisions with a handshake; with the id of the client's request, on whose stream they go over
    /// HTTP.
    Requests(Peer<RoleServer>, RequestId),
    /// As the answer to the client's own request, which it then repeats, since 2026-07-28.
    Rounds(mpsc::Sender<Asked>),
}

/// A question for the next answer.
pub(super) struct Asked {
    pub(super) name: Option<String>,
    pub(super) request: InputRequest,
    /// Digest of the question and of what it is about.
    pub(super) digest: String,
    /// The call that a server has put off with it.
    pub(super) put_off: Option<u64>,
    pub(super) answer: oneshot::Sender<Value>,
}

impl ClientCaller {
    /// The client behind `context`, and the questions for the answer to its request.
    pub(super) fn new(
        principal: Principal,
        context: &RequestContext<RoleServer>,
        level: Option<Level>,
        (waiting, unread): (Waiting, Counter),
        answers: Option<Answers>,
    ) -> (Arc<Self>, mpsc::Receiver<Asked>) {
        let (ask, asked) = mpsc::channel(limits::QUESTIONS.max);
        let channel = match is_stateless(context) {
            true => Channel::Rounds(ask),
            false => Channel::Requests(context.peer.clone(), context.id.clone()),
        };
        let notices = Notices::new(context.peer.clone(), context.id.clone());
        let trace = trace(context);
        let parts = context.extensions.get::<http::request::Parts>();
        let until = parts.and_then(|parts| parts.extensions.get::<Until>()).map(|until| until.0);
        let number = waiting.number();
        let (abilities, journal, answers) = (Mutex::default(), Mutex::default(), Mutex::new(answers));
        let caller = Arc::new(Self {
            principal,
            until,
            channel,
            abilities,
            notices,
            trace,
            waiting,
            number,
            unread,
            journal,
            answers,
        });
        caller.resume(context, level);
        (caller, asked)
    }

    /// Continues with a further request of the client for the same work.
    pub(super) fn resume(&self, context: &RequestContext<RoleServer>, level: Option<Level>) {
        *self.abilities.lock() = context.client_capabilities().unwrap_or_default();
        self.notices.resume(context, level);
    }

    /// Flushes notices, and sends none until [`ClientCaller::resume`].
    pub(super) async fn pause(&self) {
        self.notices.pause().await;
    }

    /// Writes questions to the journal of the run before they go out; returns the state for the client. Without a
    /// journal, only this process knows it.
    pub(super) fn state_for<'a>(
        &self,
        subject: &str,
        questions: impl Iterator<Item = (&'a String, &'a Asked)>,
    ) -> String {
        let asking =
            |(key, asked): (&'a String, &'a Asked)| Asking { key, question: &asked.digest, put_off: asked.put_off };
        let journal = self.journal.lock().upgrade();
        let state = journal.and_then(|journal| {
            let written = journal.asks(subject, questions.map(asking));
            written.inspect_err(|error| tracing::error!(%error, "questions are missing in the journal of a run")).ok()
        });
        state.unwrap_or_else(random::token)
    }

    /// Writes to the journal of the run that the answers to the questions of `state` have come.
    ///
    /// # Errors
    /// `INTERNAL` when that cannot be written.
    pub(super) fn heard(&self, state: &str) -> Result<()> {
        let journal = self.journal.lock().upgrade();
        journal.map_or(Ok(()), |journal| journal.heard(state))
    }

    /// The answer to this question that came for the run which this one continues.
    fn known(&self, digest: &str) -> Option<Value> {
        // Before its journal has begun, another run may come to continue that one.
        self.journal.lock().upgrade()?;
        self.answers.lock().as_mut()?.take(digest)
    }

    /// The reason why the client cannot be asked this.
    fn obstacle(&self, question: &Question) -> Option<&'static str> {
        let ClientCapabilities { elicitation, sampling, roots, .. } = &*self.abilities.lock();
        let has = |key: &str| question.params.get(key).is_some_and(|value| !value.is_null());
        match (question.ask, elicitation, sampling) {
            (Ask::Elicitation, None, _) => Some("the client does not offer `elicitation`"),
            (Ask::Elicitation, Some(modes), _) => {
                let by_url = question.params.get("mode").and_then(Value::as_str) == Some("url");
                match (by_url, modes.form.is_some(), modes.url.is_some()) {
                    (true, _, false) => Some("the client does not offer `elicitation` by URL"),
                    (false, false, true) => Some("the client offers `elicitation` by URL only"),
                    _ => None,
                }
            }
            (Ask::Sampling, _, None) => Some("the client does not offer `sampling`"),
            (Ask::Sampling, _, Some(sampling)) => ((has("tools") || has("toolChoice")) && sampling.tools.is_none())
                .then_some("the client does not offer tools in `sampling`"),
            (Ask::Roots, ..) => roots.is_none().then_some("the client does not offer `roots`"),
        }
    }

    /// Asks the client, by request or in a round as its revision has it.
    async fn put(
        &self,
        name: Option<String>,
        request: InputRequest,
        digest: String,
        put_off: Option<u64>,
    ) -> Result<Value> {
        match &self.channel {
            Channel::Requests(peer, about) => by_request(peer, about, request).await,
            Channel::Rounds(ask) => {
                let (answer, answered) = oneshot::channel();
                // While the client thinks about other questions, this one waits for a slot.
                let asking = async {
                    ask.send(Asked { name, request, digest, put_off, answer }).await.ok()?;
                    answered.await.ok()
                };
                let answered = tokio::time::timeout(PATIENCE, asking).await;
                answered.ok().flatten().ok_or_else(|| denied("the client gave no answer"))
            }
        }
    }
}

#[async_trait]
impl Caller for ClientCaller {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn abilities(&self) -> Value {
        let ClientCapabilities { elicitation, sampling, roots, extensions, .. } = self.abilities.lock().clone();
        let mut offered = ClientCapabilities::default();
        (offered.elicitation, offered.sampling, offered.roots) = (elicitation, sampling, roots);
        let apps = extensions.filter(shows_apps).and_then(|mut extensions| extensions.remove_entry(APPS));
        offered.extensions = apps.map(|apps| [apps].into());
        serde_json::to_value(offered).unwrap_or_else(|_| json!({}))
    }

    async fn ask(&self, speaker: Speaker<'_>, question: Question) -> Result<Value> {
        if let Some(obstacle) = self.obstacle(&question) {
            return Err(denied(obstacle)
                .hint(format!("use a client that offers `{}`, or do without it", question.ask.ability())));
        }
        let Question { ask, mut params, name, about, put_off } = question;
        if let Speaker::Server(server) = speaker {
            params = people::relayed(server, ask, params)?;
        }
        let request = input_request(ask, params)?;
        let digest = digest(speaker, &request, &about);
        if let Some(answer) = self.known(&digest) {
            return checked(ask, answer);
        }
        let mut place = self.waiting.enter(self.number);
        let answer = tokio::select! {
            answer = self.put(name, request, digest, put_off) => answer?,
            given_up = place.given_up() => return Err(given_up),
        };
        checked(ask, answer)
    }

    fn log_level(&self) -> Option<Level> {
        self.notices.level()
    }

    fn log(&self, server: &str, entry: LogEntry) {
        self.notices.log(server, entry);
    }

    fn until(&self) -> Option<Instant> {
        self.until
    }

    fn trace(&self) -> Option<TraceContext> {
        self.trace.clone()
    }

    fn progress(&self, step: Step) {
        self.notices.progress(step);
    }

    async fn room(&self) {
        self.unread.room().await;
    }

    fn answering(&self, bytes: usize) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(self.unread.keep(bytes)))
    }

    fn goes_on_with(&self, run: &str) -> bool {
        self.answers.lock().as_ref().is_some_and(|answers| answers.run == run)
    }

    fn begun(&self, journal: &Arc<Writer>) {
        self.answers.lock().take_if(|answers| !journal.continues(&answers.run));
        *self.journal.lock() = Arc::downgrade(journal);
    }
}

/// Trace context of a request; one longer than any valid one is ignored.
fn trace(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let short = |value: Option<&str>| value.filter(|value| value.len() <= 512).map(str::to_owned);
    let parent = short(context.meta.get_traceparent())?;
    Some(TraceContext { parent, state: short(context.meta.get_tracestate()) })
}

/// True for a request of the revisions without a handshake.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

fn denied(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::ApprovalDenied, why)
}

/// The question as a request.
fn input_request(ask: Ask, params: Value) -> Result<InputRequest> {
    Ok(match ask {
        Ask::Elicitation => InputRequest::Elicitation(ElicitRequest::new(typed(params, "the question")?)),
        Ask::Sampling => InputRequest::CreateMessage(CreateMessageRequest::new(typed(params, "the question")?)),
        Ask::Roots => InputRequest::ListRoots(ListRootsRequest::default()),
    })
}

/// Digest of a question and of what it is about.
fn digest(speaker: Speaker<'_>, request: &InputRequest, about: &str) -> String {
    let server = match speaker {
        Speaker::Gateway => None,
        Speaker::Server(server) => Some(server),
    };
    stubgen::digest(stubgen::canonical_json(&json!([server, request, about])))
}

fn typed<T: DeserializeOwned>(value: Value, what: &str) -> Result<T> {
    serde_json::from_value(value).map_err(|error| denied(format!("{what} is not valid")).caused_by(error))
}

/// The answer to a question, if it is of the type that this has.
fn checked(ask: Ask, answer: Value) -> Result<Value> {
    const WHAT: &str = "the client's answer";
    match ask {
        Ask::Sampling => drop(typed::<CreateMessageResult>(answer.clone(), WHAT)?),
        Ask::Elicitation => drop(typed::<ElicitResult>(answer.clone(), WHAT)?),
        Ask::Roots => drop(typed::<ListRootsResult>(answer.clone(), WHAT)?),
    }
    Ok(answer)
}

/// Asks by a request; dropping the future withdraws the question.
async fn by_request(peer: &Peer<RoleServer>, about: &RequestId, request: InputRequest) -> Result<Value> {
    let mut request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(denied("it is a question of an unknown kind")),
    };
    // rmcp knows it in the task of the request alone.
    request.extensions_mut().insert(OriginatingRequestId(about.clone()));
    let failed = |error: ServiceError| match error {
        ServiceError::McpError(data) => denied(format!("the client refused: {}", data.message)),
        other => denied("the client could not be asked").caused_by(other),
    };
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(failed)?;
    let open = scopeguard::guard((peer.clone(), sent.id.clone()), withdraw);
    let answer = match tokio::time::timeout(PATIENCE, sent.await_response()).await {
        Ok(answer) => answer,
        Err(_) => return Err(denied(format!("the client gave no answer within {PATIENCE:?}"))),
    };
    ScopeGuard::into_inner(open);
    let answer: ClientResult = answer.map_err(failed)?;
    serde_json::to_value(answer).map_err(|error| denied("the client's answer has no JSON form").caused_by(error))
}

/// Withdraws a question.
fn withdraw((peer, id): (Peer<RoleServer>, RequestId)) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let notice = CancelledNotificationParam::new(Some(id), Some("it is not needed any more".to_owned()));
        let _ = tokio::time::timeout(CANCEL, peer.notify_cancelled(notice)).await;
    });
}
