//! Answers of registries on disk: private files, bounded in number and size. A file that is damaged, of another URL, or
//! writable by others is not read.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use url::Url;

use base::files::{self, Keep};
use base::time::now_secs;
use base::{json, limits};

/// Changes with the format of the files.
const FORMAT: u32 = 1;
/// Time for which an answer is used without a request.
const FRESH: Duration = Duration::from_secs(600);
/// Time after which it is used no more.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most bytes of a file: an answer in JSON, escaped.
const MAX_BYTES: u64 = 2 * limits::REGISTRY_ANSWER.max as u64 + (64 << 10);

/// The folder; `None` keeps nothing.
pub(super) struct Cache(Option<PathBuf>);

/// A kept answer.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    format: u32,
    url: String,
    /// When it was fetched or confirmed, in seconds since 1970.
    at: u64,
    pub(super) tag: Option<String>,
    pub(super) body: String,
}

impl Kept {
    /// Time since it was fetched or confirmed.
    pub(super) fn age(&self) -> Duration {
        Duration::from_secs(now_secs().saturating_sub(self.at))
    }

    /// True if it needs no request.
    pub(super) fn is_fresh(&self) -> bool {
        self.age() < FRESH
    }
}

impl Cache {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// The kept answer at a URL.
    pub(super) fn load(&self, url: &Url) -> Option<Kept> {
        let text = files::read_private(&self.path(url)?, MAX_BYTES).ok()?;
        let kept: Kept = json::parse(&text, 4 * text.len() + 4096).ok()?;
        let is_right = kept.format == FORMAT && kept.url == url.as_str() && kept.at <= now_secs();
        (is_right && kept.age() < KEPT).then_some(kept)
    }

    /// Keeps an answer. A failure costs the next request alone.
    pub(super) fn store(&self, url: &Url, body: &[u8], tag: Option<String>) {
        let (Some(folder), Some(path)) = (&self.0, self.path(url)) else { return };
        let Ok(body) = str::from_utf8(body) else { return };
        let kept = Kept { format: FORMAT, url: url.to_string(), at: now_secs(), tag, body: body.to_owned() };
        let Ok(text) = serde_json::to_string(&kept) else { return };
        let written =
            files::make_own_folder(folder).and_then(|()| files::replace(&path, text.as_bytes(), Keep::Cached));
        match written {
            Ok(()) => forget_oldest(folder),
            Err(error) => tracing::debug!(%error, path = %path.display(), "the answer of the registry is not kept"),
        }
    }

    fn path(&self, url: &Url) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{}.json", stubgen::digest(url.as_str()).replace(':', "-"))))
    }
}

/// Removes the files that were written first, down to the limit.
fn forget_oldest(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let written = |path: PathBuf| Some((path.symlink_metadata().ok()?.modified().ok()?, path));
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut files: Vec<(SystemTime, PathBuf)> =
        entries.flatten().map(|entry| entry.path()).filter(is_ours).filter_map(written).collect();
    files.sort();
    let many = files.len().saturating_sub(limits::REGISTRY_KEPT.max);
    for (_, path) in files.into_iter().take(many) {
        let _ = std::fs::remove_file(path);
    }
}
