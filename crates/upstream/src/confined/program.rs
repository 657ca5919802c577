//! Finds the program that a command starts in the end, and what it needs to read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::launcher::{self, Launcher};
use super::paths::{self, Grant};
use super::{Server, dead, install, shims, system};
use base::error::Error;
use base::files;

/// Most interpreters and shims on the way to a program.
const MAX_STEPS: usize = 8;
/// Most bytes of the head of a script, and of `pyvenv.cfg`.
const MAX_HEAD: u64 = 1_024;
const MAX_TEXT: u64 = 64 << 10;
/// Levels of folders above a script in which its package is looked for.
const MAX_ABOVE: usize = 8;
/// Files that make a folder a package.
const PACKAGES: [&str; 6] =
    ["package.json", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "deno.json"];
/// Options whose value is a file of the program too.
const LOADED: [&str; 5] = ["-r", "--require", "--import", "--loader", "-jar"];
/// Interpreters of scripts, without their versions.
const INTERPRETERS: [&str; 10] = ["python", "pypy", "node", "nodejs", "deno", "bun", "ruby", "perl", "php", "java"];
/// Options after which an interpreter has no script in a file.
const NO_SCRIPT: [&str; 6] = ["-m", "-c", "-e", "--eval", "-p", "-"];

/// A program as it is started.
pub(super) struct Found {
    /// Its path. Not the real one: Python finds its environment by it.
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    /// Paths that it needs to read.
    pub(super) grants: Vec<Grant>,
    /// Real paths of its scripts.
    pub(super) scripts: BTreeSet<PathBuf>,
}

/// Finds the program of a server, and installs it if a launcher would.
pub(super) async fn find(server: &Server<'_>) -> Result<Found, Error> {
    match launcher::of(server.command, server.args)? {
        Some(launcher) => {
            let (program, args) = install::install(server, &launcher).await?;
            resolve(server, program, args).await
        }
        None => resolve(server, server.command.to_owned(), server.args.to_vec()).await,
    }
}

/// Follows a command through shims and the first lines of scripts.
pub(super) async fn resolve(server: &Server<'_>, mut command: String, mut args: Vec<String>) -> Result<Found, Error> {
    let mut search = Search { home: home(server), grants: Vec::new(), scripts: BTreeSet::new() };
    let mut because = Vec::new();
    for _ in 0..MAX_STEPS {
        let mut program = look_up(server, &command)?;
        if let Some(shim) = shims::of(&program) {
            program = shim.ask(server).await?;
        }
        let real = search.add(&program, &because)?;
        because.extend(real.links.iter().cloned());
        let head = head(&real.path)?;
        let Some(line) = interpreter(&head) else {
            search.program(&program, &real.path, &because);
            if is_interpreter(&real.path) {
                search.scripts_of(server, &args)?;
            }
            let Search { grants, scripts, .. } = search;
            return Ok(Found { program, args, grants, scripts });
        };
        because.push(real.path.clone());
        search.script(&program, &real.path, &because);
        let script = program.into_os_string().into_string();
        let script = script.map_err(|path| dead(format!("{} is no valid text", path.display())))?;
        let mut before = line.args;
        before.push(script);
        args.splice(0..0, before);
        command = line.program;
        if let Some(Launcher { word, .. }) = launcher::of(&command, &[]).ok().flatten() {
            return Err(dead(format!("its script is run by the launcher `{word}`"))
                .hint("install what the script needs, and name its interpreter as `command`"));
        }
    }
    Err(dead(format!("`{}` leads through more than {MAX_STEPS} scripts", server.command)))
}

/// Interpreter in the first line of a script.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    program: String,
    args: Vec<String>,
}

/// The interpreter that the head of a file names.
fn interpreter(head: &[u8]) -> Option<Line> {
    let text = String::from_utf8_lossy(head.strip_prefix(b"#!")?).into_owned();
    let mut lines = text.lines();
    let first = lines.next()?.trim();
    let (program, arg) =
        first.split_once(char::is_whitespace).map_or((first, ""), |(program, arg)| (program, arg.trim()));
    // Installers of Python write this where the path is too long for a first line.
    if let Some(rest) = lines.next().and_then(|line| line.strip_prefix("'''exec' ")) {
        let program = match rest.strip_prefix('"') {
            Some(rest) => rest.split('"').next(),
            None => rest.split(' ').next(),
        };
        return Some(Line { program: program?.to_owned(), args: Vec::new() });
    }
    if Path::new(program).file_name().is_some_and(|name| name == "env") {
        // Variables and options of `env` come first.
        let mut words = arg.split_whitespace().skip_while(|word| word.starts_with('-') || word.contains('='));
        let program = words.next()?.to_owned();
        return Some(Line { program, args: words.map(str::to_owned).collect() });
    }
    let args = Some(arg).filter(|arg| !arg.is_empty()).map(str::to_owned).into_iter().collect();
    (!program.is_empty()).then(|| Line { program: program.to_owned(), args })
}

