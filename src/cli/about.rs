//! Facts of this build, for `--version` and `doctor`.

use std::env::consts;
use std::sync::OnceLock;

/// Version of ForgeFS.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Source and releases.
pub(super) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// JavaScript engines of this build, as `main` named them.
static JAVASCRIPT: OnceLock<Vec<String>> = OnceLock::new();

/// Keeps the engines for [`engines`]. The first call counts.
pub(super) fn set_engines(javascript: &[&str]) {
    let _ = JAVASCRIPT.set(javascript.iter().map(ToString::to_string).collect());
}

/// Every engine of this build: `quickjs, starlark`.
pub(super) fn engines() -> String {
    let javascript = JAVASCRIPT.get().into_iter().flatten().map(String::as_str);
    javascript.chain(["starlark"]).collect::<Vec<_>>().join(", ")
}

/// The platform of this build, and the parts of ForgeFS that it lacks: `linux x86_64 (gnu)`.
pub(super) fn platform() -> String {
    let c_library = if cfg!(target_env = "musl") {
        " (musl)"
    } else if cfg!(target_env = "gnu") {
        " (gnu)"
    } else {
        ""
    };
    let lacks = if cfg!(target_os = "linux") { "" } else { "; without sandbox layers, which need Linux" };
    format!("{} {}{c_library}{lacks}", consts::OS, consts::ARCH)
}

/// Text of `--version`, after the name.
pub(super) fn long_version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{VERSION}\nengines   {}\nplatform  {}", engines(), platform()))
}
