//! Installs what a launcher would start, before the server is confined: with the network, and no file but its own folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use confine::server::{GO, Rules};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

use super::launcher::{Launcher, Registry, npm_name};
use super::paths::Folders;
use super::program::{Found, look_up, resolve};
use super::{Server, apply, dead, helper, own_command, system};
use base::error::Error;
use base::files::{self, Keep};
use base::text::head;
use config::INHERITED;

/// Timeout of an installation. `connect_timeout` bounds it too.
const INSTALL: Duration = Duration::from_secs(300);
/// Interval of attempts while another gateway installs the same.
const BUSY: Duration = Duration::from_millis(200);
/// Most bytes of a package's description.
const MAX_PACKAGE: u64 = 1 << 20;
/// Written once everything is installed.
const DONE: &str = ".installed";

/// Installs the program, unless it is installed, and returns it with its arguments.
pub(super) async fn install(server: &Server<'_>, launcher: &Launcher) -> Result<(String, Vec<String>), Error> {
    let folder = folder(server, launcher)?;
    let unusable = |error| of_path(&folder, error);
    files::make_private_folder(&folder).map_err(unusable)?;
    let folder = fs::canonicalize(&folder).map_err(unusable)?;
    let installed = async {
        let _lock = lock(&folder).await?;
        if launcher.is_newest() || !folder.join(DONE).is_file() {
            let what = format!("installing {} into {}", launcher.packages.join(" "), folder.display());
            server.stderr.said(server.name, &what);
            let _ = fs::remove_file(folder.join(DONE));
            run(server, launcher, &folder).await?;
            // The package may have laid a link in its place.
            let done = launcher.packages.join("\n");
            files::replace(&folder.join(DONE), done.as_bytes(), Keep::Cached).map_err(unusable)?;
        }
        program(launcher, &folder)
    };
    let program = match tokio::time::timeout(INSTALL, installed).await {
        Ok(program) => program?,
        Err(_) => {
            return Err(dead(format!("{} was not installed within {INSTALL:?}", launcher.packages.join(" "))));
        }
    };
    let program = program.into_os_string().into_string();
    Ok((program.map_err(|path| dead(format!("{} is no valid text", path.display())))?, launcher.args.clone()))
}

fn of_path(path: &Path, error: std::io::Error) -> Error {
    dead(path.display().to_string()).caused_by(error)
}

/// The folder of an installation, by what is installed.
fn folder(server: &Server<'_>, launcher: &Launcher) -> Result<PathBuf, Error> {
    let absolute = |name: &str| server.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| dead("there is no folder to install into").hint("set HOME or XDG_CACHE_HOME"))?;
    let what = format!("{:?} {:?} {:?} {:?}", launcher.registry, launcher.packages, launcher.program, launcher.python);
    Ok(cache.join("forgefs/servers").join(head(&stubgen::digest(what), 16)))
}

/// Waits until no other process installs there.
async fn lock(folder: &Path) -> Result<fs::File, Error> {
    let path = folder.join(".lock");
    let unusable = |error| of_path(&path, error);
    let file = files::open_lock(&path).map_err(unusable)?;
    while !files::try_lock(&file).map_err(unusable)? {
        tokio::time::sleep(BUSY).await;
    }
    Ok(file)
}

