//! Registry of running gateways by configuration file, for `forgefs reload`: a private file each in the state folder,
//! named after the configuration and the process, and locked as long as the process lives.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base::files;

mod rotation;

pub use rotation::{Taken, ask};

/// The entry of a gateway. Dropping it removes the file.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    /// Locked; the lock ends with the process in any case.
    _file: File,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Registers this process as a gateway of `config`.
///
/// # Errors
/// When the file cannot be created or locked.
pub fn enter(folder: &Path, config: &Path) -> io::Result<Entry> {
    files::make_private_folder(folder)?;
    let name = format!("{}{}", prefix(config), std::process::id());
    let (path, new) = (folder.join(&name), folder.join(format!(".new-{name}")));
    // Left behind by another process with this id.
    let _ = fs::remove_file(&new);
    let file = files::private().write(true).create_new(true).open(&new)?;
    file.lock()?;
    // Only now: an entry without a lock is removed.
    fs::rename(&new, &path)?;
    Ok(Entry { path, _file: file })
}

/// Sends SIGHUP to every gateway of this user that follows `config`; returns their process ids.
///
/// # Errors
/// When the folder cannot be read.
pub fn hang_up(folder: &Path, config: &Path) -> io::Result<Vec<u32>> {
    let gateways = all(folder, config)?.into_iter().map(|(pid, _)| pid);
    Ok(gateways.filter(|pid| signal(*pid)).collect())
}

/// Every gateway of this user that follows `config`, by process id, with its entry. Removes entries of dead processes.
fn all(folder: &Path, config: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let prefix = prefix(config);
    let mut gateways = Vec::new();
    for entry in files::if_there(fs::read_dir(folder))?.into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix)).and_then(|pid| pid.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        match is_held(&entry.path()) {
            Ok(true) if is_gateway(pid) => gateways.push((pid, entry.path())),
            Ok(false) => drop(fs::remove_file(entry.path())),
            _ => {}
        }
    }
    gateways.sort_unstable();
    Ok(gateways)
}

/// Name prefix of a configuration file's entries, by any path to it.
fn prefix(config: &Path) -> String {
    let path = fs::canonicalize(config).or_else(|_| std::path::absolute(config)).unwrap_or_else(|_| config.to_owned());
    format!("gateway-{}-", stubgen::short_digest(&path.to_string_lossy()))
}

/// True if a process holds the lock of an entry, which no other user may change.
fn is_held(path: &Path) -> io::Result<bool> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = files::private().custom_flags(flags).read(true).open(path)?;
    files::check_file(&file.metadata()?)?;
    files::try_lock(&file).map(|is_free| !is_free)
}

/// True if the process with this id is this user's and runs this program, which may have been replaced meanwhile.
#[cfg(target_os = "linux")]
pub fn is_gateway(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let process = PathBuf::from(format!("/proc/{pid}"));
    let is_own = fs::metadata(&process).is_ok_and(|found| found.uid() == nix::unistd::geteuid().as_raw());
    let program = |exe: io::Result<PathBuf>| {
        let name = exe.ok()?.file_name()?.to_str()?.to_owned();
        Some(name.strip_suffix(" (deleted)").map(str::to_owned).unwrap_or(name))
    };
    let (theirs, ours) = (program(fs::read_link(process.join("exe"))), program(std::env::current_exe()));
    is_own && theirs.is_some() && theirs == ours
}

#[cfg(not(target_os = "linux"))]
pub fn is_gateway(_: u32) -> bool {
    true
}

fn signal(pid: u32) -> bool {
    use nix::sys::signal::{Signal, kill};
    i32::try_from(pid).is_ok_and(|pid| pid > 1 && kill(nix::unistd::Pid::from_raw(pid), Signal::SIGHUP).is_ok())
}
