//! The test suite: its lists of tests, its passes, and the slowest tests.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{real, say, step, tasks::Build};

/// Long tests, which only `--all` runs: the beginning of their names, and what takes so long.
const LONG: &[(&str, &str)] = &[
    ("adversarial::", "random requests for a minute"),
    ("attacks::", "every attack on every engine, each up to its limit"),
    ("audit::ten_thousand", "as many executions"),
    ("console::browser::", "a hundred steps in Chromium"),
    ("endpoint::replicas::faults::", "replicas whose store fails again and again"),
    ("examples::", "real servers of Node.js and Python"),
    ("leaks::ten_thousand", "as many runs"),
    ("packages::", "compresses and installs the executable"),
    ("real_servers::", "real servers of Node.js and Python"),
    ("replay::every_example", "real servers of Node.js and Python"),
    ("site::every_block", "every command of the documentation"),
];

/// Tests that see the JavaScript engine, which run once more on QuickJS: the beginning of their names, and what they see. Any
/// other test runs once, on the engine that the executable prefers; those of `forgefs-worker` run every engine themselves.
const ENGINES: &[(&str, &str)] = &[
    // Its other test shares a daemon, which no command with `--engine` does.
    ("background::a_", "a script is stopped wherever it is"),
    ("background::runs_", "bounds of scripts that go on"),
    ("bad_input::", "what engines say of code, and values that they refuse"),
    ("checked::", "a script runs after its check"),
    ("errors::", "positions, causes and classes of errors"),
    ("examples::", "every example"),
    ("floods::", "output, calls and values without end"),
    ("forms::", "forms of code, and values of every kind"),
    ("hostile_servers::scripts_", "values without end"),
    ("hostile_servers::stored_", "answers of any size, as values of an engine"),
    ("hostile_servers::texts_", "answers of any size, as values of an engine"),
    ("hostile_servers::values_", "answers of any shape, as values of an engine"),
    ("journal::", "a resumed run takes the way of its record"),
    ("json_shapes::", "values as JSON"),
    ("late::", "a script goes on after a restart"),
    ("mistakes::", "mistakes of models"),
    ("nested::", "scripts that call scripts"),
    ("parked::", "a script goes on after its approval"),
    ("placeholders::", "values that scripts must not change"),
    ("policy::", "every verdict, sequential and parallel"),
    ("replay::", "clock, chance and order are those of the record"),
    ("results::", "results too large for an answer"),
    ("saved::", "functions made of scripts"),
    ("scripts::served::", "scripts as tools"),
    ("signatures::", "arguments of functions"),
    ("typed::", "TypeScript"),
];

/// Tests of these modules that ask for every engine themselves.
const EVERY_ENGINE: &[&str] = &["nested::attacks::", "replay::every_example"];

/// Tests of the executable without V8, which is what `cargo install forgefs` builds: one of each kind.
const SMOKE: &[&str] = &[
    "background::a_run_is_read_while_it_goes_on_and_afterwards",
    "bad_input::every_bad_script_is_explained_and_the_next_one_works",
    "checked::what_is_provably_wrong_is_found_at_its_place",
    "cli::the_demo_succeeds_without_configuration",
    "cli::typescript_is_stripped_and_positions_are_those_of_the_script",
    "daemon::clients_share_servers_and_keep_sessions_apart",
    "endpoint::both_eras_find_call_and_keep_what_they_stash",
    "floods::a_script_may_make_all_its_calls_at_once",
    "generated::version_names_the_engines_and_the_platform",
    "journal::a_failed_run_is_resumed_after_an_edit_and_repeats_no_call",
    "lifecycle::tools_of_the_last_start_are_there_before_the_server_is",
    "mistakes::every_usual_mistake_is_answered_with_what_to_do",
    "nested::a_script_is_a_tool_of_other_scripts_of_requests_and_of_the_catalog",
    "parked::an_allowed_call_is_made_once_by_the_run_that_is_resumed",
    "processes::no_process_survives_the_end_of_a_session",
    "redaction::planted_secrets_are_nowhere_to_be_read",
    "replay::every_script_replays_the_same_without_a_server",
    "results::a_large_result_can_be_read_on_in_every_way",
    "surface::the_definitions_are_as_reviewed",
    "surface::the_script_api_has_everything_that_its_stubs_name",
    "telemetry::metrics_count_what_happened_and_hold_no_text_from_outside",
];

