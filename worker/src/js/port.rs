//! Host functions of the prelude.

use std::cell::RefCell;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use wire::json::without_lone_surrogates;
use wire::{CallError, Op, Reply, Run, Stream};

use super::clock::Clock;
use super::timers::Timers;
use crate::engine::{SharedHost, invalid_call_error};

/// The prelude's host functions: made with the realm, connected to a host during a run.
#[derive(Default)]
pub(super) struct Port {
    host: RefCell<Option<SharedHost>>,
    clock: Clock,
    /// Everything random: one sequence for a seed, on every engine.
    random: RefCell<Option<ChaCha20Rng>>,
    timers: RefCell<Timers>,
    settled: RefCell<Option<Settled>>,
}

/// Outcome of the script's promise.
pub(super) enum Settled {
    /// With a value, as JSON.
    Done(String),
    /// With an error, as reported by the prelude.
    Failed(String),
}

impl Port {
    pub(super) fn connect(&self, run: &Run, host: &SharedHost) {
        *self.host.borrow_mut() = Some(SharedHost::clone(host));
        *self.random.borrow_mut() = Some(ChaCha20Rng::from_seed(run.seed));
        self.clock.start(run.now_ms);
    }

    /// Forgets a run, for the next one.
    #[cfg(feature = "quickjs")]
    pub(super) fn disconnect(&self) {
        let Self { host, clock: _, random, timers, settled } = self;
        (*host.borrow_mut(), *random.borrow_mut(), *settled.borrow_mut()) = (None, None, None);
        *timers.borrow_mut() = Timers::default();
    }

    /// `host.send(op)`: the call's number, or the [`CallError`] as JSON.
    pub(super) fn send(&self, op: &str) -> Result<u64, String> {
        // `JSON.rawJSON` passes on any text of a script.
        let parsed = serde_json::from_str::<Op>(&without_lone_surrogates(op))
            .map_err(|error| invalid_call_error(format!("the request cannot be sent: {error}")));
        parsed.and_then(|op| self.request(op)).map_err(|error| error_json(&error))
    }

    /// `host.output(isError, text)`.
    pub(super) fn output(&self, is_error: bool, text: &str) {
        if let Some(host) = &*self.host.borrow() {
            host.borrow_mut().output(if is_error { Stream::Err } else { Stream::Out }, text);
        }
    }

    /// `host.progress(text)`.
    pub(super) fn progress(&self, text: &str) {
        if let Some(host) = &*self.host.borrow() {
            host.borrow_mut().output(Stream::Progress, text);
        }
    }

    /// `host.timer(id, ms)`: sets a timer, or cancels it when `ms` is negative. Fails as `host.send` does.
    pub(super) fn timer(&self, id: u32, ms: f64) -> Result<(), String> {
        if ms < 0.0 {
            self.timers.borrow_mut().cancel(id);
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the prelude bounds it")]
        let ms = ms as u32;
        if ms == 0 && self.timers.borrow().may_run_now() {
            self.timers.borrow_mut().set_now(id);
            return Ok(());
        }
        let ms = ms.max(1);
        let call = self.request(Op::Sleep { ms }).map_err(|error| error_json(&error))?;
        self.timers.borrow_mut().set(id, self.clock.now_ms().saturating_add(u64::from(ms)), call);
        Ok(())
    }

    /// `host.now()`, in milliseconds.
    pub(super) fn now(&self) -> f64 {
        self.clock.read()
    }

    /// `host.random()`: a number from 0 to below 1, with 53 random bits.
    pub(super) fn random(&self) -> f64 {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        let mut random = self.random.borrow_mut();
        #[expect(clippy::cast_precision_loss, reason = "a double has 53 bits")]
        random.as_mut().map_or(0.0, |random| (random.next_u64() >> 11) as f64 * UNIT)
    }

    /// True if the script waits in a loop for its clock to move.
    pub(super) fn is_spinning(&self) -> bool {
        self.clock.is_spinning()
    }

    /// `host.settle(ok, text)`.
    pub(super) fn settle(&self, ok: bool, text: String) {
        let text = without_lone_surrogates(&text).into_owned();
        // A limit of the run settles it before the script's promise does.
        self.settled.borrow_mut().get_or_insert(if ok { Settled::Done(text) } else { Settled::Failed(text) });
    }

    pub(super) fn take_settled(&self) -> Option<Settled> {
        self.settled.borrow_mut().take()
    }

    /// Moves the clock to a reply that the script is about to get; true if the reply is that of a timer.
    pub(super) fn arrived(&self, reply: &Reply) -> bool {
        self.clock.advance(reply.now_ms);
        let due = self.timers.borrow_mut().answered(reply.call);
        // By its own clock no timer runs early, even if the system's was set back.
        due.inspect(|due| self.clock.advance(*due)).is_some()
    }

    pub(super) fn has_timers(&self) -> bool {
        !self.timers.borrow().is_empty()
    }

    /// Takes the next timer that is ready.
    pub(super) fn next_timer(&self) -> Option<u32> {
        self.timers.borrow_mut().next_ready()
    }

    fn request(&self, op: Op) -> Result<u64, CallError> {
        match &*self.host.borrow() {
            Some(host) => host.borrow_mut().send(op),
            None => Err(invalid_call_error("no script is running".to_owned())),
        }
    }
}

fn error_json(error: &CallError) -> String {
    serde_json::to_string(error).unwrap_or_else(|_| "{}".to_owned())
}
