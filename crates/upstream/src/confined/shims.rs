//! Shims: scripts and links in `PATH` that choose a version of a program when they run. The manager that made one is asked
//! before the server is confined, since the shim would need the manager's files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::{Server, dead, helper};
use base::error::Error;
use base::files;

/// Most bytes of a shim.
const MAX_SHIM: u64 = 4_096;
/// Timeout for the answer of a manager.
const ANSWER: Duration = Duration::from_secs(10);
/// Managers whose shims are scripts that execute them.
const BY_SCRIPT: [&str; 7] = ["pyenv", "rbenv", "nodenv", "goenv", "jenv", "asdf", "mise"];
/// Names of the executables that managers link their shims to.
const BY_LINK: [(&str, &str); 3] = [("volta-shim", "volta"), ("mise", "mise"), ("asdf", "asdf")];

/// A shim of a manager.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shim {
    manager: &'static str,
    /// Where the manager keeps its versions, as the shim would tell it.
    root: PathBuf,
    /// Places of the manager, beside `PATH`.
    beside: Vec<PathBuf>,
    name: String,
}

/// The shim at a path, if it is one.
pub(super) fn of(path: &Path) -> Option<Shim> {
    let name = path.file_name()?.to_str()?.to_owned();
    let folder = path.parent()?;
    let real = std::fs::canonicalize(path).ok()?;
    let target = real.file_name()?.to_str()?;
    let root = folder.parent().unwrap_or(folder);
    if target != name
        && let Some((_, manager)) = BY_LINK.iter().find(|(shim, _)| *shim == target)
    {
        let beside = vec![real.with_file_name(manager), root.join("bin").join(manager)];
        return Some(Shim { manager, root: root.to_owned(), beside, name });
    }
    if folder.file_name()? != "shims" {
        return None;
    }
    let text = files::read_text(&real, MAX_SHIM).ok().filter(|text| text.starts_with("#!"))?;
    let manager = BY_SCRIPT
        .into_iter()
        .find(|manager| text.lines().any(|line| line.trim_start().starts_with("exec ") && line.contains(manager)))?;
    let beside = vec![root.join("bin").join(manager), root.join("libexec").join(manager)];
    Some(Shim { manager, root: root.to_owned(), beside, name })
}

impl Shim {
    /// The program that the shim would start for this server.
    pub(super) async fn ask(&self, server: &Server<'_>) -> Result<PathBuf, Error> {
        let Self { manager, root, beside, name } = self;
        let known = beside.iter().find(|path| path.is_file());
        let manager_path = known.cloned().unwrap_or_else(|| PathBuf::from(manager));
        let mut command = Command::new(&manager_path);
        command.args(["which", name]).env_clear().envs(&server.env);
        match *manager {
            "asdf" => drop(command.env("ASDF_DATA_DIR", root)),
            manager if manager.ends_with("env") => drop(command.env(format!("{}_ROOT", manager.to_uppercase()), root)),
            _ => {}
        }
        if let Some(cwd) = server.cwd {
            command.current_dir(cwd);
        }
        let hint = || format!("name the program itself in `command`: `{manager} which {name}` prints its path");
        let answer = helper::ask(command, ANSWER).await.map_err(|error| error.hint(hint()))?;
        let path = PathBuf::from(&answer);
        if !path.is_absolute() || of(&path).is_some() {
            return Err(dead(format!("`{manager} which {name}` answered `{answer}`")).hint(hint()));
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn shims_are_told_from_programs() {
        let home = tempfile::tempdir().expect("a folder");
        let (shims, bin) = (home.path().join("shims"), home.path().join("bin"));
        fs::create_dir(&shims).expect("made");
        fs::create_dir(&bin).expect("made");
        fs::write(bin.join("volta-shim"), "\x7fELF").expect("written");
        let pyenv = "#!/usr/bin/env bash\nset -e\nexec \"/root/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n";
        for (name, text) in [("python3", pyenv), ("node", "#!/bin/sh\nexec asdf exec \"node\" \"$@\"\n")] {
            fs::write(shims.join(name), text).expect("written");
            fs::write(bin.join(name), text).expect("written");
            let shim = of(&shims.join(name)).expect("a shim");
            assert_eq!(shim.name, name);
            assert_eq!(of(&bin.join(name)), None, "not in a folder of shims");
        }
        symlink(bin.join("volta-shim"), bin.join("npm")).expect("linked");
        assert_eq!(of(&bin.join("npm")).map(|shim| shim.manager), Some("volta"));
        fs::write(shims.join("own"), "#!/bin/sh\nexec /opt/own/server\n").expect("written");
        assert_eq!(of(&shims.join("own")), None);
        assert_eq!(of(&shims.join("missing")), None);
    }
}
