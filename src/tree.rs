//! A folder of text files that somebody else may have written into: below it no link is followed, nothing but regular
//! files is read, and a file is replaced, not written through. Each step is taken from the folder that was opened before
//! it, so that none can be exchanged between a look and the use of what was seen.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::files;
use crate::random;

/// Levels of folders below the root: more than any stub tree has.
const MAX_DEPTH: usize = 8;
/// Entries of all its folders.
const MAX_ENTRIES: usize = 1 << 20;
/// A new folder or file, as the user's umask narrows it.
const FOLDER: Mode = Mode::S_IRWXU.union(Mode::S_IRWXG).union(Mode::S_IRWXO);
const FILE: Mode = Mode::from_bits_truncate(0o666);

/// The folder, which is named by the operator and may be reached through a link itself.
pub(crate) struct Tree(OwnedFd);

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// Anything else that is no folder, in words.
    Other(&'static str),
}

impl Tree {
    /// The folder at `path`.
    ///
    /// # Errors
    /// When there is none, or it may not be read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits();
        Ok(Self(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into()))
    }

    /// The folder at `path`, made if it is missing.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path)
    }

    /// The content of the regular file at `path`, of `max` bytes at most.
    ///
    /// # Errors
    /// When it is anything else, larger, or may not be read.
    pub(crate) fn read(&self, path: &str, max: u64) -> io::Result<Vec<u8>> {
        let (folders, name) = split(path)?;
        let folder = self.folder(&folders, false)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(folder.as_ref().unwrap_or(&self.0), name, flags, Mode::empty()).map_err(describe)?;
        read(file.into(), max)
    }

    /// Every file below it by relative path, without hidden ones.
    ///
    /// # Errors
    /// When a folder may not be read, or there are too many.
    pub(crate) fn entries(&self) -> io::Result<BTreeMap<String, Kind>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![(String::new(), self.0.try_clone()?)];
        while let Some((path, folder)) = folders.pop() {
            let names = Dir::from_fd(folder.try_clone()?)?;
            for entry in names {
                let entry = entry?;
                let name = entry.file_name();
                if name.to_bytes().starts_with(b".") {
                    continue;
                }
                let relative = format!("{path}{}", name.to_string_lossy());
                if found.len() + folders.len() >= MAX_ENTRIES {
                    return Err(io::Error::other(format!("there are more than {MAX_ENTRIES} files")));
                }
                match kind(&fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?) {
                    None if relative.matches('/').count() >= MAX_DEPTH => {
                        return Err(io::Error::other(format!("{relative} is more than {MAX_DEPTH} folders deep")));
                    }
                    None => folders.push((format!("{relative}/"), step(&folder, name)?)),
                    Some(kind) => drop(found.insert(relative, kind)),
                }
            }
        }
        Ok(found)
    }

    /// Puts a file with this content in place of `path`, with the folders that it needs.
    ///
    /// # Errors
    /// When one of those is no folder, or it cannot be written.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let (folders, name) = split(path)?;
        let folder = self.folder(&folders, true)?;
        let folder = folder.as_ref().unwrap_or(&self.0);
        let new = format!(".new-{}", random::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(folder, new.as_str(), flags, FILE)?);
        let written = file.write_all(content).and_then(|()| Ok(renameat(folder, new.as_str(), folder, name)?));
        if written.is_err() {
            let _ = unlinkat(folder, new.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Removes a file or link, and the folders above it that are empty then.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (mut folders, name) = split(path)?;
        let folder = self.folder(&folders, false)?;
        unlinkat(folder.as_ref().unwrap_or(&self.0), name, UnlinkatFlags::NoRemoveDir)?;
        while let Some(empty) = folders.pop() {
            let above = self.folder(&folders, false)?;
            if unlinkat(above.as_ref().unwrap_or(&self.0), empty, UnlinkatFlags::RemoveDir).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The folder below these; `None` for the root.
    fn folder(&self, path: &[&str], make: bool) -> io::Result<Option<OwnedFd>> {
        let mut folder: Option<OwnedFd> = None;
        for name in path {
            let above = folder.as_ref().unwrap_or(&self.0);
            if make {
                match mkdirat(above, *name, FOLDER) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let below = step(above, &CString::new(*name)?)?;
            folder = Some(below);
        }
        Ok(folder)
    }
}

fn read(mut file: File, max: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    files::check_regular(&metadata)?;
    files::read_bounded(&mut file, &metadata, max)
}

fn step(above: &OwnedFd, name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::ENOTDIR | Errno::ELOOP => {
            io::Error::other(format!("`{}` is a symbolic link or a file, no folder", name.to_string_lossy()))
        }
        error => error.into(),
    })
}

/// The folders and the name of a relative path that leads downwards only.
fn split(path: &str) -> io::Result<(Vec<&str>, &str)> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\0');
    match parts.iter().all(is_plain) && parts.len() <= MAX_DEPTH {
        true => parts.pop().map(|name| (parts, name)).ok_or_else(|| io::Error::other("it has no name")),
        false => Err(io::Error::other("it is no plain path below the folder")),
    }
}

fn describe(error: Errno) -> io::Error {
    match error {
        Errno::ELOOP => io::Error::other("it is a symbolic link, no file"),
        Errno::ENXIO => io::Error::other("it is a socket or a pipe, no file"),
        error => error.into(),
    }
}

/// What a status is of; `None` for a folder.
fn kind(stat: &FileStat) -> Option<Kind> {
    let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    Some(match format {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => return None,
        SFlag::S_IFLNK => Kind::Other("a symbolic link"),
        SFlag::S_IFIFO => Kind::Other("a pipe"),
        SFlag::S_IFSOCK => Kind::Other("a socket"),
        _ => Kind::Other("a device"),
    })
}
