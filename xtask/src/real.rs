//! Installs the pinned packages of tests/real into target/real: the real MCP servers of the tests, and the checkers of
//! stubs.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{say, step};

/// Variables with the folders of the three sets.
pub(crate) const VARIABLES: [&str; 3] = ["FORGEFS_REAL_NODE", "FORGEFS_REAL_VENV", "FORGEFS_REAL_TESTKIT"];

/// Installed sets: a folder for each of [`VARIABLES`], if its tools are present.
pub(crate) struct Real([Option<PathBuf>; 3]);

impl Real {
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        VARIABLES.into_iter().zip(&self.0).filter_map(|(variable, folder)| Some((variable, folder.as_deref()?)))
    }
}

/// Installs sets that are missing or differ from the pins; skips, visibly, those whose tools this machine lacks.
pub(crate) fn install(root: &Path) -> anyhow::Result<Real> {
    let pins = root.join("tests/real");
    let target = root.join("target/real");
    let [node, venv, testkit] =
        [("node", 0), ("venv", 1), ("venv-testkit", 2)].map(|(name, at)| folder(VARIABLES[at], &target.join(name)));
    Ok(Real([
        install_node("MCP servers from npm", &pins, node)?,
        install_venv("MCP servers from PyPI", &pins.join("requirements.txt"), venv)?,
        install_venv("mcp-testkit", &pins.join("requirements-testkit.txt"), testkit)?,
    ]))
}

/// Variables with the folders of [`Checkers`], for the tests.
pub(crate) const CHECKER_VARIABLES: [&str; 2] = ["FORGEFS_REAL_CHECKERS_NODE", "FORGEFS_REAL_CHECKERS_VENV"];

/// Checkers of stubs: node's folder and Python's, if they could be installed.
pub(crate) struct Checkers {
    pub(crate) node: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
}

impl Checkers {
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let folders = [&self.node, &self.python];
        CHECKER_VARIABLES.into_iter().zip(folders).filter_map(|(variable, folder)| Some((variable, folder.as_deref()?)))
    }
}

/// Like [`install`], but skips failed installations too: an unreachable registry is no fault of the stubs.
pub(crate) fn install_checkers(root: &Path) -> Checkers {
    let pins = root.join("tests/real");
    let target = root.join("target/real");
    let (npm, pypi) = ("checkers from npm", "checkers from PyPI");
    let node = install_node(npm, &pins.join("checkers"), target.join("checkers-node"));
    let python = install_venv(pypi, &pins.join("requirements-checkers.txt"), target.join("checkers-venv"));
    let [node, python] = [(npm, node), (pypi, python)].map(|(what, installed)| {
        installed.unwrap_or_else(|error| {
            say::skipped(what, format_args!("{error:#}"));
            None
        })
    });
    Checkers { node, python }
}

/// The pinned mdBook, installed into target/real; `None`, visibly, without a suitable Python.
pub(crate) fn install_book(root: &Path) -> anyhow::Result<Option<PathBuf>> {
    let pins = root.join("tests/real/requirements-book.txt");
    let folder = install_venv("mdBook from PyPI", &pins, root.join("target/real/book-venv"))?;
    Ok(folder.map(|folder| folder.join(if cfg!(windows) { "Scripts/mdbook.exe" } else { "bin/mdbook" })))
}

/// PATH with an interpreter of Python in front that has no packages. What else is called `python3` takes two to five times as
/// long to start, as the shell script of a version manager or with what is installed beside it.
pub(crate) fn path_with_python(root: &Path) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folder = root.join("target/real/python");
    let Some(version) = step::probe(PYTHON, &["-c", "import sys; print(sys.executable, sys.version.split()[0])"])
    else {
        return Ok(path);
    };
    let stamp = Stamp::new(&folder, &version, &[])?;
    if !stamp.is_current() {
        step::run(Command::new(PYTHON).args(["-m", "venv", "--clear", "--without-pip"]).arg(&folder))?;
        stamp.write()?;
    }
    let bin = folder.join(VENV_PYTHON).parent().map(Path::to_owned);
    Ok(env::join_paths(bin.into_iter().chain(env::split_paths(&path)))?)
}