/// Variable of the tests with the JavaScript engine that they ask for.
const ENGINE: &str = "FORGEFS_TEST_ENGINE";
/// Variable of the tests with another executable than that of their build.
const EXECUTABLE: &str = "FORGEFS_TEST_EXECUTABLE";
/// Duration of randomised requests in seconds.
const ADVERSARIAL: &str = "FORGEFS_ADVERSARIAL_SECONDS";
/// See [`ADVERSARIAL`].
const ADVERSARIAL_SECONDS: &str = "60";
/// The file in which tests that cannot be run write that they were skipped.
const SKIPPED: &str = "FORGEFS_SKIPPED";

/// Tests that run at a time for each processor.
const TESTS_A_PROCESSOR: usize = 3;

/// Number of tests that are named at the end.
const SLOWEST: usize = 10;

/// The tests of one build.
pub(crate) struct Suite<'w> {
    root: &'w Path,
    build: &'w Build,
    real: real::Real,
    checkers: real::Checkers,
    /// PATH of the tests.
    path: OsString,
    /// Duration and name of each test so far.
    taken: Vec<(Duration, String)>,
}

impl<'w> Suite<'w> {
    /// Installs what the tests of `build` need.
    pub(crate) fn new(root: &'w Path, build: &'w Build) -> anyhow::Result<Self> {
        let (real, checkers) = (real::install(root)?, real::install_checkers(root));
        let _ = fs::remove_file(root.join("target/skipped.txt"));
        let path = real::path_with_python(root)?;
        Ok(Self { root, build, real, checkers, path, taken: Vec::new() })
    }

    /// Number of steps of [`Suite::run`].
    pub(crate) fn steps(build: &Build, is_all: bool) -> usize {
        match (build, is_all) {
            (Build::QuickJs, _) => 1,
            (Build::V8(_), false) => 2,
            (Build::V8(_), true) => 4,
        }
    }

    /// Runs the everyday tests, or all; then those of [`ENGINES`] on QuickJS, and with all those of [`SMOKE`] without V8.
    pub(crate) fn run(&mut self, is_all: bool) -> anyhow::Result<()> {
        let without_v8 = match self.build {
            Build::V8(_) if is_all => Some(self.build_without_v8()?),
            _ => None,
        };
        step::begin(format_args!("tests, JavaScript on {}", self.build.name()));
        let long = named(LONG.iter().map(|(name, _)| *name));
        let mut tests = self.tests(is_all);
        if !is_all {
            if has_nextest() {
                tests.args(["-E", &format!("not ({long})")]);
            } else {
                tests.arg("--").args(LONG.iter().flat_map(|(name, _)| ["--skip", name]));
            }
        }
        let mut passes = vec![self.pass(&mut tests)];
        if matches!(self.build, Build::V8(_)) {
            let engines = of_it(ENGINES.iter().map(|(name, _)| *name));
            let engines = format!("({engines}) - ({})", named(EVERY_ENGINE.iter().copied()));
            let engines = if is_all { engines } else { format!("({engines}) - ({long})") };
            let what = "tests that see the engine, JavaScript on QuickJS";
            passes.push(self.again(what, &engines, (ENGINE, Path::new("quickjs"))));
        }
        if let Some(executable) = without_v8 {
            let smoke = of_it(SMOKE.iter().copied());
            passes.push(self.again("some tests of the build without V8", &smoke, (EXECUTABLE, &executable)));
        }
        self.say_skipped();
        self.say_slowest();
        // The failures of all passes are known, and the first one is the result.
        passes.into_iter().collect()
    }

    /// Runs the tests that `args` name to the test runner, on one engine.
    pub(crate) fn run_some(&mut self, engine: Option<&str>, args: &[String]) -> anyhow::Result<()> {
        let mut tests = self.tests(true);
        tests.envs(engine.map(|engine| (ENGINE, engine)));
        if !has_nextest() {
            tests.arg("--");
        }
        self.pass(tests.args(args))?;
        self.say_skipped();
        Ok(())
    }

    fn again(&mut self, what: &str, filter: &str, variable: (&str, &Path)) -> anyhow::Result<()> {
        step::begin(format_args!("{what}"));
        if !has_nextest() {
            say::skipped(what, format_args!("cargo-nextest is not installed"));
            return Ok(());
        }
        let mut tests = self.tests(false);
        self.pass(tests.args(["-E", filter]).env(variable.0, variable.1))
    }

    /// The test runner, with what is installed.
    fn tests(&self, is_long: bool) -> Command {
        let mut tests = if has_nextest() {
            let mut tests = self.build.cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
            tests.args(["--failure-output", "immediate-final", "--test-threads", &threads().to_string()]);
            tests
        } else {
            self.build.cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
        };
        tests.env(SKIPPED, self.skipped()).env("PATH", &self.path);
        // Empty for a set that is not installed: its tests then skip themselves, visibly.
        for variable in real::VARIABLES.into_iter().chain(real::CHECKER_VARIABLES) {
            tests.env(variable, "");
        }
        tests.envs(self.real.variables()).envs(self.checkers.variables());
        if is_long && env::var_os(ADVERSARIAL).is_none() {
            tests.env(ADVERSARIAL, ADVERSARIAL_SECONDS);
        }
        tests
    }

