//! Finds others who can write the configuration, the program or the reviewed stubs: servers whose roots contain them,
//! and other users by permissions.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Config, Transport};

/// Writable files that control this gateway; one line each, for the operator.
#[must_use]
pub fn exposures(config: &Config, executable: Option<&Path>) -> Vec<String> {
    let guarded = [
        ("the configuration", config.path.as_deref()),
        ("the program", executable),
        ("the reviewed stubs", config.manifest.pin.as_deref()),
        ("the skills", config.skills.as_deref()),
    ];
    let mut found = Vec::new();
    for (what, path) in guarded.into_iter().filter_map(|(what, path)| Some((what, path?))) {
        let Ok(real) = fs::canonicalize(path) else { continue };
        by_servers(config, what, &real, &mut found);
        by_others(what, &real, &mut found);
        // A link can be replaced at its own path.
        match std::path::absolute(path) {
            Ok(named) if named != real => by_others(what, &named, &mut found),
            _ => {}
        }
    }
    found.dedup();
    found
}

/// Servers with a folder that contains `file`.
fn by_servers(config: &Config, what: &str, file: &Path, found: &mut Vec<String>) {
    for (name, server) in config.servers.iter().filter(|(_, server)| server.enabled) {
        let Transport::Stdio { args, cwd, .. } = &server.transport else { continue };
        if let Some(sandbox) = &server.sandbox {
            let holds = |path: &&PathBuf| fs::canonicalize(path).is_ok_and(|path| file.starts_with(path));
            if let Some(path) = sandbox.write.iter().chain(&sandbox.named).find(holds) {
                found.push(format!("server `{name}` can write {what}: its `sandbox` has {}", path.display()));
            }
            continue;
        }
        let holds = |path: &Path| {
            let path = cwd.as_ref().map_or_else(|| path.to_owned(), |cwd| cwd.join(path));
            fs::canonicalize(path).is_ok_and(|path| file.starts_with(path))
        };
        let roots = args.iter().flat_map(|arg| [Some(arg.as_str()), arg.split_once('=').map(|(_, value)| value)]);
        let root = roots.flatten().find(|root| !root.is_empty() && holds(Path::new(root)));
        let root = root.map(|root| format!("its argument `{root}`"));
        let cwd = || cwd.as_deref().filter(|_| holds(Path::new(""))).map(|_| "its `cwd`".to_owned());
        if let Some(root) = root.or_else(cwd) {
            let file = file.display();
            found.push(format!("server `{name}` can perhaps write {what}: {root} holds {file}"));
        }
    }
}

/// Other users who can write `file`, or replace it in a parent folder.
#[cfg(unix)]
fn by_others(what: &str, file: &Path, found: &mut Vec<String>) {
    use std::os::unix::fs::MetadataExt as _;
    const STICKY: u32 = 0o1000;
    let own = |uid: u32| uid == 0 || uid == nix::unistd::geteuid().as_raw();
    let mut below: Option<u32> = None;
    for path in file.ancestors().map(PathBuf::from) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { return };
        let is_sticky = metadata.mode() & STICKY != 0 && below.is_some_and(own);
        let who = match metadata.mode() {
            _ if metadata.is_symlink() => None,
            _ if !own(metadata.uid()) => Some("another user, who owns it"),
            mode if mode & 0o002 != 0 && !is_sticky => Some("every user"),
            mode if mode & 0o020 != 0 && !is_sticky => Some("its group"),
            _ => None,
        };
        if let Some(who) = who {
            found.push(format!("{what} can be changed by others: {} is writable by {who}", path.display()));
        }
        below = Some(metadata.uid());
    }
}

#[cfg(not(unix))]
fn by_others(_: &str, _: &Path, _: &mut Vec<String>) {}
