//! Wrong tokens: counted, logged now and then, and answered late where they are many. A right one waits for nothing, so that
//! no stranger keeps a person out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::gateway::Gateway;
use base::listener::network;

/// Time between two answers, once so many were answered at once: to one network, and to all.
const PEER: (Duration, u32) = (Duration::from_millis(100), 60);
const ALL: (Duration, u32) = (Duration::from_millis(20), 300);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(5);
/// Most networks that are remembered; the pause of further ones is that of all.
const PEERS: usize = 1_000;
/// Least time between two lines of the log.
const TOLD: Duration = Duration::from_secs(10);

/// Wrong tokens of a listener.
pub(super) struct Wrong {
    gateway: Arc<Gateway>,
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    /// Last answers, by network; without one, of all.
    last: HashMap<Option<IpAddr>, Instant>,
    told: Option<Instant>,
    untold: u64,
}

impl Wrong {
    pub(super) fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, met: Mutex::default() }
    }

    /// Counts one that a peer sent to a place, and waits until it may be answered.
    pub(super) async fn met(&self, place: &'static str, peer: IpAddr) {
        self.gateway.refused_token(place);
        let (now, peer) = (Instant::now(), network(peer));
        let pause = {
            let mut met = self.met.lock();
            met.untold += 1;
            if met.told.is_none_or(|told| now >= told + TOLD) {
                tracing::warn!(%peer, place, count = met.untold, "wrong tokens were refused; this is the last of them");
                (met.told, met.untold) = (Some(now), 0);
            }
            if met.last.len() >= PEERS {
                met.last.retain(|of, last| of.is_none() || *last > now);
            }
            let is_known = met.last.len() < PEERS || met.last.contains_key(&Some(peer));
            let own = if is_known { met.pause(Some(peer), PEER, now) } else { Duration::ZERO };
            own.max(met.pause(None, ALL, now))
        };
        tokio::time::sleep(pause).await;
    }
}

impl Met {
    /// Pause before the next answer.
    fn pause(&mut self, of: Option<IpAddr>, (apart, at_once): (Duration, u32), now: Instant) -> Duration {
        let (last, ahead) = (self.last.entry(of).or_insert(now), apart * at_once);
        *last = ((*last).max(now) + apart).min(now + ahead + LONGEST);
        last.duration_since(now).saturating_sub(ahead)
    }
}
