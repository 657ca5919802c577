//! Finds others who can write the configuration, the program or the reviewed stubs: servers whose roots contain them,
//! and other users by permissions.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Config, Credential, DocumentPlace, Place, Source, Transport};

/// Writable files that control this gateway; one line each, for the operator.
pub fn exposures(config: &Config, executable: Option<&Path>) -> Vec<String> {
    let guarded = [
        ("the configuration", config.path.as_deref()),
        ("the program", executable),
        ("the reviewed stubs", config.manifest.pin.as_deref()),
        ("the skills", config.skills.as_deref()),
    ];
    let documents = config.servers.iter().filter_map(|(name, server)| match &server.transport {
        Transport::OpenApi { document: DocumentPlace::File(path), .. } if server.enabled => {
            Some((format!("the OpenAPI document of `{name}`"), path.as_path()))
        }
        _ => None,
    });
    let mut programs = Vec::new();
    for (name, hook) in &config.hooks {
        if let Transport::Stdio { command, args, .. } = &hook.transport {
            let words = [command].into_iter().chain(args).map(Path::new).filter(|word| word.is_absolute());
            programs.extend(words.map(|path| (format!("the program of the hook `{name}`"), path)));
        }
    }
    let guarded = guarded.into_iter().filter_map(|(what, path)| Some((what.to_owned(), path?)));
    let mut found = Vec::new();
    for (what, path) in guarded.chain(documents).chain(programs) {
        let what = what.as_str();
        let Ok(real) = fs::canonicalize(path) else { continue };
        by_servers(config, what, &real, &mut found);
        by_others(what, &real, &mut found);
        // A link can be replaced at its own path.
        match std::path::absolute(path) {
            Ok(named) if named != real => by_others(what, &named, &mut found),
            _ => {}
        }
    }
    secrets(config, &mut found);
    found.dedup();
    found
}

/// Secrets in files that others can read, and programs that print them and that others can replace.
fn secrets(config: &Config, found: &mut Vec<String>) {
    let enabled = config.servers.values().filter(|server| server.enabled);
    let telemetry = config.telemetry.iter().flat_map(|telemetry| telemetry.headers.values());
    let hooks = config.hooks.values().flat_map(|hook| hook.transport.credentials());
    let logins = config.servers.values().filter_map(|server| server.auth.as_ref()?.sealing.as_deref());
    let sealing = logins.take(1).flat_map(|sealing| sealing.before.iter().chain([&sealing.key]));
    let given = enabled.flat_map(|server| server.credentials()).chain(telemetry).chain(hooks).chain(sealing);
    let sources = given.filter_map(Credential::source);
    for Source { key, place, .. } in sources {
        match place {
            Place::File(path) => readable(&format!("the secret of `{key}`"), path, found),
            Place::Command(words) => {
                let program = words.iter().map(Path::new).filter(|word| word.is_absolute());
                program.for_each(|path| by_others(&format!("the program of `{key}`"), path, found));
            }
            Place::Keyring(_) => {}
        }
    }
    config.http.tls.iter().for_each(|tls| readable("the key of `http.tls_key`", &tls.key, found));
    config.env_files.iter().for_each(|path| readable("a file of `env_files`", path, found));
}

/// A file that every user can read.
fn readable(what: &str, file: &Path, found: &mut Vec<String>) {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(file) = fs::canonicalize(file) else { return };
    let has = |path: &Path, bits: u32| fs::metadata(path).is_ok_and(|metadata| metadata.mode() & bits != 0);
    if file.is_file() && has(&file, 0o004) && file.ancestors().skip(1).all(|folder| has(folder, 0o001)) {
        found.push(format!("{what} can be read by every user: chmod 600 {}", file.display()));
    }
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
