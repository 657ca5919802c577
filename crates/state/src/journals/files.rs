//! Journals in one append-only private file each, locked by its writer. Who continues a run is a file beside it, which
//! only one can create.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{BeginJournal, Journal, JournalFile, running, taken, too_long};
use crate::folders::{self, ID, JOURNAL_KEY, is_id};
use base::error::{Error, ErrorCode, Result};
use base::files::{self, Keep};
use base::{random, task};

/// Extension of a journal.
const JOURNAL: &str = "jsonl";
/// Extension of the file that names the run which continues it.
const NEXT: &str = "next";
/// Most bytes of a first line: it has the script.
const FIRST: u64 = 8 << 20;
/// Folders that a first journal may make or change: that of the client, of the journals, and the state folder.
const NEW_FOLDERS: usize = 3;
/// Bytes that are read at once in search of a line's begin.
const BLOCK: u64 = 64 << 10;
/// Digits of a key.
const KEY: u64 = 64;

#[derive(Debug)]
struct JournalWriter {
    open: Mutex<Open>,
    fsync: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// True if half a line may be at the end, which nothing may follow.
    is_torn: bool,
}

impl Journal for JournalWriter {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let work = || {
            let mut open = self.open.lock();
            if open.is_torn {
                return Err(io::Error::other("an earlier line is torn"));
            }
            let written = open.file.write_all(lines).and_then(|()| match self.fsync {
                true => open.file.sync_data(),
                false => Ok(()),
            });
            match written {
                Ok(()) => open.bytes += lines.len() as u64,
                Err(_) => open.is_torn = open.file.set_len(open.bytes).is_err(),
            }
            written
        };
        task::work_on(if self.fsync { usize::MAX } else { lines.len() }, work)
    }
}

/// Begins a journal, see [`super::JournalStore::begin_journal`].
pub(crate) fn begin(begin: &BeginJournal) -> Result<Arc<dyn Journal>> {
    let path = begin.folder.join(&begin.id).with_extension(JOURNAL);
    let failed = |error: io::Error| internal(&path, "cannot be begun", error);
    files::make_own_folder(&begin.folder).map_err(failed)?;
    // It is new: there is nothing to follow or to check.
    let mut file = files::private().create_new(true).append(true).read(true).open(&path).map_err(failed)?;
    let line = format!("{}\n", begin.first);
    let written = file.lock().and_then(|()| file.write_all(line.as_bytes()));
    let written = written.and_then(|()| match begin.fsync {
        true => file.sync_data().and_then(|()| sync_folders(&begin.folder)),
        false => Ok(()),
    });
    let written = written.map_err(failed);
    let marked = written.and_then(|()| begin.after.last().map_or(Ok(()), |after| mark(begin, after)));
    if let Err(error) = marked {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    let open = Open { file, bytes: line.len() as u64, is_torn: false };
    Ok(Arc::new(JournalWriter { open: Mutex::new(open), fsync: begin.fsync }))
}

/// Syncs the names of new files in a client's folder, and the name of that folder, to disk.
fn sync_folders(folder: &Path) -> io::Result<()> {
    let mut new = folder.ancestors().take(NEW_FOLDERS).filter(|folder| !folder.as_os_str().is_empty());
    new.try_for_each(files::sync_folder)
}

/// Marks `after` as continued by this run, unless another one continues it.
fn mark(begin: &BeginJournal, after: &str) -> Result<()> {
    let path = journal_path(&begin.folder, after)?;
    let failed = |error: io::Error| internal(&path, "cannot be continued", error);
    if is_running(&path).map_err(failed)? {
        return Err(running(after));
    }
    let (next, keep) = (path.with_extension(NEXT), if begin.fsync { Keep::Synced } else { Keep::Cached });
    if !files::create(&next, begin.id.as_bytes(), keep).map_err(failed)? {
        return Err(taken(after));
    }
    if begin.fsync
        && let Err(error) = sync_folders(&begin.folder)
    {
        let _ = fs::remove_file(next);
        return Err(failed(error));
    }
    // All of a chain is as old as its last run: a later one needs all of it.
    for id in &begin.after {
        let path = journal_path(&begin.folder, id)?;
        let touched = files::open_private(&path, OpenOptions::new().append(true))
            .and_then(|file| file.set_modified(SystemTime::now()));
        touched.unwrap_or_else(|error| tracing::warn!(%error, path = %path.display(), "a journal keeps its age"));
    }
    Ok(())
}

/// Names of the folders in a folder.
pub(crate) fn subfolders(folder: &Path) -> Result<Vec<String>> {
    let read = || {
        let mut names = Vec::new();
        for entry in folders::entries(folder)?.into_iter().flatten() {
            let entry = entry?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    };
    read().map_err(|error| internal(folder, "cannot be read", error))
}

/// Bytes that a file takes on disk.
fn on_disk(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.len().max(metadata.blocks() * 512)
}

/// Journals in a folder, oldest first: id, bytes on disk, time since the last change.
pub(crate) fn list(folder: &Path) -> Result<Vec<(String, u64, Duration)>> {
    let read = || {
        let mut found = Vec::new();
        for (id, entry) in folders::files(folder, JOURNAL)? {
            // One that was removed meanwhile is no error.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                let next = fs::metadata(entry.path().with_extension(NEXT)).map_or(0, |next| on_disk(&next));
                found.push((metadata.modified()?, id, on_disk(&metadata) + next));
            }
        }
        found.sort_unstable();
        // One from the future, by a wrong clock, is of now.
        let aged = found.into_iter().map(|(changed, id, bytes)| (id, bytes, changed.elapsed().unwrap_or_default()));
        Ok(aged.collect())
    };
    read().map_err(|error| internal(folder, "cannot be read", error))
}

/// Key of the journals below a folder, see [`super::JournalStore::journal_key`].
pub(crate) fn key(folder: &Path) -> Result<String> {
    let path = folder.join(JOURNAL_KEY);
    let make = || {
        files::make_own_folder(folder)?;
        // Without it no journal can be written: half of one must not stay behind a power failure.
        files::create(&path, format!("{}{}", random::token(), random::token()).as_bytes(), Keep::Synced)
    };
    let read = || files::read_private(&path, KEY).map(|key| String::from_utf8_lossy(&key).into_owned());
    let key = match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => make().and_then(|_| read()),
        key => key,
    };
    match key {
        Ok(key) if key.len() as u64 == KEY => Ok(key),
        Ok(_) => {
            let then = "remove the file: a new one is made, and what earlier runs called counts as changed";
            tracing::error!(path = %path.display(), "no run has a journal, since their key is damaged: {then}");
            Err(Error::new(ErrorCode::Internal, "the key of the journals is damaged").hint(then))
        }
        Err(error) => Err(internal(&path, "cannot be used", error)),
    }
}

