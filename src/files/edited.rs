//! Edits of files that belong to people. The old content is kept in a backup beside the file, a change by another program
//! is never overwritten, and a crash leaves the old content or the new.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};

/// Timeout for another edit in the same folder.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// Interval of attempts to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Most attempts to put back what another program wrote in the last moment.
const EXCHANGES: usize = 100;
/// Start of the names of temporary files.
const TEMPORARY: &str = ".forgefs-new-";
/// End of the names of backups.
const BACKUP: &str = ".forgefs-backup";
/// Most backups of one file and one second.
const BACKUPS: usize = 100;
/// Attribute with the access control list of a file.
#[cfg(target_os = "linux")]
const ACL: &str = "system.posix_acl_access";
/// Most bytes of an extended attribute, and of the list of their names: the limit of Linux.
#[cfg(target_os = "linux")]
const ATTRIBUTE: usize = 1 << 16;

/// A file as it was read, to be replaced as a whole.
#[derive(Debug)]
pub(crate) struct Edited {
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
    pub(crate) fn read(path: &Path, max: u64) -> io::Result<Self> {
        let path = resolve(path)?;
        Ok(Self { before: content(&path, max)?, path, max })
    }

    /// Content; `None` without a file.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        self.before.as_deref()
    }

    /// Path of the file itself: links are resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file with this content, and the old content into a backup beside it, whose path it returns. Mode and
    /// owner stay as they are; a new file is private.
    ///
    /// # Errors
    /// `ResourceBusy` when another program changed the file since it was read: read it again. Otherwise the reason why it
    /// cannot be replaced. The file and the backups are as before then.
    pub(crate) fn replace(&self, content: &[u8]) -> io::Result<Option<PathBuf>> {
        self.write(content, false)
    }

    /// Does the same as [`Self::replace`], but the new file is readable by its owner only, from its first byte.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub(crate) fn replace_private(&self, content: &[u8]) -> io::Result<Option<PathBuf>> {
        self.write(content, true)
    }

    /// True if the file is still as it was read.
    pub(crate) fn is_current(&self) -> bool {
        content(&self.path, self.max).is_ok_and(|now| now == self.before)
    }

    fn write(&self, content: &[u8], is_private: bool) -> io::Result<Option<PathBuf>> {
        let heir = make_folder(self.folder()).map_err(|error| self.unwritable(&error))?;
        let _lock = self.lock()?;
        let old = self.check()?;
        let new = self.temporary(content, old.as_ref(), is_private)?;
        #[cfg(unix)]
        if let (None, Some((uid, gid))) = (&old, heir) {
            std::os::unix::fs::fchown(new.as_file(), Some(uid), Some(gid))?;
        }
        let backup = match &self.before {
            Some(before) => Some(self.back_up(before, content, old.as_ref())?),
            None => None,
        };
        let put = self.put(new, content);
        if let (Err(_), Some(backup)) = (&put, &backup) {
            let _ = fs::remove_file(backup);
        }
        put.map(|()| backup)
    }

    /// Newest backup of the state before the present content was written; `None` when the file was changed since, or
    /// did not exist before. A link, and a file of another owner, is no backup: a repository may bring one along.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn backup(&self) -> io::Result<Option<PathBuf>> {
        let Some(content) = &self.before else { return Ok(None) };
        let (start, end) = (format!("{}.", self.name()), format!("-{}", digest(content)));
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_prefix(&start)?.strip_suffix(BACKUP));
            // `<time>-<digest>`, and a number after a second one in the same second.
            if let Some((time, _)) = stem.and_then(|stem| stem.split_once(&end))
                && let Some(stem) = stem
                && self.is_own(&entry)
            {
                let number = stem.rsplit_once('.').and_then(|(_, number)| number.parse().ok()).unwrap_or(0_usize);
                found.push((time.to_owned(), number, self.folder().join(&name)));
            }
        }
        Ok(found.into_iter().max().map(|(_, _, path)| path))
    }

    /// True if anything in the folder is named like a backup of the file: it existed before an edit.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn has_backups(&self) -> io::Result<bool> {
        Ok(self.backups()?.next().is_some())
    }

    /// Reads a backup, without following a link.
    ///
    /// # Errors
    /// As [`super::read_regular`]; and for a link.
    pub(crate) fn read_backup(&self, backup: &Path) -> io::Result<Vec<u8>> {
        super::check_regular(&fs::symlink_metadata(backup)?)?;
        let (mut file, metadata) = super::private::open_itself(backup)?;
        super::read_bounded(&mut file, &metadata, self.max)
    }

    /// Removes every backup of the file but this one.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn forget_backups(&self, but: &Path) -> io::Result<()> {
        self.backups()?.filter(|path| path != but).try_for_each(fs::remove_file)
    }

    /// Everything in the folder that is named like a backup of the file.
    fn backups(&self) -> io::Result<impl Iterator<Item = PathBuf>> {
        let start = format!("{}.", self.name());
        let is_backup = move |entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(&start) && name.ends_with(BACKUP))
        };
        Ok(fs::read_dir(self.folder())?.flatten().filter(is_backup).map(|entry| entry.path()))
    }

    /// Puts back the content of a backup as [`Self::read_backup`] read it, and removes the backup: nothing else is in it.
    ///
    /// # Errors
    /// As [`Self::replace`]; and when the backup has another content by now.
    pub(crate) fn restore(&self, backup: &Path, content: &[u8]) -> io::Result<()> {
        let _lock = self.lock()?;
        let old = self.check()?;
        if self.read_backup(backup)? != content {
            return Err(changed());
        }
        self.put(self.temporary(content, old.as_ref(), false)?, content)?;
        fs::remove_file(backup)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub(crate) fn remove(&self) -> io::Result<()> {
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
        sync(self.folder())
    }

    /// Keeps what another program wrote and what cannot be put back, under a name that no later edit removes.
    fn keep_aside(&self, aside: TempPath, error: &io::Error) -> io::Error {
        let content = super::read_regular(&aside, self.max).unwrap_or_default();
        let kept = self.folder().join(format!("{}.{}-{}{BACKUP}", self.name(), now(), digest(&content)));
        let kept = match aside.persist_noclobber(&kept) {
            Ok(()) => kept,
            Err(failed) => {
                let path = failed.path.to_path_buf();
                failed.path.keep().unwrap_or(path)
            }
        };
        let what = format!(
            "another program changed it in the meantime, and that cannot be put back: {error}; it is in {}: move it back",
            kept.display()
        );
        io::Error::other(what)
    }

    /// True if an entry of the folder is a regular file of the file's owner.
    fn is_own(&self, entry: &fs::DirEntry) -> bool {
        let (Ok(found), Ok(file)) = (entry.metadata(), fs::metadata(&self.path)) else { return false };
        #[cfg(unix)]
        let is_same = std::os::unix::fs::MetadataExt::uid(&found) == std::os::unix::fs::MetadataExt::uid(&file);
        #[cfg(not(unix))]
        let is_same = file.is_file();
        found.is_file() && is_same
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
            take_over(new.as_file(), old, &self.path, is_private).map_err(|error| {
                io::Error::new(error.kind(), format!("its owner, mode and attributes cannot be kept: {error}"))
            })?;
        }
        new.as_file().sync_all()?;
        Ok(new)
    }

    /// Puts the new file, with this content, in the place of the old one, unless another program changed that.
    fn put(&self, new: NamedTempFile, content: &[u8]) -> io::Result<()> {
        let Some(before) = &self.before else {
            new.persist_noclobber(&self.path).map_err(|error| match error.error.kind() {
                ErrorKind::AlreadyExists => changed(),
                _ => error.error,
            })?;
            return sync(self.folder());
        };
        if !self.is_before(&self.path) {
            return Err(changed());
        }
        // Exchanged, so that a change of the last moment is seen, and put back.
        let (mut expected, mut placed) = (Some(before.clone()), Some(content.to_vec()));
        for turn in 0..EXCHANGES {
            match exchange(new.path(), &self.path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(changed()),
                // Not every file system exchanges files.
                Err(_) if turn == 0 => {
                    new.persist(&self.path).map_err(|error| error.error)?;
                    return sync(self.folder());
                }
                Err(error) => return Err(error),
            }
            let displaced = super::read_regular(new.path(), self.max).ok();
            if displaced == expected {
                new.close()?;
                sync(self.folder())?;
                return if turn == 0 { Ok(()) } else { Err(changed()) };
            }
            expected = std::mem::replace(&mut placed, displaced);
        }
        Err(changed())
    }

    /// Writes the backup, named after the time and the content that comes instead.
    fn back_up(&self, before: &[u8], after: &[u8], old: Option<&Metadata>) -> io::Result<PathBuf> {
        let stem = format!("{}.{}-{}", self.name(), now(), digest(after));
        let new = self.temporary(before, old, false)?;
        let mut new = new.into_temp_path();
        for number in 0..BACKUPS {
            let number = if number == 0 { String::new() } else { format!(".{number}") };
            let path = self.folder().join(format!("{stem}{number}{BACKUP}"));
            match new.persist_noclobber(&path) {
                Ok(()) => return sync(self.folder()).map(|()| path),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => new = error.path,
                Err(error) => return Err(error.error),
            }
        }
        let what = format!("it has {BACKUPS} backups of this second; remove some");
        Err(io::Error::new(ErrorKind::AlreadyExists, what))
    }

    /// Explains why nothing can be written beside the file.
    fn unwritable(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("its folder {} cannot be written: {error}", self.folder().display()))
    }
}

