//! `cargo xtask eval` and `cargo xtask tokens`: search quality and token cost.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use forgefs_measure::{eval, tokens};

fn main() -> ExitCode {
    let (report, options) = match Cli::parse().command {
        Command::Eval { options, ranking, ablations, sample, set_floors } => {
            let how = eval::How { shared: options.shared(), ranking, ablations, sample, set_floors };
            (eval::run(&how), options)
        }
        Command::Tokens { options } => (tokens::run(options.shared().as_deref()), options),
    };
    let written = report.and_then(|report| {
        print(&report.text);
        match &options.write {
            Some(file) => report.write(file).map(|()| report.failed),
            None => Ok(report.failed),
        }
    });
    match written {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            print(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "what a measurement is for")]
fn print(text: &str) {
    println!("{text}");
}

/// What ForgeFS finds, and what it costs an agent.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Search quality on sets of questions; fails when it falls below the floors of tests/fixtures/retrieval/floors.json
    Eval {
        #[command(flatten)]
        options: Options,
        /// Figures of the ranking to try, as JSON: {"b": 0.5}
        #[arg(long = "ranking")]
        ranking: Option<String>,
        /// Also with parts of the ranking taken away
        #[arg(long)]
        ablations: bool,
        /// Only one question in this many
        #[arg(long, default_value_t = 1)]
        sample: usize,
        /// Make what is found now the floors
        #[arg(long)]
        set_floors: bool,
    },
    /// Tokens that an agent spends: the surface, and whole tasks beside the plain tool list
    Tokens {
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args)]
struct Options {
    /// Folder with more questions and catalogs (`retrieval/`, `catalogs/`); else what FORGEFS_SHARED names
    #[arg(long)]
    shared: Option<PathBuf>,
    /// Put the tables into this file, in place of those from the last time
    #[arg(long)]
    write: Option<PathBuf>,
}

impl Options {
    fn shared(&self) -> Option<PathBuf> {
        let folder = self.shared.clone().or_else(|| std::env::var_os("FORGEFS_SHARED").map(PathBuf::from));
        folder.filter(|folder| !folder.as_os_str().is_empty())
    }
}
