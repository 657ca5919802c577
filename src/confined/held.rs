//! What a confined process uses, given up after its end: its folder for temporary files, and its control group.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use confine::server::{Layer, LayerName};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use tempfile::TempDir;

use crate::config::show_size;

#[cfg(target_os = "linux")]
use confine::cgroup::Cgroup;
#[cfg(not(target_os = "linux"))]
type Cgroup = ();

/// What a running process holds.
pub(crate) struct Held {
    pub(super) name: String,
    pub(super) _group: Option<Cgroup>,
    pub(super) temporary: Option<Temporary>,
}

impl Held {
    /// Gives it up, off the async threads: the process may have left much behind.
    pub(crate) async fn give_up(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

/// Puts a process into a control group with these limits.
#[cfg(target_os = "linux")]
pub(super) async fn limit(
    pid: Option<u32>,
    memory: Option<u64>,
    processes: Option<u32>,
) -> (Option<Cgroup>, Vec<Layer>) {
    use confine::cgroup::Limits;

    let Some(pid) = pid else { return (None, Vec::new()) };
    let made = tokio::task::spawn_blocking(move || Cgroup::around(pid, Limits { memory, processes })).await;
    let Ok((group, outcomes)) = made else { return (None, Vec::new()) };
    let mut layers = Vec::new();
    if let Some((bytes, outcome)) = memory.zip(outcomes.memory) {
        let size = show_size(bytes);
        let outcome = outcome.map(|()| format!("at most {size} with all its children"));
        let outcome = outcome.map_err(|why| format!("only each process alone has at most {size}: {why}"));
        layers.push(Layer::of(LayerName::Memory, outcome));
    }
    if let Some((count, outcome)) = processes.zip(outcomes.processes) {
        layers
            .push(Layer::of(LayerName::Processes, outcome.map(|()| format!("at most {count} processes and threads"))));
    }
    (group, layers)
}

#[cfg(not(target_os = "linux"))]
pub(super) async fn limit(_: Option<u32>, _: Option<u64>, _: Option<u32>) -> (Option<Cgroup>, Vec<Layer>) {
    (None, Vec::new())
}

/// A private folder. Dropping it removes it with everything in it.
pub(super) struct Temporary(Option<TempDir>, PathBuf);

impl Temporary {
    pub(super) fn new() -> io::Result<Self> {
        // The rules hold real paths alone.
        let parent = std::fs::canonicalize(std::env::temp_dir())?;
        let folder = tempfile::Builder::new().prefix("forgefs-server-").tempdir_in(parent)?;
        let path = folder.path().to_owned();
        Ok(Self(Some(folder), path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.1
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // By itself the crate would go down as deep as the server has built.
        if let Some(folder) = self.0.take() {
            let path = folder.keep();
            if let Err(error) = empty(&path).and_then(|()| std::fs::remove_dir(&path)) {
                tracing::warn!(%error, "temporary files of a server are left in {}", path.display());
            }
        }
    }
}

/// Removes what is in a folder. Folders in it are moved up before they are emptied, so that neither the stack nor the
/// descriptors grow with their depth; no link is followed.
fn empty(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = nix::fcntl::open(path, flags, Mode::empty())?;
    let (mut number, mut last_left) = (0u64, usize::MAX);
    loop {
        let mut left = 0;
        for (name, is_folder) in entries(&top)? {
            if !is_folder {
                unlinkat(&top, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
                continue;
            }
            let folder = openat(&top, name.as_c_str(), flags, Mode::empty())?;
            for (inner, is_folder) in entries(&folder)? {
                if !is_folder {
                    unlinkat(&folder, inner.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
                    continue;
                }
                loop {
                    number += 1;
                    let above = CString::new(format!(".{number}")).unwrap_or_default();
                    match renameat(&folder, inner.as_c_str(), &top, above.as_c_str()) {
                        // The server has taken the name.
                        Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
                        other => break other?,
                    }
                }
                left += 1;
            }
            unlinkat(&top, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
        }
        if left == 0 {
            return Ok(());
        }
        // A process that is still there could go on for ever.
        if left >= last_left && number > 1 << 20 {
            return Err(io::Error::other("it grows while it is removed"));
        }
        last_left = left;
    }
}

/// Names in a folder, and whether each is a folder.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
    let own: &CStr = c".";
    let again = openat(folder, own, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::from_fd(again)?.into_iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            found.push((name.to_owned(), entry.file_type() == Some(Type::Directory)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_a_server_leaves_is_removed_however_deep_and_no_link_is_followed() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("kept"), "x").expect("written");
        let temporary = Temporary::new().expect("a folder");
        let path = temporary.path().to_owned();
        std::os::unix::fs::symlink(outside.path(), path.join("link")).expect("linked");
        fs::write(path.join(".1"), "a name that is taken").expect("written");
        // Deeper than a path can name and more levels than a process has descriptors.
        let mut at = nix::fcntl::open(&path, OFlag::O_DIRECTORY, Mode::empty()).expect("opened");
        for _ in 0..3_000 {
            nix::sys::stat::mkdirat(&at, "deeper", Mode::S_IRWXU).expect("made");
            at = openat(&at, "deeper", OFlag::O_DIRECTORY, Mode::empty()).expect("opened");
        }
        drop((at, temporary));
        assert!(!path.exists() && outside.path().join("kept").exists());
    }
}
