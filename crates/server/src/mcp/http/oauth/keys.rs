//! The issuer's keys as they are now: fetched by one request at a time, and kept for a while when the issuer is away.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use url::Url;

use super::Refusal;
use super::key_set::KeySet;
use base::address::is_private;
use base::json;
use base::limits;
use config::ResourceServer;
use upstream::auth::{Documents, well_known};

/// Age at which keys are fetched again, beside requests that go on with them.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// Age at which keys are no longer used, if the issuer gave no others since.
const USABLE: Duration = Duration::from_secs(60 * 60);
/// Least time between two fetches, whatever keys tokens name.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time of a fetch.
const FETCH: Duration = Duration::from_secs(10);
/// Time for which a request waits for one.
const WAIT: Duration = Duration::from_secs(5);

/// Keys of one issuer.
pub(super) struct Keys {
    settings: Arc<ResourceServer>,
    state: Mutex<State>,
    /// Fetches that have ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The keys, and their time.
    keys: Option<(Arc<KeySet>, Instant)>,
    /// Start of the last fetch.
    tried: Option<Instant>,
    is_fetching: bool,
    /// Fault of the last fetch.
    fault: Option<String>,
}

impl State {
    fn usable(&self) -> Option<Arc<KeySet>> {
        self.keys.as_ref().filter(|(_, since)| since.elapsed() < USABLE).map(|(keys, _)| Arc::clone(keys))
    }

    /// Time until keys may be fetched again.
    fn pause(&self) -> Duration {
        self.tried.map_or(Duration::ZERO, |tried| INTERVAL.saturating_sub(tried.elapsed()))
    }
}

impl Keys {
    pub(super) fn new(settings: Arc<ResourceServer>) -> Arc<Self> {
        Arc::new(Self { settings, state: Mutex::default(), ended: watch::Sender::new(0) })
    }

    /// The keys, as long as they are usable.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        self.state.lock().usable()
    }

    /// Fetches the keys in the background.
    pub(super) fn prepare(self: &Arc<Self>) {
        let mut state = self.state.lock();
        self.fetch(&mut state);
    }

    /// The keys, with the wanted one if the issuer has it. A request that needs no other keys does not wait.
    ///
    /// # Errors
    /// `Away` if the issuer's keys are not there in time.
    pub(super) async fn having(self: &Arc<Self>, has: impl Fn(&KeySet) -> bool) -> Result<Arc<KeySet>, Refusal> {
        let mut ended = self.ended.subscribe();
        {
            let mut state = self.state.lock();
            let is_old = state.keys.as_ref().is_none_or(|(_, since)| since.elapsed() >= FRESH);
            let found = state.usable().filter(|keys| has(keys));
            if found.is_none() || is_old {
                self.fetch(&mut state);
            }
            if let Some(keys) = found {
                return Ok(keys);
            }
            if !state.is_fetching {
                return answer(&state, &has);
            }
        }
        let waited = timeout(WAIT, ended.changed()).await;
        let state = self.state.lock();
        match waited {
            Ok(_) => answer(&state, &has),
            Err(_) => Err(Refusal::Away { again: WAIT.as_secs() }),
        }
    }

    /// Starts a fetch, unless one is under way or was lately.
    fn fetch(self: &Arc<Self>, state: &mut State) {
        if state.is_fetching || state.pause() > Duration::ZERO {
            return;
        }
        (state.is_fetching, state.tried) = (true, Some(Instant::now()));
        let keys = scopeguard::guard(Arc::clone(self), |keys| {
            keys.state.lock().is_fetching = false;
            keys.ended.send_modify(|count| *count += 1);
        });
        tokio::spawn(async move {
            let fetched = timeout(FETCH, fetched(&keys.settings)).await;
            let fetched = fetched.unwrap_or_else(|_| Err(format!("no answer within {FETCH:?}")));
            if let Err(why) = &fetched {
                tracing::warn!(issuer = keys.settings.issuer, why, "the keys of the issuer cannot be fetched");
            }
            let mut state = keys.state.lock();
            match fetched {
                Ok(found) => (state.keys, state.fault) = (Some((Arc::new(found), Instant::now())), None),
                Err(why) => state.fault = Some(why),
            }
        });
    }
}

/// Result of a request after a fetch: the keys, unless the wanted one is not among them and the issuer could not be
/// asked.
fn answer(state: &State, has: impl Fn(&KeySet) -> bool) -> Result<Arc<KeySet>, Refusal> {
    match (state.usable(), &state.fault) {
        (Some(keys), None) => Ok(keys),
        (Some(keys), Some(_)) if has(&keys) => Ok(keys),
        // The reason is in the log: it names addresses that are no client's business.
        _ => Err(Refusal::Away { again: state.pause().as_secs() + 1 }),
    }
}

/// Fetches the keys.
async fn fetched(settings: &ResourceServer) -> Result<KeySet, String> {
    let (documents, url) = match &settings.jwks_url {
        Some(url) => (Documents::of(url, settings.private_network)?, url.clone()),
        None => {
            let issuer = Url::parse(&settings.issuer).map_err(|error| error.to_string())?;
            let documents = Documents::of(&issuer, settings.private_network)?;
            let url = discovered(&documents, &issuer, &settings.issuer).await?;
            (documents, url)
        }
    };
    let text = documents.get(url.clone()).await.map_err(|why| format!("{url}: {why}"))?;
    KeySet::parse(&text).map_err(|why| format!("{url}: {why}"))
}

/// Address of the keys in the issuer's metadata (RFC 8414, OpenID Connect Discovery).
async fn discovered(documents: &Documents, issuer: &Url, name: &str) -> Result<Url, String> {
    #[derive(Deserialize)]
    struct Metadata {
        issuer: String,
        jwks_uri: String,
    }
    let mut faults = Vec::new();
    for place in well_known(issuer) {
        let read = documents.get(place.clone()).await.and_then(|text| {
            json::parse::<Metadata>(&text, limits::ISSUER_DOCUMENT.max).map_err(|error| format!("no metadata: {error}"))
        });
        match read {
            Ok(metadata) if metadata.issuer != name => faults.push(format!("{place}: it is of another issuer")),
            Ok(metadata) => match Url::parse(&metadata.jwks_uri).ok().filter(is_private) {
                Some(url) => return Ok(url),
                None => faults.push(format!("{place}: `jwks_uri` is no https URL")),
            },
            Err(why) => faults.push(format!("{place}: {why}")),
        }
    }
    Err(faults.join("; "))
}
