//! The archive of an executable, for people and for `cargo binstall`, which finds it by the metadata in `Cargo.toml`. It
//! has man pages and completions beside the executable.

use std::{fs, process::Command};

use anyhow::{Context, bail, ensure};

use super::{LICENSES, Made, Release, executable::Executable, tarball::Tarball};

/// Shells with completions, and the names by which they find them.
const COMPLETIONS: [(&str, &str); 4] =
    [("bash", "forgefs.bash"), ("fish", "forgefs.fish"), ("powershell", "_forgefs.ps1"), ("zsh", "_forgefs")];

/// Man pages and completions: paths in an archive, and texts.
pub(super) struct Extras(Vec<(String, Vec<u8>)>);

impl Extras {
    /// Those that an executable for this machine writes; they are the same on every platform.
    pub(super) fn written_by(executables: &[Executable]) -> anyhow::Result<Self> {
        let Some(program) = executables.iter().find_map(|executable| executable.runs_here.as_deref()) else {
            bail!("no executable is for this machine, and archives have the man pages that it writes; add one");
        };
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let mut command = Command::new(program);
        output(command.arg("man").arg(folder.path()))?;
        let mut extras = Vec::new();
        for page in fs::read_dir(folder.path())? {
            let page = page?;
            extras.push((format!("man/{}", page.file_name().to_string_lossy()), fs::read(page.path())?));
        }
        for (shell, name) in COMPLETIONS {
            extras.push((format!("completions/{name}"), output(Command::new(program).args(["completions", shell]))?));
        }
        extras.sort();
        Ok(Self(extras))
    }
}

/// The archive with this executable.
pub(super) fn archive(release: Release<'_>, executable: &Executable, extras: &Extras) -> anyhow::Result<Made> {
    let folder = format!("forgefs-{}-{}", release.version, executable.platform.target());
    let mut tarball = Tarball::new();
    tarball.program(&format!("{folder}/forgefs"), &executable.content)?;
    for name in LICENSES.into_iter().chain(["README.md", "CHANGELOG.md", "forge.toml.example"]) {
        tarball.file(&format!("{folder}/{name}"), &release.file(name)?)?;
    }
    for (path, text) in &extras.0 {
        tarball.file(&format!("{folder}/{path}"), text)?;
    }
    Ok(Made { name: format!("{folder}.tar.gz"), content: tarball.finish()? })
}

fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("{shown} cannot be started"))?;
    ensure!(output.status.success(), "{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
