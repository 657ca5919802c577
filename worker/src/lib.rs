//! The ForgeFS sandbox worker: one process, one script at a time, in an engine behind one trait.
//!
//! - [`main`]: what `forgefs worker` runs. Frames (crate `wire`) on stdin and stdout, nothing else.
//! - `serve`: the threads of the process and the loop over runs.
//! - `engine`: the traits `Engine` and `Host` between loop and engines.
//! - `inbox`: frames from the gateway, read where they are needed.
//! - `host`: the host side of one run: calls, replies, output, counted.
//! - `watchdog`: CPU time; `last_words`: what is sent when memory runs out beyond rescue.
//! - `js`: JavaScript, one prelude and one event loop over QuickJS or V8. `starlark`: Starlark.
//! - `confine`: what the process gives up before it reads its first script.
//!
//! The worker trusts the gateway and nobody trusts the worker: it holds no secret, no connection and no file.

#![expect(clippy::result_large_err, reason = "a script error is made once a run, where a run is thousands of steps")]

mod confine;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod inbox;
#[cfg(any(feature = "quickjs", feature = "v8"))]
mod js;
mod last_words;
mod serve;
#[expect(unsafe_code, reason = "derives of the crate starlark implement its unsafe marker traits")]
mod starlark;
mod watchdog;

use std::io::Write;
use std::process::ExitCode;

/// Runs a worker until its stdin ends. `args` are those after `forgefs worker`: `--engine quickjs|v8` chooses
/// between the JavaScript engines of this build, V8 being preferred.
#[must_use]
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let served = JsEngine::from_args(args).and_then(serve::serve);
    match served {
        Ok(never) => match never {},
        Err(reason) => {
            // Nobody may be listening; the exit code says enough.
            let _ = writeln!(std::io::stderr(), "forgefs worker: {reason:#}");
            ExitCode::from(serve::EXIT_START)
        }
    }
}

/// Puts the process sandbox on the calling process, as a worker does before its first script, and says of each layer
/// whether it holds. There is no way back.
#[must_use]
pub fn confine() -> Vec<wire::Layer> {
    let mut layers = confine::before_threads();
    layers.extend(confine::after_threads());
    layers
}

/// Puts one layer of the process sandbox on the calling process, for tests that show what each stops by itself:
/// `parent_death`, `no_new_privs`, `dumpable`, `landlock`, `rlimits`, `processes`, `seccomp_deny`, `seccomp_allow`, and
/// `memory` for the limit that a run with a heap of 16 MiB has. The answer says whether it holds.
#[doc(hidden)]
#[must_use]
pub fn confine_by(layer: &str) -> wire::Layer {
    if layer == "memory" {
        confine::DataLimit::new().set(16 << 20);
        return wire::Layer { name: layer.to_owned(), active: cfg!(target_os = "linux"), detail: String::new() };
    }
    confine::apply(layer)
}

/// The engine that runs JavaScript.
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
    "quickjs",
    #[cfg(feature = "v8")]
    "v8",
];

impl JsEngine {
    fn from_args(mut args: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let Some(flag) = args.next() else { return Ok(Self::preferred()) };
        let name = args.next().unwrap_or_default();
        if flag != "--engine" || args.next().is_some() {
            anyhow::bail!("usage: forgefs worker [--engine quickjs|v8]");
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
