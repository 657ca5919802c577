//! Launchers: programs that install another one and start it.

use std::path::Path;

use super::dead;
use base::error::Error;

/// A command that installs a program before it starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launcher {
    /// Its name, as it is typed.
    pub(super) word: String,
    pub(super) registry: Registry,
    /// Packages to install; the first one has the program.
    pub(super) packages: Vec<String>,
    /// Name of the program; `None`: the package's own.
    pub(super) program: Option<String>,
    /// Python that is asked for.
    pub(super) python: Option<String>,
    /// Arguments of the program.
    pub(super) args: Vec<String>,
}

/// Where a launcher installs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    Npm,
    PyPi,
}

/// Commands of several words, and of one.
const LAUNCHERS: &[(&[&str], Registry)] = &[
    (&["npx"], Registry::Npm),
    (&["npm", "exec"], Registry::Npm),
    (&["npm", "x"], Registry::Npm),
    (&["pnpx"], Registry::Npm),
    (&["pnpm", "dlx"], Registry::Npm),
    (&["yarn", "dlx"], Registry::Npm),
    (&["bunx"], Registry::Npm),
    (&["bun", "x"], Registry::Npm),
    (&["uvx"], Registry::PyPi),
    (&["uv", "tool", "run"], Registry::PyPi),
    (&["uv", "x"], Registry::PyPi),
    (&["pipx", "run"], Registry::PyPi),
];
/// Launchers that cannot be taken apart, and what to write instead.
const OTHERS: &[(&[&str], &str)] = &[
    (&["uv", "run"], "name the program of the project's environment, such as \".venv/bin/NAME\", as `command`"),
    (
        &["poetry", "run"],
        "name the program of the project's environment as `command`: `poetry env info --path` shows it",
    ),
    (&["pipenv", "run"], "name the program of the project's environment as `command`: `pipenv --venv` shows it"),
    (&["hatch", "run"], "name the program of the project's environment as `command`"),
    (&["npm", "run"], "name what the script of package.json starts, such as `node` with the path of its file"),
    (&["npm", "start"], "name what the script of package.json starts, such as `node` with the path of its file"),
    (&["pnpm", "exec"], "name the program in `node_modules/.bin` as `command`"),
    (&["yarn", "run"], "name the program in `node_modules/.bin` as `command`"),
    (
        &["deno", "run"],
        "`deno run` installs while it runs: compile the server with `deno compile`, and name the result",
    ),
    (&["docker"], "the engine starts containers, not this process: confine the container (`--network none`, no `-v`)"),
    (&["podman"], "the engine starts containers, not this process: confine the container (`--network none`, no `-v`)"),
];
/// Other programs that install, build or start what has another name.
const STARTERS: &[&str] = &[
    "bash", "bazel", "bundle", "cabal", "cargo", "cmd", "conda", "dart", "dash", "deno", "devbox", "dnx", "dotnet",
    "fish", "go", "gradle", "gradlew", "jbang", "julia", "ksh", "kubectl", "make", "mamba", "micromamba", "mise",
    "mix", "mvn", "mvnw", "nerdctl", "nix", "nix-shell", "pdm", "pixi", "pnpm", "poetry", "powershell", "pwsh", "rye",
    "sbt", "sh", "ssh", "stack", "swift", "volta", "wsl", "yarn", "zsh",
];
/// Options of launchers that change nothing here.
const IGNORED: [&str; 8] = ["-y", "--yes", "-q", "--quiet", "-s", "--silent", "--no-progress", "--bun"];

/// True for a command that may install or build a program first, in silence: one of its words is a launcher or the like.
pub fn may_install(command: &str, args: &[String]) -> bool {
    let launchers = LAUNCHERS.iter().map(|(words, _)| words[0]).chain(OTHERS.iter().map(|(words, _)| words[0]));
    let known: Vec<&str> = launchers.chain(STARTERS.iter().copied()).collect();
    let words = [command].into_iter().chain(args.iter().flat_map(|arg| arg.split_whitespace()));
    let name = |word| Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    words.map(name).any(|name| known.contains(&name.trim_end_matches(".cmd").trim_end_matches(".exe")))
}

