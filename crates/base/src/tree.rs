//! A folder of text files that others may write to. Below it no link is followed, only regular files are read, and a
//! file is replaced, not written through. Each step starts from the folder opened before it, so that nothing can be
//! replaced between check and use.

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
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use crate::files;
use crate::random;

/// Most levels of folders below the root: more than any stub tree has.
const MAX_DEPTH: usize = 8;
/// Most entries of all folders.
const MAX_ENTRIES: usize = 1 << 20;
/// Mode of a new folder or file, before the user's umask.
const FOLDER: Mode = Mode::S_IRWXU.union(Mode::S_IRWXG).union(Mode::S_IRWXO);
const FILE: Mode = Mode::from_bits_truncate(0o666);

/// The root folder. The operator names it, and it may be a link itself.
pub struct Tree(OwnedFd);

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// Neither file nor folder, in words.
    Other(&'static str),
}

impl Tree {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// When it does not exist or is not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits();
        Ok(Self(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into()))
    }

    /// Opens the folder at `path`, created if missing.
    ///
    /// # Errors
    /// When it cannot be created or read.
    pub fn make(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path)
    }

    /// Reads the regular file at `path`, at most `max` bytes.
    ///
    /// # Errors
    /// When it is of another kind, larger, or not readable.
    pub fn read(&self, path: &str, max: u64) -> io::Result<Vec<u8>> {
        let (folders, name) = split(path)?;
        let folder = self.folder(&folders, false)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(folder.as_ref().unwrap_or(&self.0), name, flags, Mode::empty()).map_err(describe)?;
        read(file.into(), max)
    }

    /// All files below it by relative path, without hidden ones.
    ///
    /// # Errors
    /// When a folder is not readable, or there are too many.
    pub fn entries(&self) -> io::Result<BTreeMap<String, Kind>> {
        walk(self.0.try_clone()?, MAX_ENTRIES)
    }

    /// All files below one of its folders, by path relative to that, without hidden ones.
    ///
    /// # Errors
    /// As [`Tree::entries`], with at most `most` entries.
    pub fn below(&self, folder: &str, most: usize) -> io::Result<BTreeMap<String, Kind>> {
        walk(step(&self.0, &CString::new(folder)?)?, most)
    }

    /// Its direct entries by name, `None` for a folder, without hidden ones.
    ///
    /// # Errors
    /// When it is not readable, or there are more than `most`.
    pub fn names(&self, most: usize) -> io::Result<BTreeMap<String, Option<Kind>>> {
        let mut found = BTreeMap::new();
        for entry in Dir::from_fd(self.0.try_clone()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            if found.len() >= most {
                return Err(io::Error::other(format!("there are more than {most} entries")));
            }
            let kind = kind(&fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?);
            found.insert(name.to_string_lossy().into_owned(), kind);
        }
        Ok(found)
    }

    /// Replaces the file at `path`, and creates its folders.
    ///
    /// # Errors
    /// When a parent is not a folder, or it cannot be written.
    pub fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        self.create(path, true, |file| file.write_all(content))
    }

    /// Puts a file at `path`, and creates its folders: one that is not there yet, or in place of another regular one. It
    /// is on disk when this returns, all of it or nothing.
    ///
    /// # Errors
    /// `AlreadyExists` when something is there that it may not replace; as [`Tree::write`].
    pub fn put(&self, path: &str, content: &[u8], replaces: bool) -> io::Result<()> {
        self.create(path, replaces, |file| file.write_all(content).and_then(|()| file.sync_all()))
    }

    /// Fills a new file, and gives it its place.
    fn create(&self, path: &str, replaces: bool, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (folders, name) = split(path)?;
        let folder = self.folder(&folders, true)?;
        let folder = folder.as_ref().unwrap_or(&self.0);
        let new = format!(".new-{}", random::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(folder, new.as_str(), flags, FILE)?);
        let written = fill(&mut file).and_then(|()| match replaces {
            true => Ok(renameat(folder, new.as_str(), folder, name)?),
            // A link to a new name takes no other's place.
            false => Ok(linkat(folder, new.as_str(), folder, name, AtFlags::empty())?),
        });
        if written.is_err() || !replaces {
            let _ = unlinkat(folder, new.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Removes a file or link, and parent folders that become empty.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, path: &str) -> io::Result<()> {
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

    /// Opens the folder at a path; `None` for the root.
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

/// All files below a folder by relative path, without hidden ones.
fn walk(root: OwnedFd, most: usize) -> io::Result<BTreeMap<String, Kind>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(String::new(), root)];
    while let Some((path, folder)) = folders.pop() {
        let names = Dir::from_fd(folder.try_clone()?)?;
        for entry in names {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let relative = format!("{path}{}", name.to_string_lossy());
            if found.len() + folders.len() >= most {
                return Err(io::Error::other(format!("there are more than {most} files")));
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

fn read(mut file: File, max: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    files::check_regular(&metadata)?;
    files::read_bounded(&mut file, &metadata, max)
}

fn step(above: &OwnedFd, name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::ENOTDIR | Errno::ELOOP => {
            let what = format!("`{}` is a symbolic link or a file, no folder", name.to_string_lossy());
            io::Error::new(io::ErrorKind::NotADirectory, what)
        }
        error => error.into(),
    })
}

/// Folders and name of a relative path that leads only downwards.
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

/// Kind of a status; `None` for a folder.
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
