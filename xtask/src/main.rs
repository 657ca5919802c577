//! Build, test and demo tasks of ForgeFS: `cargo xtask --help`.

mod bounded;
mod check_stubs;
mod conformance;
mod lines;
mod package;
mod real;
mod rehearse;
mod say;
mod step;
mod suite;
mod tasks;
mod trial;
mod v8;
mod world;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};

use crate::{
    step::StepFailed,
    tasks::{Choice, Workspace},
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::line(format_args!("error: {error:#}"));
            ExitCode::from(error.downcast_ref::<StepFailed>().map_or(1, |failed| failed.code))
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let workspace = Workspace::new(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")));
    match task {
        Task::Demo { build, args } => workspace.demo(build.choice(), &args),
        Task::Test { build, all, engine, args } => workspace.test(build.choice(), all, engine.as_deref(), &args),
        Task::Check => workspace.check(),
        Task::Ci => workspace.ci(),
        Task::CheckStubs => workspace.check_stubs(),
        Task::Conformance { forgefs } => workspace.conformance(forgefs.as_deref()),
        Task::Eval { args } => workspace.measure("eval", &args),
        Task::Tokens { args } => workspace.measure("tokens", &args),
        Task::Bench { names } => workspace.bench(&names),
        Task::V8 => workspace.show_v8(),
        Task::Lines { revision } => workspace.lines(revision.as_deref()),
        Task::Trial { step } => trial::run(&step),
        Task::World(args) => workspace.world(&args),
        Task::Real => workspace.install_real(),
        Task::Docs => workspace.write_docs(),
        Task::Book => workspace.book(),
        Task::Screenshots => workspace.screenshots(),
        Task::Rehearse(args) => rehearse::run(&workspace, &args),
        Task::Package { executables, out } => workspace.package(&executables, out.as_deref()),
    }
}

/// Build, test and demo tasks of ForgeFS.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build `forgefs` in the least time (with V8 if it is found) and run its demo
    Demo {
        #[command(flatten)]
        build: BuildFlags,
        /// Passed on to `forgefs demo`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run the tests: JavaScript on V8 if it is found, and those that see the engine on QuickJS once more
    ///
    /// Installs the pinned real MCP servers of tests/real into target/real first.
    Test {
        #[command(flatten)]
        build: BuildFlags,
        /// Long tests too: random requests, a browser, packages, real servers, every command of the documentation
        #[arg(long)]
        all: bool,
        /// Run the tests once, with JavaScript on this engine [default: V8 if it is found]
        #[arg(long, value_parser = ["quickjs", "v8"], conflicts_with = "all")]
        engine: Option<String>,
        /// Passed on to the test runner, for instance a filter: what it names runs once, on one engine
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Formatting and lints, warnings denied
    Check,
    /// What CI runs: check, docs, the site, then test --all, then eval and check-stubs
    Ci,
    /// Generate stubs from the corpus and the real catalogs, and run every type checker and formatter over them
    ///
    /// Installs the pinned checkers of tests/real into target/real first. Works below target/check-stubs.
    CheckStubs,
    /// Run the MCP conformance suite, both revisions, against `forgefs serve`, as a server and as a client
    ///
    /// Installs the pinned suite of tests/conformance into target/conformance first. Fails when a scenario ends
    /// otherwise than tests/conformance/expected.txt (what agents are served) or expected-client.txt (what servers
    /// see, logins included) says.
    Conformance {
        /// The executable; one is built if none is given
        #[arg(long)]
        forgefs: Option<PathBuf>,
    },
    /// Count production lines by crate and folder: with code, without comments and tests
    Lines {
        /// A revision of the repository, whose lines are printed first
        revision: Option<String>,
    },
    /// Measure how well search finds: recall and rank of the right tools, by set of questions
    ///
    /// Fails when a figure is below its floor in tests/fixtures/retrieval/floors.json. `-- --help` says more.
    Eval {
        /// Passed on, for instance --ablations or --write docs/benchmarks.md
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Count the tokens of the surface and of whole tasks, beside the plain tool list
    Tokens {
        /// Passed on, for instance --write docs/benchmarks.md
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Measure everything that docs/benchmarks.md has a table of, and write the tables
    ///
    /// Minutes, on a machine that does nothing else. With V8 if it is found.
    Bench {
        /// Only these tables
        #[arg(value_parser = tasks::TABLES)]
        names: Vec<String>,
    },
    /// Let a language model do office tasks through the gateway, check their outcome and count calls and tokens
    ///
    /// docs/benchmarks.md has the steps and the table of the transcripts in tests/fixtures/trial.
    Trial {
        #[command(subcommand)]
        step: trial::Step,
    },
    /// Try real servers of npm and PyPI, and write docs/servers-tried.md
    ///
    /// The table of servers is tests/real/world.toml. Each is installed below target/world, connected, listed, searched for,
    /// its stubs type-checked, and called once, confined. Fails when a server became worse than the page says. What was
    /// seen is kept: an interrupted run goes on where it was.
    World(world::WorldArgs),
    /// Say where the V8 library comes from; prints the export line that cargo needs to build with it
    V8,
    /// Install the pinned real MCP servers only, and print where they are
    Real,
    /// Write the pages of docs/ that are made from tables of the code, the outputs in all pages, and the tokens that the demo
    /// shows
    Docs,
    /// Build the documentation site in target/book with mdBook, which is installed into target/real if there is none
    Book,
    /// Take the pictures of docs/images in Chromium: the console over a gateway with sample data
    Screenshots,
    /// Rehearse a release: publish every package to registries on this machine, install, upgrade and remove them
    ///
    /// Works below target/rehearse, in a bare Debian if debootstrap and root are there. docs/releasing.md says what it checks.
    Rehearse(rehearse::Args),
    /// Make the files of a release from built executables: npm packages, wheels, archives, checksums
    ///
    /// Each executable is of another platform, which is read from it. The same executables give the same bytes on every
    /// machine.
    Package {
        /// Built `forgefs` executables, each for another platform
        #[arg(required = true, value_name = "FORGEFS")]
        executables: Vec<PathBuf>,
        /// Folder for the files [default: target/packages]
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

#[derive(Args)]
#[group(multiple = false)]
struct BuildFlags {
    /// Build with V8, beside QuickJS; an error if it is not found
    #[arg(long)]
    v8: bool,
    /// Build with QuickJS alone
    #[arg(long)]
    no_v8: bool,
}

impl BuildFlags {
    fn choice(&self) -> Choice {
        match self {
            Self { v8: true, .. } => Choice::V8,
            Self { no_v8: true, .. } => Choice::QuickJs,
            _ => Choice::WhatIsFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
