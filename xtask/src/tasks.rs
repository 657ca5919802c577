//! The tasks, with the commands of each in order.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::bail;

use crate::{
    check_stubs,
    conformance::{self, Sides},
    package, real, say, step,
    suite::Suite,
    v8::V8,
    world,
};

/// Requested JavaScript engines of a task.
#[derive(Clone, Copy)]
pub(crate) enum Choice {
    /// QuickJS, and V8 if its library is found.
    WhatIsFound,
    QuickJs,
    V8,
}

/// A build of the workspace.
pub(crate) enum Build {
    QuickJs,
    /// With QuickJS too, and the archive to link, unless the crate fetches its own.
    V8(Option<PathBuf>),
}

impl Build {
    /// The engine that its executable prefers.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::QuickJs => "QuickJS",
            Self::V8(_) => "V8",
        }
    }

    /// Arguments of cargo that build a program of the workspace. The examples are asked for since they have the features of
    /// the tests: others would build half of the dependencies again.
    pub(crate) fn program(name: &str) -> [&str; 5] {
        ["build", "--workspace", "--examples", "--bin", name]
    }

    /// A program in the debug folder of the checkout.
    pub(crate) fn debug(root: &Path, name: &str) -> PathBuf {
        Self::target(root, "debug", name)
    }

    fn target(root: &Path, profile: &str, name: &str) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        target.join(profile).join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    /// A cargo command with the features of this build.
    pub(crate) fn cargo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // What cargo says of xtask itself is an input of build scripts, which would run again for a command typed by hand.
        for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_package(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.args(words);
        if let Self::V8(archive) = self {
            command.args(["--features", "forgefs/v8"]);
            if let Some(archive) = archive {
                command.env("RUSTY_V8_ARCHIVE", archive);
            }
        }
        command
    }
}

/// True for variables that `cargo run` sets for the package that it runs.
fn is_of_a_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The tables of docs/benchmarks.md, in its order.
pub(crate) const TABLES: [&str; 9] =
    ["eval", "tokens", "catalog", "broker", "check", "gateway", "growth", "endpoint", "hostile"];

/// A checkout of ForgeFS.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
}

impl Workspace {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn demo(&self, choice: Choice, args: &[String]) -> anyhow::Result<()> {
        let build = self.build(choice)?;
        say::line(format_args!("Building the demo with {}.", build.name()));
        let mut command = build.cargo(&["run", "--profile", "demo", "--package", "forgefs", "--bin", "forgefs"]);
        step::run(command.args(["--", "demo"]).args(args).current_dir(&self.root))?;
        Ok(())
    }

    /// Runs the suite, or with `args` or an engine the tests that they name, once.
    pub(crate) fn test(
        &self,
        choice: Choice,
        is_all: bool,
        engine: Option<&str>,
        args: &[String],
    ) -> anyhow::Result<()> {
        let choice = match (choice, engine) {
            (Choice::QuickJs, Some("v8")) => bail!("--engine v8 needs a build with V8, and --no-v8 makes one without"),
            (_, Some("v8")) => Choice::V8,
            (choice, _) => choice,
        };
        let build = self.build(choice)?;
        step::plan(Suite::steps(&build, is_all));
        let mut suite = Suite::new(&self.root, &build)?;
        if args.is_empty() && engine.is_none() { suite.run(is_all) } else { suite.run_some(engine, args) }
    }

    pub(crate) fn conformance(&self, forgefs: Option<&Path>) -> anyhow::Result<()> {
        if let Some(forgefs) = forgefs {
            return conformance::run(&self.root, &forgefs.canonicalize()?, Sides::Both);
        }
        conformance::run(&self.root, &self.built(&Build::QuickJs)?, Sides::Both)
    }

    pub(crate) fn world(&self, args: &world::WorldArgs) -> anyhow::Result<()> {
        let forgefs = match &args.forgefs {
            Some(forgefs) => forgefs.canonicalize()?,
            None => self.built(&Build::QuickJs)?,
        };
        world::run(&self.root, forgefs, args)
    }

    /// A built `forgefs`.
    fn built(&self, build: &Build) -> anyhow::Result<PathBuf> {
        step::run(build.cargo(&Build::program("forgefs")).current_dir(&self.root))?;
        Ok(Build::debug(&self.root, "forgefs"))
    }

