//! A compressed tar file whose bytes depend on nothing but its entries.

use anyhow::Context;
use flate2::{Compression, write::GzEncoder};

/// Time of every entry: the one that npm uses, since some tools refuse the year 1970.
const TIME: u64 = 499_162_500;

/// A tar file in the making.
pub(super) struct Tarball(tar::Builder<GzEncoder<Vec<u8>>>);

impl Tarball {
    pub(super) fn new() -> Self {
        Self(tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default())))
    }

    /// Adds a file.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        self.entry(path, content, 0o644)
    }

    /// Adds a file that is executed.
    pub(super) fn program(&mut self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        self.entry(path, content, 0o755)
    }

    fn entry(&mut self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(TIME);
        header.set_uid(0);
        header.set_gid(0);
        self.0.append_data(&mut header, path, content).with_context(|| format!("cannot pack {path}"))
    }

    /// The bytes of the whole file.
    pub(super) fn finish(self) -> anyhow::Result<Vec<u8>> {
        Ok(self.0.into_inner()?.finish()?)
    }
}
