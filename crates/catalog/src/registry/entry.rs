//! A version of a server in a registry: the format `server.json`, and the registry's word on its state.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use base::limits;
use base::text::brief;

/// Key of the registry's own metadata.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// Most bytes of a name and of a version.
const NAME: usize = 200;
const VERSION: usize = 255;

#[expect(clippy::unwrap_used, reason = "a pattern of this file")]
static NAMES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$").unwrap());

/// True for a name in a registry: a namespace, a slash, and the server's own.
pub fn is_name(name: &str) -> bool {
    name.len() <= NAME && NAMES.is_match(name)
}

/// State of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Published and maintained.
    Active,
    /// Published, and no longer recommended.
    Deprecated,
    /// Withdrawn: mostly spam or malware.
    Deleted,
    /// One that is not known here.
    Other(String),
}

impl Status {
    /// Name in the registry.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
            Self::Other(word) => word,
        }
    }
}

/// A version of a server.
pub struct Entry {
    /// Reverse-DNS name, such as `io.github.user/server`.
    pub name: String,
    /// Version.
    pub version: String,
    /// Description by its publisher.
    pub description: String,
    /// URL of the source.
    pub repository: Option<String>,
    /// Status of this version.
    pub status: Status,
    /// The registry's words on its state.
    pub status_message: Option<String>,
    pub(super) packages: Vec<Package>,
    pub(super) remotes: Vec<Remote>,
}

/// Kind of a package, or a server on HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// A package of npm, started with npx
    Npm,
    /// A package of PyPI, started with uvx
    Pypi,
    /// A server on HTTP
    Remote,
}

impl Kind {
    /// Name of the kind for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Remote => "remote",
        }
    }
}

#[derive(Deserialize)]
struct Response {
    server: Detail,
    #[serde(default, rename = "_meta")]
    meta: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct Detail {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    repository: Option<Repository>,
    packages: Option<Vec<Package>>,
    remotes: Option<Vec<Remote>>,
    /// Where registries had it before they had metadata.
    status: Option<String>,
}

#[derive(Deserialize)]
struct Repository {
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Package {
    pub(super) registry_type: String,
    pub(super) registry_base_url: Option<String>,
    pub(super) identifier: String,
    pub(super) version: Option<String>,
    pub(super) transport: Option<Transport>,
    pub(super) runtime_arguments: Option<Vec<Argument>>,
    pub(super) package_arguments: Option<Vec<Argument>>,
    pub(super) environment_variables: Option<Vec<Input>>,
}

impl Package {
    /// True if it speaks on stdin and stdout, as those without a word on it do.
    pub(super) fn is_stdio(&self) -> bool {
        self.transport.as_ref().is_none_or(|transport| transport.kind == "stdio")
    }
}

#[derive(Deserialize)]
pub(super) struct Transport {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Remote {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    pub(super) headers: Option<Vec<Input>>,
    pub(super) variables: Option<BTreeMap<String, Variable>>,
}

/// A header, or a variable of the environment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    pub(super) name: String,
    #[serde(default)]
    pub(super) is_required: bool,
    #[serde(default)]
    pub(super) is_secret: bool,
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
    pub(super) variables: Option<BTreeMap<String, Variable>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Argument {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: Option<String>,
    pub(super) value_hint: Option<String>,
    #[serde(default)]
    pub(super) is_required: bool,
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
    pub(super) variables: Option<BTreeMap<String, Variable>>,
}

/// A part of a value in braces.
#[derive(Deserialize)]
pub(super) struct Variable {
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
}

impl Entry {
    /// Reads an entry of the API.
    ///
    /// # Errors
    /// Its invalid part.
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        // The crate's messages quote what they were given.
        let wrong = |error: serde_json::Error| brief(&error.to_string()).into_owned();
        let response: Response = serde_json::from_value(value).map_err(wrong)?;
        let Response { server: Detail { name, version, description, repository, packages, remotes, status }, meta } =
            response;
        if !is_name(&name) {
            return Err("its name is not one of a registry".to_owned());
        }
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        if version.is_empty() || version.len() > VERSION || !version.chars().all(is_plain) {
            return Err(format!("{name} has no valid version"));
        }
        let (packages, remotes) = (packages.unwrap_or_default(), remotes.unwrap_or_default());
        let most = |count: usize| limits::REGISTRY_LIST.check(count).map_err(|error| error.message);
        most(packages.len())?;
        most(remotes.len())?;
        for package in &packages {
            let lists = [&package.runtime_arguments, &package.package_arguments];
            lists.into_iter().flatten().try_for_each(|arguments| most(arguments.len()))?;
            package.environment_variables.iter().try_for_each(|variables| most(variables.len()))?;
        }
        remotes.iter().filter_map(|remote| remote.headers.as_ref()).try_for_each(|headers| most(headers.len()))?;
        let official = meta.as_ref().and_then(|meta| meta.get(OFFICIAL));
        let word = official.and_then(|official| official.get("status")?.as_str());
        let status_message = official.and_then(|official| official.get("statusMessage")?.as_str()).map(str::to_owned);
        let status = match word.or(status.as_deref()) {
            None | Some("active") => Status::Active,
            Some("deprecated") => Status::Deprecated,
            Some("deleted") => Status::Deleted,
            Some(other) => Status::Other(other.to_owned()),
        };
        let repository = repository.and_then(|repository| repository.url);
        Ok(Self { name, version, description, repository, status, status_message, packages, remotes })
    }

    /// Forms of it: types of packages, and `remote`, each once.
    pub fn kinds(&self) -> Vec<&str> {
        let types = self.packages.iter().map(|package| package.registry_type.as_str());
        let remote = (!self.remotes.is_empty()).then_some(Kind::Remote.word());
        let mut kinds: Vec<&str> = Vec::new();
        for kind in types.chain(remote) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}
