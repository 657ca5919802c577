//! Notices to a client during its request: progress if it sent a token, log entries if it wants them, both rate limited
//! for a person to read.
#![expect(deprecated, reason = "clients go on to use logging, which 2026-07-28 deprecates")]

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use rmcp::model::{
    GetExtensions as _, LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
};
use rmcp::service::{OriginatingRequestId, Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use base::text::head;
use catalog::people;
use upstream::{Level, LogEntry, Step};

/// Burst of progress reports.
const REPORTS: NonZeroU32 = NonZeroU32::new(20).expect("more than 0");
/// Burst of log entries.
const ENTRIES: NonZeroU32 = NonZeroU32::new(50).expect("more than 0");
/// Refill rate of both per second.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(20).expect("more than 0");
/// Most bytes of a log entry; a larger one is cut.
const MAX_ENTRY: usize = 16 << 10;
/// Most bytes of a logger's name.
const MAX_LOGGER: usize = 200;
/// Queue of notices; further ones are dropped.
const QUEUE: usize = 64;
/// Time that an answer waits for the notices before it.
const FLUSH: Duration = Duration::from_secs(1);

/// Notices of one request, sent in order, so that progress only grows.
pub(super) struct Notices {
    queue: mpsc::Sender<Notice>,
    state: Mutex<NoticeState>,
    reports: DefaultDirectRateLimiter,
    entries: DefaultDirectRateLimiter,
}

enum Notice {
    Send(Peer<RoleServer>, Box<ServerNotification>),
    Flush(oneshot::Sender<()>),
}

struct NoticeState {
    /// Of the current request, with its id: over HTTP each has a stream of its own.
    peer: Peer<RoleServer>,
    about: RequestId,
    token: Option<ProgressToken>,
    level: Option<Level>,
    /// Last progress sent.
    sent: f64,
    /// A report held back by the rate limit.
    held: Option<Step>,
    dropped: usize,
    /// True if anything was sent since the last pause.
    is_busy: bool,
}

impl NoticeState {
    fn new(peer: Peer<RoleServer>, about: RequestId, token: Option<ProgressToken>, level: Option<Level>) -> Self {
        Self { peer, about, token, level, sent: 0.0, held: None, dropped: 0, is_busy: false }
    }
}

impl Notices {
    pub(super) fn new(peer: Peer<RoleServer>, about: RequestId) -> Self {
        let (queue, mut notices) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(notice) = notices.recv().await {
                match notice {
                    // A client that is gone needs no notices.
                    Notice::Send(peer, notice) => drop(peer.send_notification(*notice).await),
                    Notice::Flush(done) => drop(done.send(())),
                }
            }
        });
        let room = |at_once| RateLimiter::direct(Quota::per_second(PER_SECOND).allow_burst(at_once));
        let state = Mutex::new(NoticeState::new(peer, about, None, None));
        Self { queue, state, reports: room(REPORTS), entries: room(ENTRIES) }
    }

    /// Switches to a request with this token and this level.
    pub(super) fn resume(&self, context: &RequestContext<RoleServer>, level: Option<Level>) {
        let token = context.meta.get_progress_token();
        // Progress belongs to its token, and restarts with another.
        *self.state.lock() = NoticeState::new(context.peer.clone(), context.id.clone(), token, level);
    }

    pub(super) fn level(&self) -> Option<Level> {
        self.state.lock().level
    }

    pub(super) fn progress(&self, step: Step) {
        let mut state = self.state.lock();
        match self.reports.check() {
            Ok(()) => self.report(&mut state, step),
            Err(_) => state.held = Some(step),
        }
    }

    fn report(&self, state: &mut NoticeState, Step { done, message }: Step) {
        let Some(token) = state.token.clone() else { return };
        // Progress must grow with each report, also when no call has ended meanwhile.
        state.sent = (done as f64).max(state.sent + 0.001);
        state.held = None;
        let mut params = ProgressNotificationParam::new(token, state.sent);
        params.message = Some(message);
        state.is_busy = true;
        let _ = self.send(state, ServerNotification::ProgressNotification(ProgressNotification::new(params)));
    }

    pub(super) fn log(&self, server: &str, LogEntry { level, logger, data }: LogEntry) {
        let mut state = self.state.lock();
        state.is_busy = true;
        let notice = || {
            let logger = logger.map_or_else(
                || server.to_owned(),
                |logger| format!("{server}/{}", people::line(head(&logger, MAX_LOGGER))),
            );
            entry(level, logger, bounded(data))
        };
        if self.entries.check().is_err() || notice().is_some_and(|notice| !self.send(&state, notice)) {
            state.dropped += 1;
        }
    }

    /// True if the queue has room: a client that does not read misses notices and does not block the work.
    fn send(&self, state: &NoticeState, mut notice: ServerNotification) -> bool {
        notice.extensions_mut().insert(OriginatingRequestId(state.about.clone()));
        self.queue.try_send(Notice::Send(state.peer.clone(), Box::new(notice))).is_ok()
    }

    /// Sends the held report, waits until all is sent, then stays silent: notices belong to a request, and none may
    /// follow its answer.
    pub(super) async fn pause(&self) {
        let (peer, about, dropped, is_busy) = {
            let mut state = self.state.lock();
            if let Some(step) = state.held.take() {
                self.report(&mut state, step);
            }
            (state.token, state.level) = (None, None);
            let (dropped, is_busy) = (std::mem::take(&mut state.dropped), std::mem::take(&mut state.is_busy));
            (state.peer.clone(), state.about.clone(), dropped, is_busy)
        };
        if !is_busy {
            return;
        }
        if dropped > 0 {
            let words = format!("{dropped} log entries were dropped: more than a client can take");
            if let Some(mut words) = entry(Level::Warning, "forgefs".to_owned(), Value::String(words)) {
                words.extensions_mut().insert(OriginatingRequestId(about));
                let _ = self.queue.send(Notice::Send(peer, Box::new(words))).await;
            }
        }
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Notice::Flush(done)).await.is_ok() {
            let _ = tokio::time::timeout(FLUSH, flushed).await;
        }
    }
}

fn entry(level: Level, logger: String, data: Value) -> Option<ServerNotification> {
    let level = serde_json::to_value(level).and_then(serde_json::from_value).ok()?;
    let mut params = LoggingMessageNotificationParam::new(level, data);
    params.logger = Some(logger);
    Some(ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(params)))
}

fn bounded(data: Value) -> Value {
    let text = data.to_string();
    if text.len() <= MAX_ENTRY { data } else { json!({"cut": head(&text, MAX_ENTRY)}) }
}
