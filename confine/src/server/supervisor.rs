//! The supervisor of a confined server: what the server started ends with it, and with the gateway, whatever sessions and
//! groups it has gone to, and its temporary folder is removed.
//!
//! It stands between the gateway and the server, unconfined and out of the server's reach. The kernel gives it every
//! process below the server whose parent has ended, and tells it of the gateway's death.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid};

use crate::cgroup::parent;
use crate::folder;

/// The signal that has it end all, which the gateway sends, and the kernel when the gateway has died. At SIGTERM it asks
/// the server alone.
pub const END: Signal = Signal::SIGHUP;

/// Divides this process into the supervisor and the server. Returns `None` in the server, and the exit code in the
/// supervisor, once all is over.
pub(super) fn divide(temporary: Option<&Path>) -> nix::Result<Option<u8>> {
    let before = SigSet::thread_get_mask()?;
    let all = SigSet::all();
    all.thread_set_mask()?;
    set_child_subreaper(true)?;
    set_pdeathsig(END)?;
    let supervisor = getpid();
    #[expect(unsafe_code, reason = "this process has one thread")]
    match unsafe { fork() }? {
        ForkResult::Child => {
            set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != supervisor {
                return Err(Errno::ESRCH);
            }
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            before.thread_set_mask()?;
            Ok(None)
        }
        ForkResult::Parent { child } => {
            // Both set the group, so that it is there for whichever goes on first.
            let _ = setpgid(child, child);
            #[expect(unsafe_code, reason = "the ends of its pipes belong to the server alone")]
            unsafe {
                libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
            }
            let code = watch(child, &all, temporary.is_some());
            if let Some(temporary) = temporary {
                let _ = folder::remove(temporary);
            }
            Ok(Some(code))
        }
    }
}

/// Waits until the server and all below it have ended; returns the server's exit code. What goes on without its first
/// process is a server that a script has started; an installer's ends with it (`waits`).
fn watch(server: Pid, signals: &SigSet, waits: bool) -> u8 {
    let (mut code, mut is_ending) = (0, false);
    loop {
        // Orphans come up to it, level by level.
        let killed = is_ending && children().filter(|child| kill(*child, Signal::SIGKILL).is_ok()).count() > 0;
        match waitpid(None, Some(WaitPidFlag::WNOHANG).filter(|_| !killed)) {
            Ok(WaitStatus::Exited(pid, own)) if pid == server => {
                (code, is_ending) = (u8::try_from(own).unwrap_or(1), is_ending || !waits);
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == server => {
                (code, is_ending) = (128 + signal as u8, is_ending || !waits);
            }
            Ok(WaitStatus::StillAlive) => match signals.wait() {
                Ok(END) => is_ending = true,
                Ok(Signal::SIGTERM) => drop(killpg(server, Signal::SIGTERM)),
                _ => {}
            },
            Err(Errno::ECHILD) => return code,
            _ => {}
        }
    }
}

/// Processes whose parent this one is, ended ones that it has not waited for among them.
fn children() -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(move |pid| parent(*pid) == Some(own)).filter_map(|pid| Some(Pid::from_raw(i32::try_from(pid).ok()?)))
}
