//! Ownership checks: the gateway's own files must belong to its user, and no other user may change them.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads a file of the gateway's own, of at most `max` bytes.
///
/// # Errors
/// As [`super::read_regular`]; and `PermissionDenied` for a link, a file of another user, one that others may change,
/// or one in such a folder.
pub fn read_private(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut file = open_private(path, OpenOptions::new().read(true))?;
    let metadata = file.metadata()?;
    super::read_bounded(&mut file, &metadata, max)
}

/// Opens or creates a file of the gateway's own, as `options` say, without following a link.
///
/// # Errors
/// As [`read_private`].
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
        check_folder(folder)?;
    }
    // Checked before it is opened, for a clear message.
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        return Err(denied("it is a link; replace it by the file itself".to_owned()));
    }
    let (file, metadata) = open(path, options)?;
    check_owner(&metadata, &[user()])?;
    Ok(file)
}

/// Accepts a file of this user or the system that no other user may change.
///
/// # Errors
/// `PermissionDenied` with what to change.
pub fn check_file(metadata: &Metadata) -> io::Result<()> {
    check_owner(metadata, &[user(), 0])
}

/// Opens a regular file, without following a link or blocking.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    open_with(path, options, nix::libc::O_NOFOLLOW)
}

/// Opens a regular file with these flags and with those that neither block on a FIFO nor take over a terminal.
pub(super) fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<(File, Metadata)> {
    // Checked before it is opened: opening a device may have effects.
    if let Ok(metadata) = fs::metadata(path) {
        super::check_regular(&metadata)?;
    }
    let file = options.custom_flags(flags | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    super::check_regular(&metadata)?;
    Ok((file, metadata))
}

/// Accepts a folder in which only its owner can replace files: this user's or the system's, and not writable by others,
/// unless they can only add to it. A link to it must belong to one of the two.
///
/// # Errors
/// `PermissionDenied` with what to change.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    let shown = folder.display();
    let link = fs::symlink_metadata(folder)?;
    let trusted = |uid: u32| uid == user() || uid == 0;
    if !trusted(metadata.uid()) || !trusted(link.uid()) {
        let owner = if trusted(metadata.uid()) { link.uid() } else { metadata.uid() };
        return Err(denied(format!(
            "the folder {shown} belongs to another user (uid {owner}, this is uid {}); use a folder of your own",
            user()
        )));
    }
    let sticky = metadata.mode() & 0o1000 != 0;
    if metadata.mode() & 0o022 != 0 && !sticky {
        let mode = metadata.mode() & 0o7777;
        return Err(denied(format!("others may change the folder {shown} (mode {mode:04o}); `chmod go-w` it")));
    }
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{shown} is not a folder"))),
    }
}

fn check_owner(metadata: &Metadata, owners: &[u32]) -> io::Result<()> {
    if !owners.contains(&metadata.uid()) {
        return Err(denied(format!(
            "it belongs to another user (uid {}, this is uid {}); remove it or use a folder of your own",
            metadata.uid(),
            user()
        )));
    }
    match metadata.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(denied(format!(
            "others may change it (mode {:04o}); look at what it holds, then `chmod go-w` it or remove it",
            metadata.mode() & 0o7777
        ))),
    }
}

fn denied(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// Effective user id.
fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Kind of a file, in words.
pub(super) fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

/// Device, inode and change time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
    /// Seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { device: metadata.dev(), number: metadata.ino(), changed }
    }

    /// Change time, if known.
    pub(super) fn changed(self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.changed;
        let (seconds, nanoseconds) = (u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
    }
}