/// The launcher that a command is, if it is one.
pub(super) fn of(command: &str, args: &[String]) -> Result<Option<Launcher>, Error> {
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let starts = |words: &[&str]| {
        words[0] == name && args.len() + 1 >= words.len() && words[1..].iter().zip(args).all(|(word, arg)| word == arg)
    };
    if let Some((words, instead)) = OTHERS.iter().find(|(words, _)| starts(words)) {
        return Err(dead(format!("`{}` starts another program, which cannot be confined through it", words.join(" ")))
            .hint(*instead));
    }
    let Some((words, registry)) = LAUNCHERS.iter().find(|(words, _)| starts(words)) else { return Ok(None) };
    let word = words.join(" ");
    let rest = &args[(words.len() - 1).min(args.len())..];
    parse(word.clone(), *registry, rest).map(Some).map_err(|what| {
        let (install, program) = match registry {
            Registry::Npm => ("npm install PACKAGE", "node_modules/.bin/NAME"),
            Registry::PyPi => ("pip install PACKAGE", ".venv/bin/NAME"),
        };
        dead(format!("`{word}` cannot be confined as it is written: {what}")).hint(format!(
            "install the server (`{install}`), and name the program, such as \"{program}\", as `command`"
        ))
    })
}

fn parse(word: String, registry: Registry, args: &[String]) -> Result<Launcher, String> {
    let mut launcher = Launcher { word, registry, packages: Vec::new(), program: None, python: None, args: Vec::new() };
    let (mut extra, mut rest) = (Vec::new(), args.iter());
    let mut named = None;
    while let Some(arg) = rest.next() {
        let (option, inline) =
            arg.split_once('=').map_or((arg.as_str(), None), |(option, value)| (option, Some(value)));
        let mut value = || inline.map(str::to_owned).or_else(|| rest.next().cloned()).ok_or(format!("{option} what?"));
        match (registry, option) {
            (_, "--") => {}
            (_, option) if IGNORED.contains(&option) => {}
            (Registry::Npm, "-p" | "--package") | (Registry::PyPi, "--from" | "--spec") => {
                launcher.packages.push(value()?);
            }
            (Registry::PyPi, "--with") => extra.extend(value()?.split(',').map(|one| one.trim().to_owned())),
            (Registry::PyPi, "-p" | "--python") => launcher.python = Some(value()?),
            (_, option) if option.starts_with('-') => return Err(format!("the option {option} is not known here")),
            _ => {
                named = Some(arg.clone());
                break;
            }
        }
    }
    launcher.args = rest.cloned().collect();
    let named = named.ok_or("it names no package")?;
    if launcher.packages.is_empty() {
        launcher.program = (registry == Registry::PyPi).then(|| python_name(&named).to_owned());
        launcher.packages.push(if registry == Registry::PyPi { python_spec(&named) } else { named });
    } else {
        launcher.program = Some(named);
    }
    launcher.packages.extend(extra);
    for package in &launcher.packages {
        check(registry, package)?;
    }
    match &launcher.program {
        Some(program) if program.contains('/') || program.starts_with(['-', '.']) => {
            Err(format!("`{program}` is not the name of a program"))
        }
        _ => Ok(launcher),
    }
}

/// Refuses what is not a package of the registry by name, since it would be read from this machine or anywhere.
fn check(registry: Registry, package: &str) -> Result<(), String> {
    let scoped = package.strip_prefix('@').filter(|_| registry == Registry::Npm);
    let rest = match scoped {
        Some(scoped) => scoped.split_once('/').map_or("", |(_, rest)| rest),
        None => package,
    };
    let begins = package.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@');
    let elsewhere = rest.contains(['/', '\\', ':']) || rest.contains(char::is_whitespace);
    match !begins || elsewhere || rest.is_empty() {
        true => Err(format!("`{package}` is not a package of the registry by its name")),
        false => Ok(()),
    }
}

