//! Drives real worker processes over the real frame protocol. This executable is the worker too: `it worker …`.

mod attacks;
#[cfg(target_os = "linux")]
mod confinement;
mod gateway;
mod hostile;
mod limits;
mod python;
mod replay;
mod scenarios;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut args = std::env::args();
    match args.nth(1).as_deref() {
        Some("worker") => return forgefs_worker::main(args),
        #[cfg(target_os = "linux")]
        Some("attempt") => {
            let (layer, name) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
            return confinement::attempt(&layer, &name);
        }
        _ => {}
    }
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(scenarios::trials());
    trials.extend(limits::trials());
    trials.extend(python::trials());
    trials.extend(attacks::trials());
    trials.extend(replay::trials());
    trials.extend(hostile::trials());
    #[cfg(target_os = "linux")]
    trials.extend(confinement::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
