//! The audit file: appended to, rotated by size, shared between processes.
//!
//! The path may be replaced at any time, and any step may fail. So the file is reopened when it is not the one at the
//! path, never through a link, never a pipe or a device, and never one that another user owns or may change. A rotation
//! that fails is postponed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use base::files::{self, Keep};

/// Longest wait of a rotation for another process's lock on the file.
const PATIENCE: Duration = Duration::from_millis(200);
/// Delay after a failed rotation.
const AGAIN: Duration = Duration::from_secs(10);

/// An open log file.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) path: PathBuf,
    max_bytes: u64,
    keep: u32,
    fsync: bool,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    file: Option<File>,
    /// True if the file that was opened ends within a line: half of one left by a full disk must not spoil the next. A
    /// failed write leaves no open file.
    torn: bool,
    /// Earliest time of the next rotation.
    put_off: Option<Instant>,
}

/// Path of the `number`th rotated file, the latest being 1.
pub(super) fn rotated(path: &Path, number: u32) -> PathBuf {
    path.with_extension(match path.extension() {
        Some(extension) => format!("{number}.{}", extension.to_string_lossy()),
        None => number.to_string(),
    })
}

/// Folder of the texts.
pub(super) fn objects(path: &Path) -> PathBuf {
    path.with_extension("objects")
}

impl Lines {
    pub(super) fn new(path: PathBuf, audit: &config::Audit) -> Self {
        let (max_bytes, keep, fsync) = (audit.max_bytes as u64, audit.keep, audit.fsync);
        Self { path, max_bytes, keep, fsync, open: Mutex::default() }
    }

    pub(super) fn probe(&self) -> io::Result<()> {
        self.open_file(&mut Open::default()).map(drop)
    }

    /// Appends whole lines in one write, unless it would have to wait for anything else; then `None`.
    pub(super) fn append_at_once(&self, lines: &str) -> Option<io::Result<()>> {
        if self.fsync {
            return None;
        }
        let mut open = self.open.try_lock()?;
        let mut file = open.file.take()?;
        let length = length_at(&file, &self.path)?;
        if !open.is_put_off() && !self.has_room(length, lines.len()) {
            open.file = Some(file);
            return None;
        }
        match file.write_all(lines.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => None,
            written => {
                open.file = written.is_ok().then_some(file);
                Some(written)
            }
        }
    }

    /// Appends whole lines in one write. Waits for the disk and, up to [`PATIENCE`], for other processes.
    pub(super) fn append(&self, lines: &str) -> io::Result<()> {
        let mut open = self.open.lock();
        let file = match open.file.take().filter(|file| length_at(file, &self.path).is_some()) {
            Some(file) => file,
            None => self.open_file(&mut open)?,
        };
        let length = file.metadata().map_or(0, |found| found.len());
        let needs_room = !open.is_put_off() && !self.has_room(length, lines.len());
        let file = if needs_room { self.rotate(file, &mut open)? } else { file };
        match self.write(file, lines, &mut open) {
            // The process has reached its size limit for this file (RLIMIT_FSIZE): another one has room.
            Err(error) if error.kind() == ErrorKind::FileTooLarge && !open.is_put_off() => {
                let file = self.open_file(&mut open)?;
                // With a limit too small for a few records, every attempt would rotate a file away.
                if file.metadata()?.len() < 4 * lines.len() as u64 {
                    return Err(error);
                }
                let file = self.rotate(file, &mut open)?;
                self.write(file, lines, &mut open)
            }
            written => written,
        }
    }

    fn write(&self, mut file: File, lines: &str, open: &mut Open) -> io::Result<()> {
        let whole;
        let text = match open.torn {
            true => {
                whole = format!("\n{lines}");
                &whole
            }
            false => lines,
        };
        file.write_all(text.as_bytes())?;
        open.torn = false;
        if self.fsync {
            file.sync_data()?;
        }
        open.file = Some(file);
        Ok(())
    }

    fn has_room(&self, length: u64, bytes: usize) -> bool {
        length == 0 || length.saturating_add(bytes as u64) <= self.max_bytes
    }

    fn open_file(&self, open: &mut Open) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            files::make_private_folder(folder)?;
        }
        let mut options = files::private();
        options.create(true).append(true).read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let mut file = options.open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        files::check_file(&metadata)?;
        let mut last = [b'\n'];
        open.torn = file.seek(SeekFrom::End(-1)).is_ok() && file.read(&mut last).is_ok() && last != [b'\n'];
        Ok(file)
    }

    /// Shifts the files by one number, drops the oldest, and starts a new one. If that fails, the file stays in use.
    fn rotate(&self, file: File, open: &mut Open) -> io::Result<File> {
        // One process at a time; a second one finds a file with room.
        let moved = files::lock(&file, PATIENCE).and_then(|()| match length_at(&file, &self.path) {
            Some(_) => self.move_on(),
            None => Ok(()),
        });
        match moved {
            Ok(()) => {
                open.put_off = None;
                self.open_file(open)
            }
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "the audit log is not rotated, it grows on");
                open.put_off = Instant::now().checked_add(AGAIN);
                Ok(file)
            }
        }
    }

    fn move_on(&self) -> io::Result<()> {
        // Up to a gap: an attempt that failed halfway left one, and the next drops no further file.
        let gap = (1..self.keep).find(|number| !rotated(&self.path, *number).exists()).unwrap_or(self.keep);
        for number in (1..gap).rev() {
            files::if_there(fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)))?;
        }
        fs::rename(&self.path, rotated(&self.path, 1))
    }

    /// Stores a text under its digest.
    pub(super) fn keep(&self, digest: &str, text: &str) -> io::Result<()> {
        let path = objects(&self.path).join(digest);
        if !path.exists() {
            files::replace(&path, text.as_bytes(), Keep::Cached)?;
        }
        Ok(())
    }
}

impl Open {
    fn is_put_off(&self) -> bool {
        self.put_off.is_some_and(|until| Instant::now() < until)
    }
}

/// Length of the file, if it is the one at the path.
fn length_at(file: &File, path: &Path) -> Option<u64> {
    let (here, there) = (file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    ((here.dev(), here.ino()) == (there.dev(), there.ino())).then_some(here.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_after_one_that_ended_halfway_drops_no_further_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let lines = Lines::new(path.clone(), &config::Audit { keep: 4, ..config::Audit::default() });
        // The number 1 was moved on, and the file itself was not.
        for (name, text) in [(path.clone(), "new"), (rotated(&path, 2), "1"), (rotated(&path, 3), "2")] {
            fs::write(name, text).expect("written");
        }
        fs::write(rotated(&path, 4), "3").expect("written");
        lines.move_on().expect("moved");
        let text = |number| fs::read_to_string(rotated(&path, number)).expect("kept");
        assert_eq!([1, 2, 3, 4].map(text), ["new", "1", "2", "3"]);
        // Without a gap each moves on, and the oldest goes.
        fs::write(&path, "newer").expect("written");
        lines.move_on().expect("moved");
        assert_eq!([1, 2, 3, 4].map(text), ["newer", "new", "1", "2"]);
    }
}
