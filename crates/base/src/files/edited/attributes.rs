//! Owner and mode of an edited file and of its folder.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, fchown, lchown};
use std::path::Path;

/// Refuses a file that its owner made read-only, another user's, and one with several names, of which a replacement
/// would change one only.
pub(super) fn check_replaceable(metadata: &Metadata) -> io::Result<()> {
    let denied = |what: String| Err(io::Error::new(ErrorKind::PermissionDenied, what));
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

/// Creates a folder and missing parents, private to their owner. For root in the folder of another user, that user owns
/// them, and is returned: root's own files could not be read by the programs of that user.
pub(super) fn make_folder(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    if nix::unistd::geteuid().is_root() {
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

/// Gives a new file the owner of the old one, and its mode unless it is to be private, as it was made.
pub(super) fn take_over(new: &File, old: &Metadata, is_private: bool) -> io::Result<()> {
    let now = new.metadata()?;
    if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid()))?;
    }
    // After the owner: a change of owner resets bits of the mode.
    if is_private { Ok(()) } else { new.set_permissions(old.permissions()) }
}
