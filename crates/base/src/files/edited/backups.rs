//! Old contents of an edited file, kept beside it as `FILE.<time>-<digest of the next content>.forgefs-backup`.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempPath;

use super::Edited;
use crate::files::{check_regular, private, read_bounded, read_regular, sync_folder};
use crate::text::head;

/// End of the names of backups.
const BACKUP: &str = ".forgefs-backup";
/// Most backups of one file and one second.
const BACKUPS: usize = 100;

/// Kind of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Content before an edit.
    Edit,
    /// Content before an import, which later edits keep.
    Import,
    /// Content before servers moved to another file.
    Move,
    /// Content of another program that could not be put back, which later edits keep.
    Aside,
}

impl Kind {
    /// Its mark in the name.
    fn mark(self) -> &'static str {
        match self {
            Self::Edit => "",
            Self::Import => ".import",
            Self::Move => ".move",
            Self::Aside => ".aside",
        }
    }
}

impl Edited {
    /// Newest backup of the state before the present content was written; `None` when the file was changed since, or
    /// did not exist before. A link, and a file of another owner, is no backup: a repository may bring one along.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn backup(&self) -> io::Result<Option<PathBuf>> {
        let Some(content) = &self.before else { return Ok(None) };
        let digest = digest(content);
        Ok(self.own_backups(|parts| parts.digest == digest)?.pop().map(|(path, _)| path))
    }

    /// All backups, the oldest first, each with true if it is from before servers moved to another file.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn backups(&self) -> io::Result<Vec<(PathBuf, bool)>> {
        self.own_backups(|_| true)
    }

    fn own_backups(&self, is_meant: impl Fn(&Parts<'_>) -> bool) -> io::Result<Vec<(PathBuf, bool)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(parts) = name.to_str().and_then(|name| self.parts(name))
                && parts.kind != Kind::Aside
                && is_meant(&parts)
                && self.is_own(&entry)
            {
                // Backups of one second have no order by their names.
                let changed = entry.metadata().map(|found| (found.ctime(), found.ctime_nsec())).unwrap_or_default();
                let path = self.folder().join(&name);
                found.push((parts.time.to_owned(), changed, parts.number, path, parts.kind == Kind::Move));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(.., path, is_move)| (path, is_move)).collect())
    }

    /// True if anything in the folder is named like a backup of the file: it existed before an edit.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn has_backups(&self) -> io::Result<bool> {
        let start = format!("{}.", self.name());
        let is_backup = |name: &str| name.starts_with(&start) && name.ends_with(BACKUP);
        Ok(fs::read_dir(self.folder())?.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_backup)))
    }

    /// Reads a backup, without following a link.
    ///
    /// # Errors
    /// As [`read_regular`]; and for a link.
    pub fn read_backup(&self, backup: &Path) -> io::Result<Vec<u8>> {
        check_regular(&fs::symlink_metadata(backup)?)?;
        let (mut file, metadata) = private::open(backup, OpenOptions::new().read(true))?;
        read_bounded(&mut file, &metadata, self.max)
    }

    /// Removes the backups of edits but this one. What was kept before an import or for another program stays.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn forget_backups(&self, but: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.folder())?.flatten() {
            let name = entry.file_name();
            let parts = name.to_str().and_then(|name| self.parts(name));
            if parts.is_some_and(|parts| parts.kind == Kind::Edit) && entry.path() != but {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the backup, named after the time and the content that comes instead.
    pub(super) fn back_up(
        &self,
        before: &[u8],
        after: &[u8],
        old: Option<&Metadata>,
        kind: Kind,
    ) -> io::Result<PathBuf> {
        let new = self.temporary(before, old, false)?.into_temp_path();
        match self.keep(new, after, kind) {
            Ok(path) => sync_folder(self.folder()).map(|()| path),
            Err((_, error)) => Err(error),
        }
    }

    /// Keeps what another program wrote and what cannot be put back, under a name that no later edit removes.
    pub(super) fn keep_aside(&self, aside: TempPath, error: &io::Error) -> io::Error {
        let content = read_regular(&aside, self.max).unwrap_or_default();
        let kept = self.keep(aside, &content, Kind::Aside).unwrap_or_else(|(aside, _)| {
            let path = aside.to_path_buf();
            aside.keep().unwrap_or(path)
        });
        let what = format!(
            "another program changed it in the meantime, and that cannot be put back: {error}; it is in {}: move it back",
            kept.display()
        );
        io::Error::other(what)
    }

    /// Gives a temporary file the name of a backup that is not taken.
    fn keep(&self, mut new: TempPath, content: &[u8], kind: Kind) -> Result<PathBuf, (TempPath, io::Error)> {
        let stem = format!("{}.{}-{}{}", self.name(), now(), digest(content), kind.mark());
        for number in 0..BACKUPS {
            let number = if number == 0 { String::new() } else { format!(".{number}") };
            let path = self.folder().join(format!("{stem}{number}{BACKUP}"));
            match new.persist_noclobber(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => new = error.path,
                Err(error) => return Err((error.path, error.error)),
            }
        }
        let what = format!("it has {BACKUPS} backups of this second; remove some");
        Err((new, io::Error::new(ErrorKind::AlreadyExists, what)))
    }

    /// Parts of the name of a backup of the file; `None` for other names.
    fn parts<'n>(&self, name: &'n str) -> Option<Parts<'n>> {
        let stem = name.strip_prefix(&self.name())?.strip_prefix('.')?.strip_suffix(BACKUP)?;
        let (time, rest) = stem.split_once('-')?;
        let (digest, rest) = rest.split_at_checked(rest.find('.').unwrap_or(rest.len()))?;
        let kinds = [Kind::Import, Kind::Move, Kind::Aside, Kind::Edit];
        let (kind, rest) = kinds.into_iter().find_map(|kind| Some((kind, rest.strip_prefix(kind.mark())?)))?;
        let number = match rest {
            "" => 0,
            rest => rest.strip_prefix('.')?.parse().ok()?,
        };
        let is_time = time.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_digest = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_time && is_digest).then_some(Parts { time, digest, kind, number })
    }

    /// True if an entry of the folder is a regular file of the file's owner.
    fn is_own(&self, entry: &fs::DirEntry) -> bool {
        let (Ok(found), Ok(file)) = (entry.metadata(), fs::metadata(&self.path)) else { return false };
        found.is_file() && found.uid() == file.uid()
    }
}

/// Parts of the name of a backup.
struct Parts<'n> {
    time: &'n str,
    /// Digest of the content that came instead; of its own content if it is kept aside.
    digest: &'n str,
    kind: Kind,
    /// Number among those of one second.
    number: usize,
}

/// The time, for names of backups.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(['-', ':'], "")
}

/// Digest of a content, for names of backups.
fn digest(content: &[u8]) -> String {
    head(&stubgen::digest(content), 12).to_owned()
}
