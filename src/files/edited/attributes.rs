//! Owner, mode and attributes of an edited file and of its folder.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Attribute with the access control list of a file.
#[cfg(target_os = "linux")]
const ACL: &str = "system.posix_acl_access";
/// Most bytes of an extended attribute, and of the list of their names: the limit of Linux.
#[cfg(target_os = "linux")]
const ATTRIBUTE: usize = 1 << 16;

/// Refuses a file that its owner made read-only, another user's, and one with several names, of which a replacement
/// would change one only.
pub(super) fn check_replaceable(metadata: &Metadata) -> io::Result<()> {
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
pub(super) fn make_folder(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    #[cfg(unix)]
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::fs::{MetadataExt as _, lchown};
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        let nearest = folder.ancestors().nth(missing.len()).map(fs::metadata).transpose()?;
        let heir = nearest.map(|nearest| (nearest.uid(), nearest.gid())).filter(|(uid, _)| *uid != 0);
        crate::files::make_private_folder(folder)?;
        if let Some((uid, gid)) = heir {
            missing.iter().try_for_each(|made| lchown(made, Some(uid), Some(gid)))?;
        }
        return Ok(heir);
    }
    crate::files::make_private_folder(folder).map(|()| None)
}

/// Gives a new file the owner of the old one at `path`, and its mode and attributes unless it is to be private, as it was
/// made.
pub(super) fn take_over(new: &File, old: &Metadata, path: &Path, is_private: bool) -> io::Result<()> {
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
