//! The tasks, with the commands of each in order.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::bail;

use crate::{check_stubs, conformance, package, real, say, step, v8::V8};

/// Requested JavaScript engine of a task.
#[derive(Clone, Copy)]
pub(crate) enum Choice {
    /// QuickJS, and V8 if its library is found.
    WhatIsFound,
    QuickJs,
    V8,
    Both,
}

/// A build of the workspace.
enum Build {
    QuickJs,
    /// With the archive to link, unless the crate fetches its own.
    V8(Option<PathBuf>),
}

impl Build {
    fn name(&self) -> &'static str {
        match self {
            Self::QuickJs => "QuickJS",
            Self::V8(_) => "V8",
        }
    }

    /// A cargo command with the features of this build.
    fn cargo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
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

/// Tests without a JavaScript engine: one build runs them.
const WITHOUT_ENGINE: &str = "package(forgefs-confine) | package(forgefs-stubgen) | package(forgefs-wire) | package(forgefs-measure) | \
    package(xtask) | (binary_id(forgefs) & not test(/sandbox/)) | (binary_id(forgefs::it) & test(/^(access|\
    admission|adversarial|apart|edge|approval|asking|audit|auth|cli|config|config_schema|connect|console|container|daemon|\
    docs|edits|endpoint|errors|faults|generated|hostile_files|hostile_input|hostile_logins|hostile_schemas|http|\
    identity|import|json_shapes|lifecycle|newest|packages|people|policy|processes|real_servers|redaction|\
    redaction_corpus|registry|relay|reload|reviewed|servers|sharing|site|spending|telemetry|terminal)::/))";

/// Duration of randomised requests in seconds: short by default, one minute in CI.
const ADVERSARIAL: &str = "FORGEFS_ADVERSARIAL_SECONDS";
/// See [`ADVERSARIAL`].
const ADVERSARIAL_SECONDS: &str = "60";

/// The file in which tests that cannot be run write that they were skipped.
const SKIPPED: &str = "FORGEFS_SKIPPED";

/// The tables of docs/benchmarks.md, in its order.
pub(crate) const TABLES: [&str; 8] = ["eval", "tokens", "catalog", "broker", "check", "gateway", "endpoint", "hostile"];

