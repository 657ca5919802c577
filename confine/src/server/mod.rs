//! A confined MCP server: `forgefs confined PROGRAM ARGUMENT…` gives up what its rules do not allow, and becomes the
//! program.
//!
//! The rules arrive on stdin, which is private to the gateway and this process, and go before what the server will read
//! there; the report goes out on stdout in the same way. The gateway judges the report, and then lets the program
//! start with one byte.

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod syscalls;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

#[cfg(target_os = "linux")]
pub use supervisor::END;

/// Most bytes of rules or of a report.
pub const MAX_MESSAGE: u32 = 1 << 20;
/// The byte that lets the program start.
pub const GO: u8 = b'\n';
/// Exit code when the program could not be started.
const CANNOT: u8 = 126;

/// Rights of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Files and folders that it may read and execute. Real paths: no part of one is a symbolic link.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read and change. Real paths too.
    pub write: Vec<PathBuf>,
    /// Devices that it may read and write.
    pub devices: Vec<PathBuf>,
    /// True if it may use the network.
    pub network: bool,
    /// True if it may watch files for changes.
    pub watch: bool,
    /// True if it may change modes, owners, times and attributes of files by their paths, also of other files.
    pub modes: bool,
    /// Most bytes of private memory of each of its processes.
    pub data: Option<u64>,
    /// Folder for its temporary files, which is removed when it has ended.
    pub temporary: Option<PathBuf>,
}

/// A layer of a server's sandbox.
pub type Layer = wire::Layer<LayerName>;

/// Layers of a server's sandbox, as `require` names them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LayerName {
    /// Executing a file gains no privileges.
    NoNewPrivs,
    /// No file but the allowed ones.
    Landlock,
    /// No signal and no abstract socket to processes outside.
    Scope,
    /// No socket but the allowed ones, and no interface of the kernel that servers do not need.
    Seccomp,
    /// No core dump.
    Rlimits,
    /// No process outlives it.
    Children,
    /// Memory of the server with all its children.
    Memory,
    /// Number of its processes and threads.
    Processes,
}

impl LayerName {
    /// Every layer.
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// The first thing that the process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The layers. The program starts at [`GO`].
    Layers(Vec<Layer>),
    /// The rules cannot be applied: the program does not start.
    Failed(String),
}

/// A message as it goes over a pipe: its length, then JSON.
///
/// # Errors
/// When it is longer than [`MAX_MESSAGE`].
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= MAX_MESSAGE);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "too many rules"))?;
    Ok([&length.to_le_bytes(), text.as_slice()].concat())
}

/// Runs `forgefs confined`. `args` are those after it: the program, and its arguments.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match become_program(args.collect()) {
        Ok(code) => ExitCode::from(code),
        Err(reason) => {
            // The gateway keeps stderr, and shows its end.
            let _ = writeln!(io::stderr(), "forgefs confined: {reason}");
            ExitCode::from(CANNOT)
        }
    }
}

/// Returns the exit code in the supervisor, and without an error if the gateway does not let the program start.
fn become_program(args: Vec<OsString>) -> Result<u8, String> {
    let mut args = args.into_iter();
    let program = args.next().ok_or("it is started by the gateway alone")?;
    let rules = rules().map_err(|error| format!("its rules: {error}"))?;
    #[cfg(target_os = "linux")]
    if let Some(code) =
        supervisor::divide(rules.temporary.as_deref()).map_err(|error| format!("its supervisor: {error}"))?
    {
        return Ok(code);
    }
    let report = match apply(&rules) {
        Ok(layers) => Report::Layers(layers),
        Err(reason) => Report::Failed(reason),
    };
    let said = encode(&report).and_then(|bytes| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes).and_then(|()| stdout.flush())
    });
    said.map_err(|error| format!("its report: {error}"))?;
    let mut go = [0];
    // Not through a buffer: what follows belongs to the program.
    match (&report, read_exactly(&mut go)) {
        (Report::Layers(_), Ok(())) if go == [GO] => Err(execute(&program, args)),
        _ => Ok(0),
    }
}

