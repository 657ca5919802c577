//! Places for runs, and for shorter work, at once. Those that wait are served in turn by client, so that one client's storm
//! delays another by one run at most, or by one step of shorter work.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use futures::future::OptionFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Party that wants a place, and how many it may have.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The client, or the session of this machine's user.
    pub party: Arc<str>,
    /// Most places of the party.
    pub most: usize,
}

/// Places for steps of shorter work, and how many of them a party may have: there is always one for another.
static STEPS: LazyLock<(Places, usize)> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    (Places::new(processors + 1), processors)
});

/// Does work of a party in turn with that of others. Each step of it, from one wait to the next, takes a place.
pub async fn taking<T>(party: Arc<str>, work: impl Future<Output = T>) -> T {
    let (places, most) = &*STEPS;
    let (turn, mut work) = (Turn { party, most: *most }, Box::pin(work));
    loop {
        let told = places.enter(&turn, usize::MAX);
        // Those that were woken at the same time enter too, before it is decided whose turn it is.
        tokio::task::yield_now().await;
        places.grant();
        let place = OptionFuture::from(told).await;
        let done = futures::poll!(work.as_mut());
        drop(place);
        match done {
            Poll::Ready(done) => return done,
            // Until the work wakes this task.
            Poll::Pending => futures::pending!(),
        }
    }
}

/// Places that are taken in turn.
#[derive(Clone)]
pub struct Places(Arc<Mutex<State>>);

struct State {
    all: usize,
    free: usize,
    /// Places by party.
    held: HashMap<Arc<str>, usize>,
    /// Waiting parties, the one whose turn it is first; each with its requests, oldest first.
    turns: VecDeque<(Arc<str>, VecDeque<Waiter>)>,
}

struct Waiter {
    most: usize,
    tell: oneshot::Sender<Place>,
}

/// A place, free again when dropped.
pub struct Place {
    places: Places,
    party: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let granted = {
            let mut state = self.places.0.lock();
            state.free += 1;
            if let Some(held) = state.held.get_mut(&self.party) {
                *held -= 1;
                if *held == 0 {
                    state.held.remove(&self.party);
                }
            }
            self.places.granted(&mut state)
        };
        // Not under the lock: one that no longer waits gives its place back.
        granted.into_iter().for_each(|(tell, place)| drop(tell.send(place)));
    }
}

impl State {
    fn held(&self, party: &Arc<str>) -> usize {
        self.held.get(party).copied().unwrap_or(0)
    }

    /// Forgets those that no longer wait.
    fn tidy(&mut self) {
        self.turns.iter_mut().for_each(|(_, waiters)| waiters.retain(|waiter| !waiter.tell.is_closed()));
        self.turns.retain(|(_, waiters)| !waiters.is_empty());
    }

    fn waiting(&self) -> usize {
        self.turns.iter().map(|(_, waiters)| waiters.len()).sum()
    }
}

impl Places {
    /// Places for `all` clients together.
    pub fn new(all: usize) -> Self {
        Self(Arc::new(Mutex::new(State { all, free: all, held: HashMap::new(), turns: VecDeque::new() })))
    }

    /// Places in use.
    pub fn busy(&self) -> usize {
        let state = self.0.lock();
        state.all - state.free
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        let mut state = self.0.lock();
        state.tidy();
        state.waiting()
    }

    /// A place at once, if there is one and no other turn is before.
    pub fn take(&self, turn: &Turn) -> Option<Place> {
        let mut state = self.0.lock();
        if state.free == 0 {
            return None;
        }
        state.tidy();
        let is_first = state.turns.is_empty() && state.held(&turn.party) < turn.most;
        is_first.then(|| self.place(&mut state, &turn.party))
    }

    /// Waits for a place, as [`Places::enter`] says.
    pub async fn wait(&self, turn: &Turn, queue: usize) -> Option<Place> {
        let told = self.enter(turn, queue)?;
        self.grant();
        told.await.ok()
    }

