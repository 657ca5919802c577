//! The file: appended to, rotated by size, shared between processes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::config;
use crate::files::{self, Keep};

/// A log file that is open.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    fsync: bool,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    file: Option<File>,
    /// Digests of texts that this process kept already.
    kept: HashSet<String>,
}

/// Where the `number`th last file is, the one that was rotated last being 1.
pub(super) fn rotated(path: &Path, number: u32) -> PathBuf {
    path.with_extension(match path.extension() {
        Some(extension) => format!("{number}.{}", extension.to_string_lossy()),
        None => number.to_string(),
    })
}

/// The folder of the texts.
pub(super) fn objects(path: &Path) -> PathBuf {
    path.with_extension("objects")
}

impl Lines {
    pub(super) fn new(path: PathBuf, audit: &config::Audit) -> Self {
        let (max_bytes, keep, fsync) = (audit.max_bytes as u64, audit.keep, audit.fsync);
        Self { path, max_bytes, keep, fsync, open: Mutex::default() }
    }

    /// Appends a line and its end in one write.
    pub(super) fn append(&self, line: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format!("{line}\n");
        let mut file = self.current(open.file.take())?;
        let bytes = file.metadata()?.len();
        if bytes > 0 && bytes.saturating_add(text.len() as u64) > self.max_bytes {
            file = self.rotate(file)?;
        }
        file.write_all(text.as_bytes())?;
        if self.fsync {
            file.sync_data()?;
        }
        open.file = Some(file);
        Ok(())
    }

    /// The file as it is at the path now: another process may have rotated it.
    fn current(&self, open: Option<File>) -> io::Result<File> {
        match open {
            Some(file) if is_at(&file, &self.path) => Ok(file),
            _ => self.open_file(),
        }
    }

    fn open_file(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            files::make_private_folder(folder)?;
        }
        let mut file = files::private().create(true).append(true).read(true).open(&self.path)?;
        // Half a line that a full disk left must not take the next one with it.
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() && file.read(&mut last).is_ok() && last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }

    /// Moves the files on by one number, the oldest away, and begins a new one.
    fn rotate(&self, file: File) -> io::Result<File> {
        // One process at a time; whoever comes second finds a file with room.
        file.lock()?;
        if is_at(&file, &self.path) {
            for number in (1..self.keep).rev() {
                match fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&self.path, rotated(&self.path, 1))?;
        }
        self.open_file()
    }

    pub(super) fn keep(&self, digest: &str, text: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.kept.contains(digest) {
            return Ok(());
        }
        let path = objects(&self.path).join(digest);
        if !path.exists() {
            files::replace(&path, text.as_bytes(), Keep::Cached)?;
        }
        open.kept.insert(digest.to_owned());
        Ok(())
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let here = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    let there = fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
