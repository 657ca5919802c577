//! Where audit records go: a file of JSON lines, rotated, or standard error. Beside the file, the texts that agents had
//! read before a script, each once, under the digest of its content.
//!
//! A line is written whole, in one piece, before whoever asked gets an answer: what happened is on record even if the
//! gateway is killed after that. Several gateways may share a file.

mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config;
use file::Lines;

/// The audit log of a gateway.
#[derive(Debug)]
pub struct Log(Sink);

#[derive(Debug)]
enum Sink {
    Off,
    Stderr,
    File(Lines),
}

impl Log {
    /// Opens what the configuration names. The file is made at the first record.
    #[must_use]
    pub fn open(audit: &config::Audit) -> Arc<Self> {
        Arc::new(Self(match audit.to {
            config::AuditTo::Off => Sink::Off,
            config::AuditTo::Stderr => Sink::Stderr,
            config::AuditTo::File => match &audit.path {
                Some(path) => Sink::File(Lines::new(path.clone(), audit)),
                None => Sink::Stderr,
            },
        }))
    }

    /// Writes one record, a JSON object in a line. What cannot be written is an error of the log, not of the script.
    pub fn write(&self, line: &str) {
        match &self.0 {
            Sink::Off => {}
            Sink::Stderr => tracing::info!(target: "forgefs::audit", "{line}"),
            Sink::File(lines) => {
                if let Err(error) = lines.append(line) {
                    tracing::error!(%error, "an audit record was not written to the file: {line}");
                }
            }
        }
    }

    /// Keeps a text that a record refers to by `digest`, the digest of its content.
    pub fn keep(&self, digest: &str, text: &str) {
        if let Sink::File(lines) = &self.0
            && let Err(error) = lines.keep(digest, text)
        {
            tracing::error!(%error, digest, "a text that was read is not kept");
        }
    }
}

/// The records of a log file and those rotated out of it, oldest first, as far as they can be read.
///
/// # Errors
/// When there is no file, or it cannot be read.
pub fn records(path: &Path) -> io::Result<Vec<serde_json::Value>> {
    let mut records = Vec::new();
    let mut rotated: Vec<PathBuf> =
        (1..).map(|number| file::rotated(path, number)).take_while(|p| p.exists()).collect();
    rotated.reverse();
    for path in rotated.iter().map(PathBuf::as_path).chain([path]) {
        let bytes = std::fs::read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        // A full disk leaves half a record, which may end inside of a character.
        records.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    Ok(records)
}

/// A text that was kept under `digest`.
///
/// # Errors
/// When it is not there, or not what its name says.
pub fn kept(path: &Path, digest: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(file::objects(path).join(digest))?;
    match stubgen::digest(&text) == digest {
        true => Ok(text),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the kept text {digest} has been changed"))),
    }
}