    /// A `forgefs` as the release workflow builds it, with V8 if it is found.
    pub(crate) fn released(&self) -> anyhow::Result<PathBuf> {
        let build = self.build(Choice::WhatIsFound)?;
        step::run(build.cargo(&["build", "--release", "--locked", "--bin", "forgefs"]).current_dir(&self.root))?;
        Ok(Build::target(&self.root, "release", "forgefs"))
    }

    /// Formatting and lints.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let build = self.build(Choice::WhatIsFound)?;
        step::plan(Self::check_steps(&build));
        self.check_with(&build)
    }

    /// Cheap checks first; tests and the table of the stubs last, so that the log ends with their counts.
    pub(crate) fn ci(&self) -> anyhow::Result<()> {
        let build = self.build(Choice::WhatIsFound)?;
        step::plan(Self::check_steps(&build) + Suite::steps(&build, true) + 6);
        self.check_with(&build)?;
        step::begin(format_args!("documentation of the code"));
        // With the examples, it takes the dependencies that the lints checked.
        let mut docs = build.cargo(&["doc", "--workspace", "--no-deps", "--lib", "--bin", "xtask", "--examples"]);
        step::run(docs.env("RUSTDOCFLAGS", "-D warnings").current_dir(&self.root))?;
        step::begin(format_args!("the site"));
        match real::install_book(&self.root) {
            Ok(Some(mdbook)) => self.build_book(&mdbook)?,
            Ok(None) => {}
            Err(error) => say::skipped("the site", format_args!("{error:#}")),
        }
        Suite::new(&self.root, &build)?.run(true)?;
        step::begin(format_args!("real servers, five of docs/servers-tried.md"));
        world::run(&self.root, self.built(&build)?, &world::WorldArgs::ci())?;
        step::begin(format_args!("conformance towards servers, with logins"));
        conformance::run(&self.root, &self.built(&build)?, Sides::Client)?;
        step::begin(format_args!("quality of search"));
        self.measure_with(&build, "eval", &[])?;
        step::begin(format_args!("stubs of all catalogs"));
        // Before the table of the stubs, so that the log ends with its counts.
        step::say_times();
        check_stubs::run(&self.root, &build)
    }

    pub(crate) fn check_stubs(&self) -> anyhow::Result<()> {
        check_stubs::run(&self.root, &self.build(Choice::WhatIsFound)?)
    }

    /// Measures search or tokens.
    pub(crate) fn measure(&self, what: &str, args: &[String]) -> anyhow::Result<()> {
        self.measure_with(&self.build(Choice::WhatIsFound)?, what, args)
    }

    fn measure_with(&self, build: &Build, what: &str, args: &[String]) -> anyhow::Result<()> {
        step::run(build.cargo(&Build::program("forgefs-measure")).arg("--quiet").current_dir(&self.root))?;
        let mut command = Command::new(Build::debug(&self.root, "forgefs-measure"));
        step::run(command.arg(what).args(args).current_dir(&self.root))?;
        Ok(())
    }

    /// Writes the tables of docs/benchmarks.md, by default all.
    pub(crate) fn bench(&self, names: &[String]) -> anyhow::Result<()> {
        const WRITE: [&str; 2] = ["--write", "docs/benchmarks.md"];
        let build = self.build(Choice::WhatIsFound)?;
        for table in TABLES.iter().filter(|table| names.is_empty() || names.iter().any(|name| name == *table)) {
            match *table {
                "eval" => self.measure(table, &["--ablations", WRITE[0], WRITE[1]].map(str::to_owned))?,
                "tokens" => self.measure(table, &WRITE.map(str::to_owned))?,
                bench => {
                    let mut command = build.cargo(&["bench", "--workspace", "--bench", bench]);
                    // Benches run in the folder of their package, the root.
                    step::run(command.arg("--").args(WRITE).current_dir(&self.root))?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn show_v8(&self) -> anyhow::Result<()> {
        match V8::find(&self.root)? {
            V8::Archive(archive) => say::output(format_args!("export RUSTY_V8_ARCHIVE={}", archive.display())),
            V8::Download(url) => say::line(format_args!("cargo downloads V8 on its own: {url}")),
            V8::Missing(why) => bail!("V8 is not found: {why}"),
        }
        Ok(())
    }

    /// The tests that compare the pages write them on request.
    pub(crate) fn write_docs(&self) -> anyhow::Result<()> {
        // One filter each: a test binary of the workspace takes no more.
        let of_all = |pages| ["test", "--workspace", "--test", "it", "--", pages];
        let schema = ["test", "--package", "forgefs-config", "--lib", "--", "schema::"];
        for words in [schema, of_all("docs::"), of_all("site::")] {
            let mut command = Build::QuickJs.cargo(&words);
            step::run(command.env("FORGEFS_WRITE_DOCS", "1").current_dir(&self.root))?;
        }
        Ok(())
    }

    /// Builds the site in target/book, with an installed mdBook or the pinned one.
    pub(crate) fn book(&self) -> anyhow::Result<()> {
        if step::probe("mdbook", &["--version"]).is_some() {
            return self.build_book(Path::new("mdbook"));
        }
        match real::install_book(&self.root)? {
            Some(mdbook) => self.build_book(&mdbook),
            None => bail!(
                "mdbook is not installed, and there is no Python to install it with: `cargo install --locked mdbook`"
            ),
        }
    }

    fn build_book(&self, mdbook: &Path) -> anyhow::Result<()> {
        step::run(Command::new(mdbook).args(["build", "docs"]).current_dir(&self.root))?;
        Ok(())
    }

    /// The test that seeds a gateway for the browser takes its pictures on request.
    pub(crate) fn screenshots(&self) -> anyhow::Result<()> {
        let checkers = real::install_checkers(&self.root);
        let exact =
            ["test", "--workspace", "--test", "it", "--", "--ignored", "--exact", "console::browser::screenshots"];
        step::run(Build::QuickJs.cargo(&exact).envs(checkers.variables()).current_dir(&self.root))?;
        Ok(())
    }

    /// Makes the files of a release, by default in target/packages.
    pub(crate) fn package(&self, executables: &[PathBuf], out: Option<&Path>) -> anyhow::Result<()> {
        let default = self.root.join("target/packages");
        let release = package::Release { root: &self.root, version: package::VERSION };
        package::run(release, executables, out.unwrap_or(&default))
    }

    pub(crate) fn install_real(&self) -> anyhow::Result<()> {
        for (variable, folder) in real::install(&self.root)?.variables() {
            say::output(format_args!("export {variable}={}", folder.display()));
        }
        Ok(())
    }

    /// The build of a choice.
    fn build(&self, choice: Choice) -> anyhow::Result<Build> {
        let v8 = match choice {
            Choice::QuickJs => return Ok(Build::QuickJs),
            Choice::WhatIsFound | Choice::V8 => V8::find(&self.root)?,
        };
        match v8 {
            V8::Archive(archive) => {
                say::line(format_args!("V8: {}", archive.display()));
                Ok(Build::V8(Some(archive)))
            }
            V8::Download(url) => {
                say::line(format_args!("V8: {url}"));
                Ok(Build::V8(None))
            }
            V8::Missing(why) if matches!(choice, Choice::V8) => bail!("V8 is not found: {why}"),
            V8::Missing(why) => {
                say::skipped("V8, JavaScript runs on QuickJS", format_args!("{why}"));
                Ok(Build::QuickJs)
            }
        }
    }

    fn check_steps(build: &Build) -> usize {
        if matches!(build, Build::V8(_)) { 3 } else { 2 }
    }

    fn check_with(&self, build: &Build) -> anyhow::Result<()> {
        step::begin(format_args!("formatting"));
        step::run(Build::QuickJs.cargo(&["fmt", "--all", "--check"]).current_dir(&self.root))?;
        step::begin(format_args!("lints"));
        let mut clippy = build.cargo(&["clippy", "--workspace", "--all-targets"]);
        step::run(clippy.args(["--", "-D", "warnings"]).current_dir(&self.root))?;
        if matches!(build, Build::V8(_)) {
            step::begin(format_args!("lints of the default features"));
            // The tests of both builds are the same.
            let mut clippy = Build::QuickJs.cargo(&["clippy", "--workspace", "--lib", "--bins", "--examples"]);
            step::run(clippy.args(["--", "-D", "warnings"]).current_dir(&self.root))?;
        }
        Ok(())
    }
}
