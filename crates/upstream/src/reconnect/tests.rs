use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;

use serde_json::{Map, Value, json};

use super::*;
use crate::events::Changes;
use crate::{ToolAnswer, events};

/// Fate of a call.
#[derive(Clone, Copy)]
enum Call {
    Answered,
    NotSent,
    Lost,
    /// The server does not know the task of the call.
    Gone,
    Hangs,
    /// It takes another round, before which the server announces a changed list.
    Asks,
}

/// A scripted server: duration and result of each attempt to connect, and the fate of each call.
#[derive(Default)]
struct Plan {
    connects: Mutex<VecDeque<(u64, bool)>>,
    calls: Mutex<VecDeque<Call>>,
    is_mute: AtomicBool,
    connected: AtomicU32,
    called: AtomicU32,
    listed: AtomicU32,
    /// Definition of the tool `t` from the next list on.
    defines: Mutex<Value>,
    /// Changes that it announces, and whether it keeps no session.
    changes: AtomicU64,
    /// Seconds until a list is answered.
    delay: AtomicU64,
    is_stateless: bool,
    is_closed: AtomicBool,
}

#[async_trait]
impl Connect for Arc<Plan> {
    async fn connect(&self) -> Result<Box<dyn Link>> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        let next = self.connects.lock().pop_front();
        let (seconds, succeeds) = next.unwrap_or((0, true));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        if succeeds { Ok(Box::new(Self::clone(self))) } else { Err(Error::new(ErrorCode::TransportDead, "refused")) }
    }
}