/// One journal.
pub(crate) fn find(folder: &Path, id: &str) -> Result<Option<JournalFile>> {
    if !is_id(id) {
        return Ok(None);
    }
    look(folder, id).map_err(|error| internal(&folder.join(id), "cannot be read", error))
}

fn look(folder: &Path, id: &str) -> io::Result<Option<JournalFile>> {
    let path = folder.join(id).with_extension(JOURNAL);
    let Some(file) = files::if_there(files::open_private(&path, OpenOptions::new().read(true)))? else {
        return Ok(None);
    };
    let metadata = file.metadata()?;
    let is_running = is_locked(&file)?;
    let mut first = String::new();
    BufReader::new(file.take(FIRST)).read_line(&mut first)?;
    let next = files::if_there(files::read_private(&path.with_extension(NEXT), ID as u64))?;
    let next = next.and_then(|id| String::from_utf8(id).ok()).filter(|id| is_id(id));
    let changed = metadata.modified()?;
    Ok(Some(JournalFile { id: id.to_owned(), first, bytes: metadata.len(), changed, is_running, next }))
}

/// Lines of a journal, without half a line at its end.
pub(crate) fn lines(folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
    let path = journal_path(folder, id)?;
    let read = || {
        let file = files::open_private(&path, OpenOptions::new().read(true))?;
        let mut bytes = Vec::new();
        file.take(max as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mut bytes = read().map_err(|error| internal(&path, "cannot be read", error))?;
    if bytes.len() > max {
        return Err(too_long(id, max));
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    Ok(bytes)
}

/// Begin of a journal's last whole line, see [`super::JournalStore::journal_end`].
pub(crate) fn end(folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
    let path = journal_path(folder, id)?;
    let read = || {
        let mut file = files::open_private(&path, OpenOptions::new().read(true))?;
        let length = file.metadata()?.len();
        let mut line = Vec::new();
        if let Some(end) = line_end_before(&mut file, length)? {
            let start = line_end_before(&mut file, end)?.map_or(0, |before| before + 1);
            file.seek(SeekFrom::Start(start))?;
            file.take((end - start).min(max as u64)).read_to_end(&mut line)?;
        }
        Ok(line)
    };
    read().map_err(|error| internal(&path, "cannot be read", error))
}

/// Position of the last line end before `position`.
fn line_end_before(file: &mut File, mut position: u64) -> io::Result<Option<u64>> {
    let mut block = Vec::new();
    while position > 0 {
        let begin = position.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(begin))?;
        block.clear();
        (&mut *file).take(position - begin).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + at as u64));
        }
        position = begin;
    }
    Ok(None)
}

/// Removes a journal.
pub(crate) fn remove(folder: &Path, id: &str) -> Result<bool> {
    let path = journal_path(folder, id)?;
    let failed = |error: io::Error| internal(&path, "cannot be removed", error);
    match files::if_there(is_running(&path)).map_err(failed)? {
        Some(true) => return Err(running(id)),
        Some(false) => {}
        None => return Ok(false),
    }
    fs::remove_file(&path).map_err(failed)?;
    files::if_there(fs::remove_file(path.with_extension(NEXT))).map_err(failed)?;
    Ok(true)
}

fn journal_path(folder: &Path, id: &str) -> Result<PathBuf> {
    match is_id(id) {
        true => Ok(folder.join(id).with_extension(JOURNAL)),
        false => Err(Error::new(ErrorCode::InvalidArgs, "that is not the id of a run")
            .hint("an id has twelve digits; `forgefs runs list` lists them")),
    }
}

fn is_running(path: &Path) -> io::Result<bool> {
    is_locked(&files::open_private(path, OpenOptions::new().read(true))?)
}

/// True if another handle holds the lock of a journal's writer.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn internal(path: &Path, what: &str, error: io::Error) -> Error {
    tracing::error!(path = %path.display(), %error, "a journal {what}");
    let id = path.file_stem().unwrap_or_default().display();
    Error::new(ErrorCode::Internal, format!("the journal {id} {what}"))
        .caused_by(error)
        .hint("see to the disk; `on = false` in [journal] runs scripts without one")
}
