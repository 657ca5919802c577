use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::*;
use config::Config;
use upstream::{EventSender, events};

/// Panics on the first list.
#[derive(Default)]
struct Defective(AtomicU32);

#[async_trait]
impl Upstream for Defective {
    async fn call(&self, _: &Operation, _: &Progress) -> base::error::Result<Answer> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "a defect");
        Ok(Answer::Listing(Listing::default()))
    }
}

fn refresher(
    upstream: Arc<dyn Upstream>,
    events: EventReceiver,
    starts: Arc<Semaphore>,
    catalog: watch::Receiver<Phase>,
) -> Refresher {
    let config = Config::parse("[servers.s]\ncommand = \"true\"", Path::new("forge.toml"), &|_| None);
    let server = config.expect("valid").servers.remove("s").expect("it is there");
    let source = RefreshedServer {
        name: "s".to_owned(),
        ident: "s".to_owned(),
        instance: 1,
        server,
        account: None,
        health: Health::default(),
        pin: None,
        first_use: None,
        cache: Cache::default(),
        observed: Observed::default(),
    };
    Refresher { source: Arc::new(source), upstream, events, refresh: None, starts, catalog }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_kept_on_after_a_panic() {
    let ((_teller, events), (_phase, catalog)) = (events(), watch::channel(Phase::Settled));
    let upstream = Arc::new(Defective::default());
    let starts = Arc::new(Semaphore::new(1));
    let refresher = refresher(Arc::clone(&upstream) as _, events, starts, catalog);
    let states = Mutex::new(Vec::new());
    let refreshing = refresher.run(|entry| states.lock().push(entry.state.word()));
    let _ = tokio::time::timeout(Duration::from_secs(60), refreshing).await;
    assert_eq!(upstream.0.load(Ordering::Relaxed), 2);
    assert_eq!(*states.lock(), ["ready"]);
}

/// Takes a second a list, and counts those that are under way.
#[derive(Default)]
struct Slow {
    now: AtomicU32,
    most: AtomicU32,
    listed: AtomicU32,
}

#[async_trait]
impl Upstream for Slow {
    async fn call(&self, _: &Operation, _: &Progress) -> base::error::Result<Answer> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.listed.fetch_add(1, Ordering::Relaxed);
        Ok(Answer::Listing(Listing::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_servers_are_started_at_once_than_configured() {
    for permits in [1, 3, 8] {
        let (slow, starts) = (Arc::new(Slow::default()), Arc::new(Semaphore::new(permits)));
        let (_phase, catalog) = watch::channel(Phase::Settled);
        let (_tellers, refreshing): (Vec<_>, Vec<_>) = (0..8)
            .map(|_| {
                let (teller, events) = events();
                let refresher = refresher(Arc::clone(&slow) as _, events, Arc::clone(&starts), catalog.clone());
                (teller, refresher.run(|_| ()))
            })
            .unzip();
        let all = futures::future::join_all(refreshing);
        let _ = tokio::time::timeout(Duration::from_secs(60), all).await;
        assert_eq!(slow.listed.load(Ordering::Relaxed), 8);
        assert_eq!(slow.most.load(Ordering::Relaxed) as usize, permits);
    }
}

/// Announces a change at each list; its tools change when told.
struct Announcing {
    teller: EventSender,
    listed: Mutex<Vec<Instant>>,
    tools: AtomicU32,
}

#[async_trait]
impl Upstream for Announcing {
    async fn call(&self, _: &Operation, _: &Progress) -> base::error::Result<Answer> {
        self.listed.lock().push(Instant::now());
        self.teller.tell(Event::Changed);
        let named = |number| serde_json::json!({ "name": format!("t{number}"), "inputSchema": {} });
        let tools = (0..self.tools.load(Ordering::Relaxed)).map(named).collect();
        Ok(Answer::Listing(Listing { tools, ..Listing::default() }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_announced_and_does_not_change_is_asked_less_and_less_often() {
    let ((teller, events), (_phase, catalog)) = (events(), watch::channel(Phase::Settled));
    let upstream = Arc::new(Announcing { teller, listed: Mutex::default(), tools: AtomicU32::new(1) });
    let refresher = refresher(Arc::clone(&upstream) as _, events, Arc::new(Semaphore::new(1)), catalog);
    let _refreshing = Task::spawn(refresher.run(|_| ()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let pauses = || -> Vec<u64> {
        let listed = upstream.listed.lock();
        listed.windows(2).filter_map(|two| Some((*two.last()? - *two.first()?).as_millis() as u64)).collect()
    };
    let expected = [300, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000];
    let found = pauses();
    let is_near = |(found, expected): (&u64, &u64)| (*expected..expected + 100).contains(found);
    assert!(found.len() >= expected.len() && found.iter().zip(&expected).all(is_near), "{found:?}");
    assert!(found.iter().skip(expected.len()).all(|pause| *pause >= 120_000), "{found:?}");
    // It did change: it is believed at once again.
    upstream.tools.store(2, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(130)).await;
    let changed = pauses();
    assert!(changed.iter().skip(found.len()).any(|pause| *pause < 400), "{changed:?}");
}