/// A checkout of ForgeFS.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn demo(&self, choice: Choice, args: &[String]) -> anyhow::Result<()> {
        // The demo is one program: with V8 if available.
        let Some(build) = self.builds(choice)?.pop() else { bail!("no engine to build with") };
        say::line(format_args!("Building the demo with {}.", build.name()));
        let mut command = build.cargo(&["run", "--profile", "demo", "--package", "forgefs", "--bin", "forgefs"]);
        step::run(command.args(["--", "demo"]).args(args).current_dir(&self.root))?;
        Ok(())
    }

    pub(crate) fn test(&self, choice: Choice, args: &[String]) -> anyhow::Result<()> {
        let builds = self.builds(choice)?;
        self.test_with(&builds, args)
    }

    pub(crate) fn conformance(&self, forgefs: Option<&Path>) -> anyhow::Result<()> {
        if let Some(forgefs) = forgefs {
            return conformance::run(&self.root, &forgefs.canonicalize()?);
        }
        step::run(Build::QuickJs.cargo(&["build", "--bin", "forgefs"]).current_dir(&self.root))?;
        conformance::run(&self.root, &self.debug(&format!("forgefs{}", env::consts::EXE_SUFFIX)))
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let builds = self.builds(Choice::WhatIsFound)?;
        self.check_with(&builds)
    }

    /// Cheap checks first; tests and the table of the stubs last, so that the log ends with their counts.
    pub(crate) fn ci(&self) -> anyhow::Result<()> {
        let builds = self.builds(Choice::WhatIsFound)?;
        self.check_with(&builds)?;
        let mut docs = Build::QuickJs.cargo(&["doc", "--workspace", "--no-deps"]);
        step::run(docs.env("RUSTDOCFLAGS", "-D warnings").current_dir(&self.root))?;
        step::run(Build::QuickJs.cargo(&["test", "--workspace", "--doc"]).current_dir(&self.root))?;
        match real::install_book(&self.root) {
            Ok(Some(mdbook)) => self.build_book(&mdbook)?,
            Ok(None) => {}
            Err(error) => say::skipped("the site", format_args!("{error:#}")),
        }
        self.test_with(&builds, &[])?;
        self.measure("eval", &[])?;
        // Before the table of the stubs, so that the log ends with its counts.
        step::say_times();
        self.check_stubs()
    }

    pub(crate) fn check_stubs(&self) -> anyhow::Result<()> {
        check_stubs::run(&self.root)
    }

    /// Measures search or tokens.
    pub(crate) fn measure(&self, what: &str, args: &[String]) -> anyhow::Result<()> {
        // With every target, like the tests: other features would rebuild half of the tree.
        step::run(Build::QuickJs.cargo(&["build", "--quiet", "--workspace", "--all-targets"]).current_dir(&self.root))?;
        let mut command = Command::new(self.debug(&format!("forgefs-measure{}", env::consts::EXE_SUFFIX)));
        step::run(command.arg(what).args(args).current_dir(&self.root))?;
        Ok(())
    }

    /// Writes the tables of docs/benchmarks.md, by default all.
    pub(crate) fn bench(&self, names: &[String]) -> anyhow::Result<()> {
        const WRITE: [&str; 2] = ["--write", "docs/benchmarks.md"];
        let Some(build) = self.builds(Choice::WhatIsFound)?.pop() else { bail!("no engine to build with") };
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

    /// A program of the debug build.
    fn debug(&self, name: &str) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from);
        target.join("debug").join(name)
    }

    pub(crate) fn show_v8(&self) -> anyhow::Result<()> {
        match V8::find(&self.root)? {
            V8::Archive(archive) => say::output(format_args!("export RUSTY_V8_ARCHIVE={}", archive.display())),
            V8::Download(url) => say::line(format_args!("cargo downloads V8 on its own: {url}")),
            V8::Missing(why) => bail!("V8 is not found: {why}"),
        }
        Ok(())
    }

    /// The test that compares the pages writes them on request.
    pub(crate) fn write_docs(&self) -> anyhow::Result<()> {
        // One filter each: a test binary of the workspace takes no more.
        for pages in ["docs::", "site::"] {
            let mut command = Build::QuickJs.cargo(&["test", "--workspace", "--test", "it", "--", pages]);
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
        package::run(&self.root, executables, out.unwrap_or(&default))
    }

    pub(crate) fn install_real(&self) -> anyhow::Result<()> {
        for (variable, folder) in real::install(&self.root)?.variables() {
            say::output(format_args!("export {variable}={}", folder.display()));
        }
        Ok(())
    }

    /// Builds of a choice, QuickJS first.
    fn builds(&self, choice: Choice) -> anyhow::Result<Vec<Build>> {
        let v8 = match choice {
            Choice::QuickJs => return Ok(vec![Build::QuickJs]),
            Choice::WhatIsFound | Choice::V8 | Choice::Both => V8::find(&self.root)?,
        };
        let v8 = match (v8, choice) {
            (V8::Archive(archive), _) => {
                say::line(format_args!("V8: {}", archive.display()));
                Build::V8(Some(archive))
            }
            (V8::Download(url), _) => {
                say::line(format_args!("V8: {url}"));
                Build::V8(None)
            }
            (V8::Missing(why), Choice::V8 | Choice::Both) => bail!("V8 is not found: {why}"),
            (V8::Missing(why), _) => {
                say::skipped("V8, JavaScript runs on QuickJS", format_args!("{why}"));
                return Ok(vec![Build::QuickJs]);
            }
        };
        Ok(if matches!(choice, Choice::V8) { vec![v8] } else { vec![Build::QuickJs, v8] })
    }

    fn check_with(&self, builds: &[Build]) -> anyhow::Result<()> {
        step::run(Build::QuickJs.cargo(&["fmt", "--all", "--check"]).current_dir(&self.root))?;
        for build in builds {
            let mut clippy = build.cargo(&["clippy", "--workspace", "--all-targets"]);
            step::run(clippy.args(["--", "-D", "warnings"]).current_dir(&self.root))?;
        }
        Ok(())
    }

    fn test_with(&self, builds: &[Build], args: &[String]) -> anyhow::Result<()> {
        let real = real::install(&self.root)?;
        let checkers = real::install_checkers(&self.root);
        let nextest = step::probe("cargo-nextest", &["nextest", "--version"]).is_some();
        let runner: &[&str] = match (nextest, env::var_os("CI").is_some()) {
            (true, true) => &["nextest", "run", "--profile", "ci", "--workspace"],
            (true, false) => &["nextest", "run", "--workspace"],
            (false, _) => &["test", "--workspace", "--lib", "--bins", "--tests"],
        };
        let skipped = self.root.join("target/skipped.txt");
        let _ = std::fs::remove_file(&skipped);
        for build in builds {
            say::line(format_args!("Testing with {}.", build.name()));
            let mut tests = build.cargo(runner);
            tests.env(SKIPPED, &skipped);
            if !nextest && !args.is_empty() {
                tests.arg("--");
            }
            // Unset for a set that is not installed: its tests then skip themselves, visibly.
            for variable in real::VARIABLES.into_iter().chain(real::CHECKER_VARIABLES) {
                tests.env(variable, "");
            }
            tests.envs(real.variables()).envs(checkers.variables());
            if env::var_os("CI").is_some() && env::var_os(ADVERSARIAL).is_none() {
                tests.env(ADVERSARIAL, ADVERSARIAL_SECONDS);
            }
            if nextest && args.is_empty() && builds.len() > 1 && matches!(build, Build::V8(_)) {
                tests.args(["-E", &format!("not ({WITHOUT_ENGINE})")]);
            }
            step::run(tests.args(args).current_dir(&self.root))?;
        }
        let skipped = std::fs::read_to_string(&skipped).unwrap_or_default();
        for line in skipped.lines() {
            say::skipped("a test", format_args!("{line}"));
        }
        Ok(())
    }
}
