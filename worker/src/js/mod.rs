//! JavaScript: code shared by QuickJS and V8.
//!
//! `prelude.js` builds the script API on four functions of a [`Port`]; [`drive`] is the event loop. An engine only
//! provides a [`Realm`]: a fresh global scope with the prelude in it.
//!
//! Values cross as JSON text, by `JSON.parse` and `JSON.stringify`: integers beyond 2^53 lose digits, as in any
//! JavaScript (Starlark keeps them), and `1e400` becomes infinity. On the way out, values that `JSON.stringify` would
//! drop or mangle silently (NaN, BigInt, Map, Set, promises, cycles) are errors.

mod natives;
mod port;
#[cfg(feature = "quickjs")]
pub(crate) mod quickjs;
mod report;
#[cfg(feature = "v8")]
pub(crate) mod v8;

use wire::{Json, Outcome, Run, ScriptError};

use crate::engine::{SharedHost, result_json, stalled_error};

use port::{Port, Settled};

/// The script API.
const PRELUDE: &str = concat!(include_str!("prelude.js"), include_str!("web.js"));
/// Name of the prelude in stacks, which omit its frames.
const PRELUDE_NAME: &str = "forge:prelude";
/// The script's name in stacks.
const SCRIPT_NAME: &str = "script.js";

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

/// A run as the prelude's `expose` takes it: JSON.
fn exposed(run: &Run) -> String {
    serde_json::json!({ "servers": run.servers, "calls": run.limits.calls }).to_string()
}

/// Runs the event loop until the script's promise is settled.
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
        let timer = port.next_timer();
        if timer.is_none() && host.borrow().in_flight() == 0 {
            let report = realm.unhandled();
            return Err(report.map_or_else(stalled_error, |report| report::unhandled_error(run, &report)));
        }
        let reply = host.borrow_mut().recv(timer);
        if let Some(reply) = reply {
            match reply.outcome {
                Outcome::Ok(json) => realm.deliver(reply.call, true, json.get())?,
                Outcome::Err(error) => {
                    let json = serde_json::to_string(&error).unwrap_or_else(|_| "{}".to_owned());
                    realm.deliver(reply.call, false, &json)?;
                }
            }
        }
        for timer in port.due_timers() {
            realm.fire(timer)?;
            realm.drain()?;
        }
    }
}
