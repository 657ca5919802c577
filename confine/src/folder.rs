//! Removes a folder that a program has filled, however deep.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Attempts to remove a folder that another process removes too.
const ATTEMPTS: u32 = 10_000;

/// Removes a folder with everything in it, if it is there. Another process may do so at the same time.
///
/// # Errors
/// When something in it cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match empty(path).and_then(|()| std::fs::remove_dir(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // The other one has just moved a folder up.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts < ATTEMPTS => {}
            other => return other,
        }
    }
}

/// Removes what is in a folder. Folders in it are moved up before they are emptied, so that neither the stack nor the
/// descriptors grow with their depth; no link is followed.
fn empty(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = nix::fcntl::open(path, flags, Mode::empty())?;
    let (mut number, mut last_left) = (0u64, usize::MAX);
    loop {
        let mut left = 0;
        for (name, is_folder) in entries(&top)? {
            if !is_folder {
                unless_gone(unlinkat(&top, name.as_c_str(), UnlinkatFlags::NoRemoveDir))?;
                continue;
            }
            open_up(&top, &name);
            let folder = match openat(&top, name.as_c_str(), flags, Mode::empty()) {
                Err(Errno::ENOENT) => continue,
                opened => opened?,
            };
            for (inner, is_folder) in entries(&folder)? {
                if !is_folder {
                    unless_gone(unlinkat(&folder, inner.as_c_str(), UnlinkatFlags::NoRemoveDir))?;
                    continue;
                }
                open_up(&folder, &inner);
                loop {
                    number += 1;
                    let above = CString::new(format!(".{number}")).unwrap_or_default();
                    match renameat(&folder, inner.as_c_str(), &top, above.as_c_str()) {
                        // The server has taken the name.
                        Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
                        other => break unless_gone(other)?,
                    }
                }
                left += 1;
            }
            match unlinkat(&top, name.as_c_str(), UnlinkatFlags::RemoveDir) {
                Err(Errno::ENOTEMPTY) => (left, number) = (left + 1, number + 1),
                other => unless_gone(other)?,
            }
        }
        if left == 0 {
            return Ok(());
        }
        // A process that is still there could go on for ever.
        if left >= last_left && number > 1 << 20 {
            return Err(io::Error::other("it grows while it is removed"));
        }
        last_left = left;
    }
}

/// Names in a folder, and whether each is a folder.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
    let own: &CStr = c".";
    let again = match openat(folder, own, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut found = Vec::new();
    for entry in Dir::from_fd(again)?.into_iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            found.push((name.to_owned(), entry.file_type() == Some(Type::Directory)));
        }
    }
    Ok(found)
}

/// Takes a name that another process has removed meanwhile for removed.
fn unless_gone(outcome: nix::Result<()>) -> nix::Result<()> {
    outcome.or_else(|error| if error == Errno::ENOENT { Ok(()) } else { Err(error) })
}

/// Gives the owner all rights of a folder, which the program may have taken.
fn open_up(above: &OwnedFd, name: &CStr) {
    let _ = fchmodat(above, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_a_server_leaves_is_removed_however_deep_and_no_link_is_followed() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("kept"), "x").expect("written");
        let path = tempfile::tempdir().expect("a folder").keep();
        std::os::unix::fs::symlink(outside.path(), path.join("link")).expect("linked");
        fs::write(path.join(".1"), "a name that is taken").expect("written");
        // Deeper than a path can name and more levels than a process has descriptors.
        let mut at = nix::fcntl::open(&path, OFlag::O_DIRECTORY, Mode::empty()).expect("opened");
        for _ in 0..3_000 {
            nix::sys::stat::mkdirat(&at, "deeper", Mode::S_IRWXU).expect("made");
            at = openat(&at, "deeper", OFlag::O_DIRECTORY, Mode::empty()).expect("opened");
        }
        drop(at);
        fs::create_dir(path.join("closed")).expect("made");
        fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o0)).expect("changed");
        // As the gateway and the supervisor do.
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(|| remove(&path).expect("removed")))));
        remove(&path).expect("it is gone already");
        assert!(!path.exists() && outside.path().join("kept").exists());
    }
}
