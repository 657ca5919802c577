//! The ForgeFS sandbox worker: one process, one script at a time, in an engine behind one trait; and the checker, a
//! process that parses scripts and runs none.
//!
//! - [`main`]: entry of `forgefs worker`. Frames (crate `wire`) on stdin and stdout, nothing else.
//! - `serve`: the threads of the process and the loop over runs.
//! - `check`: JavaScript and TypeScript before they run, in the checker.
//! - `engine`: the traits `Engine` and `Host` between loop and engines.
//! - `inbox`: frames from the gateway, read by the thread that needs them.
//! - `lines`: places in scripts.
//! - `host`: the host side of one run: calls, replies, output, counted.
//! - `watchdog`: CPU time; `last_words`: the final frame when memory runs out beyond rescue.
//! - `js`: JavaScript, one prelude and one event loop over QuickJS or V8. `starlark`: Starlark.
//!
//! Before the first script it drops its privileges, by the crate `confine`. The worker trusts the gateway, which does not
//! trust the worker: it holds no secret, no connection and no file.

#![expect(clippy::result_large_err, reason = "a script error is made once a run, where a run is thousands of steps")]

mod check;
mod engine;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod inbox;
#[cfg(any(feature = "quickjs", feature = "v8"))]
mod js;
mod last_words;
mod lines;
mod serve;
#[expect(unsafe_code, reason = "derives of the crate starlark implement its unsafe marker traits")]
mod starlark;
mod watchdog;

use std::io::Write;
use std::process::ExitCode;

/// Runs a worker until its stdin ends. `args` are those after `forgefs worker`: `--engine quickjs|v8` chooses
/// between the JavaScript engines of this build, V8 being preferred. With `--check` at the end it is a checker.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let mut args: Vec<String> = args.collect();
    let is_checker = args.pop_if(|last| last == "--check").is_some();
    let served = JsEngine::from_args(args.into_iter()).and_then(|js| match is_checker {
        true => serve::check_scripts(),
        false => serve::run_scripts(js),
    });
    match served {
        Ok(never) => match never {},
        Err(reason) => {
            // Stderr may be closed; the exit code suffices.
            let _ = writeln!(std::io::stderr(), "forgefs worker: {reason:#}");
            ExitCode::from(serve::EXIT_START)
        }
    }
}

/// JavaScript engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsEngine {
    #[cfg(feature = "quickjs")]
    QuickJs,
    #[cfg(feature = "v8")]
    V8,
    #[cfg(not(any(feature = "quickjs", feature = "v8")))]
    None,
}

/// The names of the JavaScript engines of this build, as `--engine` takes them.
pub const JS_ENGINES: &[&str] = &[
    #[cfg(feature = "quickjs")]
    wire::EngineName::QuickJs.as_str(),
    #[cfg(feature = "v8")]
    wire::EngineName::V8.as_str(),
];

impl JsEngine {
    fn from_args(mut args: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let Some(flag) = args.next() else { return Ok(Self::preferred()) };
        let name = args.next().unwrap_or_default();
        if flag != "--engine" || args.next().is_some() {
            anyhow::bail!("usage: forgefs worker [--engine quickjs|v8] [--check]");
        }
        match name.as_str() {
            #[cfg(feature = "quickjs")]
            "quickjs" => Ok(Self::QuickJs),
            #[cfg(feature = "v8")]
            "v8" => Ok(Self::V8),
            _ => anyhow::bail!("this build has no JavaScript engine `{name}`"),
        }
    }

    fn preferred() -> Self {
        #[cfg(feature = "v8")]
        return Self::V8;
        #[cfg(all(feature = "quickjs", not(feature = "v8")))]
        return Self::QuickJs;
        #[cfg(not(any(feature = "quickjs", feature = "v8")))]
        return Self::None;
    }
}
