//! JavaScript: code shared by QuickJS and V8.
//!
//! `prelude.js` builds the script API on the functions of a [`Port`]; [`drive`] is the event loop. An engine only
//! provides a [`Realm`]: a fresh global scope with the prelude in it.
//!
//! Values cross as JSON text, by `JSON.parse` and `JSON.stringify`, and no number is rounded: an integer beyond 2^53 is a
//! BigInt, any other number that a double does not hold an object with its digits. Both are numbers again on the way
//! out, where values that `JSON.stringify` would drop or mangle silently (NaN, Map, Set, promises, cycles) are errors.

mod clock;
mod natives;
mod port;
#[cfg(feature = "quickjs")]
pub(crate) mod quickjs;
mod report;
mod timers;
#[cfg(feature = "v8")]
pub(crate) mod v8;

use serde::Serialize;
use wire::{JAVASCRIPT_GLOBALS, Json, Outcome, Run, ScriptError, Server};

use crate::engine::{self, SharedHost, heap_error, result_json, stalled_error};
use crate::watchdog::Interrupt;

use port::{Port, Settled};

/// The script API.
const PRELUDE: &str = concat!(include_str!("prelude.js"), include_str!("web.js"));
/// Name of the prelude in stacks, which omit its frames.
const PRELUDE_NAME: &str = "forge:prelude";
/// The script's name in stacks.
const SCRIPT_NAME: &str = "script.js";

/// Most rejections kept for the report.
const MAX_REJECTIONS: usize = 100;

/// A scope of an engine with its running script.
struct Turn<'a, S> {
    scope: &'a mut S,
    run: &'a Run,
}

/// A global scope with a started script.
trait Realm {
    /// Runs microtasks until there are none.
    fn drain(&mut self) -> Result<(), ScriptError>;

    /// Delivers the answer to a call to the prelude.
    fn deliver(&mut self, call: u64, ok: bool, json: &str) -> Result<(), ScriptError>;

    /// Runs a timer's function.
    fn fire(&mut self, timer: u32) -> Result<(), ScriptError>;

    /// Report of an unhandled rejection.
    fn unhandled(&mut self) -> Option<String>;
}

/// The prelude's functions for the host, as an engine holds functions.
struct Bridge<F> {
    run: F,
    deliver: F,
    fire: F,
    expose: F,
    describe: F,
}

impl<F> Bridge<F> {
    fn of<E>(function: impl Fn(&str) -> Result<F, E>) -> Result<Self, E> {
        Ok(Self {
            run: function("run")?,
            deliver: function("deliver")?,
            fire: function("fire")?,
            expose: function("expose")?,
            describe: function("describe")?,
        })
    }
}

/// Reason why an engine stopped a script, if it did.
fn stopped(is_heap_used_up: bool, interrupt: &Interrupt, run: &Run, port: &Port) -> Option<ScriptError> {
    match is_heap_used_up {
        true => Some(heap_error(run)),
        false => interrupt.is_raised().then(|| cpu_error(run, port)),
    }
}

/// A run as the prelude's `expose` takes it: JSON.
fn exposed(run: &Run) -> String {
    #[derive(Serialize)]
    struct Exposed<'r> {
        servers: Vec<&'r Server>,
        calls: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<&'r Json>,
    }
    // A checker takes these names for the language's own, which not every engine has.
    let is_free = |server: &&Server| !JAVASCRIPT_GLOBALS.contains(&server.ident.as_str());
    let servers = run.servers.iter().filter(is_free).collect();
    let exposed = Exposed { servers, calls: run.limits.calls, args: run.args.as_ref() };
    serde_json::to_string(&exposed).unwrap_or_default()
}

/// Error: the run's CPU time is used up, with the likely reason.
fn cpu_error(run: &Run, port: &Port) -> ScriptError {
    let error = engine::cpu_error(run);
    if !port.is_spinning() {
        return error;
    }
    let why = "the clock stands still while a script computes, so a loop that waits for Date.now() never ends";
    let fix = "wait with `await new Promise((done) => setTimeout(done, 1000))`";
    ScriptError { message: format!("{}; {why}", error.message), fix: Some(fix.to_owned()), ..error }
}

/// Runs the event loop until the script's promise is settled. Each reply and each timer is a turn of its own: its
/// microtasks run before the next reply is looked at, so that what a script does depends on the order of replies, and
/// not on how many have arrived.
fn drive(realm: &mut impl Realm, port: &Port, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
    loop {
        realm.drain()?;
        if let Some(settled) = port.take_settled() {
            return match (settled, realm.unhandled()) {
                (Settled::Failed(report), _) => Err(report::script_error(run, &report)),
                (Settled::Done(_), Some(report)) => Err(report::unhandled_error(run, &report)),
                (Settled::Done(json), None) => result_json(run, json),
            };
        }
        if let Some(timer) = port.next_timer() {
            realm.fire(timer)?;
            continue;
        }
        if !port.has_timers() && host.borrow().in_flight() == 0 {
            let report = realm.unhandled();
            return Err(report.map_or_else(stalled_error, |report| report::unhandled_error(run, &report)));
        }
        let reply = host.borrow_mut().recv();
        if port.arrived(&reply) {
            continue;
        }
        match reply.outcome {
            Outcome::Ok(json) => realm.deliver(reply.call, true, json.get())?,
            Outcome::Err(error) => {
                let json = serde_json::to_string(&error).unwrap_or_else(|_| "{}".to_owned());
                realm.deliver(reply.call, false, &json)?;
            }
        }
    }
}