    fn pass(&mut self, tests: &mut Command) -> anyhow::Result<()> {
        let report = self.root.join("target/nextest/default/junit.xml");
        // One that a failed build leaves is of an earlier pass.
        let _ = fs::remove_file(&report);
        let ran = step::run(tests.current_dir(self.root));
        self.taken.extend(durations(&fs::read_to_string(&report).unwrap_or_default()));
        Ok(ran?)
    }

    /// Builds the executable of the default features, on the dependencies that the tests have.
    fn build_without_v8(&self) -> anyhow::Result<PathBuf> {
        step::begin(format_args!("the build without V8"));
        let mut build = Build::QuickJs.cargo(&Build::program("forgefs"));
        step::run(build.args(["--features", "xtask/v8-dependencies"]).current_dir(self.root))?;
        let built = Build::debug(self.root, "forgefs");
        let kept = built.with_file_name("without-v8").with_extension(env::consts::EXE_EXTENSION);
        // The next build replaces what is there.
        fs::copy(built, &kept)?;
        Ok(kept)
    }

    fn skipped(&self) -> PathBuf {
        self.root.join("target/skipped.txt")
    }

    fn say_skipped(&self) {
        for line in fs::read_to_string(self.skipped()).unwrap_or_default().lines() {
            say::skipped("a test", format_args!("{line}"));
        }
    }

    fn say_slowest(&mut self) {
        self.taken.sort_unstable_by(|one, other| other.cmp(one));
        let slowest = self.taken.iter().take(SLOWEST);
        if slowest.len() > 0 {
            say::line(format_args!("The slowest of {} tests:", self.taken.len()));
        }
        for (time, name) in slowest {
            say::line(format_args!("{:>6.1} s  {name}", time.as_secs_f64()));
        }
    }
}

fn has_nextest() -> bool {
    step::probe("cargo-nextest", &["nextest", "--version"]).is_some()
}

/// Most tests wait for processes, so several share a processor.
fn threads() -> usize {
    TESTS_A_PROCESSOR * std::thread::available_parallelism().map_or(1, usize::from)
}

/// nextest's expression for tests whose names begin so.
fn named<'n>(names: impl Iterator<Item = &'n str>) -> String {
    format!("test(/^({})/)", names.collect::<Vec<_>>().join("|"))
}

/// Likewise, for those that drive the executable.
fn of_it<'n>(names: impl Iterator<Item = &'n str>) -> String {
    format!("binary_id(forgefs::it) & {}", named(names))
}

/// Duration and name of each test in nextest's JUnit report: the attributes of `<testcase>`.
fn durations(report: &str) -> Vec<(Duration, String)> {
    let attribute = |case: &str, name: &str| {
        let value = case.split_once(&format!(" {name}=\""))?.1;
        Some(value.split_once('"')?.0.to_owned())
    };
    let cases = report.split("<testcase").skip(1);
    let taken = cases.filter_map(|case| {
        let seconds = attribute(case, "time")?.parse().ok()?;
        let name = format!("{} {}", attribute(case, "classname")?, attribute(case, "name")?);
        Some((Duration::try_from_secs_f64(seconds).ok()?, name))
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_test_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let binaries = ["tests/it", "worker/tests/it", "tests/compromised"].map(|folder| root.join(folder));
        let listed = LONG.iter().chain(ENGINES).map(|(name, _)| *name).chain(EVERY_ENGINE.iter().chain(SMOKE).copied());
        for name in listed {
            let (modules, test) = name.rsplit_once("::").expect("a module");
            let file = Path::new(&modules.replace("::", "/")).with_extension("rs");
            let mut texts = binaries.iter().filter_map(|folder| fs::read_to_string(folder.join(&file)).ok());
            assert!(texts.any(|text| text.contains(&format!("fn {test}"))), "{name}: no test binary has it");
        }
    }

    #[test]
    fn durations_are_read_from_a_report() {
        let report = "<testsuites>\n<testcase name=\"a::b\" classname=\"forgefs::it\" timestamp=\"x\" time=\"1.5\">\n\
                      </testcase><testcase name=\"c\" classname=\"d\" timestamp=\"x\" time=\"0.25\"></testcase>";
        let taken = durations(report);
        assert_eq!(taken[0], (Duration::from_millis(1500), "forgefs::it a::b".to_owned()));
        assert_eq!(taken[1], (Duration::from_millis(250), "d c".to_owned()));
    }
}