/// Reads the first bytes of a program, which may be one that only may be executed.
fn head(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| dead(format!("`{}`", path.display())).caused_by(error);
    let mut options = std::fs::OpenOptions::new();
    let (file, _) = match files::open_regular(path, options.read(true)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        opened => opened.map_err(failed)?,
    };
    let mut head = Vec::new();
    file.take(MAX_HEAD).read_to_end(&mut head).map_err(failed)?;
    Ok(head)
}

/// The absolute path of a command: below the working directory if it has a separator, else in `PATH`.
pub(super) fn look_up(server: &Server<'_>, command: &str) -> Result<PathBuf, Error> {
    if command.contains('/') {
        return Ok(folder(server).join(command));
    }
    let path = server.env.get("PATH").cloned().unwrap_or_default();
    let candidates = std::env::split_paths(&path).map(|place| folder(server).join(place).join(command));
    candidates.into_iter().find(|path| is_program(path)).ok_or_else(|| {
        dead(format!("`{command}` is not in PATH"))
            .hint(format!("is `{command}` installed and on PATH? An absolute path in `command` works too"))
    })
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The working directory of the server.
fn folder(server: &Server<'_>) -> PathBuf {
    server.cwd.map(Path::to_owned).or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| "/".into())
}

fn home(server: &Server<'_>) -> Option<PathBuf> {
    let home = PathBuf::from(server.env.get("HOME")?);
    std::fs::canonicalize(home).ok()
}

/// True for an interpreter of scripts.
fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&name)
}

struct Search {
    home: Option<PathBuf>,
    grants: Vec<Grant>,
    scripts: BTreeSet<PathBuf>,
}

impl Search {
    /// Adds a file or folder, and where it really is.
    fn add(&mut self, path: &Path, because: &[PathBuf]) -> Result<paths::Real, Error> {
        let real = paths::resolve(path).map_err(|error| {
            dead(format!("`{}`", path.display())).caused_by(error).hint("is the program installed?")
        })?;
        let because = [because, &real.links].concat();
        self.grants.push(Grant { path: real.path.clone(), because });
        Ok(real)
    }

    /// Adds a folder if it exists, and is not one of the user's own.
    fn folder(&mut self, path: &Path, because: &[PathBuf]) {
        let Ok(real) = paths::resolve(path) else { return };
        if real.path.is_dir() && !self.is_personal(&real.path) {
            let because = [because, &real.links].concat();
            self.grants.push(Grant { path: real.path, because });
        }
    }

    /// True for the home folder, what contains it, and its hidden folders, such as `~/.local` and `~/.cargo`: they hold much
    /// besides programs.
    fn is_personal(&self, folder: &Path) -> bool {
        let Some(home) = &self.home else { return folder == Path::new("/") };
        let is_hidden = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        home.starts_with(folder) || folder.parent() == Some(home) && is_hidden
    }

    /// Adds what belongs to an executable.
    fn program(&mut self, path: &Path, real: &Path, because: &[PathBuf]) {
        for path in [path, real] {
            self.environment(path, because);
            self.modules(path, because);
        }
        let Some(bin) = real.parent().filter(|bin| bin.file_name().is_some_and(|name| name == "bin")) else { return };
        let Some(prefix) = bin.parent() else { return };
        if is_interpreter(real) {
            self.prefix(prefix, because);
        } else {
            self.folder(&prefix.join("lib"), because);
        }
    }

    /// Adds the installation of an interpreter.
    fn prefix(&mut self, prefix: &Path, because: &[PathBuf]) {
        if self.is_personal(prefix) {
            self.folder(&prefix.join("lib"), because);
        } else {
            self.folder(prefix, because);
        }
    }

