//! What servers listed last, kept on disk, so that the first `ls` of the next start has tools before any server is up.
//!
//! One file a server, named after a digest of how the server is reached: another command line is another server.
//! A file that is not whole, not of this format, or that another user may have written counts as none.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::origin;
use crate::config;
use crate::files::{self, Keep};
use crate::json;
use crate::limits;
use crate::memory;
use crate::upstream::{Listed, Listing};

/// Changes whenever the content of the files does.
const FORMAT: u32 = 1;
/// Bytes of memory that values of a file may take for each byte that a list may have.
const TREE_BYTES_A_BYTE: usize = 32;
/// Bytes of a file that are read; what is larger is asked for again instead.
const MAX_BYTES: u64 = limits::CACHED_LIST.max as u64;

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
        let text = match files::read_private(&path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(server = name, %error, path = %path.display(), "the kept tool list is not used");
                }
                return None;
            }
        };
        let limit = memory::list_bytes().saturating_mul(TREE_BYTES_A_BYTE);
        let mut kept: Kept<Listing> = json::parse(&text, limit).ok()?;
        let whole = kept.format == FORMAT && digest(&kept.listing).as_ref() == Some(&kept.digest);
        kept.listing.room = Some(Arc::new(Listed::take(name, text.len()).ok()?));
        whole.then_some((kept.listing, kept.digest))
    }

    /// Keeps what `server` listed, with its digest. Failing to is no reason to fail anything: it is logged.
    pub fn store(&self, name: &str, server: &config::Server, listing: &Listing, digest: &str) {
        let (Some(folder), Some(path)) = (&self.0, self.path(name, server)) else { return };
        let kept = Kept { format: FORMAT, digest: digest.to_owned(), listing };
        // Readable by its owner alone: descriptions can be confidential.
        let text = serde_json::to_vec(&kept).map_err(io::Error::from);
        let written = files::make_own_folder(folder).and(text);
        if let Err(error) = written.and_then(|text| files::replace(&path, &text, Keep::Cached)) {
            tracing::warn!(server = name, %error, path = %path.display(), "the tool list is not kept");
        }
    }

    fn path(&self, name: &str, server: &config::Server) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{name}-{}.json", origin::on_disk(server))))
    }
}

/// Digest of everything that a server listed.
pub(super) fn digest(listing: &Listing) -> Option<String> {
    Some(stubgen::digest(&stubgen::canonical_json(&serde_json::to_value(listing).ok()?)))
}
