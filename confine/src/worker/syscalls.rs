//! System calls of a worker.
//!
//! Two filters. Calls not on the allow-list fail with EPERM, because the C library tries some and copes with a refusal.
//! Calls on the deny-list are only ever made by an attacker, and kill the process.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompRule, apply_filter_all_threads};

use crate::filter::{compile, when};

/// Calls of running engines, allocator and threads.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrusage,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Ways to another program, process, network or kernel interface.
const DEADLY: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_open_by_handle_at,
    libc::SYS_memfd_create,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
];

/// Ways to another process or thread.
const NEW_PROCESSES: &[libc::c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Applies both filters to every thread.
pub(super) fn filter() -> Result<String, String> {
    // In this order: the allow-list contains no call that adds a filter.
    filter_by_deny_list()?;
    filter_by_allow_list()?;
    Ok("no file, socket, process or program, no executable memory".to_owned())
}

/// Kills on calls that only an attacker makes.
///
/// # Errors
/// The kernel's, in words.
pub fn filter_by_deny_list() -> Result<String, String> {
    let applied = deny_list().and_then(|program| apply_filter_all_threads(&program));
    applied.map(|()| "no socket, program or kernel interface".to_owned()).map_err(|error| error.to_string())
}

/// Refuses calls that are not needed.
///
/// # Errors
/// The kernel's, in words.
pub fn filter_by_allow_list() -> Result<String, String> {
    let applied = allow_list().and_then(|program| apply_filter_all_threads(&program));
    applied.map(|()| "what engines need, and nothing else".to_owned()).map_err(|error| error.to_string())
}

/// Refuses new processes and threads as the limit on their number does.
pub(super) fn filter_new_processes() -> Result<(), String> {
    let rules = NEW_PROCESSES.iter().map(|call| (*call, Vec::new())).collect();
    let program = compile(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EAGAIN as u32));
    program.and_then(|program| apply_filter_all_threads(&program)).map_err(|error| error.to_string())
}

fn allow_list() -> Result<BpfProgram, seccompiler::Error> {
    let own = u64::from(std::process::id());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        rules.insert(call, vec![when([(2, executable, 0)])?]);
    }
    // `abort` signals its own thread; limits are of the process itself.
    rules.insert(libc::SYS_tgkill, vec![when([(0, SeccompCmpOp::Eq, own)])?]);
    rules.insert(libc::SYS_prlimit64, vec![when([(0, SeccompCmpOp::Eq, 0)])?, when([(0, SeccompCmpOp::Eq, own)])?]);
    compile(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

fn deny_list() -> Result<BpfProgram, seccompiler::Error> {
    let rules = DEADLY.iter().map(|call| (*call, Vec::new())).collect();
    compile(rules, SeccompAction::Allow, SeccompAction::KillProcess)
}
