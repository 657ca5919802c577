//! Memory that is not needed any more goes back to the system.

/// A block from this size on is given back as soon as it is freed, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: nix::libc::c_int = 512 << 10;

/// Keeps the allocator from keeping large blocks. Left to itself, the C library takes the size of the largest block that
/// was ever freed for what the program usually needs, and keeps everything smaller: after the index of 20 tools was
/// built, in blocks of 1 MiB, 22 MiB that nobody uses. To be called before there is a second thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back_large_blocks() {
    #[expect(unsafe_code, reason = "nix has no mallopt; it changes two numbers, under the allocator's own lock")]
    // It says whether the number is valid, which this one is.
    let _ = unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other allocators do so by themselves, or cannot be told.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back_large_blocks() {}
