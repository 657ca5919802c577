//! Tokens that were taken back, in a private file of each machine: they stay refused by a replica that starts while the
//! store is away.

use std::collections::HashSet;
use std::path::PathBuf;

use super::super::Revoked;
use base::error::Result;
use base::files::{self, Keep};
use base::task;
use config::Store;

/// Most bytes of the file.
const LARGEST: u64 = 16 << 20;

/// The file of the tokens that were taken back; `None` without a state folder.
#[derive(Debug)]
pub(super) struct Revocations(Option<PathBuf>);

impl Revocations {
    pub(super) fn new(store: &Store) -> Self {
        Self(store.folder.as_ref().map(|folder| folder.join(format!("revoked-{}", store.prefix))))
    }

    /// The tokens that it has. One that cannot be used is logged, and has none.
    pub(super) fn read(&self) -> HashSet<String> {
        let Some(file) = &self.0 else { return HashSet::new() };
        let text = files::if_there(files::read_private(file, LARGEST)).unwrap_or_else(|error| {
            tracing::error!(%error, file = %file.display(), "which tokens were taken back is known to the store alone");
            None
        });
        String::from_utf8_lossy(&text.unwrap_or_default()).split_whitespace().map(str::to_owned).collect()
    }

    /// Writes all of them; false if that failed.
    pub(super) async fn keep(&self, tokens: Revoked) -> bool {
        let Some(file) = self.0.clone() else { return true };
        let write = move || {
            let lines: String = tokens.iter().map(|token| format!("{token}\n")).collect();
            let written = files::replace(&file, lines.as_bytes(), Keep::Synced);
            if let Err(error) = &written {
                tracing::error!(%error, file = %file.display(), "tokens that were taken back could not be noted");
            }
            Result::Ok(written.is_ok())
        };
        task::apart(write).await.unwrap_or(false)
    }
}