/// `.cargo/config.toml` sets the variables, so that plain `cargo test` finds the same folders.
fn folder(variable: &str, default: &Path) -> PathBuf {
    env::var_os(variable).filter(|value| !value.is_empty()).map_or_else(|| default.to_owned(), PathBuf::from)
}

/// Installs the npm packages of the lock file in `pins`; `None`, visibly, without node and npm.
pub(crate) fn install_node(what: &str, pins: &Path, folder: PathBuf) -> anyhow::Result<Option<PathBuf>> {
    let (Some(node), Some(_)) = (step::probe("node", &["--version"]), step::probe(NPM, &["--version"])) else {
        say::skipped(what, format_args!("node and npm are not installed"));
        return Ok(None);
    };
    let stamp = Stamp::new(&folder, &node, &[&pins.join("package.json"), &pins.join("package-lock.json")])?;
    if !stamp.is_current() {
        fs::create_dir_all(&folder)?;
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            fs::copy(pins.join(file), folder.join(file)).with_context(|| format!("cannot copy {file}"))?;
        }
        let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        step::run(Command::new(NPM).arg("ci").args(quiet).current_dir(&folder))?;
        stamp.write()?;
    }
    Ok(Some(folder))
}

/// Installs the PyPI packages of the file `pins`; `None`, visibly, without a suitable Python.
pub(crate) fn install_venv(what: &str, pins: &Path, folder: PathBuf) -> anyhow::Result<Option<PathBuf>> {
    let Some(version) = step::probe(PYTHON, &["-c", "import sys; print(*sys.version_info[:3], sep='.')"]) else {
        say::skipped(what, format_args!("{PYTHON} is not installed"));
        return Ok(None);
    };
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if !version.starts_with("3.") || minor.is_none_or(|minor| minor < 11) {
        say::skipped(what, format_args!("Python 3.11 or newer is needed, {PYTHON} is {version}"));
        return Ok(None);
    }
    let stamp = Stamp::new(&folder, &version, &[pins])?;
    if stamp.is_current() {
        return Ok(Some(folder));
    }
    let python = folder.join(VENV_PYTHON);
    if step::probe("uv", &["--version"]).is_some() {
        step::run(Command::new("uv").args(["venv", "--quiet", "--clear", "--python", PYTHON]).arg(&folder))?;
        let mut install = Command::new("uv");
        install.args(["pip", "sync", "--quiet", "--python"]).arg(&python).arg(pins);
        step::run(&mut install)?;
    } else if step::probe(PYTHON, &["-c", "import ensurepip, venv"]).is_some() {
        step::run(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"]).arg(pins);
        step::run(&mut install)?;
    } else {
        say::skipped(what, format_args!("neither uv nor Python's venv module is installed"));
        return Ok(None);
    }
    stamp.write()?;
    Ok(Some(folder))
}

pub(crate) const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };
/// Interpreter of a venv.
pub(crate) const VENV_PYTHON: &str = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
pub(crate) const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// Records the pins and the interpreter's version of an installation.
struct Stamp {
    file: PathBuf,
    content: String,
}

impl Stamp {
    fn new(folder: &Path, interpreter: &str, pins: &[&Path]) -> anyhow::Result<Self> {
        let mut content = format!("{interpreter}\n");
        for pin in pins {
            content += &fs::read_to_string(pin).with_context(|| format!("cannot read {}", pin.display()))?;
        }
        Ok(Self { file: folder.join(".installed-from"), content })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|content| content == self.content)
    }

    fn write(&self) -> anyhow::Result<()> {
        fs::write(&self.file, &self.content).with_context(|| format!("cannot write {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// An update of the pins must not bind them to the registry that resolved them.
    #[test]
    fn the_pins_name_no_registry() {
        let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/real");
        let locks = [
            "package-lock.json", "checkers/package-lock.json", "../conformance/package-lock.json",
            "rehearse/package-lock.json",
        ];
        let requirements = [
            "requirements.txt", "requirements-testkit.txt", "requirements-checkers.txt", "requirements-book.txt",
            "requirements-rehearse.txt", "../conformance/requirements.txt",
        ];
        for file in locks.into_iter().chain(requirements) {
            let text = fs::read_to_string(pins.join(file)).expect("the pins can be read");
            for forbidden in ["\"resolved\"", "--index-url", "--find-links", " @ "] {
                assert!(!text.contains(forbidden), "{file} contains {forbidden}");
            }
        }
    }
}
