//! The registries of the rehearsal, on ports of this machine, and what clients need to find them.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{bounded::Server, real::VENV_PYTHON};

/// Longest time until a registry answers.
const START: Duration = Duration::from_secs(60);
/// Everything may be published by everyone, and nothing is looked up elsewhere.
const VERDACCIO: &str = "storage: ./npm\nuplinks: {}\nmax_body_size: 1gb\nlog: { type: stdout, level: warn }\n\
                         auth: { htpasswd: { file: ./htpasswd } }\n\
                         packages: { '**': { access: $all, publish: $all } }\n";

/// Running registries.
pub(super) struct Registries {
    pub(super) npm: String,
    pub(super) pypi: String,
    pub(super) crates: String,
    folder: PathBuf,
    _running: [Server; 3],
}

impl Registries {
    /// Starts the registries with the programs of npm's folder `node` and of `venv`; `folder` has what they keep.
    pub(super) fn start(folder: &Path, node: &Path, venv: &Path) -> anyhow::Result<Self> {
        for kept in ["npm", "pypi", "crates", "cargo"] {
            fs::create_dir_all(folder.join(kept))?;
        }
        let [npm, pypi, crates] = [port()?, port()?, port()?];
        let config = folder.join("verdaccio.yaml");
        fs::write(&config, VERDACCIO)?;
        fs::write(folder.join("crates.py"), include_str!("crates.py"))?;
        let mut verdaccio = Command::new(node.join("node_modules/.bin/verdaccio"));
        verdaccio.arg("--config").arg(config).args(["--listen", &format!("127.0.0.1:{npm}")]);
        let mut pypiserver = Command::new(venv.join("bin/pypi-server"));
        pypiserver.args(["run", "--interface=127.0.0.1", "--disable-fallback", "--authenticate=.", "--passwords=."]);
        pypiserver.args(["--port", &pypi.to_string()]).arg(folder.join("pypi"));
        let mut index = Command::new(venv.join(VENV_PYTHON));
        index.arg(folder.join("crates.py")).arg(folder.join("crates")).arg(crates.to_string());
        let running = [
            Server::start(&verdaccio, &folder.join("npm.log"))?,
            Server::start(&pypiserver, &folder.join("pypi.log"))?,
            Server::start(&index, &folder.join("crates.log"))?,
        ];
        let at = |port| format!("http://127.0.0.1:{port}");
        let (npm, pypi, crates) = (at(npm), at(pypi), at(crates));
        fs::write(
            folder.join("npmrc"),
            format!("registry={npm}/\n{}/:_authToken=rehearsal\nfetch-retries=0\n", &npm[5..]),
        )?;
        let config = format!(
            "[registries.rehearsal]\nindex = \"sparse+{crates}/index/\"\n[source.crates-io]\nreplace-with = \"rehearsal\"\n"
        );
        fs::write(folder.join("cargo/config.toml"), config)?;
        let registries = Self { npm, pypi, crates, folder: folder.to_owned(), _running: running };
        for (at, log) in [
            (format!("{}/-/ping", registries.npm), "npm"),
            (registries.simple(), "pypi"),
            (registries.listed(), "crates"),
        ] {
            let started = Instant::now();
            while get(&at).is_err() {
                if started.elapsed() > START {
                    bail!("no registry answers at {at}; {} says why", folder.join(log).with_extension("log").display());
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(registries)
    }

    /// PyPI's index.
    pub(super) fn simple(&self) -> String {
        format!("{}/simple/", self.pypi)
    }

    /// Every published crate.
    pub(super) fn listed(&self) -> String {
        format!("{}/crates", self.crates)
    }

    /// Has a client use these registries alone.
    pub(super) fn known_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("NPM_CONFIG_USERCONFIG", self.folder.join("npmrc"))
            .env("TWINE_REPOSITORY_URL", &self.pypi)
            .envs([("TWINE_USERNAME", "rehearsal"), ("TWINE_PASSWORD", "rehearsal"), ("TWINE_NON_INTERACTIVE", "1")])
            .env("CARGO_HOME", self.folder.join("cargo"))
            .env("CARGO_TARGET_DIR", self.folder.join("build"))
            .envs([("CARGO_REGISTRIES_REHEARSAL_TOKEN", "rehearsal"), ("FORGEFS_REGISTRY", "rehearsal")])
            .env("FORGEFS_PUBLISH_PAUSE", "1")
            .env("PATH", path_with(&self.folder.join("../tools/bin")))
    }
}

/// PATH with a folder in front.
pub(super) fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&path))).unwrap_or(path)
}

/// The answer at a URL of a registry.
pub(super) fn get(url: &str) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("curl").args(["--silent", "--show-error", "--fail", "--max-time", "60", url]).output();
    let output = output.context("curl is not installed")?;
    anyhow::ensure!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

/// A free port.
fn port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