/// `name[extra]@version` as a requirement.
fn python_spec(named: &str) -> String {
    match named.split_once('@') {
        None | Some((_, "latest")) => named.split('@').next().unwrap_or_default().to_owned(),
        Some((name, version)) => format!("{name}=={version}"),
    }
}

/// The program of `name[extra]==version`.
fn python_name(named: &str) -> &str {
    named.split(['@', '[', '=', '<', '>', '~', '!', ';']).next().unwrap_or_default()
}

impl Launcher {
    /// True if it asks for whatever is the newest.
    pub(super) fn is_newest(&self) -> bool {
        self.packages.iter().any(|package| package.ends_with("@latest"))
    }
}

/// Name of an npm package without its version.
pub(super) fn npm_name(package: &str) -> &str {
    let version = package.char_indices().skip(1).find(|(_, c)| *c == '@');
    version.map_or(package, |(at, _)| &package[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Launcher>, Error> {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next().unwrap_or_default();
        of(&command, &words.collect::<Vec<_>>())
    }

    #[test]
    fn what_may_install_first_is_known_by_a_word() {
        for (line, expected) in [
            ("npx -y @m/server", true),
            ("C:/node/npx.cmd server", true),
            ("sh -c exec server", true),
            ("env A=b uvx server", true),
            ("/usr/bin/docker run -i image", true),
            ("./gradlew -q run", true),
            ("nix-shell -p server", true),
            ("ksh -c server", true),
            ("node server.js", false),
            ("/usr/bin/python3 -m server", false),
            ("/opt/npx-like/x", false),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap_or_default();
            assert_eq!(may_install(&command, &words.collect::<Vec<_>>()), expected, "{line}");
        }
    }

    #[test]
    fn launchers_are_taken_apart() {
        for (line, packages, program, args) in [
            ("npx -y @m/server@1.2 /data", &["@m/server@1.2"][..], None, "/data"),
            ("/usr/bin/npx server -y", &["server"], None, "-y"),
            ("npx --package=a -p b run x", &["a", "b"], Some("run"), "x"),
            ("npm exec -y -- a --flag", &["a"], None, "--flag"),
            ("pnpm dlx a", &["a"], None, ""),
            ("bunx a@latest", &["a@latest"], None, ""),
            (
                "uvx mcp-server-time --local-timezone UTC",
                &["mcp-server-time"],
                Some("mcp-server-time"),
                "--local-timezone UTC",
            ),
            ("uvx tool[x]@1.2 y", &["tool[x]==1.2"], Some("tool"), "y"),
            ("uvx tool@latest", &["tool"], Some("tool"), ""),
            ("uv tool run --from pkg==2 --with more cmd y", &["pkg==2", "more"], Some("cmd"), "y"),
        ] {
            let launcher = read(line).expect(line).expect(line);
            assert_eq!(launcher.packages, packages, "{line}");
            assert_eq!((launcher.program.as_deref(), launcher.args.join(" ").as_str()), (program, args), "{line}");
        }
        for line in ["node server.js", "npm --version", "uv", "python -m x", "/opt/npx-like/x"] {
            assert_eq!(read(line).expect(line), None, "{line}");
        }
        for line in [
            "npx", "npx --unknown x", "npx ./local", "npx git+ssh://host/x", "npx user/repository",
            "npx -p a ../../bin/sh", "uvx --from git+https://host/x cmd", "uvx -- --index-url", "uv run server.py",
            "docker run -i image", "npm start",
        ] {
            let error = read(line).expect_err(line);
            assert!(error.hint.is_some(), "{line}: {}", error.message);
        }
    }
}
