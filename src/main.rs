//! The executable: the gateway's command line, and in `forgefs worker` the sandbox worker.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The worker bypasses the command line: it starts without parsing, logging or a runtime.
    if args.next().is_some_and(|first| first == "worker") {
        return worker::main(args.map(|arg| arg.to_string_lossy().into_owned()));
    }
    forgefs::cli::run(std::env::args_os(), worker::JS_ENGINES)
}
