//! Rehearses a release: what the release workflow builds is published to registries on this machine, by the same scripts,
//! and installed, upgraded and removed as a user does it.

mod bare;
mod registries;
mod shown;
mod standins;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::Value;

use self::{bare::Bare, registries::Registries};
use crate::{
    bounded,
    package::{self, Release, VERSION, wheel::python_version},
    real, say, step,
    tasks::Workspace,
};

/// Longest time of publishing to one registry.
const PUBLISH: Duration = Duration::from_secs(600);
/// Longest time of something that cargo builds.
const BUILD: Duration = Duration::from_secs(3600);
/// The tool that the workflow makes the SBOM with.
const CYCLONEDX: [&str; 5] = ["install", "--locked", "--version", "0.5.9", "cargo-cyclonedx"];
/// Fewest crates that an SBOM of the executable can have.
const COMPONENTS: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Built executables, as `package` takes them [default: one is built for this machine, as for a release]
    executables: Vec<PathBuf>,
    /// Install from the index of crates too, which builds everything: 20 minutes on 2 cores
    #[arg(long)]
    cargo: bool,
}

/// Rehearses a release of the checkout; fails at the first step that fails, and when a registry shows a mistake.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    let folder = workspace.root.join("target/rehearse");
    fs::create_dir_all(&folder)?;
    step::plan(if args.cargo { 9 } else { 8 });
    step::begin(format_args!("registries and tools"));
    let pins = workspace.root.join("tests/real");
    let node = real::install_node("the rehearsal", &pins.join("rehearse"), folder.join("node"))?;
    let venv = real::install_venv("the rehearsal", &pins.join("requirements-rehearse.txt"), folder.join("venv"))?;
    let (Some(node), Some(venv)) = (node, venv) else { return Ok(()) };
    for program in ["setsid", "curl", "git"] {
        if step::probe(program, &["--version"]).is_none() {
            say::skipped("the rehearsal", format_args!("{program} is not installed"));
            return Ok(());
        }
    }
    for kept in ["registries", "packages", "sources"] {
        let _ = fs::remove_dir_all(folder.join(kept));
    }
    let bare = Bare::new(&workspace.root, &folder, &["uv", "uvx"].map(|uv| venv.join("bin").join(uv)))?;
    let rehearsal = Rehearsal {
        root: &workspace.root,
        before: standins::before(VERSION).context("no version is lower than this one and as long")?,
        registries: Registries::start(&folder.join("registries"), &node, &venv)?,
        folder,
        venv,
    };
    rehearsal.package(workspace, &args.executables)?;
    rehearsal.list()?;
    rehearsal.publish()?;
    rehearsal.use_as_a_user(&bare)?;
    if args.cargo {
        rehearsal.install_with_cargo()?;
    }
    step::begin(format_args!("what the registries show"));
    let packages = rehearsal.packages(VERSION);
    shown::check(&rehearsal.registries, &packages, VERSION, &rehearsal.folder.join("sources"))
}

struct Rehearsal<'w> {
    root: &'w Path,
    folder: PathBuf,
    venv: PathBuf,
    /// The version that is upgraded.
    before: String,
    registries: Registries,
}

