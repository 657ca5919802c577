//! The executable: the gateway's command line, in `forgefs worker` the sandbox worker, and in `forgefs confined` what
//! becomes a confined server.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // These bypass the command line: they start without parsing, logging or a runtime.
    match args.next() {
        Some(first) if first == "worker" => worker::main(args.map(|arg| arg.to_string_lossy().into_owned())),
        Some(first) if first == "confined" => confine::server::main(args),
        _ => forgefs::cli::run(std::env::args_os(), worker::JS_ENGINES).into(),
    }
}