    /// Adds the virtual environment of Python that a program is in, and the Python below it.
    fn environment(&mut self, program: &Path, because: &[PathBuf]) {
        let Some(environment) = program.parent().and_then(Path::parent) else { return };
        let settings = environment.join("pyvenv.cfg");
        let Ok(text) = files::read_text(&settings, MAX_TEXT) else { return };
        self.folder(environment, because);
        let Ok(settings) = paths::resolve(&settings) else { return };
        let because = [because, &settings.links, &[settings.path]].concat();
        let home = text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "home").then(|| PathBuf::from(value.trim()))
        });
        if let Some(bin) = home.filter(|home| home.is_absolute()).and_then(|home| paths::resolve(&home).ok()) {
            let because = [because.as_slice(), &bin.links].concat();
            if let Some(prefix) = bin.path.parent() {
                self.prefix(prefix, &because);
            }
        }
        // The link that the environment has instead of a Python of its own.
        for name in ["python", "python3"] {
            if let Ok(python) = paths::resolve(&environment.join("bin").join(name)) {
                let because = [because.as_slice(), &python.links].concat();
                if let Some(prefix) = python.path.parent().and_then(Path::parent) {
                    self.prefix(prefix, &because);
                }
                self.grants.push(Grant { path: python.path, because });
            }
        }
    }

    /// Adds the outermost `node_modules` that a program is in: packages use those beside them.
    fn modules(&mut self, program: &Path, because: &[PathBuf]) {
        let modules =
            program.ancestors().filter(|folder| folder.file_name().is_some_and(|name| name == "node_modules"));
        if let Some(modules) = modules.last() {
            self.folder(modules, because);
        }
    }

    /// Adds what belongs to a script.
    fn script(&mut self, path: &Path, real: &Path, because: &[PathBuf]) {
        self.scripts.insert(real.to_owned());
        for path in [path, real] {
            self.environment(path, because);
            self.modules(path, because);
        }
        let is_system = system::readable().iter().any(|known| real.starts_with(known));
        if is_system || real.components().any(|part| part.as_os_str() == "node_modules") {
            return;
        }
        let above = real.ancestors().skip(1).take(MAX_ABOVE).take_while(|folder| !self.is_personal(folder));
        let folders: Vec<PathBuf> = above.map(Path::to_owned).collect();
        let package = folders.iter().position(|folder| PACKAGES.iter().any(|name| folder.join(name).is_file()));
        if let Some(package) = package {
            self.folder(&folders[package], because);
        }
        for folder in &folders[package.unwrap_or_default()..] {
            self.folder(&folder.join("node_modules"), because);
        }
    }

    /// Adds the scripts among the arguments of an interpreter: the first that is a file, and what options load.
    fn scripts_of(&mut self, server: &Server<'_>, args: &[String]) -> Result<(), Error> {
        let mut is_loaded = false;
        for arg in args {
            if NO_SCRIPT.contains(&arg.as_str()) {
                break;
            }
            let path = folder(server).join(arg);
            if !arg.starts_with('-') && path.is_file() {
                let real = self.add(&path, &[])?;
                self.script(&path, &real.path, &real.links);
                if !is_loaded {
                    break;
                }
            }
            is_loaded = LOADED.contains(&arg.as_str());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_read_from_its_head() {
        let line = |program: &str, args: &[&str]| {
            Some(Line { program: program.to_owned(), args: args.iter().map(|arg| (*arg).to_owned()).collect() })
        };
        for (head, expected) in [
            ("#!/bin/sh\nexec x", line("/bin/sh", &[])),
            ("#! /usr/bin/python3 -I -u \n", line("/usr/bin/python3", &["-I -u"])),
            ("#!/usr/bin/env node\r\nx", line("node", &[])),
            ("#!/usr/bin/env -S A=1 node --no-warnings\n", line("node", &["--no-warnings"])),
            ("#!/usr/bin/env\n", None),
            ("#!/bin/sh\n'''exec' \"/a long/bin/python\" \"$0\" \"$@\"\n' '''", line("/a long/bin/python", &[])),
            ("#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''", line("/long/bin/python", &[])),
            ("#!\n", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            assert_eq!(interpreter(head.as_bytes()), expected, "{head:?}");
        }
    }

    #[test]
    fn folders_of_the_user_are_not_installations() {
        let search = Search { home: Some("/home/me".into()), grants: Vec::new(), scripts: BTreeSet::new() };
        for (folder, is_personal) in [
            ("/", true),
            ("/home", true),
            ("/home/me", true),
            ("/home/me/.local", true),
            ("/home/me/.cargo", true),
            ("/home/me/.pyenv/versions/3.12.1", false),
            ("/home/me/miniconda3", false),
            ("/opt/node", false),
            ("/home/you/.local", false),
        ] {
            assert_eq!(search.is_personal(Path::new(folder)), is_personal, "{folder}");
        }
    }
}
