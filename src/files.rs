//! Files on disk: read within bounds whoever made them; those of the gateway's own for their owner alone, replaced as a
//! whole, told apart by version.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

mod private;

pub(crate) use private::{check_file, check_folder, open_private, read_private};

/// How long [`at_rest`] waits for a file that keeps changing.
const RESTLESS: Duration = Duration::from_secs(10);
/// Most versions of a file that changes while it is read that [`read_regular`] looks at.
const READINGS: usize = 3;

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
/// At once for what is no regular file (`InvalidInput`, a folder `IsADirectory`) and for what is longer
/// (`FileTooLarge`): a FIFO, a socket or a device is not waited for. `ResourceBusy` for one that is being written.
pub(crate) fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    for _ in 0..READINGS {
        let (mut file, before) = open_regular(path, OpenOptions::new().read(true))?;
        let content = read_bounded(&mut file, &before, max)?;
        if is_same_content(&before, &file.metadata()?) {
            return Ok(content);
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changes while it is read"))
}

/// Reads a file of at most `max` bytes that may be a pipe which a shell passes on as an open file (`/dev/fd/63`); anything
/// else must be a regular file.
///
/// # Errors
/// As [`read_regular`].
pub(crate) fn read_named(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let is_passed_on = ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|open| path.starts_with(open));
    if !is_passed_on {
        return read_regular(path, max);
    }
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    read_bounded(&mut file, &metadata, max)
}

/// [`read_regular`], as text.
///
/// # Errors
/// As there; and `InvalidData` for what is not UTF-8.
pub(crate) fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Opens a regular file without waiting for anything.
///
/// # Errors
/// Why it cannot be opened, or that it is no regular file.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    // Looked at before it is opened: opening a device may do something.
    match fs::metadata(path) {
        Ok(metadata) => check_regular(&metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, private::flags());
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

pub(crate) fn check_regular(metadata: &Metadata) -> io::Result<()> {
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

pub(crate) fn read_bounded(file: &mut File, metadata: &Metadata, max: u64) -> io::Result<Vec<u8>> {
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

/// Whether nothing was written in between. (Not by [`Version`]: being replaced changes the time of the old file, whose
/// content is whole.)
fn is_same_content(before: &Metadata, after: &Metadata) -> bool {
    before.len() == after.len() && before.modified().ok() == after.modified().ok()
}

/// What `read` makes of a file at rest: one that nobody changed for `rest` before, nor while it was read. A file that is
/// written in place may be caught half-written otherwise, and half of it may be valid. Blocks for `rest` and more where
/// the file was changed just now.
///
/// # Errors
/// `ResourceBusy` when it keeps changing for [`RESTLESS`].
pub(crate) fn at_rest<T>(path: &Path, rest: Duration, read: impl Fn() -> T) -> io::Result<T> {
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

/// [`make_private_folder`], for what nobody else may change.
///
/// # Errors
/// As there; and as [`check_folder`].
pub(crate) fn make_own_folder(folder: &Path) -> io::Result<()> {
    make_private_folder(folder)?;
    check_folder(folder)
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
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Tells versions of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    modified: Option<SystemTime>,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// Device and number of the file, and when it was last changed in any way, which no program can set back.
    file: private::Identity,
}

impl Version {
    /// Which version there is at `path`; `None` without one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let file = private::Identity::of(&metadata);
        Some(Self { modified: metadata.modified().ok(), bytes: metadata.len(), file })
    }

    /// How long ago it was last changed, by the clock of this machine.
    fn age(&self) -> Duration {
        let changed = self.file.changed().or(self.modified);
        changed.and_then(|time| time.elapsed().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
