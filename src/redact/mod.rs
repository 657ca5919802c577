//! Text that leaves the gateway, without what must not leave it.
//!
//! Values of the configuration are known by their type and are never shown ([`crate::secret`]). Everything else is
//! known by its pattern. What applies where is the table in `Surface::classes`; a replaced secret reads like
//! `[redacted:github-token]`. It is a net for accidents, not a boundary: a script that turns a token around before it
//! answers with it is not caught.

mod minted;
mod named;
mod personal;
mod placeholder;
mod private;
pub(crate) mod scan;
mod shapes;
mod vendors;

use std::borrow::Cow;

use serde_json::Value;

pub use minted::{Minted, Minting, PutBack};
pub use private::{list_host, list_path};
pub(crate) use scan::replaced;

use crate::secret;

/// What is taken out of results, beside the values of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Results {
    /// Nothing else.
    Off,
    /// Credentials.
    #[default]
    Secrets,
    /// Credentials, and e-mail and IP addresses, telephone, card and account numbers.
    SecretsAndPii,
}

/// Where a text is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// To a script: the answer of a server, which the script may have to pass on to another one.
    Script,
    /// To the agent: a value, a file of `/results`, a resource.
    Answer(Results),
    /// To the agent: what a tool says of a call that failed. It is often all that helps to get the next one right.
    ToolError,
    /// To the agent: any other failure, with what libraries and the last lines of stderr say.
    Error,
    /// To the agent: captured output, why a script failed, and what servers tell or ask meanwhile.
    Output(Results),
    /// To whoever runs the gateway: records of calls, logs, the stderr of servers.
    Log,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, Default)]
struct Classes {
    credentials: bool,
    personal: bool,
    /// Paths and hosts of the gateway itself.
    own: bool,
    /// Any host of a private network, and the home folder.
    network: bool,
    traces: bool,
}

impl Surface {
    /// The table. Values of the configuration are replaced on every line of it.
    fn classes(self) -> Classes {
        let nothing = Classes::default();
        let credentials = Classes { credentials: true, ..nothing };
        match self {
            Self::Script | Self::Answer(Results::Off) => nothing,
            Self::Answer(Results::Secrets) | Self::Log => credentials,
            Self::Answer(Results::SecretsAndPii) => Classes { personal: true, ..credentials },
            Self::Output(results) => Classes { own: true, personal: results == Results::SecretsAndPii, ..credentials },
            Self::ToolError => Classes { own: true, traces: true, ..credentials },
            Self::Error => Classes { own: true, network: true, traces: true, ..credentials },
        }
    }
}

/// Where a text is going, and whether what is taken out of it gets a name that can be put back.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    surface: Surface,
    minting: Option<&'a Minting<'a>>,
}

impl From<Surface> for Way<'_> {
    fn from(surface: Surface) -> Self {
        Self { surface, minting: None }
    }
}

impl Surface {
    /// The way there, with placeholders for what is taken out.
    #[must_use]
    pub fn minted_by<'a>(self, minting: Option<&'a Minting<'a>>) -> Way<'a> {
        Way { surface: self, minting }
    }
}

/// The text without what must not go there; borrowed when there is nothing of it.
#[must_use]
pub fn text<'t, 'w>(way: impl Into<Way<'w>>, text: &'t str) -> Cow<'t, str> {
    let Way { surface, minting } = way.into();
    let classes = surface.classes();
    let mut found = secret::places(text);
    if classes.credentials {
        scan::credentials(text, &mut found);
    }
    if classes.personal {
        personal::find(text, &mut found);
    }
    if classes.own {
        private::own(text, &mut found);
    }
    if classes.network {
        private::network(text, &mut found);
    }
    if classes.traces {
        private::traces(text, &mut found);
    }
    if let Some(minting) = minting {
        minting.known(text, &mut found);
    }
    scan::replace(text, found, minting)
}

