//! Files on disk: bounded reads of foreign files; edits of people's files; private files of the gateway, replaced
//! atomically; versions of files.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

mod edited;
mod layout;
mod private;

pub use edited::Edited;
pub use layout::Layout;
pub use private::{check_file, check_folder, open_private, read_private};

/// Longest wait of [`at_rest`] for a file that keeps changing.
const RESTLESS: Duration = Duration::from_secs(10);
/// Most attempts of [`read_regular`] on a file that changes meanwhile.
const READINGS: usize = 3;
/// Interval of attempts to get a lock.
const LOOK: Duration = Duration::from_millis(2);

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
/// At once for anything but a regular file (`InvalidInput`, a folder `IsADirectory`) and for a larger one
/// (`FileTooLarge`): it never waits for a FIFO, a socket or a device. `ResourceBusy` for a file that is being written.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    for _ in 0..READINGS {
        let (mut file, before) = open_regular(path, OpenOptions::new().read(true))?;
        let content = read_bounded(&mut file, &before, max)?;
        if is_same_content(&before, &file.metadata()?) {
            return Ok(content);
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changes while it is read"))
}

/// Reads a file of at most `max` bytes, which may be a pipe that a shell passes as an open file (`/dev/fd/63`); any
/// other must be a regular file.
///
/// # Errors
/// As [`read_regular`].
pub fn read_named(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if !is_passed_on(path) {
        return read_regular(path, max);
    }
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    read_bounded(&mut file, &metadata, max)
}

/// True for a file that a shell has opened.
fn is_passed_on(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|open| path.starts_with(open))
}

/// True for what is no file on disk. Other files below `/dev`, such as those of `/dev/shm`, can be anyone's.
fn is_output(path: &Path) -> bool {
    is_passed_on(path)
        || ["/dev/stdout", "/dev/stderr", "/dev/null", "/dev/tty"].iter().any(|open| path == Path::new(open))
}