/// Content of a file; `None` without one.
fn content(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    match super::read_regular(path, max) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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

/// The time, for names of backups.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(['-', ':'], "")
}

/// Digest of a content, for names of backups.
fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Locks a folder against other edits, until dropped. `None` where folders cannot be locked, as on NFS: the content is
/// compared in any case.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let Ok(file) = File::open(folder) else { return Ok(None) };
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let what = format!("another process locks {} for over 10 s", folder.display());
                return Err(io::Error::new(ErrorKind::TimedOut, what));
            }
        }
    }
}

/// Has the names of a folder written to disk.
fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
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

/// Refuses a file that its owner made read-only, another user's, and one with several names, of which a replacement
/// would change one only.
fn check_replaceable(metadata: &Metadata) -> io::Result<()> {
    let denied = |what: String| Err(io::Error::new(ErrorKind::PermissionDenied, what));
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (user, mode) = (nix::unistd::geteuid(), metadata.mode() & 0o7777);
        if mode & 0o200 == 0 {
            return denied(format!("it is read-only (mode {mode:04o}); `chmod u+w` it to have it edited"));
        }
        if metadata.uid() != user.as_raw() && !user.is_root() {
            return denied(format!("it belongs to another user (uid {}, this is uid {user})", metadata.uid()));
        }
        if metadata.nlink() > 1 {
            return denied(format!("it has {} names (hard links), and only one would be edited", metadata.nlink()));
        }
        Ok(())
    }
    #[cfg(not(unix))]
    match metadata.permissions().readonly() {
        true => denied("it is read-only".to_owned()),
        false => Ok(()),
    }
}

