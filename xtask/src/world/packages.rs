//! Installs a server's package at its version below target/world/packages, or takes it from target/real.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};

use super::table::{Registry, Row};
use crate::{
    bounded,
    real::{NPM, PYTHON, VENV_PYTHON},
    step,
};

/// Longest time of an installation.
const LIMIT: Duration = Duration::from_secs(600);

/// Programs that this machine lacks for a registry.
pub(crate) fn missing(registry: Registry) -> Option<&'static str> {
    let has = |program: &str| step::probe(program, &["--version"]).is_some();
    match registry {
        Registry::Npm => (!has("node") || !has(NPM)).then_some("node and npm are not installed"),
        Registry::Pypi => {
            step::probe(PYTHON, &["-c", "import ensurepip, venv"]).is_none().then_some("Python has no venv module here")
        }
    }
}

/// The program of a server, installed unless it is there.
pub(crate) fn program(root: &Path, row: &Row) -> anyhow::Result<PathBuf> {
    let own = root.join("target/world/packages").join(&row.name);
    let stamp = own.join(".installed-from");
    let mut pins = vec![pin(row.from, &row.package, &row.version)];
    pins.extend(row.with.iter().cloned());
    let content = pins.join("\n");
    let folder = match of_tests(root, row) {
        Some(folder) => folder,
        None if fs::read_to_string(&stamp).is_ok_and(|text| text.trim_end() == content) => own,
        None => {
            if own.exists() {
                fs::remove_dir_all(&own)?;
            }
            fs::create_dir_all(&own)?;
            install(row.from, &own, &pins)?;
            fs::write(&stamp, content)?;
            own
        }
    };
    let program = bin(row.from, &folder).join(&row.program);
    if !program.exists() {
        bail!("{} has no program {}", row.package, row.program);
    }
    Ok(program)
}

fn pin(registry: Registry, package: &str, version: &str) -> String {
    match registry {
        Registry::Npm => format!("{package}@{version}"),
        Registry::Pypi => format!("{package}=={version}"),
    }
}

fn bin(registry: Registry, folder: &Path) -> PathBuf {
    match registry {
        Registry::Npm => folder.join("node_modules/.bin"),
        Registry::Pypi => folder.join(VENV_PYTHON).parent().unwrap_or(folder).to_owned(),
    }
}

/// The folder of [`crate::real::install`] that has this very version.
fn of_tests(root: &Path, row: &Row) -> Option<PathBuf> {
    let (files, folders): (&[&str], &[&str]) = match row.from {
        Registry::Npm => (&["package-lock.json"], &["node"]),
        Registry::Pypi => (&["requirements.txt", "requirements-testkit.txt"], &["venv", "venv-testkit"]),
    };
    let pins = files.iter().map(|file| fs::read_to_string(root.join("tests/real").join(file)).unwrap_or_default());
    let is_pinned = |text: &str| match row.from {
        Registry::Npm => {
            let lock: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            lock["packages"][format!("node_modules/{}", row.package)]["version"] == row.version.as_str()
        }
        registry @ Registry::Pypi => text.lines().any(|line| line == pin(registry, &row.package, &row.version)),
    };
    let (_, folder) = pins.zip(folders).find(|(text, _)| is_pinned(text))?;
    let folder = root.join("target/real").join(folder);
    folder.join(".installed-from").exists().then_some(folder)
}

/// Without install scripts, as the launchers of a confined server install.
fn install(registry: Registry, folder: &Path, pins: &[String]) -> anyhow::Result<()> {
    let mut command;
    match registry {
        Registry::Npm => {
            fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
            command = Command::new(NPM);
            command
                .args(["install", "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
            command.current_dir(folder);
        }
        Registry::Pypi => {
            let mut venv = Command::new(PYTHON);
            bounded::run(venv.args(["-m", "venv"]).arg(folder), folder, LIMIT)?.succeeded("venv")?;
            command = Command::new(folder.join(VENV_PYTHON));
            command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        }
    }
    bounded::run(command.args(pins), folder, LIMIT)?.succeeded("the installation").context("not installed")
}
