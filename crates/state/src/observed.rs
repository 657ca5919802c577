//! Observed shapes in one private file per server, beside its cached tool list. A lock of its own makes gateways take
//! turns: the file itself is replaced, so that a reader sees all of the old or all of the new.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::shapes::Shapes;
use base::error::{Error, ErrorCode, Result};
use base::files::{self, Keep};
use base::json;
use base::limits;

/// Changes with the format of the files; the first is read too.
const FORMAT: u32 = 2;
/// Most bytes of a file.
const MAX_BYTES: usize = limits::OBSERVED.max;
/// Memory that its values may take.
const MAX_TREE: usize = 32 * MAX_BYTES;

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    tools: Shapes,
}

/// Merges further shapes into those of `file`, and returns all of them.
pub(super) fn observe(file: &Path, more: Shapes) -> Result<Shapes> {
    merge(file, more).map_err(|error| {
        Error::new(ErrorCode::Internal, format!("{}: observed shapes cannot be kept", file.display())).caused_by(error)
    })
}

fn merge(path: &Path, more: Shapes) -> io::Result<Shapes> {
    if more.is_empty() {
        return read(path);
    }
    let lock = files::open_lock(&PathBuf::from(format!("{}.lock", path.display())))?;
    lock.lock()?;
    let mut tools = read(path)?;
    tools.merge(more);
    files::replace(path, &text(&tools)?, Keep::Cached)?;
    Ok(tools)
}

/// Shapes as they are kept.
pub(super) fn text(tools: &Shapes) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(&Kept { format: FORMAT, tools: tools.clone() })?;
    if text.len() > MAX_BYTES {
        return Err(io::Error::other(format!("{} bytes, over the limit of {MAX_BYTES}", text.len())));
    }
    Ok(text)
}

/// Shapes from their text. One of another format, or damaged, has none.
pub(super) fn parse(text: &[u8]) -> Shapes {
    let kept = json::parse::<Kept>(text, MAX_TREE).ok().filter(|kept| (1..=FORMAT).contains(&kept.format));
    kept.map(|kept| kept.tools.checked()).unwrap_or_default()
}

/// The shapes in a file.
fn read(path: &Path) -> io::Result<Shapes> {
    let text = files::if_there(files::read_private(path, MAX_BYTES as u64))?;
    Ok(text.map(|text| parse(&text)).unwrap_or_default())
}
