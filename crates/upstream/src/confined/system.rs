//! What any program may read: the system's programs and libraries, and a few files that say nothing of the user.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Programs, libraries, and what the C library, resolvers and runtimes read.
const READABLE: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/run/current-system/sw", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
    "/etc/alternatives", "/etc/fonts", "/etc/java*", "/etc/perl", "/etc/php*", "/etc/python*", "/etc/ca-certificates",
    "/etc/crypto-policies", "/etc/debian_version", "/etc/gai.conf", "/etc/gitconfig", "/etc/group", "/etc/host.conf",
    "/etc/hosts", "/etc/locale.alias", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release",
    "/etc/passwd", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/certs",
    "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/timezone",
    // Files that are replaced as a whole, when the network changes.
    "/run/systemd/resolve", "/run/resolvconf", "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo",
    "/proc/stat", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/net/core/somaxconn",
    "/proc/sys/vm/overcommit_memory", "/proc/uptime", "/proc/version", "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage", "/dev/random", "/dev/urandom",
];
/// Devices that give and keep nothing.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// Real paths of what is there of [`READABLE`].
pub(super) fn readable() -> Vec<PathBuf> {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| present(READABLE)).clone()
}

/// Real paths of what is there of [`DEVICES`].
pub(super) fn devices() -> Vec<PathBuf> {
    present(DEVICES)
}

fn present(paths: &[&str]) -> Vec<PathBuf> {
    let named = paths.iter().flat_map(|path| match path.strip_suffix('*') {
        Some(beginning) => versions(beginning),
        None => vec![PathBuf::from(path)],
    });
    let mut found: Vec<PathBuf> = named.filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    found.sort();
    found.dedup();
    found
}

/// Paths that begin so, such as those of all versions of an interpreter.
fn versions(beginning: &str) -> Vec<PathBuf> {
    let (folder, beginning) = beginning.rsplit_once('/').unwrap_or_default();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning));
    named.map(|entry| entry.path()).collect()
}
