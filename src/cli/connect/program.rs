//! The command that a client's file names: this executable, by a path that lasts.

use std::path::{Path, PathBuf};

use crate::cli::Failure;

/// Command that starts this executable, as text for a client's file, and its first arguments: npx or uvx if it is in their
/// cache, which may be emptied at any time; else its absolute path, and of several the one that the next version has too.
pub(super) fn program() -> Result<(String, Vec<String>), Failure> {
    let path = std::env::current_exe().map_err(|error| Failure::internal(format!("this executable: {error}")))?;
    if !path.exists() {
        return Err(Failure::internal(format!("this executable was replaced: {} is gone", path.display())));
    }
    Ok(match launcher(&path) {
        Some((launcher, args)) => (launcher.to_owned(), args.iter().map(|arg| (*arg).to_owned()).collect()),
        None => (text(&lasting(&path).unwrap_or(path))?, Vec::new()),
    })
}

/// The path by which the shell finds this executable on PATH, or by which it was started, with links as they are: they lead
/// to the next version too.
fn lasting(executable: &Path) -> Option<PathBuf> {
    let real = executable.canonicalize().ok()?;
    let name = Path::new("forgefs").with_extension(std::env::consts::EXE_EXTENSION);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&folders).map(|folder| folder.join(&name)).find(|path| path.is_file());
    let started = std::env::args_os().next().map(PathBuf::from).filter(|path| path.components().count() > 1);
    let paths = [on_path, started.and_then(|path| std::path::absolute(path).ok())];
    paths.into_iter().flatten().find(|path| path.is_absolute() && path.canonicalize().ok().as_ref() == Some(&real))
}

/// The command that installed an executable into a cache, and its arguments.
fn launcher(executable: &Path) -> Option<(&'static str, &'static [&'static str])> {
    let parts: Vec<_> = executable.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let is_uv =
        |pair: &[&str]| pair[0] == "uv" && (pair[1].starts_with("archive-v") || pair[1].starts_with("environments-v"));
    if parts.contains(&"_npx") {
        Some(("npx", &["-y", "forgefs"]))
    } else if parts.windows(2).any(is_uv) {
        Some(("uvx", &["forgefs"]))
    } else {
        None
    }
}

/// Arguments of the gateway. The configuration is always named: a client may start it in a folder that has a `forge.toml`
/// of its own, whose servers would be started.
pub(super) fn serve(config: Option<&Path>) -> Result<Vec<String>, Failure> {
    let named = config.map(text).transpose()?.map(|config| ["--config".to_owned(), config]);
    Ok(["serve".to_owned()].into_iter().chain(named.into_iter().flatten()).collect())
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: not UTF-8, which a client's file must be", path.display())))
}
