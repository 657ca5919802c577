//! Edits of files that belong to people. The old content is kept in a backup beside the file, a change by another program
//! is never overwritten, and a crash leaves the old content or the new.

mod attributes;
mod backups;

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempPath};

use attributes::{check_replaceable, make_folder, take_over};
use backups::Kind;

/// Timeout for another edit in the same folder.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// Most attempts to put back what another program wrote in the last moment.
const EXCHANGES: usize = 100;
/// Start of the names of temporary files.
const TEMPORARY: &str = ".forgefs-new-";

/// Exchanges the files at two paths in one step.
type Exchange<'a> = &'a dyn Fn(&Path, &Path) -> io::Result<()>;

/// A file as it was read, to be replaced as a whole.
#[derive(Debug)]
pub struct Edited {
    /// The file itself: links are resolved.
    path: PathBuf,
    /// Content; `None` without a file.
    before: Option<Vec<u8>>,
    /// Most bytes.
    max: u64,
}

impl Edited {
    /// Reads the file at `path`, or the one that a link there leads to. It need not exist.
    ///
    /// # Errors
    /// As [`super::read_regular`]; and for a link that leads nowhere.
    pub fn read(path: &Path, max: u64) -> io::Result<Self> {
        let path = resolve(path)?;
        Ok(Self { before: content(&path, max)?, path, max })
    }

    /// Content; `None` without a file.
    pub fn content(&self) -> Option<&[u8]> {
        self.before.as_deref()
    }

    /// Path of the file itself: links are resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file with this content, and the old content into a backup beside it, whose path it returns. Mode and
    /// owner stay as they are; a new file is private.
    ///
    /// # Errors
    /// `ResourceBusy` when another program changed the file since it was read: read it again. Otherwise the reason why it
    /// cannot be replaced. The file and the backups are as before then.
    pub fn replace(&self, content: &[u8]) -> io::Result<Option<PathBuf>> {
        self.write(content, Kind::Edit, &exchange)
    }

