//! Finds the prebuilt V8 library that the `v8` crate links: a local archive, or the crate's own download.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use crate::{say, step};

/// Source of the library.
pub(crate) enum V8 {
    /// A file, passed to the crate's build script as RUSTY_V8_ARCHIVE.
    Archive(PathBuf),
    /// The build script finds or downloads it.
    Download(String),
    /// Not found, with the reason.
    Missing(String),
}

impl V8 {
    /// Searches the user's setting, then the disk, then the network.
    pub(crate) fn find(root: &Path) -> anyhow::Result<Self> {
        if let Some(named) = env::var_os("RUSTY_V8_ARCHIVE").filter(|value| !value.is_empty()) {
            return Self::named(&named);
        }
        let release = Release::of(root)?;
        if let Some(archive) = release.on_disk(root) {
            return Ok(Self::Archive(archive));
        }
        let url = release.url();
        if release.in_cargo_home(&url) || is_published(&url) {
            return Ok(Self::Download(url));
        }
        Ok(Self::Missing(format!(
            "no archive of v8 {} on this machine, and its release is not reachable (set RUSTY_V8_ARCHIVE to use a file)",
            release.version
        )))
    }

    fn named(named: &OsString) -> anyhow::Result<Self> {
        let text = named.to_string_lossy();
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Download(text.into_owned()));
        }
        match fs::canonicalize(named) {
            Ok(archive) => Ok(Self::Archive(archive)),
            Err(error) => bail!("RUSTY_V8_ARCHIVE names {text}, which cannot be read: {error}"),
        }
    }
}

/// Published library for this host and the locked version of the crate.
struct Release {
    version: String,
    file: String,
}

impl Release {
    fn of(root: &Path) -> anyhow::Result<Self> {
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
        let version = locked_version(&lock, "v8").context("Cargo.lock does not list the crate v8")?.to_owned();
        let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        let host = step::probe(&rustc, &["--print", "host-tuple"]).context("rustc does not say what host this is")?;
        let file = if host.contains("windows") {
            format!("rusty_v8_simdutf_release_{host}.lib.gz")
        } else {
            format!("librusty_v8_simdutf_release_{host}.a.gz")
        };
        Ok(Self { version, file })
    }

    /// The user's cache, or a folder shared by neighbouring checkouts.
    fn on_disk(&self, root: &Path) -> Option<PathBuf> {
        let cache = env::var_os("XDG_CACHE_HOME")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(env::home_dir()?.join(".cache")))
            .map(|dir| dir.join("forgefs/v8").join(format!("v{}", self.version)));
        let beside = root.join("../shared/v8");
        let archive = cache.into_iter().chain([beside]).map(|dir| dir.join(&self.file)).find(|file| file.is_file())?;
        self.is_of_another_version(&archive).map_or_else(
            || fs::canonicalize(&archive).ok(),
            |readme| {
                say::line(format_args!(
                    "note: {} is not used: {} does not name v8 {}",
                    archive.display(),
                    readme.display(),
                    self.version
                ));
                None
            },
        )
    }

    /// The file name has no version; a README beside it that mentions the crate must name ours.
    fn is_of_another_version(&self, archive: &Path) -> Option<PathBuf> {
        let readme = archive.with_file_name("README.md");
        let text = fs::read_to_string(&readme).ok()?;
        (text.contains("`v8`") && !text.contains(&self.version)).then_some(readme)
    }

    fn url(&self) -> String {
        let base = env::var("RUSTY_V8_MIRROR")
            .unwrap_or_else(|_| "https://github.com/denoland/rusty_v8/releases/download".to_owned());
        format!("{base}/v{}/{}", self.version, self.file)
    }

    /// The build script keeps downloads there, under the URL with everything but letters and digits replaced.
    fn in_cargo_home(&self, url: &str) -> bool {
        let escaped: String = url.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
        home.is_some_and(|home| home.join(".rusty_v8").join(escaped).is_file())
    }
}

/// Requests the headers only. curl is the build script's fallback, and honours proxies.
fn is_published(url: &str) -> bool {
    Command::new("curl")
        .args(["--silent", "--fail", "--head", "--location", "--connect-timeout", "3", "--max-time", "8"])
        .args(["--output", if cfg!(windows) { "NUL" } else { "/dev/null" }, url])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn locked_version<'lock>(lock: &'lock str, package: &str) -> Option<&'lock str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn the_locked_version_is_that_of_the_package_with_exactly_this_name() {
        let lock = "[[package]]\nname = \"serde_v8\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"v8\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked_version(lock, "v8"), Some("2.0.0"));
        assert_eq!(locked_version(lock, "deno"), None);
    }
}
