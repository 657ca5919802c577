//! The command or the URL of an entry, as `forgefs add` takes it. Every word of it is checked: what the entry says becomes
//! arguments of npx or uvx, and values in `forge.toml`, which expands references.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use url::Url;

use super::entry::{Argument, Entry, Input, Kind, Package, Remote, Variable};
use crate::people;
use base::address::{Reach, refusal};
use base::address::{is_loopback, is_private};
use base::text::brief;

/// Most bytes of a value.
const VALUE: usize = 4 << 10;

#[expect(clippy::unwrap_used, reason = "patterns of this file")]
mod patterns {
    use super::{LazyLock, Regex};

    fn of(pattern: &str) -> Regex {
        Regex::new(pattern).unwrap()
    }

    pub(super) static NPM: LazyLock<Regex> =
        LazyLock::new(|| of(r"^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*$"));
    pub(super) static NPM_VERSION: LazyLock<Regex> =
        LazyLock::new(|| of(r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"));
    pub(super) static PYPI: LazyLock<Regex> = LazyLock::new(|| of(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"));
    pub(super) static PYPI_VERSION: LazyLock<Regex> =
        LazyLock::new(|| of(r"^[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?$"));
    pub(super) static VARIABLE: LazyLock<Regex> = LazyLock::new(|| of(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"));
    pub(super) static HEADER: LazyLock<Regex> = LazyLock::new(|| of(r"^[A-Za-z][A-Za-z0-9-]{0,63}$"));
    pub(super) static OPTION: LazyLock<Regex> = LazyLock::new(|| of(r"^--?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"));
    /// Names and versions that npm takes for a file of the working directory.
    pub(super) static ARCHIVE: LazyLock<Regex> = LazyLock::new(|| of(r"(?i)\.(tgz|tar|tar\.gz)$"));
    /// Packages that run whatever their arguments say.
    pub(super) static INTERPRETER: LazyLock<Regex> = LazyLock::new(|| {
        of(
            r"(?i)^(node|npm|npx|pnpm|yarn|deno|bun|tsx|ts-node|python[0-9.]*|pypy[0-9.]*|uv|uvx|pip|pipx|bash|sh|zsh|shx|zx)$",
        )
    });
    pub(super) static BRACES: LazyLock<Regex> = LazyLock::new(|| of(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}"));
}

/// Variables that change what npx, uvx, node or python run, or where they download it from, in lower case; `*` stands for
/// any rest.
const STEERING: &str = "npm_* uv_* pip_* ld_* dyld_* node_options node_path node_extra_ca_certs node_tls_* python* path \
    home shell bash_env env ifs tmpdir http_proxy https_proxy all_proxy no_proxy ssl_cert_* xdg_* git_* openssl_* \
    sslkeylogfile gconv_path requests_ca_bundle curl_ca_bundle prefix userprofile localappdata appdata comspec pathext";

fn steers(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    STEERING.split(' ').any(|steering| match steering.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == steering,
    })
}

/// A person's decision about an entry.
pub struct Choice<'a> {
    /// Kind, if it can be had as several.
    pub kind: Option<Kind>,
    /// Name in `forge.toml`.
    pub server: &'a str,
    /// Arguments behind those of the entry.
    pub args: &'a [String],
    /// Variables and headers of the person: the entry's own of these names are left out.
    pub env: &'a [String],
    /// Headers of the person, likewise.
    pub headers: &'a [String],
    /// URL of the registry.
    pub registry: &'a Url,
}

/// Words of `forgefs add`.
#[derive(Debug, Default)]
pub struct Start {
    /// Program and arguments; empty for a server on HTTP.
    pub command: Vec<String>,
    /// URL of a server on HTTP.
    pub url: Option<String>,
    /// True where it speaks HTTP+SSE only.
    pub sse: bool,
    /// `NAME=VALUE`, or `NAME` for a reference to it.
    pub env: Vec<String>,
    /// `NAME: VALUE`.
    pub headers: Vec<String>,
    /// Variables of the environment that it refers to, as the entry wants it.
    pub refers: Vec<String>,
    /// Further forms of it.
    pub notes: Vec<String>,
}

impl Start {
    /// The start of an entry.
    ///
    /// # Errors
    /// Why it cannot be added, and what to do.
    pub fn of(entry: &Entry, choice: &Choice<'_>) -> Result<Self, String> {
        let kinds = entry.kinds();
        let known = |kind: &&Kind| kinds.contains(&kind.word());
        let possible: Vec<Kind> = [Kind::Npm, Kind::Pypi, Kind::Remote].iter().filter(known).copied().collect();
        let kind = match (choice.kind, possible.as_slice()) {
            (Some(kind), possible) if possible.contains(&kind) => kind,
            (None, [kind]) => *kind,
            (Some(kind), _) => return Err(format!("it cannot be had as {}; it is: {}", kind.word(), listed(&kinds))),
            (None, []) => {
                let what = format!(
                    "it is: {}; ForgeFS starts packages of npm and PyPI, and reaches servers on HTTP",
                    listed(&kinds)
                );
                return Err(format!("{what}. `forgefs add NAME -- COMMAND` adds what you start yourself"));
            }
            (None, several) => {
                let words: Vec<&str> = several.iter().map(|kind| kind.word()).collect();
                return Err(format!("it can be had as {}: choose one with --kind", words.join(" and ")));
            }
        };
        let mut start = Self::default();
        match kind {
            Kind::Remote => start.remote(entry, choice)?,
            Kind::Npm | Kind::Pypi => {
                let of_kind = || entry.packages.iter().filter(|package| package.registry_type == kind.word());
                let package = of_kind().find(|package| package.is_stdio()).or_else(|| of_kind().next());
                start.package(package.ok_or("it is gone")?, kind, choice)?;
            }
        }
        start.env.extend(choice.env.iter().cloned());
        start.headers.extend(choice.headers.iter().cloned());
        start.refers.sort();
        start.refers.dedup();
        Ok(start)
    }

    fn package(&mut self, package: &Package, kind: Kind, choice: &Choice<'_>) -> Result<(), String> {
        if let Some(transport) = package.transport.as_ref().filter(|_| !package.is_stdio()) {
            return Err(format!(
                "its package speaks {}: start it yourself, then `forgefs add NAME URL`",
                shown(&transport.kind)
            ));
        }
        let (name, version) = (package.identifier.as_str(), package.version.as_deref().unwrap_or_default());
        let (names, versions, usual) = match kind {
            Kind::Npm => (&patterns::NPM, &patterns::NPM_VERSION, "https://registry.npmjs.org"),
            Kind::Pypi | Kind::Remote => (&patterns::PYPI, &patterns::PYPI_VERSION, "https://pypi.org"),
        };
        if name.len() > 214 || !names.is_match(name) || patterns::ARCHIVE.is_match(name) {
            return Err(format!("{} is not the name of a package of {}", shown(name), kind.word()));
        }
        if version.len() > 128 || !versions.is_match(version) || patterns::ARCHIVE.is_match(version) {
            return Err(format!("{} is not one version of a package of {}", shown(version), kind.word()));
        }
        if patterns::INTERPRETER.is_match(name) {
            return Err(format!("its package {} runs what its arguments say: add it by its command", shown(name)));
        }
        if let Some(base) = package.registry_base_url.as_deref().filter(|base| base.trim_end_matches('/') != usual) {
            return Err(format!("its package is at {}, not at {usual}: add it by its command", shown(base)));
        }
        let harmless = |argument: &Argument| {
            let words = [argument.name.as_deref(), argument.value.as_deref()];
            words.into_iter().flatten().all(|word| matches!(word, "-y" | "--yes" | ""))
        };
        if !package.runtime_arguments.iter().flatten().all(harmless) {
            return Err(
                "its entry has arguments for the program that installs it, which are not taken; add it by its command"
                    .to_owned(),
            );
        }
        self.command = match kind {
            Kind::Npm => vec!["npx".to_owned(), "-y".to_owned(), format!("{name}@{version}")],
            Kind::Pypi | Kind::Remote => vec!["uvx".to_owned(), format!("{name}@{version}")],
        };
        self.arguments(package.package_arguments.as_deref().unwrap_or_default(), choice)?;
        package.environment_variables.iter().flatten().try_for_each(|input| self.variable(input, choice))
    }

    fn arguments(&mut self, arguments: &[Argument], choice: &Choice<'_>) -> Result<(), String> {
        for argument in arguments {
            let is_named = argument.kind == "named";
            let name = argument.name.as_deref().filter(|_| is_named);
            if let Some(name) = name.filter(|name| !patterns::OPTION.is_match(name)) {
                return Err(format!("{} is not the name of an option", shown(name)));
            }
            let label = name.or(argument.value_hint.as_deref()).unwrap_or("an argument");
            let given = argument.value.as_deref().or(argument.default.as_deref());
            let value = given.map(|value| filled(value, argument.variables.as_ref())).transpose()?.flatten();
            match (value, name) {
                (Some(value), None) if value.starts_with('-') => {
                    return Err(format!("{} stands where no option belongs", shown(&value)));
                }
                (Some(value), None) => self.command.push(value),
                (Some(value), Some(name)) if name.starts_with("--") => self.command.push(format!("{name}={value}")),
                (Some(value), Some(name)) => self.command.extend([name.to_owned(), value]),
                (None, _) if argument.is_required && choice.args.is_empty() => {
                    return Err(format!("it needs {}: give it behind `--`", shown(label)));
                }
                (None, _) if argument.is_required => {}
                (None, _) => self.notes.push(format!("it takes {} too: give it behind `--`", shown(label))),
            }
        }
        self.command.extend(choice.args.iter().cloned());
        Ok(())
    }

    fn variable(&mut self, input: &Input, choice: &Choice<'_>) -> Result<(), String> {
        let name = &input.name;
        if !patterns::VARIABLE.is_match(name) {
            return Err(format!("{} is not the name of a variable", shown(name)));
        }
        if choice.env.iter().any(|given| given.split('=').next() == Some(name)) {
            return Ok(());
        }
        if steers(name) {
            return Err(format!(
                "its entry sets {name}, which changes the program that starts it; add it by its command"
            ));
        }
        let fixed =
            input.value.as_deref().or(input.default.as_deref().filter(|_| input.is_required && !input.is_secret));
        let value = fixed.map(|value| filled(value, input.variables.as_ref())).transpose()?.flatten();
        match value {
            Some(value) => self.env.push(format!("{name}={value}")),
            None if input.is_required || input.value.is_some() => {
                self.env.push(name.clone());
                self.refers.push(name.clone());
            }
            None => self.notes.push(format!("it takes {name} too: --env {name}")),
        }
        Ok(())
    }

    fn remote(&mut self, entry: &Entry, choice: &Choice<'_>) -> Result<(), String> {
        if !choice.args.is_empty() || !choice.env.is_empty() {
            return Err(
                "a server on HTTP takes no arguments and no variables; --header gives it credentials".to_owned()
            );
        }
        let of = |kind: &str| entry.remotes.iter().find(|remote| remote.kind == kind);
        let Some(remote) = of("streamable-http").or_else(|| of("sse")) else {
            return Err("its server on HTTP speaks a transport that ForgeFS does not".to_owned());
        };
        self.sse = remote.kind == "sse";
        self.url = Some(address(remote, choice.registry)?.into());
        for header in remote.headers.iter().flatten() {
            self.header(header, choice)?;
        }
        Ok(())
    }

    /// A header. Values to be given are references to variables that no program has: an entry that names variables could
    /// ask for any credential of the environment.
    fn header(&mut self, input: &Input, choice: &Choice<'_>) -> Result<(), String> {
        let name = &input.name;
        if !patterns::HEADER.is_match(name) {
            return Err(format!("{} is not the name of a header", shown(name)));
        }
        let is_given =
            |given: &String| given.split(':').next().is_some_and(|given| given.trim().eq_ignore_ascii_case(name));
        if choice.headers.iter().any(is_given) {
            return Ok(());
        }
        let own = |part: &str| format!("FORGEFS_{}_{}", variable(choice.server), variable(part));
        let template = input.value.as_deref().or(input.default.as_deref().filter(|_| !input.is_secret));
        let Some(template) = template else {
            if input.is_required {
                let reference = own(name);
                self.headers.push(format!("{name}: ${{{reference}}}"));
                self.refers.push(reference);
            } else {
                self.notes.push(format!("it takes the header {name} too: --header '{name}: VALUE'"));
            }
            return Ok(());
        };
        check(template)?;
        let mut refers = Vec::new();
        let value = patterns::BRACES.replace_all(template, |found: &regex::Captures<'_>| {
            let part = &found[1];
            let known = input.variables.as_ref().and_then(|variables| variables.get(part));
            match known.and_then(|known| known.value.clone().or(known.default.clone())) {
                Some(value) => value,
                None => {
                    let reference = own(part);
                    refers.push(reference.clone());
                    format!("${{{reference}}}")
                }
            }
        });
        // Values of its variables are the entry's too.
        let bare = refers.iter().fold(value.to_string(), |text, name| text.replace(&format!("${{{name}}}"), ""));
        check(&bare)?;
        self.headers.push(format!("{name}: {value}"));
        self.refers.extend(refers);
        Ok(())
    }
}

/// The URL of a server on HTTP: https, or on this machine if the registry is.
fn address(remote: &Remote, registry: &Url) -> Result<Url, String> {
    let Some(text) = filled(&remote.url, remote.variables.as_ref())? else {
        return Err(format!("its URL has parts to fill in: `forgefs add NAME URL` with {}", shown(&remote.url)));
    };
    let url = Url::parse(&text).map_err(|_| format!("{} is not a URL", shown(&text)))?;
    if !is_private(&url) {
        return Err(format!("{} is not https", shown(&text)));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(format!("{} has a user or a fragment in it", shown(&text)));
    }
    let is_ours = !is_loopback(&url) || is_loopback(registry);
    match is_ours && Reach::of_server(registry, false).allows(&url) {
        true => Ok(url),
        false => Err(refusal(&shown(&text)).to_string()),
    }
}

/// A value with its parts in braces filled in; `None` if one has no value.
fn filled(value: &str, variables: Option<&BTreeMap<String, Variable>>) -> Result<Option<String>, String> {
    check(value)?;
    let mut is_whole = true;
    let text = patterns::BRACES.replace_all(value, |found: &regex::Captures<'_>| {
        // Without such a variable, the braces are part of the value.
        let Some(known) = variables.and_then(|variables| variables.get(&found[1])) else { return found[0].to_owned() };
        match known.value.as_ref().or(known.default.as_ref()) {
            Some(value) => value.clone(),
            None => {
                is_whole = false;
                String::new()
            }
        }
    });
    check(&text)?;
    Ok(is_whole.then(|| text.into_owned()))
}

/// Refuses a value that would not be taken as it is: `forge.toml` expands references, to credentials too.
fn check(value: &str) -> Result<(), String> {
    match value.len() <= VALUE && !value.contains("${") && !value.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(format!(
            "{} is not a plain value: it refers to a variable, has control characters, or is over {VALUE} bytes",
            shown(value)
        )),
    }
}

/// A word in upper case, as a part of the name of a variable.
fn variable(text: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(upper).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

fn listed(kinds: &[&str]) -> String {
    match kinds {
        [] => "nothing that can be started".to_owned(),
        kinds => kinds.iter().map(|kind| people::line(&brief(kind)).into_owned()).collect::<Vec<_>>().join(", "),
    }
}

/// Text of an entry, quoted.
fn shown(text: &str) -> String {
    people::quoted(&brief(text))
}