fn rules() -> io::Result<Rules> {
    let mut length = [0; 4];
    read_exactly(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = vec![0; length as usize];
    read_exactly(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Reads from stdin, and not a byte more.
fn read_exactly(bytes: &mut [u8]) -> io::Result<()> {
    let stdin = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    std::fs::File::from(stdin).read_exact(bytes)
}

/// Becomes the program, or says why not.
fn execute(program: &OsString, args: impl Iterator<Item = OsString>) -> String {
    use std::os::unix::process::CommandExt as _;

    let error = std::process::Command::new(program).args(args).exec();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => ": it, or the interpreter that its first line names, may not be executed",
        _ => "",
    };
    format!("`{}` does not start: {error}{hint}", program.to_string_lossy())
}

/// Applies the rules to this process. Irreversible.
#[cfg(target_os = "linux")]
fn apply(rules: &Rules) -> Result<Vec<Layer>, String> {
    use nix::sys::prctl;
    use nix::sys::resource::{Resource, setrlimit};

    only_standard_streams();
    let told =
        |outcome: nix::Result<()>, what: &str| outcome.map(|()| what.to_owned()).map_err(|error| error.to_string());
    let mut layers = Vec::new();
    let mut add = |name, outcome| layers.push(Layer::of(name, outcome));
    drop_capabilities();
    let privileges = told(prctl::set_no_new_privs(), "gains no privileges by executing a file");
    add(LayerName::NoNewPrivs, privileges);
    let files::Restricted { landlock, scope, cuts_files } = files::restrict(rules)?;
    add(LayerName::Landlock, landlock);
    add(LayerName::Scope, scope);
    add(LayerName::Children, Ok("a supervisor ends what it leaves behind".to_owned()));
    add(LayerName::Rlimits, told(setrlimit(Resource::RLIMIT_CORE, 0, 0), "no core dump"));
    if let Some(data) = rules.data {
        // The gateway reports it, since it knows whether a control group does more.
        setrlimit(Resource::RLIMIT_DATA, data, data)
            .map_err(|error| format!("RLIMIT_DATA of {data} bytes: {error}"))?;
    }
    add(LayerName::Seccomp, syscalls::filter(rules, cuts_files));
    layers.sort_by_key(|layer| layer.name);
    Ok(layers)
}

#[cfg(not(target_os = "linux"))]
fn apply(_: &Rules) -> Result<Vec<Layer>, String> {
    use LayerName::{Children, Landlock, NoNewPrivs, Rlimits, Scope, Seccomp};
    let why = || Err("this platform offers no sandbox for servers that ForgeFS uses".to_owned());
    Ok([NoNewPrivs, Landlock, Scope, Seccomp, Rlimits, Children].map(|name| Layer::of(name, why())).into())
}

/// Root's rights that the program keeps, where the gateway has them: those over files, which landlock bounds, and low
/// ports. With more of them it would read the environment of other processes, whatever landlock says.
#[cfg(target_os = "linux")]
const KEPT: [u64; 4] = [CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_NET_BIND_SERVICE];
#[cfg(target_os = "linux")]
const CAP_CHOWN: u64 = 0;
#[cfg(target_os = "linux")]
const CAP_DAC_OVERRIDE: u64 = 1;
#[cfg(target_os = "linux")]
const CAP_FOWNER: u64 = 3;
#[cfg(target_os = "linux")]
const CAP_NET_BIND_SERVICE: u64 = 10;

/// Takes all other rights of root out of what executing a file can give. Ordinary users have none.
#[cfg(target_os = "linux")]
fn drop_capabilities() {
    for capability in (0..64).filter(|capability| !KEPT.contains(capability)) {
        #[expect(unsafe_code, reason = "a call with a number, which changes this process's set of capabilities alone")]
        unsafe {
            nix::libc::prctl(nix::libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
    }
}

/// Keeps descriptors that were left open by mistake out of the program.
#[cfg(target_os = "linux")]
fn only_standard_streams() {
    #[expect(unsafe_code, reason = "this process has one thread, and owns no descriptor but the standard streams")]
    unsafe {
        nix::libc::syscall(nix::libc::SYS_close_range, 3, u32::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_pass_through_a_pipe_unchanged() {
        let rules = Rules { read: vec!["/usr".into()], network: true, data: Some(1 << 30), ..Rules::default() };
        let bytes = encode(&rules).expect("short");
        assert_eq!(u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize, bytes.len() - 4);
        assert_eq!(serde_json::from_slice::<Rules>(&bytes[4..]).expect("rules"), rules);
        let long = Rules { read: vec!["/".repeat(2 << 20).into()], ..Rules::default() };
        assert!(encode(&long).is_err());
    }
}