#[async_trait]
impl Link for Arc<Plan> {
    async fn list(&self, _: &Progress) -> Result<Listing> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(self.delay.load(Ordering::Relaxed))).await;
        let tools = vec![self.defines.lock().clone()];
        Ok(Listing { tools, ttl_ms: Some(10_000), ..Listing::default() })
    }

    async fn call(&self, _: &Operation, _: &Progress, rounds: &dyn Rounds) -> Result<Answer> {
        self.called.fetch_add(1, Ordering::Relaxed);
        let next = self.calls.lock().pop_front();
        let lost = Error::new(ErrorCode::TransportDead, "lost");
        match next.unwrap_or(Call::Answered) {
            Call::Answered => Ok(Answer::Tool(ToolAnswer::default())),
            Call::NotSent => Err(lost.without_effect()),
            Call::Lost => Err(lost),
            Call::Gone => Err(Error::new(ErrorCode::MaybeDone, "gone")),
            Call::Hangs => std::future::pending().await,
            Call::Asks => {
                self.changes.fetch_add(1, Ordering::Relaxed);
                rounds.go_on().await?;
                self.called.fetch_add(1, Ordering::Relaxed);
                Ok(Answer::Tool(ToolAnswer::default()))
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    async fn answers(&self) -> bool {
        !self.is_mute.load(Ordering::Relaxed)
    }

    fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    fn changes(&self) -> Changes {
        Changes { tools: self.changes.load(Ordering::Relaxed), others: 0 }
    }
}

const SETTINGS: ConnectionSettings = ConnectionSettings {
    connect: Duration::from_secs(20),
    list: Duration::from_secs(20),
    refresh: None,
    idle_stop: None,
    reconnect: true,
    max_backoff: Duration::from_secs(30),
};

fn defined(as_what: &str) -> Value {
    json!({ "name": "t", "description": as_what })
}

fn plan(connects: &[(u64, bool)], calls: &[Call]) -> (Arc<Plan>, Reconnect) {
    let plan = Arc::new(Plan {
        connects: Mutex::new(connects.iter().copied().collect()),
        calls: Mutex::new(calls.iter().copied().collect()),
        defines: Mutex::new(defined("as known")),
        ..Plan::default()
    });
    (Arc::clone(&plan), upstream(&plan, SETTINGS, events().0))
}

fn plan_with(settings: ConnectionSettings, connects: &[(u64, bool)], calls: &[Call]) -> (Arc<Plan>, Reconnect) {
    let (plan, _) = plan(connects, calls);
    (Arc::clone(&plan), upstream(&plan, settings, events().0))
}

fn upstream(plan: &Arc<Plan>, settings: ConnectionSettings, events: EventSender) -> Reconnect {
    Reconnect::new(Box::new(Arc::clone(plan)), &BTreeMap::new(), settings, events)
}

fn counts(plan: &Plan) -> (u32, u32) {
    (plan.connected.load(Ordering::Relaxed), plan.called.load(Ordering::Relaxed))
}

fn tool(repeatable: bool) -> Operation {
    let definition = stubgen::digest(stubgen::canonical_json(&defined("as known")));
    Operation::Tool { name: "t".to_owned(), definition, arguments: Map::new(), repeatable }
}

async fn call(upstream: &Reconnect, repeatable: bool) -> Result<(), Error> {
    upstream.call(&tool(repeatable), &Progress::default()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn only_what_cannot_do_harm_twice_is_repeated_and_only_once() {
    use Call::{Answered, Lost, NotSent};
    // Fates of the calls, whether the tool is repeatable, whether it succeeds, number of calls at the server.
    let cases: [(&[Call], bool, bool, u32); 7] = [
        (&[Answered], false, true, 1),
        (&[NotSent, Answered], false, true, 2),
        (&[Lost, Answered], false, false, 1),
        (&[Lost, Answered], true, true, 2),
        (&[NotSent, NotSent, Answered], false, false, 2),
        (&[Lost, Lost, Answered], true, false, 2),
        (&[NotSent, Lost, Answered], false, false, 2),
    ];
    for (number, (calls, repeatable, succeeds, called)) in cases.into_iter().enumerate() {
        let (plan, upstream) = plan(&[], calls);
        let result = call(&upstream, repeatable).await;
        assert_eq!((result.is_ok(), counts(&plan).1), (succeeds, called), "case {number}: {result:?}");
        let warns = result.is_err_and(|error| error.hint.is_some_and(|hint| hint.contains("carried out")));
        let unknown = !succeeds && !repeatable && calls.contains_lost();
        assert_eq!(warns, unknown, "case {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_task_is_known_is_asked_again_when_the_connection_ended() {
    use Call::{Answered, Gone, Lost};
    let cases: [(&[Call], Option<ErrorCode>, u32); 4] = [
        (&[Lost, Answered], None, 2),
        (&[Lost, Lost, Answered], Some(ErrorCode::TransportDead), 2),
        // The first error says more.
        (&[Lost, Gone], Some(ErrorCode::TransportDead), 2),
        (&[Gone], Some(ErrorCode::MaybeDone), 1),
    ];
    for (number, (calls, code, called)) in cases.into_iter().enumerate() {
        let (plan, upstream) = plan(&[], calls);
        let progress = Progress::default().of_task(Some("a task".to_owned()), None);
        let result = upstream.call(&tool(false), &progress).await;
        assert_eq!((result.err().map(|error| error.code), counts(&plan).1), (code, called), "case {number}");
    }
}

trait ContainsLost {
    fn contains_lost(&self) -> bool;
}

impl ContainsLost for &[Call] {
    fn contains_lost(&self) -> bool {
        self.iter().any(|call| matches!(call, Call::Lost))
    }
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_spaced_out_with_growing_pauses() {
    for most in [30.0, 4.0, 0.5] {
        pauses_grow_to(most).await;
    }
}

async fn pauses_grow_to(most: f64) {
    let settings = ConnectionSettings { max_backoff: Duration::from_secs_f64(most), ..SETTINGS };
    let (plan, upstream) = plan_with(settings, &[(0, false); 12], &[]);
    let started = Instant::now();
    let mut attempts = Vec::new();
    while attempts.len() < 10 {
        assert!(call(&upstream, false).await.is_err());
        if counts(&plan).0 as usize > attempts.len() {
            attempts.push(started.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pauses: Vec<_> = attempts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    for (number, pause) in pauses.iter().enumerate() {
        let full = (0.5 * f64::from(1 << number)).min(most);
        assert!((full / 2.0..=full + 0.1).contains(pause), "pause {number} of {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_reconnection_a_server_is_connected_once() {
    use Call::{Answered, Lost, NotSent};
    let settings = ConnectionSettings { reconnect: false, ..SETTINGS };
    // Whether the start succeeds, fates of the calls, and number of those that reach the server.
    let cases: [(bool, &[Call], u32); 4] =
        [(false, &[], 0), (true, &[Lost], 1), (true, &[NotSent], 1), (true, &[Answered, Answered, Answered, Lost], 4)];
    for (starts, fates, reach) in cases {
        let (plan, upstream) = plan_with(settings, &[(0, starts)], fates);
        let before = fates.iter().filter(|fate| matches!(fate, Answered)).count();
        for _ in 0..before {
            assert!(call(&upstream, true).await.is_ok());
        }
        let mut error = None;
        for _ in 0..3 {
            error = call(&upstream, true).await.err();
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        let hint = error.expect("no connection is left").hint.unwrap_or_default();
        assert!(hint.contains("`reconnect` is false"), "{hint}");
        assert_eq!(counts(&plan), (1, reach), "{starts} {before}");
    }
    // A connection that the server closed between calls.
    let (plan, upstream) = plan_with(settings, &[], &[]);
    assert!(call(&upstream, true).await.is_ok());
    plan.is_closed.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(call(&upstream, true).await.is_err_and(|error| error.code == ErrorCode::TransportDead));
    }
    assert_eq!(counts(&plan), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_goes_on_when_its_callers_give_up() {
    let (plan, upstream) = plan(&[(10, true)], &[]);
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_secs(3), call(&upstream, false)).await.is_err());
    }
    assert!(call(&upstream, false).await.is_ok());
    assert_eq!(counts(&plan), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn callers_that_come_together_share_one_attempt() {
    let (plan, upstream) = plan(&[(5, true)], &[]);
    let all = futures::future::join_all((0..8).map(|_| call(&upstream, false))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(counts(&plan), (1, 8));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_never_ready_meets_the_connect_timeout() {
    let (_, upstream) = plan(&[(3_600, true)], &[]);
    let started = Instant::now();
    let error = call(&upstream, false).await.expect_err("never ready");
    assert_eq!(error.message, "it was not ready within 20s");
    assert_eq!(started.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn start_and_first_list_share_the_connect_timeout_and_later_lists_have_their_own() {
    let (plan, upstream) = plan(&[(15, true), (0, true)], &[]);
    plan.delay.store(10, Ordering::Relaxed);
    let started = Instant::now();
    let error = call(&upstream, false).await.expect_err("15 s and 10 s are more than 20 s");
    assert_eq!((error.message.as_str(), started.elapsed().as_secs()), ("it was not ready within 20s", 20));
    tokio::time::sleep(Duration::from_secs(1)).await;
    call(&upstream, false).await.expect("10 s alone are not");
    plan.delay.store(15, Ordering::Relaxed);
    plan.changes.fetch_add(1, Ordering::Relaxed);
    call(&upstream, false).await.expect("nor are 15 s for another list on the same connection");
    assert_eq!(counts(&plan), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_doubt_is_kept_if_it_answers_and_replaced_if_not() {
    for (mute, connected) in [(false, 1), (true, 2)] {
        let (plan, upstream) = plan(&[], &[Call::Hangs]);
        plan.is_mute.store(mute, Ordering::Relaxed);
        assert!(tokio::time::timeout(Duration::from_secs(1), call(&upstream, false)).await.is_err());
        assert!(call(&upstream, false).await.is_ok());
        assert_eq!(counts(&plan), (connected, 2), "mute: {mute}");
    }
}

/// Between the first call and the second: whether there are sessions, seconds, changes announced, the fates of the
/// calls; whether the second is sent.
type Case = (&'static str, bool, u64, u64, &'static [Call], bool);

/// After a new connection or a stale list, a call is compared before it is sent.
#[tokio::test(start_paused = true)]
async fn a_call_is_compared_with_what_its_own_connection_lists() {
    use Call::{Answered, Lost, NotSent};
    let cases: [Case; 7] = [
        ("the same connection", false, 3600, 0, &[Answered, Answered], true),
        ("a change is told", false, 0, 1, &[Answered, Answered], false),
        ("without a session, within its time", true, 5, 0, &[Answered, Answered], true),
        ("without a session, after it", true, 11, 0, &[Answered, Answered], false),
        ("without a session, a change is told", true, 0, 1, &[Answered, Answered], false),
        ("the connection dies before it is sent", false, 0, 0, &[Answered, NotSent, Answered], false),
        ("the connection dies of it", false, 0, 0, &[Answered, Lost, Answered], false),
    ];
    for (what, is_stateless, seconds, changes, calls, goes_out) in cases {
        let plan = Arc::new(Plan {
            calls: Mutex::new(calls.iter().copied().collect()),
            defines: Mutex::new(defined("as known")),
            is_stateless,
            ..Plan::default()
        });
        let upstream = upstream(&plan, SETTINGS, events().0);
        call(&upstream, true).await.expect(what);
        *plan.defines.lock() = defined("otherwise");
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        plan.changes.fetch_add(changes, Ordering::Relaxed);
        let second = call(&upstream, true).await;
        let sent = counts(&plan).1 - 1;
        match goes_out {
            true => assert!(second.is_ok() && sent == 1, "{what}: {second:?}"),
            false => {
                let tries = u32::try_from(calls.len()).expect("a few") - 2;
                assert_eq!(second.map_err(|error| error.code), Err(ErrorCode::ToolChanged), "{what}");
                assert_eq!(sent, tries, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_read_for_a_call_is_not_read_again_for_the_entry() {
    let plan = Arc::new(Plan { defines: Mutex::new(defined("as known")), ..Plan::default() });
    let (event_sender, mut told) = events();
    let upstream = upstream(&plan, SETTINGS, event_sender);
    call(&upstream, false).await.expect("it is sent");
    assert_eq!(told.try_recv(), Ok(Event::Connected(1)));
    for (number, listed) in [(1, 1), (2, 2)] {
        let Ok(Answer::Listing(listing)) = upstream.call(&Operation::List, &Progress::default()).await else {
            panic!("no list");
        };
        assert_eq!((listing.reading, plan.listed.load(Ordering::Relaxed)), (number, listed));
    }
    assert!(told.try_recv().is_err(), "what was asked for is no news");
}

#[tokio::test(start_paused = true)]
async fn only_the_last_connection_is_watched_until_it_rests() {
    let (plan, _) = plan(&[], &[Call::Lost; 100]);
    let settings = ConnectionSettings { idle_stop: Some(Duration::from_secs(3600)), ..SETTINGS };
    let upstream = upstream(&plan, settings, events().0);
    for _ in 0..100 {
        call(&upstream, false).await.expect_err("the connection is lost");
    }
    call(&upstream, false).await.expect("a new one");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(counts(&plan).0 == 101 && tasks <= 2, "{tasks} tasks after {:?}", counts(&plan));
}

/// The comparison before the first round also holds for later rounds.
#[tokio::test(start_paused = true)]
async fn a_later_round_is_compared_too() {
    for (definition, goes_on) in [("as known", true), ("otherwise", false)] {
        let (plan, upstream) = plan(&[], &[Call::Answered, Call::Asks]);
        call(&upstream, false).await.expect("it is as known");
        *plan.defines.lock() = defined(definition);
        let outcome = call(&upstream, false).await.map_err(|error| error.code);
        let expected = if goes_on { Ok(()) } else { Err(ErrorCode::ToolChanged) };
        assert_eq!((outcome, counts(&plan).1), (expected, 2 + u32::from(goes_on)), "{definition}");
        assert_eq!(plan.listed.load(Ordering::Relaxed), 2, "{definition}");
    }
}

/// A request for the list shares the one being read for a call, or gets the untaken one later.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_for_a_call_is_there_for_who_asks_for_it() {
    let (plan, upstream) = plan(&[], &[]);
    let list = async || upstream.call(&Operation::List, &Progress::default()).await.map(drop);
    plan.delay.store(5, Ordering::Relaxed);
    call(&upstream, false).await.expect("it is called");
    plan.changes.fetch_add(1, Ordering::Relaxed);
    // The first call's list is no longer valid, and the second's is on its way.
    let late = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        list().await
    };
    let (called, listed) = tokio::join!(call(&upstream, false), late);
    assert!(called.is_ok() && listed.is_ok());
    assert_eq!(plan.listed.load(Ordering::Relaxed), 2);
    list().await.expect("it is asked for anew");
    assert_eq!(plan.listed.load(Ordering::Relaxed), 3);
}
