//! Lists beside the tools: resources, templates and prompts. Nothing waits for them for long. One that comes late has the
//! lists read again; until then a reading is partial.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::client::Client;
use super::listing::Entries;
use base::task::Task;

/// Least time that tools which are listed wait for the other lists.
const SOON: Duration = Duration::from_secs(1);
/// The same in times of what the tools took: a busy machine is slow with both.
const TIMES: u32 = 4;

/// Resources, templates and prompts, each with the reason if it is missing, and the bytes that they count for.
#[derive(Default)]
pub(super) struct Found {
    pub(super) lists: Vec<Result<Entries, String>>,
    pub(super) taken: usize,
}

/// Lists that were asked for, and the last answers.
#[derive(Default)]
pub(super) struct Asked {
    now: Option<Request>,
    last: Arc<Found>,
}

/// A request whose answer no reading has yet.
struct Request {
    /// Changes of these lists that the server had announced before.
    since: u64,
    /// A reading went on without it.
    is_late: bool,
    found: watch::Receiver<Option<Arc<Found>>>,
    /// A later request ends this one: a server that announces changes has one at a time.
    _asking: Task,
}

impl Client {
    /// Asks for the lists, or joins a request for them that is under way.
    pub(super) fn ask_others(self: &Arc<Self>, resources: bool, prompts: bool) -> watch::Receiver<Option<Arc<Found>>> {
        let mut asked = self.others.lock();
        let since = self.service.service().events.changes().others;
        if let Some(request) = asked.now.as_ref().filter(|request| request.since == since) {
            return request.found.clone();
        }
        let (tell, found) = watch::channel(None);
        let (client, own) = (Arc::clone(self), found.clone());
        // It ends by its own timeout.
        let asking = Task::spawn(async move {
            let answer = Arc::new(client.list_others(resources, prompts).await);
            let mut asked = client.others.lock();
            asked.last = Arc::clone(&answer);
            if let Some(request) = asked.now.as_mut().filter(|request| request.found.same_channel(&own))
                && request.is_late
            {
                request.since += 1;
                client.service.service().events.others_changed();
            }
            tell.send_replace(Some(answer));
        });
        asked.now = Some(Request { since, is_late: false, found: found.clone(), _asking: asking });
        found
    }

    /// The lists if they come soon, else the last ones; true if they are late.
    pub(super) async fn others_soon(
        &self,
        mut found: watch::Receiver<Option<Arc<Found>>>,
        took: Duration,
    ) -> (Arc<Found>, bool) {
        let _ = tokio::time::timeout(SOON.max(took * TIMES), found.wait_for(Option::is_some)).await;
        let mut asked = self.others.lock();
        let is_own = asked.now.as_ref().is_some_and(|request| request.found.same_channel(&found));
        let answer = found.borrow().clone();
        match answer {
            Some(answer) => {
                asked.now.take_if(|_| is_own);
                (answer, false)
            }
            None => {
                asked.now.iter_mut().filter(|_| is_own).for_each(|request| request.is_late = true);
                (Arc::clone(&asked.last), true)
            }
        }
    }

    /// Waits for the lists that are late.
    pub(super) async fn others_listed(&self) {
        let found = self.others.lock().now.as_ref().map(|request| request.found.clone());
        if let Some(mut found) = found {
            let _ = found.wait_for(Option::is_some).await;
        }
    }
}
