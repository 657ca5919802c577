//! Parts of a host's server that its entry in `forge.toml` does not have.

use std::fmt;

use base::text;

/// Most bytes shown of a foreign text.
const WIDEST: usize = 80;

/// Keys that concern the host alone, such as the tools that it does not ask about: the server works without them.
const OF_THE_HOST: &[&str] = &[
    "$schema", "alwaysAllow", "autoApprove", "dev", "displayName", "gallery", "icon", "icons", "name", "source",
    "tags", "title", "trust", "version",
];

/// A part that is lost, so that the server may not work as it did in its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// A file with environment variables.
    EnvFile,
    /// A key without a counterpart.
    Key(String),
    /// A key of the login without a counterpart.
    Login(String),
    /// The folder that the host has open.
    Folder {
        /// Value that has it.
        label: String,
        /// Text between its braces.
        inner: String,
        /// Variable in its place.
        variable: String,
    },
    /// A reference that stays as text.
    Reference {
        /// Value that has it.
        label: String,
        /// Text between its braces.
        inner: String,
    },
    /// An answer that the user gave the host; here it is the default.
    Answer {
        /// Value that has it.
        label: String,
        /// Variable in its place.
        variable: String,
    },
    /// A variable that the host passes on if it is set, which it is not here.
    Passed(String),
}

impl Loss {
    /// The loss of a key; `None` for one that concerns the host alone.
    pub(super) fn of_key(name: &str) -> Option<Self> {
        match name {
            "envFile" => Some(Self::EnvFile),
            name if OF_THE_HOST.contains(&name) => None,
            name => Some(Self::Key(name.to_owned())),
        }
    }

    /// Says why a server is not moved, and what to write in the host's file instead.
    pub fn stays(&self) -> String {
        match self {
            Self::EnvFile => {
                "ForgeFS does not read its `envFile`; write what that file sets as `env`, and remove `envFile`"
                    .to_owned()
            }
            Self::Key(name) => {
                let name = cut(name);
                format!("ForgeFS has nothing like its `{name}`; remove `{name}` if the server does without")
            }
            Self::Login(name) => {
                let name = cut(name);
                format!("ForgeFS has nothing like `{name}` of its login; remove `{name}` if the login does without")
            }
            Self::Folder { label, inner, .. } => format!(
                "`${{{inner}}}` in its {} means another folder in each project; write the one that is meant",
                cut(label)
            ),
            Self::Reference { label, inner } => format!(
                "ForgeFS does not know `${{{}}}` in its {}; write the value, or a reference to a variable that you export",
                kind(inner),
                cut(label)
            ),
            Self::Answer { label, variable } => {
                format!(
                    "ForgeFS does not know what you told the editor for its {}; export it as {variable}",
                    cut(label)
                )
            }
            Self::Passed(name) => {
                let name = cut(name);
                format!("it passes {name} on, which is not set here; export it, or remove it from `env_vars`")
            }
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnvFile => out.write_str("`envFile` is not imported: export what that file sets, or list it as env"),
            Self::Key(name) => write!(out, "`{name}` is not imported"),
            Self::Login(name) => write!(out, "`{name}` of its login is not imported"),
            Self::Folder { label, inner, variable } => write!(
                out,
                "{label}: `${{{inner}}}` means another folder in each project; set {variable} or write the one that is meant"
            ),
            Self::Reference { label, inner } => {
                write!(out, "{label}: `${{{}}}` is not known here and stays as text", kind(inner))
            }
            Self::Answer { label, variable } => {
                write!(out, "{label}: export {variable} if you told the editor something else than the default")
            }
            Self::Passed(name) => {
                write!(out, "it passes {name} on, which is not set; add it to `env` if needed")
            }
        }
    }
}

/// The kind of a reference, such as `file:…`: what follows may be a credential.
fn kind(inner: &str) -> String {
    match inner.split_once(':') {
        Some((kind, _)) => format!("{}:…", cut(kind)),
        None => cut(inner),
    }
}

/// The start of a foreign text.
fn cut(foreign: &str) -> String {
    match text::head(foreign, WIDEST) {
        head if head.len() < foreign.len() => format!("{head}…"),
        whole => whole.to_owned(),
    }
}
