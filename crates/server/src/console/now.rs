//! Runs under way: a snapshot, and a stream of snapshots. The stream looks a few times a second while it is read; a
//! reader who is slow gets fewer, and no script waits for one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::index::quantile;
use super::reply::{self, Refusal, Reply};
use super::{Asked, Console};
use base::task::Task;
use base::time::{now_ms, unix_ms};
use run::approvals::Standing;
use run::broker::RunSnapshot;
use state::audit::CallRecord;

/// Interval at which the stream looks.
const LOOK: Duration = Duration::from_millis(250);
/// Longest silence of the stream.
const SILENCE: Duration = Duration::from_secs(15);
/// Interval at which approvals are counted: each look reads their folder.
const COUNT: Duration = Duration::from_secs(2);
/// Most executions of a snapshot, and newest calls of each.
const RUNS: usize = 50;
const CALLS: usize = 20;
/// Most bytes of a script, and of arguments and errors of a call.
const CODE: usize = 2_000;

/// Streams snapshots to a reader, as server-sent events.
pub(super) fn stream(console: &Arc<Console>, asked: &Asked) -> Result<Reply, Refusal> {
    let places = &console.streams[..1 + usize::from(asked.by.rights.may_act)];
    let Some(place) = places.iter().rev().find_map(|places| Arc::clone(places).try_acquire_owned().ok()) else {
        let what = "the console has no place for a further live page";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, what, "close one of them"));
    };
    // One event waits: a slow reader gets the next state, not every one.
    let (tell, mut told) = mpsc::channel(1);
    let (console, by) = (Arc::clone(console), asked.by.clone());
    let looking = Task::spawn(async move {
        let _place = place;
        let (mut last, mut spoke): (Arc<str>, _) = (Arc::from(""), Instant::now());
        loop {
            if console.access.holding(&console.gateway.config(), by.key).is_none() {
                let _ = tell.send(Bytes::from_static(b"event: over\ndata: {}\n\n")).await;
                return;
            }
            let state = console.state().await;
            if state != last && !state.is_empty() {
                let at_ms = now_ms();
                let event = format!("event: state\ndata: {{\"at_ms\":{at_ms},{}\n\n", state.get(1..).unwrap_or("}"));
                if tell.send(event.into()).await.is_err() {
                    return;
                }
                (last, spoke) = (state, Instant::now());
            } else if spoke.elapsed() >= SILENCE {
                if tell.send(Bytes::from_static(b": still here\n\n")).await.is_err() {
                    return;
                }
                spoke = Instant::now();
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = tell.closed() => return,
            }
        }
    });
    let events = futures::stream::poll_fn(move |context| {
        let _looking = &looking;
        told.poll_recv(context).map(|event| Some(Ok(Frame::data(event?))))
    });
    Ok(reply::with_headers(StreamBody::new(events).boxed(), "text/event-stream"))
}

/// Last state that the pages saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    state: Option<(Instant, Arc<str>)>,
    /// Approvals that wait.
    approvals: Option<(Instant, usize)>,
}

impl Console {
    /// The latest snapshot as JSON, made for all pages together, and on a thread that serves no request.
    async fn state(self: &Arc<Self>) -> Arc<str> {
        let mut seen = self.seen.lock().await;
        if let Some((at, state)) = &seen.state
            && at.elapsed() < LOOK
        {
            return Arc::clone(state);
        }
        if seen.approvals.is_none_or(|(at, _)| at.elapsed() >= COUNT) {
            seen.approvals = Some((Instant::now(), self.waiting().await));
        }
        let (console, waiting) = (Arc::clone(self), seen.approvals.map_or(0, |(_, count)| count));
        let made = tokio::task::spawn_blocking(move || console.clean(console.snapshot(waiting)).to_string()).await;
        let state: Arc<str> = made.unwrap_or_default().into();
        seen.state = Some((Instant::now(), Arc::clone(&state)));
        state
    }

    /// Number of approvals that wait.
    async fn waiting(&self) -> usize {
        let now = now_ms();
        let Some(approvals) = self.gateway.waiting_approvals() else { return 0 };
        let all = approvals.list().await.unwrap_or_default();
        all.iter().filter(|approval| approval.standing(now) == Standing::Waits).count()
    }

    /// Runs under way. Its time is added when it is sent: a state is sent if it differs from the last one.
    fn snapshot(&self, approvals: usize) -> Value {
        let (gateway, board) = (&self.gateway, self.gateway.board());
        let (catalog, config, pool) = (gateway.catalog(), gateway.config(), gateway.pool().metrics());
        let (running, tallies, instances) = (board.look(CALLS), board.tallies(), gateway.instances());
        let servers = catalog.servers().iter().filter(|entry| !entry.is_scripts()).map(|entry| {
            let tally = tallies.get(&entry.ident);
            let mut took: Vec<f64> = tally.iter().flat_map(|tally| tally.took.iter().copied()).collect();
            took.sort_by(f64::total_cmp);
            let in_flight: usize = running.iter().filter_map(|run| run.in_flight.get(&entry.ident)).sum();
            json!({
                "name": entry.name,
                "ident": entry.ident,
                "state": entry.state.word(),
                "detail": entry.describe(),
                "breaker": entry.breaker(),
                "tools": entry.stubs.tools.len(),
                "instances": 1 + instances.get(&entry.name).copied().unwrap_or_default(),
                "in_flight": in_flight,
                "calls": tally.map_or(0, |tally| tally.calls),
                "failed": tally.map_or(0, |tally| tally.failed),
                "p50_ms": quantile(&took, 0.5),
                "p95_ms": quantile(&took, 0.95),
            })
        });
        let today = gateway.today();
        json!({
            "runs": running.iter().rev().take(RUNS).map(run).collect::<Vec<_>>(),
            "runs_left_out": running.len().saturating_sub(RUNS),
            "servers": servers.collect::<Vec<_>>(),
            "workers": {
                "idle": pool.idle,
                "busy": pool.busy,
                "max": config.sandbox.limits.runs,
                "queued": pool.waiting,
                "queue_max": config.sandbox.limits.queue,
            },
            "approvals": approvals,
            "clients": gateway.sessions(),
            "today": {
                "spent": today.map(|(spent, _)| spent.to_string()),
                "limit": today.map(|(_, limit)| limit.to_string()),
            },
        })
    }
}

fn run(run: &RunSnapshot) -> Value {
    let (calls, max_calls) = run.calls;
    json!({
        "id": run.id,
        "client": run.client,
        "client_name": run.client_name,
        "session": run.session,
        "language": run.language,
        "began_ms": unix_ms(run.began),
        "code": base::text::head(&run.subject, CODE),
        "dry_run": run.dry_run,
        "background": run.background,
        "calls": calls,
        "max_calls": max_calls,
        "wall_ms": run.wall_ms,
        "progress": run.progress,
        "labels": run.labels,
        "recent": run.newest.iter().map(call).collect::<Vec<_>>(),
    })
}

fn call(call: &CallRecord) -> Value {
    json!({
        "call": call.call,
        "server": call.server,
        "tool": call.tool,
        "args": call.args,
        "began_ms": unix_ms(call.began),
        "ms": call.ms.filter(|ms| *ms > 0.0),
        "outcome": call.outcome.to_string(),
        "verdict": call.verdict.to_string(),
        "error": call.error,
    })
}
