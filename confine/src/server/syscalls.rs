//! System calls of a confined server.
//!
//! A server is any program, so that everything is allowed but what reaches around the other layers, and interfaces of the
//! kernel that servers do not need and attackers do. A refused call fails with EPERM: programs try some and cope.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompRule, apply_filter, sock_filter};

use super::Rules;
use crate::filter::{compile, when, when_pointer};

/// Newest system call that was judged here, by its number, which is the same on all architectures from 424 on. A later
/// one does not exist for the server, and neither do those of the x32 architecture, whose numbers are higher.
const NEWEST: u32 = SYS_FILE_SETATTR as u32;
/// Calls that the crate libc does not name yet.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_OPEN_TREE_ATTR: i64 = 467;
const SYS_FILE_SETATTR: i64 = 469;

/// Calls that no server needs.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_ioprio_set,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    // The kernel's own.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    // Queues by name, which are no files to landlock.
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Changes of a file that landlock does not check, by its path. By a descriptor they are of a file that could be opened.
const BY_PATH: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    SYS_SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Flags of `clone` that make a namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Pastes into a console.
const TIOCLINUX: u64 = 0x541C;
/// Names the signal of a descriptor that has news.
const F_SETSIG: u64 = 10;
/// Kind of a socket, without its flags.
const KIND: u64 = 0xf;

/// Applies the filters to this thread, the only one.
pub(super) fn filter(rules: &Rules, cuts_files: bool) -> Result<String, String> {
    let told = |error: seccompiler::Error| error.to_string();
    for program in [unknown(), refused(rules, cuts_files).map_err(told)?] {
        apply_filter(&program).map_err(told)?;
    }
    let network = if rules.network { "sockets of the Internet alone" } else { "no socket" };
    Ok(format!("{network}, no namespace, no interface of the kernel that servers do not need"))
}

/// Calls that do not exist for the server. The C library then takes `clone`, whose flags a filter can see, for `clone3`.
fn unknown() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const IF_GREATER: u16 = 0x25;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, 0),
        step(IF_GREATER, 2, 0, NEWEST),
        step(IF_EQUAL, 1, 0, libc::SYS_clone3 as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

fn refused(rules: &Rules, cuts_files: bool) -> Result<BpfProgram, seccompiler::Error> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};

    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !rules.modes {
        refused.extend(BY_PATH.iter().map(|call| (*call, Vec::new())));
        // Without a path, the times are those of a descriptor.
        refused.insert(libc::SYS_utimensat, vec![when_pointer(1)?]);
    }
    let namespaces = NAMESPACES.map(|flag| when([(0, MaskedEq(flag as u64), flag as u64)]));
    refused.insert(libc::SYS_clone, namespaces.into_iter().collect::<Result<_, _>>()?);
    refused.insert(libc::SYS_socket, sockets(rules.network)?);
    refused.insert(libc::SYS_socketpair, pairs()?);
    // Typing into the operator's terminal.
    refused.insert(libc::SYS_ioctl, vec![when([(1, Eq, libc::TIOCSTI)])?, when([(1, Eq, TIOCLINUX)])?]);
    // Limits and priority of other processes of the user, the gateway among them.
    refused.insert(libc::SYS_prlimit64, vec![when([(0, Ne, 0)])?]);
    refused.insert(libc::SYS_setpriority, vec![when([(0, Ne, 0)])?, when([(1, Ne, 0)])?]);
    // Signals to its supervisor, also by its group, by all processes, and by a descriptor; landlock's scope has older
    // kernels not. Others than SIGKILL and SIGSTOP do nothing there.
    let supervisor = nix::unistd::getppid().as_raw();
    let word = |number: i32| u64::from(number.cast_unsigned());
    refused.insert(
        libc::SYS_kill,
        [supervisor, -supervisor, -1].into_iter().map(|to| when([(0, Eq, word(to))])).collect::<Result<_, _>>()?,
    );
    for call in [libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        refused.insert(call, vec![when([(0, Eq, word(supervisor))])?]);
    }
    refused.insert(libc::SYS_pidfd_open, vec![when([(0, Eq, word(supervisor))])?]);
    refused.insert(libc::SYS_setpgid, vec![when([(1, Eq, word(supervisor))])?]);
    let by_descriptor = [libc::SIGKILL, libc::SIGSTOP].map(|signal| when([(1, Eq, F_SETSIG), (2, Eq, word(signal))]));
    refused.insert(libc::SYS_fcntl, by_descriptor.into_iter().collect::<Result<_, _>>()?);
    // Memory, queues and semaphores that have a name.
    for call in [libc::SYS_shmget, libc::SYS_msgget, libc::SYS_semget] {
        refused.insert(call, vec![when([(0, Ne, libc::IPC_PRIVATE as u64)])?]);
    }
    if cuts_files {
        refused.insert(libc::SYS_truncate, Vec::new());
    }
    if !rules.watch {
        // Names of files that change are seen in any folder.
        refused.insert(libc::SYS_inotify_add_watch, Vec::new());
    }
    compile(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))
}

/// Sockets that are refused; no condition refuses all. Unix sockets are refused in any case: a folder's rights do not stop
/// a connection to the desktop's bus, an agent of keys, a container engine, or the gateway's own daemon.
fn sockets(network: bool) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    use SeccompCmpOp::{Eq, Ne};
    if !network {
        return Ok(Vec::new());
    }
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| (0, Ne, family as u64));
    // Of netlink the addresses and routes of this machine, which runtimes read.
    let others = when([(0, Eq, libc::AF_NETLINK as u64), (2, Ne, libc::NETLINK_ROUTE as u64)])?;
    Ok(vec![when(families)?, others])
}

/// Pairs that are refused: a pair for datagrams could be connected anew, to any address.
fn pairs() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    use SeccompCmpOp::{MaskedEq, Ne};
    let mut rules = vec![when([(0, Ne, libc::AF_UNIX as u64)])?];
    let kept = [libc::SOCK_STREAM as u64, libc::SOCK_SEQPACKET as u64];
    for kind in (0..=KIND).filter(|kind| !kept.contains(kind)) {
        rules.push(when([(1, MaskedEq(KIND), kind)])?);
    }
    Ok(rules)
}
