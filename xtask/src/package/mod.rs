//! Makes the files of a release from built executables: npm packages, wheels and archives. The same executable and version
//! give the same bytes on every machine.

mod archive;
pub(crate) mod executable;
mod npm;
mod tarball;
pub(crate) mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use sha2::{Digest as _, Sha256};

use self::executable::Executable;
use crate::say;

/// Version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Source of every package.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// Licence of every package.
const LICENSE: &str = env!("CARGO_PKG_LICENSE");
/// Description of every package: that of the crate.
const DESCRIPTION: &str = "Code-mode MCP gateway: any number of MCP servers behind four small tools";
/// Licence texts, which every package has.
const LICENSES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "NOTICE"];
/// Checksums of all files, as `sha256sum --check` reads them.
const CHECKSUMS: &str = "SHA256SUMS";

/// What is released: the checkout, and the version of every package.
#[derive(Clone, Copy)]
pub(crate) struct Release<'r> {
    pub(crate) root: &'r Path,
    pub(crate) version: &'r str,
}

/// A file of a release.
struct Made {
    name: String,
    content: Vec<u8>,
}

/// Writes the packages of these executables, and their checksums, into the folder `out`.
pub(crate) fn run(release: Release<'_>, executables: &[PathBuf], out: &Path) -> anyhow::Result<()> {
    let mut read: Vec<Executable> = Vec::new();
    for path in executables {
        let executable = Executable::read(path, release.version).with_context(|| path.display().to_string())?;
        if read.iter().any(|other| other.platform == executable.platform) {
            bail!("{}: a second executable for {}; give one for each", path.display(), executable.platform.npm());
        }
        read.push(executable);
    }
    let extras = archive::Extras::written_by(&read)?;
    let mut made = vec![npm::launcher(release)?];
    for executable in &read {
        made.push(npm::platform(release, executable)?);
        made.push(wheel::wheel(release, executable)?);
        made.push(archive::archive(release, executable, &extras)?);
    }
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    made.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sums = String::new();
    for Made { name, content } in &made {
        write(&out.join(name), content)?;
        sums.push_str(&format!("{}  {name}\n", hex(&Sha256::digest(content))));
        say::line(format_args!("{:>8.1} MB  {name}", content.len() as f64 / 1e6));
    }
    write(&out.join(CHECKSUMS), sums.as_bytes())
}

impl Release<'_> {
    /// The content of a file of the repository.
    fn file(self, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.root.join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_description_is_that_of_the_crate() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("description = \"{}\"", super::DESCRIPTION)));
    }
}