    /// Does the same as [`Self::replace`], but the new file is readable by its owner only, from its first byte, and
    /// [`Self::forget_backups`] keeps the backup.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_private(&self, content: &[u8]) -> io::Result<Option<PathBuf>> {
        self.write(content, Kind::Import, &exchange)
    }

    /// Does the same as [`Self::replace`]; [`Self::backups`] tells the backup as one from before servers moved.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_moved(&self, content: &[u8]) -> io::Result<Option<PathBuf>> {
        self.write(content, Kind::Move, &exchange)
    }

    /// True if the file is still as it was read.
    pub fn is_current(&self) -> bool {
        content(&self.path, self.max).is_ok_and(|now| now == self.before)
    }

    fn write(&self, content: &[u8], kind: Kind, exchange: Exchange<'_>) -> io::Result<Option<PathBuf>> {
        let heir = make_folder(self.folder()).map_err(|error| self.unwritable(&error))?;
        let _lock = self.lock()?;
        let old = self.check()?;
        let new = self.temporary(content, old.as_ref(), kind == Kind::Import)?;
        if let (None, Some((uid, gid))) = (&old, heir) {
            std::os::unix::fs::fchown(new.as_file(), Some(uid), Some(gid))?;
        }
        let kept = |before| self.back_up(before, content, old.as_ref(), kind);
        let backup = self.before.as_deref().map(kept).transpose()?;
        let put = self.put(new, content, exchange);
        // The new content may be there in spite of an error.
        let is_as_before = || self::content(&self.path, self.max).is_ok_and(|now| now.as_deref() != Some(content));
        if let (Err(_), Some(backup)) = (&put, &backup)
            && is_as_before()
        {
            let _ = fs::remove_file(backup);
        }
        put.map(|()| backup)
    }

    /// Puts back the content of a backup as [`Self::read_backup`] read it, and removes the backup: nothing else is in it.
    ///
    /// # Errors
    /// As [`Self::replace`]; and when the backup has another content by now.
    pub fn restore(&self, backup: &Path, content: &[u8]) -> io::Result<()> {
        let _lock = self.lock()?;
        let old = self.check()?;
        if self.read_backup(backup)? != content {
            return Err(changed());
        }
        self.put(self.temporary(content, old.as_ref(), false)?, content, &exchange)?;
        fs::remove_file(backup)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn remove(&self) -> io::Result<()> {
        let _lock = self.lock()?;
        let old = self.check()?;
        // Moved away first: what another program wrote in the last moment can be put back.
        let aside = self.temporary(b"", old.as_ref(), false)?.into_temp_path();
        fs::rename(&self.path, &aside)?;
        if !self.is_before(&aside) {
            return Err(match fs::hard_link(&aside, &self.path) {
                Ok(()) => changed(),
                Err(error) => self.keep_aside(aside, &error),
            });
        }
        aside.close()?;
        super::sync_folder(self.folder())
    }

    /// Locks the folder, and removes temporary files of edits that were killed.
    fn lock(&self) -> io::Result<Option<File>> {
        let lock = lock(self.folder())?;
        if lock.is_some() {
            for entry in fs::read_dir(self.folder())?.flatten() {
                if entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        Ok(lock)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// True if the file at `path` has the content that was read.
    fn is_before(&self, path: &Path) -> bool {
        super::read_regular(path, self.max).ok() == self.before
    }

    /// Checks that the file has not changed and can be replaced without loss.
    fn check(&self) -> io::Result<Option<Metadata>> {
        if content(&self.path, self.max)? != self.before || self.path.is_symlink() {
            return Err(changed());
        }
        if self.before.is_none() {
            return Ok(None);
        }
        let metadata = fs::metadata(&self.path)?;
        check_replaceable(&metadata)?;
        Ok(Some(metadata))
    }

    /// A temporary file in the same folder, on disk, with the owner and, unless it is private, the mode of the old file.
    fn temporary(&self, content: &[u8], old: Option<&Metadata>, is_private: bool) -> io::Result<NamedTempFile> {
        let new = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(self.folder());
        let mut new = new.map_err(|error| self.unwritable(&error))?;
        new.write_all(content)?;
        if let Some(old) = old {
            take_over(new.as_file(), old, is_private)
                .map_err(|error| io::Error::new(error.kind(), format!("its owner and mode cannot be kept: {error}")))?;
        }
        new.as_file().sync_all()?;
        Ok(new)
    }

    /// Puts the new file, with this content, in the place of the old one, unless another program changed that.
    fn put(&self, new: NamedTempFile, content: &[u8], exchange: Exchange<'_>) -> io::Result<()> {
        let Some(before) = &self.before else {
            new.persist_noclobber(&self.path).map_err(|error| match error.error.kind() {
                ErrorKind::AlreadyExists => changed(),
                _ => error.error,
            })?;
            return super::sync_folder(self.folder());
        };
        if !self.is_before(&self.path) {
            return Err(changed());
        }
        self.exchange(new.into_temp_path(), before, content, exchange)
    }

    /// Exchanges the new file with the old one, so that a change of the last moment is seen, and puts that back.
    fn exchange(&self, new: TempPath, before: &[u8], content: &[u8], exchange: Exchange<'_>) -> io::Result<()> {
        let (mut expected, mut placed) = (Some(before.to_vec()), Some(content.to_vec()));
        for turn in 0..EXCHANGES {
            match exchange(&new, &self.path) {
                Ok(()) => {}
                // `new` is now what another program wrote.
                Err(error) if turn > 0 => return Err(self.keep_aside(new, &error)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(changed()),
                // Not every file system exchanges files.
                Err(_) => {
                    new.persist(&self.path).map_err(|error| error.error)?;
                    return super::sync_folder(self.folder());
                }
            }
            let displaced = super::read_regular(&new, self.max).ok();
            if displaced == expected {
                if displaced.is_none() {
                    let unknown = io::Error::other("it cannot be read, so it cannot be compared");
                    return Err(self.keep_aside(new, &unknown));
                }
                drop(new);
                super::sync_folder(self.folder())?;
                return if turn == 0 { Ok(()) } else { Err(changed()) };
            }
            expected = std::mem::replace(&mut placed, displaced);
        }
        if placed.is_some_and(|placed| placed == content) {
            return Err(changed());
        }
        let endless = io::Error::other(format!("it was changed again during each of {EXCHANGES} attempts"));
        Err(self.keep_aside(new, &endless))
    }

    /// Explains why nothing can be written beside the file.
    fn unwritable(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("its folder {} cannot be written: {error}", self.folder().display()))
    }
}

/// Content of a file; `None` without one.
fn content(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    super::if_there(super::read_regular(path, max))
}

/// The file that `path` leads to.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => return result,
    }
    if let Ok(target) = fs::read_link(path) {
        let what = format!("it is a link to {}, which does not exist; remove the link", target.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    let path = std::path::absolute(path)?;
    // The folder may be a link too.
    match (path.parent().map(fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        _ => Ok(path),
    }
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::ResourceBusy, "another program changed it in the meantime; try again")
}

/// Locks a folder against other edits, until dropped. `None` where folders cannot be locked, as on NFS: the content is
/// compared in any case.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let Ok(file) = File::open(folder) else { return Ok(None) };
    match super::lock(&file, LOCK_LIMIT) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            let what = format!("another process locks {} for over 10 s", folder.display());
            Err(io::Error::new(ErrorKind::TimedOut, what))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests;
