//! Starts a server that may do no more than its `sandbox` says.
//!
//! `prepare` finds the program behind launchers and shims, and what it needs to run. The process that is started is
//! this executable as `forgefs confined`: it gets its rules, confines itself and reports, all before the program runs.
//! `Prepared::enter` judges the report, and lets the program start.

mod held;
mod helper;
mod install;
mod launcher;
mod paths;
mod program;
mod shims;
mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use confine::server::{GO, Layer, LayerName, MAX_MESSAGE, Report, Rules, encode};
use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

use self::held::Temporary;
use crate::stderr::Stderr;
use base::error::{Error, ErrorCode, Result};
use config::Confinement;

pub(crate) use self::held::Held;
pub use self::launcher::may_install;

/// Timeout for the report of a process that confines itself.
const READY: Duration = Duration::from_secs(20);
/// The executable that confines itself.
const OWN: &str = if cfg!(target_os = "linux") { "/proc/self/exe" } else { "forgefs" };
/// The signal that ends a confined process, whose supervisor leads its group. Killed, that could not end what is below it.
#[cfg(target_os = "linux")]
pub const END: Signal = confine::server::END;
#[cfg(not(target_os = "linux"))]
pub const END: Signal = Signal::SIGKILL;
/// Variables that name the folder for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Variables that name a file of certificates, which TLS libraries read.
const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// A server to start.
pub(crate) struct Server<'a> {
    /// Its name, for errors.
    pub name: &'a str,
    /// The program, as it is configured.
    pub command: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Its whole environment.
    pub env: BTreeMap<String, OsString>,
    /// Its working directory.
    pub cwd: Option<&'a Path>,
    /// Its rights.
    pub confinement: &'a Confinement,
    /// Keeps lines of what is installed for it.
    pub stderr: &'a Stderr,
}

/// A program that was found, and the rules for its process.
pub(crate) struct Prepared {
    name: String,
    /// The program, and its arguments.
    program: PathBuf,
    args: Vec<String>,
    rules: Rules,
    confinement: Confinement,
    temporary: Temporary,
}

/// Finds what a server needs, and installs it where it is started by a launcher.
///
/// # Errors
/// `TRANSPORT_DEAD` when the program cannot be found or installed, or a path is unusable.
pub(crate) async fn prepare(server: &Server<'_>) -> Result<Prepared> {
    let Confinement { read, write, named, network, memory, .. } = server.confinement;
    let refused = |error: Error| not_started(server.name, error);
    let found = program::find(server).await.map_err(refused)?;
    let folders = paths::Folders { read: read.clone(), write: write.clone(), named: named.clone() };
    let scripts: BTreeSet<PathBuf> = found.scripts.clone();
    let grants = found.grants;
    let granted = tokio::task::spawn_blocking(move || folders.with(grants, &scripts)).await;
    let granted = granted.unwrap_or_else(|_| Err(dead("its paths could not be checked"))).map_err(refused)?;
    let temporary =
        Temporary::new().map_err(|error| refused(dead("no folder for its temporary files").caused_by(error)))?;
    let mut rules = Rules {
        read: system::readable(),
        write: granted.write,
        devices: system::devices(),
        network: *network,
        watch: !(read.is_empty() && write.is_empty() && named.is_empty()),
        modes: false,
        data: *memory,
        temporary: Some(temporary.path().to_owned()),
    };
    rules.read.extend(granted.read);
    rules.read.extend(certificates(&server.env).filter_map(|path| std::fs::canonicalize(path).ok()));
    rules.write.push(temporary.path().to_owned());
    Ok(Prepared {
        name: server.name.to_owned(),
        program: found.program,
        args: found.args,
        rules,
        confinement: server.confinement.clone(),
        temporary,
    })
}

