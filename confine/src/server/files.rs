//! Files, TCP ports, signals and abstract sockets of a confined server, by landlock.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstat};

use super::Rules;

/// Newest landlock ABI requested; an older kernel applies what it supports.
const LANDLOCK: ABI = ABI::V6;
/// Neither devices nor sockets are made in a folder that may be written.
const NEVER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | MakeSock | IoctlDev});

/// Outcome of [`restrict`].
pub(super) struct Restricted {
    pub(super) landlock: Result<String, String>,
    pub(super) scope: Result<String, String>,
    /// True if the kernel lets the process cut files short that it may not write.
    pub(super) cuts_files: bool,
}

/// Restricts this process to the files of `rules`.
///
/// # Errors
/// When a path is not what it was when the rules were made.
pub(super) fn restrict(rules: &Rules) -> Result<Restricted, String> {
    let all = AccessFs::from_all(LANDLOCK);
    let read = AccessFs::from_read(LANDLOCK);
    let device = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});
    let mut opened = Vec::new();
    for (paths, access) in [(&rules.read, read), (&rules.write, all & !NEVER), (&rules.devices, device)] {
        for path in paths {
            opened.extend(open(path)?.map(|(file, is_folder)| (file, allowed(access, is_folder))));
        }
    }
    // Its own entry in /proc, whose name is a link.
    let own = format!("/proc/{}", std::process::id());
    opened.extend(open(Path::new(&own))?.map(|(file, _)| (file, read)));
    let status = ruleset(rules, opened).and_then(RulesetCreated::restrict_self);
    let status = match status.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi),
        Ok(LandlockStatus::NotEnabled) => Err("landlock is not enabled in this kernel".to_owned()),
        Ok(_) => Err("the kernel has no landlock".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let scope = status.clone().and_then(|abi| match abi >= ABI::V6 {
        true => Ok("no signal and no abstract socket to processes outside".to_owned()),
        false => Err(format!("the kernel's landlock is too old for it ({abi:?}; Linux 6.12 has it)")),
    });
    let cuts_files = status.as_ref().is_ok_and(|abi| *abi < ABI::V3);
    let landlock = status.map(|abi| match abi >= ABI::V5 {
        true => "no file but the allowed ones".to_owned(),
        false => format!("no file but the allowed ones; too old ({abi:?}) for commands to devices"),
    });
    Ok(Restricted { landlock, scope, cuts_files })
}

fn ruleset(rules: &Rules, opened: Vec<(OwnedFd, BitFlags<AccessFs>)>) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK))?;
    if !rules.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
    }
    let ruleset = ruleset.scope(Scope::from_all(LANDLOCK))?.create()?;
    opened.into_iter().try_fold(ruleset, |ruleset, (file, access)| ruleset.add_rule(PathBeneath::new(file, access)))
}

/// The rights that a file can have are fewer than those of a folder.
fn allowed(access: BitFlags<AccessFs>, is_folder: bool) -> BitFlags<AccessFs> {
    if is_folder { access } else { access & AccessFs::from_file(LANDLOCK) }
}

/// Opens a path through no symbolic link, and says whether it is a folder; `None` if it is gone.
fn open(path: &Path) -> Result<Option<(OwnedFd, bool)>, String> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let opened = openat2(nix::fcntl::AT_FDCWD, path, how).and_then(|file| {
        let kind = fstat(&file)?.st_mode & SFlag::S_IFMT.bits();
        Ok((file, kind == SFlag::S_IFDIR.bits()))
    });
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOSYS) => Ok(None),
        Err(nix::errno::Errno::ELOOP) => Err(format!("{} has become a link since it was checked", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
