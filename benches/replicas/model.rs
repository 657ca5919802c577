//! A simulation of replicas and their store: sessions that go round between processors, places for scripts and the one
//! thread of the store, with times that vary as those of independent events do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;

/// Scripts after which the figure is taken, and those before that are left out, a session.
const MEASURED: usize = 40;
const LEFT_OUT: usize = 5;
/// Least number of scripts.
const LEAST: usize = 20_000;

/// Gateways, their store and the sessions of their clients.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    /// Gateways.
    pub(crate) replicas: usize,
    /// Sessions, each with one script at a time.
    pub(crate) sessions: usize,
    /// Scripts at once in a replica.
    pub(crate) places: usize,
    /// Processors of a machine.
    pub(crate) processors: usize,
    /// True if gateways, store and clients are on one machine; each gateway has one of its own otherwise.
    pub(crate) one_machine: bool,
    /// Threads of a gateway's own work.
    pub(crate) threads: usize,
    /// Seconds of a processor that a script takes at its client, in its gateway's process, in workers and servers, and at
    /// the store.
    pub(crate) client: f64,
    pub(crate) gateway: f64,
    pub(crate) workers: f64,
    pub(crate) store: f64,
    /// Answers of the store that a script waits for.
    pub(crate) trips: usize,
}

#[derive(Clone, Copy)]
enum Step {
    Take(usize),
    /// Seconds on average.
    Work(f64),
    Give(usize),
}

/// A semaphore with a FIFO queue of sessions.
#[derive(Default)]
struct Resource {
    free: usize,
    waiting: VecDeque<usize>,
}

impl Model {
    /// Scripts a second.
    pub(crate) fn throughput(&self) -> f64 {
        let mut rng = Rng::with_seed(7);
        let mut resources = self.resources();
        let programs: Vec<Vec<Step>> = (0..self.replicas).map(|replica| self.program(replica)).collect();
        let mut at = vec![0_usize; self.sessions];
        let mut events: BinaryHeap<Reverse<(u64, usize)>> = (0..self.sessions).map(|job| Reverse((0, job))).collect();
        let all = LEAST.max(self.sessions * (LEFT_OUT + MEASURED));
        let left_out = all * LEFT_OUT / (LEFT_OUT + MEASURED);
        let (mut done, mut since) = (0, 0);
        while let Some(Reverse((now, job))) = events.pop() {
            let program = &programs[job % self.replicas];
            loop {
                let step = program[at[job]];
                at[job] = (at[job] + 1) % program.len();
                match step {
                    Step::Work(mean) => {
                        let took = -mean * (1.0 - rng.f64()).ln();
                        events.push(Reverse((now + nanoseconds(took), job)));
                        break;
                    }
                    Step::Take(resource) => {
                        let resource = &mut resources[resource];
                        if resource.free == 0 {
                            resource.waiting.push_back(job);
                            break;
                        }
                        resource.free -= 1;
                    }
                    Step::Give(resource) => match resources[resource].waiting.pop_front() {
                        Some(next) => events.push(Reverse((now, next))),
                        None => resources[resource].free += 1,
                    },
                }
                if at[job] == 0 {
                    done += 1;
                    if done == left_out {
                        since = now;
                    }
                }
            }
            if done >= all {
                return count(done - left_out) * 1e9 / duration(now - since);
            }
        }
        0.0
    }

    /// The store's thread; places, threads and processors of each gateway; the processors of clients and store.
    fn resources(&self) -> Vec<Resource> {
        let others = if self.one_machine { self.processors } else { self.sessions + 1 };
        let of_replica = [self.places, self.threads, self.processors].into_iter().cycle().take(3 * self.replicas);
        let free = std::iter::once(1).chain(of_replica).chain([others]);
        free.map(|free| Resource { free, ..Resource::default() }).collect()
    }

    /// One cycle of a session.
    fn program(&self, replica: usize) -> Vec<Step> {
        let (store, place, others) = (0, 1 + 3 * replica, 1 + 3 * self.replicas);
        let (thread, own) = (place + 1, if self.one_machine { others } else { place + 2 });
        let on =
            |processors: usize, seconds: f64| [Step::Take(processors), Step::Work(seconds), Step::Give(processors)];
        let parts = count(self.trips) + 1.0;
        let part = || {
            let of_gateway = on(own, self.gateway / parts);
            let steps = std::iter::once(Step::Take(thread)).chain(of_gateway).chain([Step::Give(thread)]);
            steps.chain(on(own, self.workers / parts))
        };
        let mut steps = on(others, self.client).to_vec();
        steps.push(Step::Take(place));
        steps.extend(part());
        for _ in 0..self.trips {
            steps.push(Step::Take(store));
            steps.extend(on(others, self.store / count(self.trips)));
            steps.push(Step::Give(store));
            steps.extend(part());
        }
        steps.push(Step::Give(place));
        steps
    }
}

#[expect(clippy::cast_precision_loss, reason = "small")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "hours at most")]
fn duration(nanoseconds: u64) -> f64 {
    nanoseconds as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and hours at most")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
