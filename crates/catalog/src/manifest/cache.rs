//! Disk cache of the last listings, so that the first `ls` after a start has tools before any server is up.
//!
//! One file per server, named after a digest of its origin: another command line is another server. A file that is
//! incomplete, of another format, or writable by another user is ignored.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::{self, RawValue};

use super::origin;
use base::files::{self, Keep};
use base::json;
use base::limits;
use base::memory;
use config::{Config, ListedNames};
use redact::secret;
use upstream::{Listed, Listing};

/// Changes with the format of the files.
const FORMAT: u32 = 1;
/// Memory that values of a file may take per byte of a list's limit.
const TREE_BYTES_A_BYTE: usize = 32;
/// Most bytes read of a file; a larger listing is requested again.
const MAX_BYTES: u64 = limits::CACHED_LIST.max as u64;

/// Folder of cached listings; `None` disables the cache.
#[derive(Debug, Clone, Default)]
pub struct Cache(Option<PathBuf>);

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    digest: String,
    /// Digest of the text of `listing`; absent in files of former versions.
    sum: Option<String>,
    listing: Box<RawValue>,
}

impl Cache {
    /// The cache in `folder`, which need not exist.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Loads the last listing of `server` and its digest, if complete.
    #[must_use]
    pub fn load(&self, name: &str, server: &config::Server) -> Option<(Listing, String)> {
        let path = self.file(name, server)?;
        let text = match files::read_private(&path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(server = name, %error, path = %path.display(), "the kept tool list is not used");
                }
                return None;
            }
        };
        let Kept { format, digest, sum, listing: text } = serde_json::from_slice(&text).ok()?;
        let limit = memory::list_bytes().saturating_mul(TREE_BYTES_A_BYTE);
        let mut listing: Listing = json::parse(text.get().as_bytes(), limit).ok()?;
        let is_whole = match sum {
            Some(sum) => stubgen::digest(text.get()) == sum,
            None => self::digest(&listing).as_ref() == Some(&digest),
        };
        listing.room = Some(Arc::new(Listed::take(name, text.get().len()).ok()?));
        (format == FORMAT && is_whole).then_some((listing, digest))
    }

    /// File of the last list of `server`. It was changed when the server last listed, or in 1970 if it did not the last time
    /// that it was to.
    pub fn file(&self, name: &str, server: &config::Server) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{name}-{}.json", origin::on_disk(server))))
    }

    /// Says that the server listed at `time` what is at hand.
    pub(super) fn set_listed(&self, name: &str, server: &config::Server, time: SystemTime) {
        // Without the file, the next start lists the server again.
        let file = self.file(name, server).map(|file| files::open_private(&file, OpenOptions::new().write(true)));
        _ = file.map(|file| file.and_then(|file| file.set_modified(time)));
    }

    /// Names of tools in the last listings of a configuration's servers.
    #[must_use]
    pub fn names(config: &Config) -> ListedNames {
        let cache = Self::new(config.manifest.cache.clone());
        let names = |(name, server): (&String, &config::Server)| {
            let (listing, _) = cache.load(name, server)?;
            let names = listing.tools.iter().filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned));
            Some((name.clone(), names.collect()))
        };
        config.servers.iter().filter_map(names).collect()
    }

    /// Stores a listing with its digest. A failure is only logged.
    pub fn store(&self, name: &str, server: &config::Server, listing: &Listing, digest: &str) {
        let (Some(folder), Some(path)) = (&self.0, self.file(name, server)) else { return };
        let kept = |listing: Box<RawValue>| {
            let sum = Some(stubgen::digest(listing.get()));
            serde_json::to_string(&Kept { format: FORMAT, digest: digest.to_owned(), sum, listing })
        };
        // Readable by its owner only: descriptions can be confidential.
        let text = value::to_raw_value(listing).and_then(kept).map_err(io::Error::from);
        if text.as_ref().is_ok_and(|text| secret::redact(text) != *text) {
            tracing::debug!(server = name, "the tool list is not kept: it has a configured secret");
            let _ = std::fs::remove_file(&path);
            return;
        }
        let written = files::make_own_folder(folder).and(text);
        if let Err(error) = written.and_then(|text| files::replace(&path, text.as_bytes(), Keep::Cached)) {
            tracing::warn!(server = name, %error, path = %path.display(), "the tool list is not kept");
        }
    }

    /// File for the observed shapes of `server`.
    #[must_use]
    pub fn shapes(&self, name: &str, server: &config::Server) -> Option<PathBuf> {
        Some(self.file(name, server)?.with_extension("shapes.json"))
    }
}

/// Digest of a whole listing.
pub(super) fn digest(listing: &Listing) -> Option<String> {
    Some(stubgen::digest(stubgen::canonical_json(&serde_json::to_value(listing).ok()?)))
}
