//! Suspended requests of one client. Each holds its work so far, so there are few of them: one more, and the one that
//! has waited longest is abandoned.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use base::error::{Error, ErrorCode};

/// Most suspended requests of one client.
const MAX_WAITING: usize = 16;

/// Suspended requests of one client, longest first.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    requests: Arc<Mutex<VecDeque<Entry>>>,
    count: Arc<AtomicU64>,
}

struct Entry {
    request: u64,
    questions: usize,
    /// Dropped to abandon the request.
    kept: watch::Sender<()>,
}

impl Waiting {
    /// A number for a new request.
    pub(super) fn number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a request waits for an answer, or for one more.
    pub(super) fn enter(&self, request: u64) -> Place {
        let mut requests = self.requests.lock();
        let kept = match requests.iter_mut().find(|entry| entry.request == request) {
            Some(entry) => {
                entry.questions += 1;
                entry.kept.subscribe()
            }
            None => {
                let (kept, is_kept) = watch::channel(());
                requests.push_back(Entry { request, questions: 1, kept });
                is_kept
            }
        };
        if requests.len() > MAX_WAITING {
            requests.pop_front();
        }
        Place { waiting: self.clone(), request, kept }
    }
}

/// An unanswered question.
pub(super) struct Place {
    waiting: Waiting,
    request: u64,
    kept: watch::Receiver<()>,
}

impl Place {
    /// Returns once the request is abandoned, with the reason.
    pub(super) async fn given_up(&mut self) -> Error {
        while self.kept.changed().await.is_ok() {}
        Error::new(
            ErrorCode::ApprovalDenied,
            format!("the question was given up: {MAX_WAITING} later requests of this client wait for an answer too"),
        )
        .hint("answer the questions that are open, then run it again")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut requests = self.waiting.requests.lock();
        let Some(position) = requests.iter().position(|entry| entry.request == self.request) else { return };
        requests[position].questions -= 1;
        if requests[position].questions == 0 {
            requests.remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_request_that_has_waited_longest_is_given_up() {
        let waiting = Waiting::default();
        let mut places: Vec<Place> = (0..MAX_WAITING as u64).map(|request| waiting.enter(request)).collect();
        let mut again = waiting.enter(0);
        assert!(places.iter_mut().all(|place| place.given_up().now_or_never().is_none()));
        let mut late = waiting.enter(100);
        for place in [&mut places[0], &mut again] {
            let error = place.given_up().now_or_never().expect("it is given up");
            assert!(error.message.contains("16 later requests"), "{error}");
        }
        assert!(late.given_up().now_or_never().is_none() && places[1].given_up().now_or_never().is_none());
        drop(places);
        drop(again);
        assert_eq!(waiting.requests.lock().len(), 1, "an answered question makes room");
        drop(late);
        assert!(waiting.requests.lock().is_empty());
    }
}