impl Rehearsal<'_> {
    fn packages(&self, version: &str) -> PathBuf {
        self.folder.join("packages").join(version)
    }

    /// Makes the packages of this version and of the one before.
    fn package(&self, workspace: &Workspace, executables: &[PathBuf]) -> anyhow::Result<()> {
        step::begin(format_args!("executables"));
        let executables = match executables {
            [] => vec![workspace.released()?],
            given => given.to_vec(),
        };
        step::begin(format_args!("packages of {VERSION} and {}", self.before));
        let standins = self.folder.join("stand-ins");
        let olds = executables.iter().enumerate();
        let olds =
            olds.map(|(at, one)| standins::of_before(one, VERSION, &self.before, &standins.join(at.to_string())));
        let olds = olds.collect::<anyhow::Result<Vec<_>>>()?;
        for (version, executables) in [(self.before.as_str(), &olds), (VERSION, &executables)] {
            let all = standins::for_all_platforms(executables, version, &standins)?;
            package::run(Release { root: self.root, version }, &all, &self.packages(version))?;
        }
        Ok(())
    }

    /// Makes the SBOM, in a copy of the sources: the tool writes into them.
    fn list(&self) -> anyhow::Result<()> {
        step::begin(format_args!("SBOM"));
        let sources = self.folder.join("sources");
        fs::create_dir_all(&sources)?;
        let copy = "git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory=\"$0\"";
        self.does(
            "copying the sources",
            Command::new("sh").args(["-ec", copy]).arg(&sources).current_dir(self.root),
            PUBLISH,
        )?;
        if step::probe("cargo", &["cyclonedx", "--version"]).is_none() && !self.folder.join("tools/bin").exists() {
            let mut install = Command::new("cargo");
            install.args(CYCLONEDX).arg("--root").arg(self.folder.join("tools"));
            install.env("CARGO_TARGET_DIR", self.folder.join("registries/build"));
            self.does("cargo install cargo-cyclonedx", &mut install, BUILD)?;
        }
        let packages = self.packages(VERSION);
        let path = registries::path_with(&self.folder.join("tools/bin"));
        self.does(
            "packaging/sbom.sh",
            Command::new(sources.join("packaging/sbom.sh")).arg(&packages).env("PATH", path),
            PUBLISH,
        )?;
        let sbom = fs::read_to_string(packages.join("forgefs.cdx.json"))?;
        ensure!(!sbom.contains(&*sources.to_string_lossy()), "the SBOM has paths of this machine");
        let sbom: Value = serde_json::from_str(&sbom)?;
        let about = &sbom["metadata"]["component"];
        let components = sbom["components"].as_array().map_or(&[][..], Vec::as_slice);
        let without: Vec<_> =
            components.iter().filter(|one| one["licenses"].is_null()).map(|one| &one["name"]).collect();
        ensure!(about["name"] == "forgefs" && about["version"] == VERSION, "the SBOM is of {about}");
        ensure!(components.len() > COMPONENTS, "the SBOM has {} crates", components.len());
        ensure!(without.is_empty(), "the SBOM names no licence of {without:?}");
        say::line(format_args!("   {} crates, each with its licence", components.len()));
        Ok(())
    }

    /// Publishes both versions as the jobs of the workflow do, and this one once more: what npm and crates.io have is left
    /// out. twine can do that at PyPI alone.
    fn publish(&self) -> anyhow::Result<()> {
        step::begin(format_args!("publish"));
        let npm = |version| {
            let script = "packaging/npm/publish.sh";
            self.publishes(script, Command::new(script).arg(self.packages(version)))
        };
        for version in [&*self.before, VERSION] {
            npm(version)?;
            let packages = self.packages(version);
            let wheels = fs::read_dir(&packages)?.flatten().map(|entry| entry.path());
            let wheels: Vec<_> =
                wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).collect();
            for words in [&["check", "--strict"][..], &["upload", "--disable-progress-bar"]] {
                self.publishes("twine", Command::new(self.venv.join("bin/twine")).args(words).args(&wheels))?;
            }
        }
        npm(VERSION)?;
        for _ in 0..2 {
            let script = "packaging/crates/publish.sh";
            self.publishes(script, Command::new(script).current_dir(self.folder.join("sources")))?;
        }
        Ok(())
    }

    fn use_as_a_user(&self, bare: &Bare) -> anyhow::Result<()> {
        let python_before = python_version(&self.before)?;
        let variables = [
            ("NPM", self.registries.npm.as_str()),
            ("PYPI", &self.registries.simple()),
            ("VERSION", VERSION),
            ("BEFORE", &self.before),
            ("PYTHON_BEFORE", &python_before),
        ];
        step::begin(format_args!("npx, npm install, upgrade and uninstall, {}", bare.name()));
        bare.run("npm", include_str!("npm.sh"), &variables)?;
        step::begin(format_args!("uvx, pip install, upgrade and uninstall, {}", bare.name()));
        bare.run("pypi", include_str!("pypi.sh"), &variables)
    }

    /// With cargo's empty home, and no file of the checkout.
    fn install_with_cargo(&self) -> anyhow::Result<()> {
        step::begin(format_args!("cargo install and uninstall"));
        let installed = self.folder.join("registries/installed");
        for (words, limit) in [(&["install", "--locked", "forgefs"][..], BUILD), (&["uninstall", "forgefs"], PUBLISH)] {
            let mut cargo = Command::new("cargo");
            cargo.args(words).arg("--root").arg(&installed).current_dir(&self.folder);
            self.does(&format!("cargo {}", words[0]), self.registries.known_to(&mut cargo), limit)?;
            let program = installed.join("bin/forgefs");
            if words[0] == "install" {
                self.does("forgefs demo", Command::new(&program).arg("demo"), PUBLISH)?;
            }
            ensure!(program.exists() == (words[0] == "install"), "cargo {} left {}", words[0], program.display());
        }
        Ok(())
    }

    /// Runs a command that publishes, and says the lines that tell what it did.
    fn publishes(&self, what: &str, command: &mut Command) -> anyhow::Result<()> {
        if command.get_current_dir().is_none() {
            command.current_dir(self.root);
        }
        let said = self.does(what, self.registries.known_to(command), PUBLISH)?;
        let tells = |line: &&str| {
            ["+ ", "there already"].iter().any(|start| line.starts_with(start)) || line.contains(" crates")
        };
        for line in said.lines().filter(tells) {
            say::line(format_args!("   {line}"));
        }
        Ok(())
    }

    /// What a command says, which is run guarded and within `limit`.
    fn does(&self, what: &str, command: &mut Command, limit: Duration) -> anyhow::Result<String> {
        let ended = bounded::run_guarded(command, &self.folder, limit)?;
        ended
            .succeeded(what)
            .with_context(|| format!("{} has all that it said", self.folder.join("stderr").display()))?;
        Ok(ended.stdout)
    }
}
