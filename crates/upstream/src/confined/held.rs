//! What a confined process uses, given up after its end: its folder for temporary files, and its control group.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use confine::folder;
use confine::server::{Layer, LayerName};
use nix::fcntl::OFlag;

use config::show_size;

#[cfg(target_os = "linux")]
use confine::cgroup::Cgroup;
#[cfg(not(target_os = "linux"))]
type Cgroup = ();

/// Resources of a running process.
pub(crate) struct Held {
    pub(super) name: String,
    pub(super) _group: Option<Cgroup>,
    pub(super) temporary: Temporary,
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
    // Its supervisor counts too.
    let limits = Limits { memory, processes: processes.map(|count| count.saturating_add(1)) };
    let made = tokio::task::spawn_blocking(move || Cgroup::around(pid, limits)).await;
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

/// Beginning and end of the names of temporary folders.
const NAME: (&str, &str) = ("forgefs-server-", "-held");

/// A private folder. Dropping it removes it with everything in it. Its lock tells other gateways that it is in use.
pub(super) struct Temporary {
    path: PathBuf,
    _lock: File,
}

impl Temporary {
    /// Makes one. The first of this process has those removed that ended gateways left behind.
    pub(super) fn new() -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        // The rules hold real paths alone.
        let parent = std::fs::canonicalize(std::env::temp_dir())?;
        SWEPT.call_once(|| {
            let parent = parent.clone();
            std::thread::spawn(move || sweep(&parent));
        });
        loop {
            let folder = tempfile::Builder::new().prefix(NAME.0).suffix(NAME.1).tempdir_in(&parent)?;
            // Before it is locked, another gateway may sweep it.
            match open(folder.path()).and_then(|file| file.lock().map(|()| file)) {
                // By itself the crate would go down as deep as the server has built.
                Ok(lock) if folder.path().exists() => return Ok(Self { path: folder.keep(), _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = folder::remove(&self.path) {
            tracing::warn!(%error, "temporary files of a server are left in {}", self.path.display());
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits()).open(path)
}

/// Removes this user's temporary folders that no gateway has locked.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1));
        if is_one
            && let Ok(file) = open(&entry.path())
            && file.metadata().is_ok_and(|of| of.uid() == nix::unistd::geteuid().as_raw())
            && file.try_lock().is_ok()
        {
            let _ = folder::remove(&entry.path());
        }
    }
}
