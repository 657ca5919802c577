//! Rehearses a release: what the release workflow builds is published to registries on this machine, by the same scripts,
//! and installed, upgraded and removed as a user does it. The scripts beside this file are its steps.

mod standins;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{
    bounded::{self, Server},
    package::{self, Release, VERSION, wheel::python_version},
    real::{self, VENV_PYTHON},
    say, step,
    tasks::Workspace,
};

/// The steps after the packages are made: what they do, the words of the script, and the minutes that they may take.
const STEPS: [(&str, &[&str], u64); 6] = [
    ("SBOM", &["sbom.sh"], 30),
    ("publish", &["publish.sh"], 15),
    ("npx, npm install, upgrade and uninstall", &["bare.sh", "npm"], 15),
    ("uvx, pip install, upgrade and uninstall", &["bare.sh", "pypi"], 15),
    (CARGO, &["cargo.sh"], 90),
    ("what the registries show", &["shown.py"], 5),
];
/// The step that builds.
const CARGO: &str = "cargo install and uninstall";
/// Longest time until the registries answer.
const START: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Built executables, as `package` takes them [default: one is built for this machine, as for a release]
    executables: Vec<PathBuf>,
    /// Install from the index of crates too, which builds everything
    #[arg(long)]
    cargo: bool,
}

/// Rehearses a release of the checkout; fails at the first step that fails, and when a registry shows a mistake.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    let folder = workspace.root.join("target/rehearse");
    fs::create_dir_all(&folder)?;
    step::plan(STEPS.len() + 2);
    step::begin(format_args!("registries"));
    let Some(venv) = tools(&workspace.root, &folder)? else { return Ok(()) };
    for last in ["registries", "packages", "sources"] {
        let _ = fs::remove_dir_all(folder.join(last));
    }
    let before = standins::before(VERSION).context("no version is lower than this one and as long")?;
    let rehearsal = Rehearsal { root: &workspace.root, folder, before };
    let _running = rehearsal.start(&venv)?;
    rehearsal.package(workspace, &args.executables)?;
    for (what, script, minutes) in STEPS {
        step::begin(format_args!("{what}"));
        if what == CARGO && !args.cargo {
            say::skipped(what, format_args!("--cargo runs it"));
            continue;
        }
        rehearsal.runs(what, script, Duration::from_secs(60 * minutes))?;
    }
    Ok(())
}

/// Installs the registries and returns Python's folder; `None`, visibly, where something is missing.
fn tools(root: &Path, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    const WHAT: &str = "the rehearsal";
    let missing = ["setsid", "git", "cc"].iter().find(|program| step::probe(program, &["--version"]).is_none());
    if let Some(program) = missing {
        say::skipped(WHAT, format_args!("{program} is not installed"));
        return Ok(None);
    }
    let pins = root.join("tests/real");
    let node = real::install_node(WHAT, &pins.join("rehearse"), folder.join("node"))?;
    let venv = real::install_venv(WHAT, &pins.join("requirements-rehearse.txt"), folder.join("venv"))?;
    Ok(node.and(venv))
}

struct Rehearsal<'w> {
    root: &'w Path,
    folder: PathBuf,
    /// The version that is upgraded.
    before: String,
}