/// Creates a folder and missing parents, private to their owner. For root in the folder of another user, that user owns
/// them, and is returned: root's own files could not be read by the programs of that user.
fn make_folder(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    #[cfg(unix)]
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::fs::{MetadataExt as _, lchown};
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        let nearest = folder.ancestors().nth(missing.len()).map(fs::metadata).transpose()?;
        let heir = nearest.map(|nearest| (nearest.uid(), nearest.gid())).filter(|(uid, _)| *uid != 0);
        super::make_private_folder(folder)?;
        if let Some((uid, gid)) = heir {
            missing.iter().try_for_each(|made| lchown(made, Some(uid), Some(gid)))?;
        }
        return Ok(heir);
    }
    super::make_private_folder(folder).map(|()| None)
}

/// Gives a new file the owner of the old one at `path`, and its mode and attributes unless it is to be private, as it was
/// made.
fn take_over(new: &File, old: &Metadata, path: &Path, is_private: bool) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let now = new.metadata()?;
        if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
            fchown(new, Some(old.uid()), Some(old.gid()))?;
        }
    }
    let _ = path;
    if is_private {
        return Ok(());
    }
    // Before the mode, which is the mask of an access control list: the group must not get the rights of all.
    #[cfg(target_os = "linux")]
    copy_attributes(new, path)?;
    // After the owner: a change of owner resets bits of the mode.
    new.set_permissions(old.permissions())
}

/// Copies the access control list and the attributes of users. A list that the folder gave to the new file goes.
#[cfg(target_os = "linux")]
fn copy_attributes(new: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, getxattr, listxattr};
    use rustix::io::Errno;
    let mut buffer = vec![0; ATTRIBUTE];
    let length = match listxattr(path, &mut buffer[..]) {
        Err(Errno::NOTSUP) => return Ok(()),
        length => length?,
    };
    let names: Vec<Vec<u8>> = buffer[..length].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    for name in names.iter().filter(|name| **name == ACL.as_bytes() || name.starts_with(b"user.")) {
        let length = getxattr(path, &name[..], &mut buffer[..])?;
        fsetxattr(new, &name[..], &buffer[..length], XattrFlags::empty())?;
    }
    if names.iter().any(|name| *name == ACL.as_bytes()) {
        return Ok(());
    }
    match fremovexattr(new, ACL) {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests;
