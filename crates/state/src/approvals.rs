//! Approvals, first lists of servers and learned words, in one private file each, replaced as a whole. A lock on their
//! folder orders the changes of all processes.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::RecordKind;
use super::folders::{self, is_id};
use base::error::{Error, ErrorCode, Result};
use base::files::{self, Keep};
use base::limits;

/// Extension of an approval.
const APPROVAL: &str = "json";
/// Name of the lock.
const LOCK: &str = ".lock";
/// Most bytes of a file of one kind: of an approval as it was asked for, and what became of it.
fn largest(kind: RecordKind) -> u64 {
    let bytes = match kind {
        RecordKind::Approval | RecordKind::Learned => limits::APPROVAL_FILE.max + (16 << 10),
        RecordKind::FirstUse => limits::FIRST_USE.max,
    };
    bytes as u64
}

/// Reads a record; `None` without one.
pub(super) fn find(folder: &Path, id: &str, kind: RecordKind) -> Result<Option<Vec<u8>>> {
    if !is_id(id) {
        return Ok(None);
    }
    let path = folder.join(id).with_extension(APPROVAL);
    files::if_there(files::read_private(&path, largest(kind)))
        .map_err(|error| failed(&path, kind, "is not used", error))
}

/// Ids of the approvals in a folder.
pub(super) fn list(folder: &Path) -> Result<Vec<String>> {
    let found = folders::files(folder, APPROVAL)
        .map_err(|error| failed(folder, RecordKind::Approval, "cannot be read", error))?;
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

/// Replaces a record, see [`super::State::keep_record`].
pub(super) fn keep(
    folder: &Path,
    id: &str,
    kind: RecordKind,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<bool> {
    let path = folder.join(id).with_extension(APPROVAL);
    let written = |error: io::Error| failed(&path, kind, "cannot be written", error);
    if !is_id(id) {
        return Err(written(ErrorKind::InvalidInput.into()));
    }
    if after.is_some_and(|after| after.len() as u64 > largest(kind)) {
        return Err(written(ErrorKind::FileTooLarge.into()));
    }
    // Waits for the lock of the folder.
    let alone = files::open_lock(&folder.join(LOCK)).map_err(written)?;
    alone.lock().map_err(written)?;
    if find(folder, id, kind)?.as_deref() != before {
        return Ok(false);
    }
    match after {
        Some(after) => files::replace(&path, after, Keep::Synced).map_err(written)?,
        None if before.is_some() => fs::remove_file(&path).map_err(written)?,
        None => {}
    }
    Ok(true)
}

/// The error of a record, by its id: its path is for the log.
fn failed(file: &Path, kind: RecordKind, what: &str, error: io::Error) -> Error {
    let record = match kind {
        RecordKind::Approval => "approval",
        RecordKind::FirstUse => "first list",
        RecordKind::Learned => "learned words",
    };
    tracing::error!(path = %file.display(), %error, "the {record} {what}");
    let id = file.file_stem().unwrap_or_default().display();
    Error::new(ErrorCode::Internal, format!("the {record} {id} {what}"))
        .caused_by(error)
        .hint("see to the file and the disk; the log has its path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_can_be_read_again_and_what_is_larger_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let kinds = [RecordKind::Approval, RecordKind::FirstUse, RecordKind::Learned];
        for (kind, id) in kinds.into_iter().zip(["00000000000a", "00000000000b", "00000000000c"]) {
            let most = usize::try_from(largest(kind)).expect("a size");
            let text = vec![b'x'; most];
            assert!(keep(folder.path(), id, kind, None, Some(&text)).expect("it fits"), "{kind:?}");
            assert!(find(folder.path(), id, kind).expect("it is read") == Some(text.clone()), "{kind:?}");
            let larger = vec![b'x'; most + 1];
            assert!(keep(folder.path(), id, kind, Some(&text), Some(&larger)).is_err(), "{kind:?}");
            assert!(find(folder.path(), id, kind).expect("it is read") == Some(text), "{kind:?}: the old one stays");
        }
    }
}