impl Rehearsal<'_> {
    fn scripts(&self) -> PathBuf {
        self.root.join("xtask/src/rehearse")
    }

    /// Starts the registries.
    fn start(&self, venv: &Path) -> anyhow::Result<Server> {
        let log = self.folder.join("registries.log");
        let mut registries = Command::new(venv.join(VENV_PYTHON));
        registries.arg("-B").arg(self.scripts().join("registries.py")).arg(&self.folder);
        let running = Server::start(&registries, &log)?;
        let started = Instant::now();
        while !self.folder.join("registries/env.sh").exists() {
            if started.elapsed() > START {
                bail!("the registries do not start: {}", fs::read_to_string(&log).unwrap_or_default().trim());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(running)
    }

    /// Makes the packages of this version and of the one before.
    fn package(&self, workspace: &Workspace, executables: &[PathBuf]) -> anyhow::Result<()> {
        step::begin(format_args!("packages of {VERSION} and {}", self.before));
        let executables = match executables {
            [] => vec![workspace.released()?],
            given => given.to_vec(),
        };
        let standins = self.folder.join("stand-ins");
        let old = |(at, one): (usize, &PathBuf)| {
            standins::of_before(one, VERSION, &self.before, &standins.join(at.to_string()))
        };
        let olds = executables.iter().enumerate().map(old).collect::<anyhow::Result<Vec<_>>>()?;
        for (version, executables) in [(self.before.as_str(), &olds), (VERSION, &executables)] {
            let all = standins::for_all_platforms(executables, version, &standins)?;
            let out = self.folder.join("packages").join(version);
            package::run(Release { root: self.root, version }, &all, &out)?;
        }
        Ok(())
    }

    /// Runs a script with the registries as its own, and says its lines that begin with `+`.
    fn runs(&self, what: &str, script: &[&str], limit: Duration) -> anyhow::Result<()> {
        let here = self.scripts();
        let python = self.folder.join("venv").join(VENV_PYTHON);
        let with: &Path = if script[0].ends_with(".py") { &python } else { Path::new("sh") };
        let mut command = Command::new("sh");
        command.args(["-ec", ". \"$FOLDER/registries/env.sh\"; exec \"$@\"", "sh"]).arg(with);
        command.arg(here.join(script[0])).args(&script[1..]).current_dir(self.root);
        command.env("HERE", here).env("FOLDER", &self.folder).envs([
            ("VERSION", VERSION),
            ("BEFORE", &self.before),
            ("PYTHON_VERSION", &python_version(VERSION)?),
            ("PYTHON_BEFORE", &python_version(&self.before)?),
        ]);
        let ended = bounded::run_guarded(&command, &self.folder, limit)?;
        for line in ended.stdout.lines().filter_map(|line| line.strip_prefix("+ ")) {
            say::line(format_args!("   {line}"));
        }
        ended.succeeded(what).with_context(|| format!("see {}", self.folder.join("stderr").display()))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use serde_json::json;

    use crate::{real::PYTHON, step};

    #[test]
    fn every_mistake_of_a_package_is_named() {
        if step::probe(PYTHON, &["--version"]).is_none() {
            return;
        }
        let good = json!({"registry": "PyPI", "version": "1.0", "license": "MIT OR Apache-2.0",
                          "readme": "# ForgeFS\n\n[x](https://y)", "bytes": 9, "attested": true});
        let wrong = |key: &str, value: serde_json::Value| {
            let mut package = good.clone();
            package[key] = value;
            package
        };
        let rows = [
            (good.clone(), ""),
            (wrong("version", "1.1".into()), "its version is '1.1', not 1.0"),
            (wrong("license", "".into()), "its licence is '', not MIT OR Apache-2.0"),
            (wrong("readme", "\n".into()), "it has no README"),
            (wrong("readme", "[x](docs/y.md)".into()), "its README has a link that leads nowhere: docs/y.md"),
            (wrong("bytes", 100_000_001.into()), "its file of 100000001 bytes is too large"),
            (wrong("attested", false.into()), "its file is not in SHA256SUMS, of which the release has attestations"),
        ];
        let packages: Vec<_> = rows.iter().map(|(package, _)| package).collect();
        let code = "import json, shown, sys\n\
                    for package in json.loads(sys.argv[1]): print('; '.join(shown.mistakes(package, '1.0')))";
        let mut python = Command::new(PYTHON);
        python.args(["-B", "-c", code, &json!(packages).to_string()]);
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rehearse");
        let output = python.env("PYTHONPATH", here).output().expect("python starts");
        let says = String::from_utf8_lossy(&output.stdout);
        let expected: Vec<&str> = rows.iter().map(|(_, says)| *says).collect();
        assert_eq!(says.lines().collect::<Vec<_>>(), expected, "{output:?}");
    }
}
