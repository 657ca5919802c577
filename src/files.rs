//! Files of the gateway's own on disk: for their owner alone, replaced as a whole, told apart by version.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

/// Makes the folder, and those above it, where they are missing. New ones are for their owner alone.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Options that make a new file for its owner alone.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// How safe a new file is once it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// A loss of power may take it.
    Cached,
    /// It is on the disk.
    Synced,
}

/// Puts a private file with this content in place of `path`: whoever reads sees all of the old one or all of the new.
///
/// # Errors
/// When it cannot be written; the old one is still there then.
pub(crate) fn replace(path: &Path, content: &[u8], keep: Keep) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private_folder(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    if keep == Keep::Synced {
        file.as_file().sync_all()?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Tells versions of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    modified: Option<SystemTime>,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    file: u64,
}

impl Version {
    /// Which version there is at `path`; `None` without one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let file = 0;
        Some(Self { modified: metadata.modified().ok(), bytes: metadata.len(), file })
    }
}
