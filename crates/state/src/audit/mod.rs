//! Audit log: a file of JSON lines, rotated, or standard error. Beside the file, the texts that agents had read before
//! a script, each once, under the digest of its content.
//!
//! A line is written in one piece, before the client gets its answer: the record survives the kill of the gateway.
//! Several gateways may share a file.

mod file;
mod follow;
mod history;
mod hooks;
mod past;
mod record;
mod verdict;

use file::Lines;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base::random;
use base::text::brief;

pub use follow::Follower;
pub use history::{had_read, record, records};
pub use hooks::HookRecord;
pub use past::{Decided, PastCall, PastCalls, Seen};
pub use record::{Begun, CallRecord, Description, Line, Read, Reads, Record, StashUse, Time, line, sent};
pub use verdict::Verdict;

/// The audit log of a gateway.
#[derive(Debug)]
pub struct Log {
    sink: Sink,
    required: config::Required,
}

#[derive(Debug)]
enum Sink {
    Off,
    /// Records are required, and there is nowhere to write them: the reason, and what to set.
    Missing(&'static str),
    Stderr,
    File(Lines),
}

/// Reasons of [`Sink::Missing`].
const IS_OFF: &str = "[audit] has `required = true` and `to = \"off\"`; set `to = \"file\"`, or `required = false`";
const NO_FOLDER: &str = "there is no folder for the file; set HOME, XDG_STATE_HOME, or `path` in [audit]";

/// An entry, written in one piece.
#[derive(Debug, Default)]
pub struct Entry {
    /// JSON objects, one per line, each with its line end.
    pub lines: String,
    /// Texts that they refer to, by digest of the content.
    pub objects: Vec<(String, Arc<str>)>,
}

impl Log {
    /// Opens the configured destination. The file is created with the first record.
    pub fn open(audit: &config::Audit) -> Arc<Self> {
        let is_required = audit.required == config::Required::Calls;
        let sink = match (audit.to, &audit.path) {
            (config::AuditTo::Off, _) if is_required => Sink::Missing(IS_OFF),
            (config::AuditTo::Off, _) => Sink::Off,
            (config::AuditTo::File, Some(path)) => Sink::File(Lines::new(path.clone(), audit)),
            (config::AuditTo::File, None) if is_required => Sink::Missing(NO_FOLDER),
            (config::AuditTo::File, None) | (config::AuditTo::Stderr, _) => Sink::Stderr,
        };
        Arc::new(Self { sink, required: audit.required })
    }

    /// Calls that must not be made without a record.
    pub fn required(&self) -> config::Required {
        self.required
    }

    /// True if no record is written anywhere.
    pub fn is_off(&self) -> bool {
        matches!(self.sink, Sink::Off)
    }

    /// Opens the file, and creates it if missing.
    ///
    /// # Errors
    /// When it is not writable, or records are required that have no place.
    pub fn probe(&self) -> io::Result<()> {
        match &self.sink {
            Sink::File(lines) => lines.probe(),
            Sink::Missing(why) => Err(io::Error::other(*why)),
            Sink::Off | Sink::Stderr => Ok(()),
        }
    }

    /// Writes an entry. Blocking work runs on another thread, and completes even if the future is dropped.
    ///
    /// # Errors
    /// When its lines could not be written; the error is logged.
    pub async fn write(self: &Arc<Self>, entry: Entry) -> io::Result<()> {
        if let Sink::File(lines) = &self.sink {
            if entry.objects.is_empty()
                && let Some(written) = lines.append_at_once(&entry.lines)
            {
                return written.inspect_err(|error| lost(error, &lines.path, &entry));
            }
            let log = Arc::clone(self);
            let written = tokio::task::spawn_blocking(move || log.write_now(&entry)).await;
            return written.unwrap_or_else(|error| Err(io::Error::other(error)));
        }
        self.write_now(&entry)
    }

    /// Writes an entry on this thread, for code that cannot await.
    ///
    /// # Errors
    /// As of [`Log::write`].
    pub fn write_now(&self, entry: &Entry) -> io::Result<()> {
        match &self.sink {
            Sink::Off => Ok(()),
            Sink::Missing(why) => {
                let error = io::Error::other(*why);
                lost(&error, Path::new(""), entry);
                Err(error)
            }
            Sink::Stderr => {
                entry.lines.lines().for_each(|line| tracing::info!(target: "forgefs::audit", "{line}"));
                Ok(())
            }
            Sink::File(lines) => {
                for (digest, text) in &entry.objects {
                    if let Err(error) = lines.keep(digest, text) {
                        tracing::error!(%error, digest, "a text that was read is not kept");
                    }
                }
                lines.append(&entry.lines).inspect_err(|error| lost(error, &lines.path, entry))
            }
        }
    }
}

fn lost(error: &io::Error, path: &Path, entry: &Entry) {
    let path = path.display();
    tracing::error!(%error, %path, "an audit record was not written to the file: {}", entry.lines.trim_end());
}

/// The text stored under `digest`.
///
/// # Errors
/// When it is missing, or does not match its digest.
pub fn kept(path: &Path, digest: &str) -> io::Result<String> {
    if random::from_hex(digest).is_none_or(|bytes| bytes.len() != 32) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is no digest", brief(digest))));
    }
    let text = std::fs::read_to_string(file::objects(path).join(digest))?;
    match stubgen::digest(&text) == digest {
        true => Ok(text),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the kept text {digest} has been changed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_records_without_a_place_are_a_fault_that_says_what_to_set() {
        for (audit, says) in [
            ("to = \"off\"\nrequired = true", Some("set `to = \"file\"`, or `required = false`")),
            ("to = \"off\"\npath = \"audit.jsonl\"", None),
            ("to = \"file\"", Some("set HOME, XDG_STATE_HOME, or `path` in [audit]")),
            ("to = \"file\"\nrequired = false", None),
            ("required = true", None),
        ] {
            // Without a home folder.
            let config = config::Config::parse(&format!("[audit]\n{audit}\n"), Path::new("/forge.toml"), &|_| None);
            let log = Log::open(&config.expect("a configuration").audit);
            for done in [log.probe(), log.write_now(&Entry::default())] {
                let error = done.err().map(|error| error.to_string());
                let is_told = error.as_deref().zip(says).is_some_and(|(error, says)| error.contains(says));
                assert!(is_told || error.is_none() && says.is_none(), "{audit}: {error:?}");
            }
        }
    }
}