/// Runs the installer, confined to the folder.
async fn run(server: &Server<'_>, launcher: &Launcher, folder: &Path) -> Result<(), Error> {
    let installer = match launcher.registry {
        Registry::Npm => "npm",
        Registry::PyPi => "uv",
    };
    let missing = |error: Error| {
        error
            .context(format_args!("`{}` is installed by `{installer}` when it is confined", launcher.packages[0]))
            .hint(format!("install {installer}, or install the server yourself and name its program as `command`"))
    };
    let home = server.env.get("HOME").map(PathBuf::from);
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let mut env = environment(server);
    let mut set = |name: &str, value: &Path| drop(env.insert(name.to_owned(), value.as_os_str().to_owned()));
    // A cache of its own: what another package has put into a common one would be trusted.
    let mut read = Vec::new();
    let (args, python): (Vec<String>, Option<Found>) = match launcher.registry {
        Registry::Npm => {
            set("npm_config_cache", &folder.join("cache"));
            read.extend(in_home(".npmrc"));
            let options =
                "install --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --prefix";
            let mut args: Vec<String> = options.split(' ').map(str::to_owned).collect();
            args.extend([folder.to_string_lossy().into_owned(), "--".to_owned()]);
            (args, None)
        }
        Registry::PyPi => {
            set("UV_CACHE_DIR", &folder.join("cache"));
            set("UV_TOOL_DIR", &folder.join("tools"));
            set("UV_TOOL_BIN_DIR", &folder.join("bin"));
            set("UV_PYTHON_DOWNLOADS", Path::new("never"));
            set("UV_NO_PROGRESS", Path::new("1"));
            // uv would otherwise hard-link or warn.
            set("UV_LINK_MODE", Path::new("copy"));
            read.extend([in_home(".config/uv"), in_home(".local/share/uv/python")].into_iter().flatten());
            let python = match &launcher.python {
                Some(_) => None,
                None => Box::pin(resolve(server, "python3".to_owned(), Vec::new())).await.ok(),
            };
            let asked = launcher.python.clone();
            let asked = asked.or_else(|| Some(python.as_ref()?.program.to_string_lossy().into_owned()));
            let mut args: Vec<String> = ["tool", "install", "--force"].map(str::to_owned).into();
            args.extend(asked.into_iter().flat_map(|python| ["--python".to_owned(), python]));
            args.extend(launcher.packages[1..].iter().flat_map(|more| ["--with".to_owned(), more.clone()]));
            args.push("--".to_owned());
            (args, python)
        }
    };
    let packages = match launcher.registry {
        Registry::Npm => launcher.packages.as_slice(),
        Registry::PyPi => &launcher.packages[..1],
    };
    let args = args.into_iter().chain(packages.iter().cloned()).collect();
    look_up(server, installer).map_err(missing)?;
    let found = Box::pin(resolve(server, installer.to_owned(), args)).await.map_err(missing)?;
    let read = read.into_iter().filter(|path| path.exists()).chain(super::certificates(&env)).collect();
    let folders = Folders { read, write: [folder.to_owned()].into(), named: Default::default() };
    let grants = found.grants.into_iter().chain(python.into_iter().flat_map(|python| python.grants)).collect();
    let granted = folders.with(grants, &found.scripts)?;
    let rules = Rules {
        read: [system::readable(), granted.read].concat(),
        write: granted.write,
        devices: system::devices(),
        network: true,
        watch: true,
        modes: true,
        data: None,
        temporary: None,
    };
    let mut command = own_command(&found.program, &found.args);
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).map_err(|error| of_path(&temporary, error))?;
    command.env_clear().envs(env).envs(super::TEMPORARY.map(|name| (name, &temporary))).current_dir(folder);
    let mut child = helper::start(command).await?;
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) = child.pipes() else {
        return Err(dead(format!("{installer} has no pipes")));
    };
    let layers = apply(&mut stdin, &mut stdout, &rules).await?;
    for layer in layers.iter().filter(|layer| !layer.active) {
        let what = format!("{installer} is not confined by {}: {}", layer.name, layer.detail);
        server.stderr.said(server.name, &what);
    }
    let started = stdin.write_all(&[GO]).await;
    drop(stdin);
    let (_, said) = tokio::join!(helper::follow(stdout, server), helper::follow(stderr, server));
    let (ended, said) = (child.wait().await, head(&said, 300));
    let _ = fs::remove_dir_all(&temporary);
    match started.and(ended) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(dead(format!("{installer} did not install {} ({status}): {said}", packages.join(" ")))),
        Err(error) => Err(dead(installer).caused_by(error)),
    }
}

/// The server's variables that are an installer's too. It has the network, and builds of packages run in it: what is meant
/// for the server alone stays away from them.
fn environment(server: &Server<'_>) -> BTreeMap<String, OsString> {
    let is_setting = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["npm_config_", "uv_", "pip_"].iter().any(|start| name.starts_with(start)) || name.ends_with("_proxy")
    };
    let is_meant = |name: &str| INHERITED.contains(&name) || super::CERTIFICATES.contains(&name) || is_setting(name);
    server.env.iter().filter(|(name, _)| is_meant(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The installed program.
fn program(launcher: &Launcher, folder: &Path) -> Result<PathBuf, Error> {
    let package = &launcher.packages[0];
    let path = match (launcher.registry, &launcher.program) {
        (Registry::PyPi, Some(name)) => folder.join("bin").join(name),
        (Registry::PyPi, None) => folder.join("bin").join(package),
        (Registry::Npm, Some(name)) => folder.join("node_modules/.bin").join(name),
        (Registry::Npm, None) => folder.join("node_modules/.bin").join(npm_program(folder, package)?),
    };
    match path.is_file() {
        true => Ok(path),
        false => Err(dead(format!("{package} has no program {}", path.display()))),
    }
}

/// Name of the only program of a package, or of the one that has its name.
fn npm_program(folder: &Path, package: &str) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Package {
        bin: Option<Programs>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Programs {
        Several(BTreeMap<String, String>),
        One(serde::de::IgnoredAny),
    }

    let name = npm_name(package);
    let file = folder.join("node_modules").join(name).join("package.json");
    let text = files::read_regular(&file, MAX_PACKAGE);
    let text = text.map_err(|error| of_path(&file, error))?;
    let limit = usize::try_from(MAX_PACKAGE).unwrap_or(usize::MAX);
    let read = base::json::parse::<Package>(&text, limit).ok().and_then(|package| package.bin);
    let own = name.rsplit('/').next().unwrap_or(name);
    let found = match read {
        Some(Programs::One(_)) => Some(own.to_owned()),
        Some(Programs::Several(all)) if all.len() == 1 => all.into_keys().next(),
        Some(Programs::Several(all)) => all.into_keys().find(|program| program == own),
        None => None,
    };
    let is_plain = |program: &String| !program.contains('/') && !program.starts_with('.');
    found.filter(is_plain).ok_or_else(|| {
        dead(format!("{package} has not one program that could be meant"))
            .hint("name it: `npx --package=PACKAGE PROGRAM`")
    })
}
