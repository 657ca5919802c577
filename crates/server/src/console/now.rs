//! Runs under way: a snapshot, and a stream of snapshots. The stream looks a few times a second while it is read; a
//! reader who is slow gets fewer, and no script waits for one.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::index::{Entry, quantile};
use super::reply::{self, Refusal, Reply};
use super::runs::log;
use super::{Asked, Console};
use base::principal::LOCAL;
use base::task::{self, Task};
use base::time::{now_ms, unix_ms};
use run::approvals::Standing;
use run::broker::RunSnapshot;
use run::calls::title_of;
use state::audit::{CallRecord, Description};
use state::journal::Head;
use state::title;

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
    /// Approvals that wait, and runs of other gateways.
    counted: Option<(Instant, usize, Arc<[Value]>)>,
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
        if seen.counted.as_ref().is_none_or(|(at, ..)| at.elapsed() >= COUNT) {
            seen.counted = Some((Instant::now(), self.waiting().await, self.elsewhere().await.into()));
        }
        let (console, counted) = (Arc::clone(self), seen.counted.as_ref());
        let (waiting, elsewhere) = counted.map(|(_, count, runs)| (*count, Arc::clone(runs))).unwrap_or_default();
        let snapshot = move || console.clean(console.snapshot(waiting, &elsewhere)).to_string();
        let made = tokio::task::spawn_blocking(snapshot).await;
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

    /// The newest runs under way in other gateways of this user, by their journals; what they called is in the audit log.
    async fn elsewhere(self: &Arc<Self>) -> Vec<Value> {
        let Some(journals) = self.gateway.journals() else { return Vec::new() };
        let running = journals.running(self.everywhere).await;
        let mut heads = running
            .inspect_err(|error| tracing::debug!(%error, "what other gateways run is not known"))
            .unwrap_or_default();
        let own: Vec<String> = self.gateway.board().look(0).into_iter().map(|run| run.id).collect();
        heads.retain(|head| !own.contains(&head.run));
        heads.sort_by_key(|head| (Reverse(head.at_ms), head.run.clone()));
        heads.dedup_by(|one, other| one.run == other.run);
        heads.truncate(RUNS);
        let ids: Vec<String> = heads.iter().map(|head| head.run.clone()).collect();
        let (console, config) = (Arc::clone(self), self.gateway.config());
        let shown = task::apart(move || {
            let logged = log(&config).and_then(|path| console.index.open(&path, &ids)).unwrap_or_default();
            let entry = |head: &Head| logged.iter().find(|entry| *entry.id == *head.run);
            Ok(heads.iter().map(|head| run_of(head, entry(head), journals.is_own(head))).collect())
        });
        shown.await.unwrap_or_default()
    }

    /// Runs under way. Its time is added when it is sent: a state is sent if it differs from the last one.
    fn snapshot(&self, approvals: usize, elsewhere: &[Value]) -> Value {
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
            "elsewhere": elsewhere,
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

/// A run of another gateway. The script of another configuration is as its log has it: only that knows its secrets.
fn run_of(head: &Head, entry: Option<&Arc<Entry>>, is_own: bool) -> Value {
    let config = head.gateway.as_ref().and_then(|gateway| gateway.config.as_deref());
    let title = match entry {
        Some(entry) => entry.title(),
        None if is_own => title_of(head, None),
        None => String::new(),
    };
    json!({
        "id": head.run,
        "client": head.client,
        "client_name": entry.and_then(|entry| entry.client_name.as_ref()),
        "language": head.language,
        "title": title,
        "began_ms": head.at_ms,
        "calls": entry.map(|entry| entry.calls.len()),
        "last": entry.and_then(|entry| entry.calls.last()).map(|call| format!("{}.{}", call.server, call.tool)),
        "pid": head.gateway.as_ref().map(|gateway| gateway.pid),
        "config": config,
    })
}

fn run(run: &RunSnapshot) -> Value {
    let (calls, max_calls) = run.calls;
    let Description { principal, client, session, language, file, code, request, dry_run, .. } = &run.run;
    let subject = code.as_deref().or(request.as_deref()).unwrap_or_default();
    json!({
        "id": run.id,
        "client": principal.as_deref().unwrap_or(LOCAL),
        "client_name": client,
        "session": session,
        "language": language,
        "began_ms": unix_ms(run.began),
        "title": title(file.as_deref(), subject, None),
        "code": base::text::head(subject, CODE),
        "dry_run": dry_run,
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
        "began_ms": unix_ms(call.began.0),
        "ms": call.ms.filter(|ms| *ms > 0.0),
        "outcome": call.outcome.to_string(),
        "verdict": call.verdict.to_string(),
        "error": call.error,
    })
}