/// Writes a file that a person reviews or CI reads, or appends to it. A link in its place is refused: a stranger may have
/// put it into the checkout.
///
/// # Errors
/// For a link, and for any other file that is not regular, but for outputs of the shell.
pub fn write_itself(path: &Path, content: &[u8], appends: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(appends).write(true);
    if is_output(path) {
        return options.open(path)?.write_all(content);
    }
    if let Ok(target) = fs::read_link(path) {
        let what =
            format!("it is a link to {}, which is not followed; name that file, or remove the link", target.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let (mut file, _) = private::open(path, &mut options)?;
    if !appends {
        file.set_len(0)?;
    }
    file.write_all(content)
}

/// Like [`read_regular`], as text.
///
/// # Errors
/// As there; and `InvalidData` for invalid UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Opens a regular file without blocking.
///
/// # Errors
/// It cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    private::open_with(path, options, 0)
}

/// Refuses anything but a regular file: a device or a pipe may never end.
///
/// # Errors
/// When it is another kind of file.
pub fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    let what = private::kind(kind);
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// Reads an open file of at most `max` bytes.
///
/// # Errors
/// When it is larger, or cannot be read.
pub fn read_bounded(file: &mut File, metadata: &Metadata, max: u64) -> io::Result<Vec<u8>> {
    let too_large = |bytes: u64| {
        let what = format!("{bytes} bytes, over the limit of {max} bytes");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
    };
    if metadata.len() > max {
        return too_large(metadata.len());
    }
    let mut content = Vec::new();
    io::Read::by_ref(file).take(max + 1).read_to_end(&mut content)?;
    let bytes = content.len() as u64;
    if bytes > max { too_large(bytes) } else { Ok(content) }
}

/// True if nothing was written in between. (Not by [`Version`]: a replacement changes the time of the old file, whose
/// content is whole.)
fn is_same_content(before: &Metadata, after: &Metadata) -> bool {
    before.len() == after.len() && before.modified().ok() == after.modified().ok()
}

/// Runs `read` on a file at rest: unchanged for `rest` before, and during the read. Otherwise a file written in place
/// could be read half-written, and half of it may be valid. Blocks for `rest` or more after a recent change.
///
/// # Errors
/// `ResourceBusy` when it keeps changing for 10 s.
pub fn at_rest<T>(path: &Path, rest: Duration, read: impl Fn() -> T) -> io::Result<T> {
    let mut seen = Version::of(path);
    let mut waits = seen.as_ref().is_some_and(|version| version.age() < rest);
    let mut waited = Duration::ZERO;
    while waited <= RESTLESS {
        if waits {
            std::thread::sleep(rest);
            waited += rest;
        }
        let before = Version::of(path);
        if before == seen {
            let made = read();
            if Version::of(path) == before {
                return Ok(made);
            }
        }
        seen = Version::of(path);
        waits = true;
    }
    let what = format!("it was not at rest for {} ms within {} s", rest.as_millis(), RESTLESS.as_secs());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// Locks a file that other processes may hold for up to `patience`. Blocks as long.
///
/// # Errors
/// `WouldBlock` when one holds it for longer; any other when it cannot be locked.
pub fn lock(file: &File, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    while !try_lock(file)? {
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds its lock"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Locks a file until it is dropped; false if another process holds it.
///
/// # Errors
/// When it cannot be locked.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a file to lock, and creates it and its folder where they are missing.
///
/// # Errors
/// As [`make_own_folder`] and [`open_private`].
pub fn open_lock(path: &Path) -> io::Result<File> {
    make_own_folder(path.parent().unwrap_or(Path::new(".")))?;
    open_private(path, private().create(true).truncate(false).read(true).write(true))
}

/// Creates the folder and missing parents, private to their owner.
///
/// # Errors
/// When it cannot be created.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Like [`make_private_folder`], for a folder that no other user may change.
///
/// # Errors
/// As there; and as [`check_folder`].
pub fn make_own_folder(folder: &Path) -> io::Result<()> {
    make_private_folder(folder)?;
    check_folder(folder)
}

/// Options for new private files.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Durability of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// A power failure may lose it.
    Cached,
    /// Content and name are synced to disk, the name where the file system can.
    Synced,
}

/// Replaces `path` by a private file with this content, atomically: a reader sees all of the old one or all of the new.
///
/// # Errors
/// When it cannot be written; the old one is still there then.
pub fn replace(path: &Path, content: &[u8], keep: Keep) -> io::Result<()> {
    filled(path, content, keep)?.persist(path).map_err(|error| error.error)?;
    sync_name(path, keep);
    Ok(())
}

/// Creates a private file with this content, atomically; false, without effect, when something is at `path` already.
///
/// # Errors
/// When it cannot be written; then there is none.
pub fn create(path: &Path, content: &[u8], keep: Keep) -> io::Result<bool> {
    match filled(path, content, keep)?.persist_noclobber(path) {
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        created => created.map(|_| sync_name(path, keep)).map(|()| true).map_err(|error| error.error),
    }
}

/// Has the name of a new file written to disk. It is there all the same if its file system syncs no folders.
fn sync_name(path: &Path, keep: Keep) {
    if let Some(folder) = path.parent().filter(|_| keep == Keep::Synced)
        && let Err(error) = sync_folder(if folder == Path::new("") { Path::new(".") } else { folder })
    {
        tracing::debug!(%error, file = %path.display(), "the name of a file is not synced");
    }
}

/// A private file with this content, beside its place.
fn filled(path: &Path, content: &[u8], keep: Keep) -> io::Result<NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    make_private_folder(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    if keep == Keep::Synced {
        file.as_file().sync_all()?;
    }
    Ok(file)
}

/// Has the names of the files in a folder written to disk.
///
/// # Errors
/// When it cannot be opened, or its file system syncs no folders.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Result of opening, reading or removing a file; `None` where there is no such file.
///
/// # Errors
/// Any other than that.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    modified: Option<SystemTime>,
    /// Length in bytes.
    pub bytes: u64,
    /// Device, inode and change time, which no program can set back.
    file: private::Identity,
}

impl Version {
    /// Version of the file at `path`; `None` without one.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let file = private::Identity::of(&metadata);
        Some(Self { modified: metadata.modified().ok(), bytes: metadata.len(), file })
    }

    /// Age of its last change, by this machine's clock.
    fn age(&self) -> Duration {
        let changed = self.file.changed().or(self.modified);
        changed.and_then(|time| time.elapsed().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
