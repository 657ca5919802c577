//! Memory that is not needed any more goes back to the system. Left to itself, the C library takes the largest block that
//! was ever freed for what the program usually needs and keeps everything smaller, in a heap for each thread: after the
//! index of 20 tools was built, in blocks of 1 MiB, 22 MiB that nobody used.
//!
//! Other allocators give back by themselves, or cannot be told: there, these functions do nothing.

/// A block from this size on is given back as soon as it is freed, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: nix::libc::c_int = 512 << 10;

/// Sets up the allocator for a process of so many busy threads. To be called before there is a second one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn set_up(threads: usize) {
    let heaps = nix::libc::c_int::try_from(threads.max(2)).unwrap_or(nix::libc::c_int::MAX);
    for (parameter, value) in [(nix::libc::M_MMAP_THRESHOLD, LARGE), (nix::libc::M_ARENA_MAX, heaps)] {
        #[expect(unsafe_code, reason = "nix has no mallopt; it changes a number, under the allocator's own lock")]
        // It says whether the number is valid, which these are.
        let _ = unsafe { nix::libc::mallopt(parameter, value) };
    }
}

/// Gives back what is free, after work that took much for a while. Milliseconds: not for a thread that others wait for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back() {
    #[expect(unsafe_code, reason = "nix has no malloc_trim; it touches nothing that is in use")]
    // It says whether there was anything.
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn set_up(_threads: usize) {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