/// As [`text`], for every text in a value: keys, and fields whose name says that they hold a secret, included.
#[must_use]
pub fn json<'w>(way: impl Into<Way<'w>>, value: Value) -> Value {
    let way = way.into();
    let credentials = way.surface.classes().credentials;
    match value {
        Value::String(plain) => Value::String(owned(way, plain)),
        Value::Array(items) => items.into_iter().map(|item| json(way, item)).collect(),
        Value::Object(object) => {
            let is_media = object.contains_key("mimeType");
            let clean = |(key, value): (String, Value)| {
                let value = match value {
                    // An image is no text; what looks like a key in it is chance.
                    Value::String(plain) if is_media && matches!(&*key, "data" | "blob") => {
                        Value::String(owned(Surface::Script.into(), plain))
                    }
                    Value::String(plain) if credentials => Value::String(field(way, &key, plain)),
                    value => json(way, value),
                };
                (owned(way, key), value)
            };
            Value::Object(object.into_iter().map(clean).collect())
        }
        other => other,
    }
}

/// As [`json`], for a value that is JSON already; text that is no JSON is treated as text.
#[must_use]
pub fn json_text<'t, 'w>(way: impl Into<Way<'w>>, plain: &'t str) -> Cow<'t, str> {
    let way = way.into();
    // What is found in the text of a value may be in its escaped form, which is not what a name is for.
    match text(way.surface, plain) {
        // The text of a value shows whatever is in it, except for what is escaped, and what was put back before.
        Cow::Borrowed(same) if !plain.contains('\\') && way.minting.is_none() => Cow::Borrowed(same),
        rough => match serde_json::from_str(plain) {
            Ok(value) => Cow::Owned(json(way, value).to_string()),
            Err(_) => rough,
        },
    }
}

/// What a request is answered with.
pub trait Outgoing {
    /// Itself, without what must not go there.
    #[must_use]
    fn redacted<'w>(self, way: impl Into<Way<'w>>) -> Self;
}

impl Outgoing for String {
    fn redacted<'w>(self, way: impl Into<Way<'w>>) -> Self {
        owned(way.into(), self)
    }
}

impl Outgoing for Value {
    fn redacted<'w>(self, way: impl Into<Way<'w>>) -> Self {
        json(way, self)
    }
}

fn owned(way: Way<'_>, plain: String) -> String {
    match text(way, &plain) {
        Cow::Borrowed(_) => plain,
        Cow::Owned(clean) => clean,
    }
}

fn field(way: Way<'_>, key: &str, plain: String) -> String {
    let label = match text(way, &plain) {
        Cow::Owned(clean) => return clean,
        Cow::Borrowed(same) => named::label(key).filter(|label| named::is_secret(same, label, true)),
    };
    match (label, label.zip(way.minting).and_then(|(label, minting)| minting.name(label, &plain))) {
        (_, Some(name)) => name,
        (Some(label), None) => format!("[redacted:{label}]"),
        (None, None) => plain,
    }
}

/// Lines of one stream, where a private key may take several of them.
#[derive(Debug, Default)]
pub struct Lines {
    is_key: bool,
}

impl Lines {
    /// The next line as it goes to `surface`; empty inside a private key.
    pub fn next<'t>(&mut self, surface: Surface, line: &'t str) -> Cow<'t, str> {
        let bare = line.trim();
        if self.is_key
            && bare.len() < 200
            && bare.bytes().all(|byte| vendors::base64(byte) || byte == b':' || byte == b' ')
        {
            return Cow::Borrowed("");
        }
        let ended = std::mem::replace(&mut self.is_key, false);
        match bare.rsplit_once("-----BEGIN ") {
            Some((before, rest)) if rest.ends_with("PRIVATE KEY-----") || rest.ends_with("PRIVATE KEY BLOCK-----") => {
                self.is_key = true;
                Cow::Owned(format!("{}[redacted:private-key]", text(surface, before)))
            }
            _ if ended && bare.starts_with("-----END ") => Cow::Borrowed(""),
            _ => text(surface, line),
        }
    }
}

/// Writes what is written to it as it goes to [`Surface::Log`]; each write is a text of its own, as log lines are.
#[derive(Debug)]
pub struct Writer<W>(pub W);

impl<W: std::io::Write> std::io::Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(text(Surface::Log, &String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
