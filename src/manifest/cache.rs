//! What servers listed last, kept on disk, so that the first `ls` of the next start has tools before any server is up.
//!
//! One file a server, named after a digest of how the server is reached: another command line is another server.
//! A file that is not whole, or not of this format, counts as none.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::{self, Transport};
use crate::files::{self, Keep};
use crate::upstream::Listing;

/// Changes whenever the content of the files does.
const FORMAT: u32 = 1;
/// Bytes of a file that are read; what is larger is asked for again instead.
const MAX_BYTES: u64 = 64 << 20;

/// A folder of kept listings; without one nothing is kept.
#[derive(Debug, Clone, Default)]
pub struct Cache(Option<PathBuf>);

#[derive(Serialize, Deserialize)]
struct Kept<L> {
    format: u32,
    digest: String,
    listing: L,
}

impl Cache {
    /// The cache in `folder`, which need not exist.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// What `server` listed last and its digest, if that was kept whole.
    #[must_use]
    pub fn load(&self, name: &str, server: &config::Server) -> Option<(Listing, String)> {
        let path = self.path(name, server)?;
        if fs::metadata(&path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let kept: Kept<Listing> = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        let whole = kept.format == FORMAT && digest(&kept.listing).as_ref() == Some(&kept.digest);
        whole.then_some((kept.listing, kept.digest))
    }

    /// Keeps what `server` listed, with its digest. Failing to is no reason to fail anything: it is logged.
    pub fn store(&self, name: &str, server: &config::Server, listing: &Listing, digest: &str) {
        let Some(path) = self.path(name, server) else { return };
        let kept = Kept { format: FORMAT, digest: digest.to_owned(), listing };
        // Readable by its owner alone: descriptions can be confidential.
        let text = serde_json::to_vec(&kept).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| files::replace(&path, &text, Keep::Cached)) {
            tracing::info!(server = name, %error, path = %path.display(), "the tool list is not kept");
        }
    }

    fn path(&self, name: &str, server: &config::Server) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{name}-{}.json", identity(server))))
    }
}

/// What tells two servers apart, without the values of secrets: their names say enough.
fn identity(server: &config::Server) -> String {
    let reached = match &server.transport {
        Transport::Stdio { command, args, env, cwd } => json!({
            "command": command, "args": args, "env": env.keys().collect::<Vec<_>>(), "cwd": cwd,
        }),
        Transport::Http { url, headers } | Transport::Sse { url, headers } => {
            json!({"url": url, "headers": headers.keys().collect::<Vec<_>>()})
        }
    };
    stubgen::short_digest(&stubgen::canonical_json(&reached))
}

/// Digest of everything that a server listed.
pub(super) fn digest(listing: &Listing) -> Option<String> {
    Some(stubgen::digest(&stubgen::canonical_json(&serde_json::to_value(listing).ok()?)))
}