impl Prepared {
    /// The process to start, with these variables, and with those of its temporary folder, which those of the server's
    /// configuration come after.
    pub(crate) fn command(&self, inherited: impl Iterator<Item = (&'static str, OsString)>) -> Command {
        let mut command = own_command(&self.program, &self.args);
        command.env_clear().envs(inherited);
        command.envs(TEMPORARY.map(|name| (name, self.temporary.path())));
        command
    }

    /// Has the started process confine itself, and lets the program start.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` when the process does not do so, or a required layer is missing.
    pub(crate) async fn enter(
        self,
        pid: Option<u32>,
        stdin: &mut ChildStdin,
        stdout: &mut (impl AsyncRead + Unpin),
    ) -> Result<(Held, Vec<Layer>)> {
        let (held, layers) = self.confine(pid, stdin, stdout).await?;
        let go = async {
            stdin.write_all(&[GO]).await?;
            stdin.flush().await
        };
        go.await.map_err(|error| not_started(&held.name, dead("its process is gone").caused_by(error)))?;
        Ok((held, layers))
    }

    /// Has the started process confine itself: the layers are in force, and the program does not run yet.
    async fn confine(
        self,
        pid: Option<u32>,
        stdin: &mut ChildStdin,
        stdout: &mut (impl AsyncRead + Unpin),
    ) -> Result<(Held, Vec<Layer>)> {
        let Self { name, rules, confinement: Confinement { memory, processes, require, .. }, temporary, .. } = self;
        // Its supervisor is in the group before there is a server.
        let (group, more) = held::limit(pid, memory, processes).await;
        let mut layers = apply(stdin, stdout, &rules).await.map_err(|error| not_started(&name, error))?;
        for layer in layers.iter_mut().filter(|layer| layer.name == LayerName::Children && group.is_some()) {
            layer.detail.push_str(", and its control group");
        }
        layers.extend(more);
        let held = Held { name, _group: group, temporary };
        let Some(missing) = Layer::missing(&layers, &Vec::from_iter(require)) else { return Ok((held, layers)) };
        let error = dead(missing)
            .hint("`forgefs doctor` shows every layer; `require` in the server's `sandbox` names this one");
        Err(not_started(&held.name, error))
    }

    /// Confinement of this server on this machine, for `forgefs doctor`: a process confines itself, and ends.
    ///
    /// # Errors
    /// As of [`Prepared::enter`].
    pub(crate) async fn examine(self) -> Result<Examined> {
        let Rules { write, .. } = &self.rules;
        let (program, write) = (self.program.clone(), write.clone());
        let command = self.command(std::iter::empty());
        let mut child = helper::start(command).await.map_err(|error| not_started(&self.name, error))?;
        let pid = child.id();
        let (Some(mut stdin), Some(mut stdout), _) = child.pipes() else {
            return Err(not_started(&self.name, dead("its process has no pipes")));
        };
        let (held, layers) = self.confine(pid, &mut stdin, &mut stdout).await?;
        drop((stdin, child));
        let own = held.temporary.path().to_owned();
        held.give_up().await;
        let write = write.into_iter().filter(|path| *path != own).collect();
        Ok(Examined { program, write, layers })
    }
}

/// Outcome of `Prepared::examine`.
pub struct Examined {
    /// The program itself, behind launchers and shims.
    pub program: PathBuf,
    /// Folders that it may write, besides its own for temporary files.
    pub write: Vec<PathBuf>,
    /// The layers.
    pub layers: Vec<Layer>,
}

/// Files of certificates that variables name.
fn certificates(env: &BTreeMap<String, OsString>) -> impl Iterator<Item = PathBuf> + use<> {
    let named: Vec<PathBuf> = CERTIFICATES.iter().filter_map(|name| env.get(*name).map(PathBuf::from)).collect();
    let is_certificate =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "pem" || end == "crt") && path.is_file();
    named.into_iter().filter(move |path| path.is_absolute() && is_certificate(path))
}

fn own_command(program: &Path, args: &[String]) -> Command {
    let mut command = Command::new(OWN);
    command.arg0("forgefs");
    command.arg("confined").arg(program).args(args);
    command
}

/// Sends a process its rules, and reads its report.
async fn apply(stdin: &mut ChildStdin, stdout: &mut (impl AsyncRead + Unpin), rules: &Rules) -> Result<Vec<Layer>> {
    let exchange = async {
        stdin.write_all(&encode(rules)?).await?;
        stdin.flush().await?;
        let length = stdout.read_u32_le().await?;
        if length > MAX_MESSAGE {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let mut text = vec![0; length as usize];
        stdout.read_exact(&mut text).await?;
        std::io::Result::Ok(serde_json::from_slice::<Report>(&text)?)
    };
    match tokio::time::timeout(READY, exchange).await {
        Ok(Ok(Report::Layers(layers))) => Ok(layers),
        Ok(Ok(Report::Failed(reason))) => Err(dead(format!("its sandbox cannot be applied: {reason}"))),
        Ok(Err(error)) => Err(dead("its process did not confine itself").caused_by(error)),
        Err(_) => Err(dead(format!("its process did not confine itself within {READY:?}"))),
    }
}

/// An error of a server that does not start.
fn dead(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::TransportDead, what)
}

fn not_started(server: &str, error: Error) -> Error {
    error.context(format_args!("{server} did not start"))
}