    /// Enters the queue, where no more than `queue` requests of a party wait at once; `None` when that many do already. The
    /// place comes with a later grant.
    pub fn enter(&self, turn: &Turn, queue: usize) -> Option<oneshot::Receiver<Place>> {
        let (tell, told) = oneshot::channel();
        let mut state = self.0.lock();
        let waiter = Waiter { most: turn.most, tell };
        match state.turns.iter_mut().find(|(party, _)| *party == turn.party) {
            Some((_, waiters)) => {
                if waiters.len() >= queue {
                    waiters.retain(|waiter| !waiter.tell.is_closed());
                }
                if waiters.len() >= queue {
                    return None;
                }
                waiters.push_back(waiter);
            }
            None if queue == 0 => return None,
            None => state.turns.push_back((Arc::clone(&turn.party), VecDeque::from([waiter]))),
        }
        Some(told)
    }

    /// Gives free places to those whose turn it is.
    pub fn grant(&self) {
        let granted = self.granted(&mut self.0.lock());
        granted.into_iter().for_each(|(tell, place)| drop(tell.send(place)));
    }

    /// Free places for those whose turn it is.
    fn granted(&self, state: &mut State) -> Vec<(oneshot::Sender<Place>, Place)> {
        let mut granted = Vec::new();
        while state.free > 0 {
            let may = |(party, waiters): &(Arc<str>, VecDeque<Waiter>)| {
                waiters.front().is_some_and(|waiter| state.held(party) < waiter.most)
            };
            let Some(next) = state.turns.iter().position(may) else { break };
            let Some((party, mut waiters)) = state.turns.remove(next) else { break };
            while waiters.front().is_some_and(|waiter| waiter.tell.is_closed()) {
                waiters.pop_front();
            }
            if let Some(waiter) = waiters.pop_front() {
                granted.push((waiter.tell, self.place(state, &party)));
            }
            if !waiters.is_empty() {
                state.turns.push_back((party, waiters));
            }
        }
        granted
    }

    fn place(&self, state: &mut State, party: &Arc<str>) -> Place {
        state.free -= 1;
        *state.held.entry(Arc::clone(party)).or_default() += 1;
        Place { places: self.clone(), party: Arc::clone(party) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    fn turn(party: &str, most: usize) -> Turn {
        Turn { party: party.into(), most }
    }

    fn waits<'a>(places: &'a Places, turn: &'a Turn, queue: usize) -> BoxFuture<'a, Option<Place>> {
        let mut waiting = places.wait(turn, queue).boxed();
        assert!((&mut waiting).now_or_never().is_none(), "it waits");
        waiting
    }

    #[test]
    fn a_free_place_goes_to_the_party_whose_turn_it_is() {
        let places = Places::new(1);
        let (storm, other) = (turn("storm", 1), turn("other", 1));
        let first = places.take(&storm).expect("it is free");
        assert!(places.take(&other).is_none() && places.busy() == 1);
        let mut storms: Vec<_> = (0..3).map(|_| waits(&places, &storm, 9)).collect();
        let mut other = waits(&places, &other, 9);
        drop(first);
        let second = storms.remove(0).now_or_never().flatten().expect("the oldest");
        assert!((&mut other).now_or_never().is_none());
        drop(second);
        let third = other.now_or_never().flatten().expect("not the storm's again");
        drop(storms.remove(0));
        drop(third);
        assert!(storms.remove(0).now_or_never().flatten().is_some(), "one that gave up is passed over");
        assert_eq!((places.busy(), places.waiting()), (0, 0));
    }

    #[test]
    fn a_party_has_no_more_than_it_may_in_places_and_in_the_queue() {
        let places = Places::new(4);
        let (storm, other) = (turn("storm", 2), turn("other", 2));
        let held: Vec<_> = (0..2).filter_map(|_| places.take(&storm)).collect();
        assert!(held.len() == 2 && places.take(&storm).is_none());
        let mut storms: Vec<_> = (0..3).map(|_| waits(&places, &storm, 3)).collect();
        assert!(places.wait(&storm, 3).now_or_never().expect("at once").is_none(), "its queue is full");
        drop(storms.pop());
        storms.push(waits(&places, &storm, 3));
        let own: Vec<_> = (0..2).filter_map(|_| places.wait(&other, 3).now_or_never().flatten()).collect();
        assert_eq!(own.len(), 2, "places of its own are free, whoever waits");
        let mut late = waits(&places, &other, 3);
        drop(held);
        for storm in storms {
            assert!(storm.now_or_never().flatten().is_some(), "another's queue takes none of its own");
        }
        drop(own);
        assert!((&mut late).now_or_never().flatten().is_some());
    }
}
