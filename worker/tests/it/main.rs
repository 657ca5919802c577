//! Drives real worker processes over the real frame protocol. This executable is the worker too: `it worker …`.

mod gateway;
mod limits;
mod scenarios;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut args = std::env::args();
    if args.nth(1).as_deref() == Some("worker") {
        return forgefs_worker::main(args);
    }
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(scenarios::trials());
    trials.extend(limits::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
