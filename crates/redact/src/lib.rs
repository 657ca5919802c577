//! Redacts text that leaves the gateway.
//!
//! Configured values are known by their type and are never shown ([`crate::secret`]). Everything else is
//! recognised by pattern. `Surface::classes` is the table of what applies where; a replaced secret reads like
//! `[redacted:github-token]`. Redaction catches accidents and is no boundary: a script that reverses a token before it
//! answers with it passes.

mod encoded;
mod finder;
#[cfg(test)]
mod linear;
mod named;
mod names;
#[cfg(test)]
mod neighbours;
mod pairs;
mod personal;
mod pieces;
mod placeholder;
mod placeholder_table;
mod private;
mod restore;
mod returned;
pub mod scan;
pub mod secret;
mod shapes;
mod structure;
mod token;
mod vendors;
mod view;

use std::borrow::Cow;

use serde_json::Value;

pub use encoded::digits_decoded;
pub use names::{names_credential, sounds_secret, variable_sounds_secret};
pub use placeholder_table::{PlaceholderTable, PlaceholderWriter};
pub use private::{list_host, list_path};
pub use restore::{Mentions, Restored};
pub use scan::replaced;
pub use structure::{json, json_text};

use base::error::Error;
use scan::Found;

/// Redaction of results, beside configured values, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Results {
    /// Nothing else.
    Off,
    /// Credentials.
    #[default]
    Secrets,
    /// Credentials, and e-mail and IP addresses, telephone, card and account numbers.
    SecretsAndPii,
}

/// Destination of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// To a script: a server's answer, which the script may have to pass on to another server.
    Script,
    /// To the agent: a value, a file of `/results`, a resource.
    Answer(Results),
    /// To the agent: a tool's own error, often all that helps to correct the next call.
    ToolError,
    /// To the agent: any other failure, with text of libraries and the last lines of stderr.
    Error,
    /// To the agent: captured output, script errors, and servers' messages and questions meanwhile.
    Output(Results),
    /// To the operator: records of calls, logs, the stderr of servers.
    Log,
}

/// Classes that are searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// The table. Configured values are replaced in every row.
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

/// Destination of a text, and the placeholder table for redacted values.
#[derive(Debug, Clone, Copy)]
pub struct Redaction<'a> {
    surface: Surface,
    writer: Option<&'a PlaceholderWriter<'a>>,
    /// Session whose placeholders are removed too.
    arriving: Option<&'a PlaceholderTable>,
}

impl From<Surface> for Redaction<'_> {
    fn from(surface: Surface) -> Self {
        Self { surface, writer: None, arriving: None }
    }
}

impl Surface {
    /// Adds placeholders for redacted values.
    #[must_use]
    pub fn with_placeholders<'a>(self, writer: Option<&'a PlaceholderWriter<'a>>) -> Redaction<'a> {
        Redaction { writer, ..self.into() }
    }

    /// For a server's text. Servers get values, never placeholders: one of this session in their text was planted for a
    /// script to restore.
    #[must_use]
    pub fn arriving(self, session: &PlaceholderTable) -> Redaction<'_> {
        Redaction { arriving: Some(session), ..self.into() }
    }
}

/// Redacts a text; borrowed if it is unchanged.
pub fn text<'t, 'w>(redaction: impl Into<Redaction<'w>>, text: &'t str) -> Cow<'t, str> {
    let Redaction { surface, writer, arriving } = redaction.into();
    let classes = surface.classes();
    let look = |text: &str, found: &mut Vec<Found>| {
        found.extend(secret::places(text));
        if classes.credentials {
            scan::credentials(text, found);
            encoded::find(text, found);
        }
        if classes.personal {
            personal::find(text, found);
        }
    };
    let mut found = Vec::new();
    look(text, &mut found);
    view::find(text, look, &mut found);
    if classes.own {
        private::own(text, &mut found);
    }
    if classes.network {
        private::network(text, &mut found);
    }
    if classes.traces {
        private::traces(text, &mut found);
    }
    if let Some(writer) = writer {
        writer.known(text, &mut found);
    }
    if let Some(session) = arriving {
        session.places(text, &mut found);
    }
    scan::replace(text, found, writer)
}

/// Finds credentials in a text, by form and by name.
pub fn credentials(text: &str) -> Vec<scan::Found> {
    let mut found = Vec::new();
    scan::credentials(text, &mut found);
    found
}

/// Like [`text`], for every text of an error.
pub fn error<'w>(redaction: impl Into<Redaction<'w>>, error: Error) -> Error {
    let redaction = redaction.into();
    let mut error = error.map_texts(|text| owned(redaction, text));
    error.data = error.data.map(|data| Box::new(json(redaction, *data)));
    error
}

/// An answer to a request.
pub trait Outgoing {
    /// Redacts itself.
    #[must_use]
    fn redacted<'w>(self, redaction: impl Into<Redaction<'w>>) -> Self;
}

impl Outgoing for String {
    fn redacted<'w>(self, redaction: impl Into<Redaction<'w>>) -> Self {
        owned(redaction.into(), self)
    }
}

impl Outgoing for Value {
    fn redacted<'w>(self, redaction: impl Into<Redaction<'w>>) -> Self {
        json(redaction, self)
    }
}

fn owned(redaction: Redaction<'_>, plain: String) -> String {
    match text(redaction, &plain) {
        Cow::Borrowed(_) => plain,
        Cow::Owned(clean) => clean,
    }
}

/// Lines of one stream; a private key may span several.
#[derive(Debug, Default)]
pub struct Lines {
    is_key: bool,
}

impl Lines {
    /// Redacts the next line for `surface`; empty inside a private key.
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

/// Redacts each write for [`Surface::Log`]; a write is a text of its own, as log lines are.
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
