//! Programs that are started for servers and hooks: confined if they are to be, with their stderr kept, and ended as a group.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use confine::server::Layer;
use tokio::io::BufReader;
use tokio::process::{ChildStdout, Command};
use tokio::sync::Mutex;

use crate::confined::{self, Examined};
use crate::process::{Process, Stdin, end_of};
use crate::stderr::Stderr;
use base::error::{Error, ErrorCode, Result};
use base::program::Running;
use config::{Confinement, INHERITED};
use redact::secret::Secret;

/// Read buffer in bytes.
const BUFFER: usize = 64 << 10;

/// A process to start.
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a BTreeMap<String, Secret>,
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) sandbox: Option<&'a Confinement>,
}

/// A process that was started. Dropping `process` ends it.
pub(crate) struct Started {
    pub(crate) stdin: Stdin,
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) process: Process,
}

impl Program<'_> {
    /// Starts the process and keeps its stderr in `stderr`.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` when the program cannot be started.
    pub(crate) async fn start(&self, stderr: &Stderr) -> Result<Started> {
        let prepared = match self.sandbox {
            Some(sandbox) => Some(confined::prepare(&self.confined(sandbox, stderr)).await?),
            None => None,
        };
        let mut command = Command::new(self.program);
        command.args(self.args).env_clear().envs(inherited(false));
        if let Some(prepared) = &prepared {
            command = prepared.command(inherited(true));
        }
        command.envs(self.env.iter().map(|(key, value)| (key, value.expose())));
        if let Some(cwd) = self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a group of its own: launchers such as npx end together with their children.
        let started = Running::start(command, end_of(prepared.is_some())).await;
        let mut running = started.map_err(|error| self.cannot_start(error))?;
        let (Some(mut stdin), Some(stdout), Some(words)) = running.pipes() else {
            return Err(Error::new(ErrorCode::TransportDead, format!("{} has no pipes", self.name)));
        };
        stderr.follow(self.name, words);
        let mut stdout = BufReader::with_capacity(BUFFER, stdout);
        let held = match prepared {
            Some(prepared) => {
                let (held, layers) = prepared.enter(running.id(), &mut stdin, &mut stdout).await?;
                layers.iter().filter(|layer| !layer.active).for_each(|layer| self.misses(layer, stderr));
                Some(held)
            }
            None => None,
        };
        let stdin: Stdin = Arc::new(Mutex::new(Some(stdin)));
        let process = Process::watch(running, Arc::clone(&stdin), stderr.clone(), held);
        Ok(Started { stdin, stdout, process })
    }

    /// The program that is started, for its sandbox.
    fn confined<'s>(&'s self, confinement: &'s Confinement, stderr: &'s Stderr) -> confined::Server<'s> {
        let own_env = self.env.iter().map(|(key, value)| (key.clone(), value.expose().into()));
        confined::Server {
            name: self.name,
            command: self.program,
            args: self.args,
            env: inherited(true).map(|(key, value)| (key.to_owned(), value)).chain(own_env).collect(),
            cwd: self.cwd,
            confinement,
            stderr,
        }
    }

    /// Says that a layer of its sandbox is not in force.
    fn misses(&self, layer: &Layer, stderr: &Stderr) {
        tracing::warn!(server = self.name, layer = %layer.name, "not confined: {}", layer.detail);
        stderr.note(format!("not confined by {}: {}", layer.name, layer.detail));
    }

    /// Confinement of its process on this machine.
    ///
    /// # Errors
    /// As of [`Program::start`].
    pub(crate) async fn examine(&self) -> Result<Examined> {
        let Some(sandbox) = self.sandbox else {
            return Err(Error::new(ErrorCode::Internal, format!("{} is not confined", self.name)));
        };
        confined::prepare(&self.confined(sandbox, &Stderr::default())).await?.examine().await
    }

    fn cannot_start(&self, error: std::io::Error) -> Error {
        let (Self { name, program, .. }, kind) = (self, error.kind());
        let dead = Error::new(ErrorCode::TransportDead, format!("{name} did not start: `{program}`")).caused_by(error);
        match (kind, self.cwd) {
            (std::io::ErrorKind::NotFound, Some(cwd)) if !cwd.is_dir() => {
                dead.hint(format!("its `cwd` {} is not a folder", cwd.display()))
            }
            (std::io::ErrorKind::NotFound, _) if program.contains(char::is_whitespace) => {
                dead.hint("`command` is the program alone: write its arguments in `args`, one string each")
            }
            (std::io::ErrorKind::NotFound, _) => {
                dead.hint(format!("is `{program}` installed and on PATH? An absolute path in `command` works too"))
            }
            _ => dead,
        }
    }
}

/// Variables that a server inherits from the gateway, but for the password of a proxy: that is no server's unless its `env`
/// says so. A confined one does not read every file of certificates.
fn inherited(is_confined: bool) -> impl Iterator<Item = (&'static str, OsString)> {
    let values = INHERITED.iter().filter_map(|key| std::env::var_os(key).map(|value| (*key, value)));
    values.filter(move |(key, value)| match key.to_ascii_lowercase().as_str() {
        name if name.ends_with("_proxy") => !value.as_encoded_bytes().contains(&b'@'),
        name => !is_confined || !["cert", "_ca_"].iter().any(|part| name.contains(part)),
    })
}
