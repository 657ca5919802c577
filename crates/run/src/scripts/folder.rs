//! The folder of scripts, each file read once: what is checked, hashed and run is the same text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Language;

use base::error::{Cause, Error, ErrorCode};
use base::files;
use base::limits;

/// Extensions of scripts.
const EXTENSIONS: [(&str, Language); 3] =
    [("js", Language::Javascript), ("ts", Language::Javascript), ("star", Language::Starlark)];
/// Extensions that people may take for those of scripts, and the right one.
const MISTAKEN: [(&str, &str); 6] =
    [("mjs", "js"), ("cjs", "js"), ("jsx", "js"), ("mts", "ts"), ("tsx", "ts"), ("py", "star")];
/// Folder that package managers write.
const PACKAGES: &str = "node_modules";

/// One script as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Wire name of its tool: the path below the folder with `/`, without extension.
    pub name: String,
    /// Language by its extension. JavaScript may be TypeScript.
    pub language: Language,
    /// The file.
    pub path: PathBuf,
    /// Its text, without a byte order mark.
    pub code: Arc<str>,
    /// SHA-256 of the text, in hex.
    pub sha256: String,
}

/// Scripts of a folder, by name.
#[derive(Debug, Clone, Default)]
pub struct Folder {
    /// The scripts, sorted by wire name.
    pub scripts: Vec<Source>,
    /// Files that are no scripts for a mistake of their own, in order of path.
    pub refused: Vec<Refused>,
}

/// A file that is no script for a mistake of its own.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Wire name that its script would have; `None` when its name is the mistake, or that of another refused file.
    pub name: Option<String>,
    /// The mistake.
    pub error: Error,
}

/// A folder or file that cannot be taken.
fn refused(path: &Path, cause: impl Into<Cause>, hint: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgs, path.display().to_string()).caused_by(cause).hint(hint)
}

impl Folder {
    /// Reads all scripts of a folder and of those below it, each of at most `code_bytes`. Hidden files, cassettes,
    /// declarations (`.d.ts`) and files of other kinds are ignored. A mistake of one file refuses this one: too many bytes, a
    /// link that leads out, a name that is no identifier; of two scripts with one name it refuses both.
    ///
    /// # Errors
    /// A mistake of the folder: it is missing or unreadable, has too many files, or is too deep.
    pub fn read(folder: &Path, code_bytes: usize) -> Result<Self, Error> {
        let root = fs::canonicalize(folder).map_err(|error| {
            refused(folder, error, "create the folder, or take `scripts.path` out of the configuration")
        })?;
        if !root.is_dir() {
            return Err(refused(folder, "it is not a folder", "`scripts.path` names the folder of scripts"));
        }
        let mut reader = Reader {
            folder,
            root: &root,
            code_bytes,
            left: limits::SCRIPTS_BYTES.max,
            seen: 0,
            found: BTreeMap::new(),
            clashing: BTreeSet::new(),
            refused: Vec::new(),
        };
        reader.enter(folder, &mut Vec::new())?;
        let mut scripts: Vec<Source> = reader.found.into_values().collect();
        scripts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { scripts, refused: reader.refused })
    }

    /// The folder, for those who need all of it.
    ///
    /// # Errors
    /// All mistakes of its files.
    pub fn whole(self) -> Result<Self, Error> {
        let Some(first) = self.refused.first() else { return Ok(self) };
        let messages: Vec<&str> = self.refused.iter().map(|refused| refused.error.message.as_str()).collect();
        let mut error = first.error.clone();
        error.message = messages.join("\n");
        Err(error)
    }

    /// The script with a wire name.
    pub fn get(&self, name: &str) -> Option<&Source> {
        let at = self.scripts.binary_search_by(|script| script.name.as_str().cmp(name)).ok()?;
        self.scripts.get(at)
    }

    /// The script that a call names: by wire name, or as code spells it, with `.` or `_` in place of `/`.
    pub fn called(&self, name: &str) -> Option<&Source> {
        let ident = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let spelt =
            |script: &&Source| script.name.replace('/', ".") == name || script.name.replace('/', "_") == ident(name);
        self.get(name).or_else(|| self.scripts.iter().find(spelt))
    }
}

struct Reader<'f> {
    folder: &'f Path,
    /// The folder without links.
    root: &'f Path,
    code_bytes: usize,
    /// Bytes left for all scripts.
    left: usize,
    /// Entries of folders so far.
    seen: usize,
    /// Scripts by identifier, in lower case as some filesystems compare.
    found: BTreeMap<String, Source>,
    /// Identifiers that several scripts have.
    clashing: BTreeSet<String>,
    refused: Vec<Refused>,
}

impl Reader<'_> {
    /// Reads the scripts of one folder; `within` are the names of the folders above.
    fn enter(&mut self, folder: &Path, within: &mut Vec<String>) -> Result<(), Error> {
        if within.len() > limits::SCRIPT_FOLDERS.max {
            let what = format!("over {} folders below each other", limits::SCRIPT_FOLDERS.max);
            return Err(refused(&self.shown(folder), what, "move the scripts up"));
        }
        let failed = |error: std::io::Error| refused(folder, error, "make the folder readable");
        let mut entries: Vec<DirEntry> = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            self.seen += 1;
            if self.seen > limits::SCRIPT_FILES.max {
                let what = format!("over {} files, the limit of a folder of scripts", limits::SCRIPT_FILES.max);
                return Err(refused(self.folder, what, "have only scripts and their tests there"));
            }
            entries.push(entry.map_err(failed)?);
        }
        // The first mistake is the same each time.
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            match self.entry(&entry, within) {
                Ok(None) => {}
                Ok(Some(folder)) => {
                    within.push(folder);
                    self.enter(&entry.path(), within)?;
                    within.pop();
                }
                Err(error) => self.refused.push(Refused { name: wire_name(&entry, within), error }),
            }
            if self.found.len() > limits::SCRIPTS.max {
                let what = format!("over {} scripts", limits::SCRIPTS.max);
                return Err(refused(self.folder, what, "move those that are no tools elsewhere"));
            }
        }
        Ok(())
    }

    /// Reads an entry if it is a script; returns the name of one that is a folder.
    fn entry(&mut self, entry: &DirEntry, within: &[String]) -> Result<Option<String>, Error> {
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(refused(&self.shown(&path), "its name is not UTF-8", "rename it"));
        };
        if name.starts_with('.') || name == PACKAGES {
            return Ok(None);
        }
        let failed = |error: std::io::Error| refused(&self.shown(&path), error, "remove it, or mend it");
        let mut kind = entry.file_type().map_err(failed)?;
        if kind.is_symlink() {
            if !is_script(&name) && !fs::metadata(&path).is_ok_and(|target| target.is_dir()) {
                return Ok(None);
            }
            let target = fs::canonicalize(&path).map_err(failed)?;
            if !target.starts_with(self.root) {
                let what = "the link leads out of the folder of scripts";
                return Err(refused(&self.shown(&path), what, "put the file itself there"));
            }
            kind = fs::symlink_metadata(&target).map_err(failed)?.file_type();
            if kind.is_dir() {
                let what = "it is a link to a folder";
                let hint = "link to single scripts, or move the folder";
                return Err(refused(&self.shown(&path), what, hint));
            }
            return self.file(&path, &target, &name, within).map(|()| None);
        }
        if kind.is_dir() {
            return Ok(Some(name));
        }
        self.file(&path, &path, &name, within).map(|()| None)
    }

    /// Reads a script; `target` is the file behind a link.
    fn file(&mut self, path: &Path, target: &Path, name: &str, within: &[String]) -> Result<(), Error> {
        let shown = self.shown(path);
        let Some((stem, extension)) = name.rsplit_once('.') else { return Ok(()) };
        if let Some((_, right)) = MISTAKEN.iter().find(|(wrong, _)| *wrong == extension) {
            let hint = format!("rename it to {stem}.{right}, or move it out of the folder");
            return Err(refused(&shown, format!("a script does not end in .{extension}"), hint));
        }
        let Some((_, language)) = EXTENSIONS.iter().find(|(known, _)| *known == extension) else { return Ok(()) };
        if stem.ends_with(".d") {
            return Ok(());
        }
        for part in within.iter().map(String::as_str).chain([stem]) {
            if !stubgen::is_tool_ident(part) {
                let what = format!("{part:?} is no identifier of Python and JavaScript, or a reserved word there");
                let hint = "write letters, digits and `_`, the first one a letter: a script is called by its name";
                return Err(refused(&shown, what, hint));
            }
        }
        let name = within.iter().map(String::as_str).chain([stem]).collect::<Vec<_>>().join("/");
        let max = self.code_bytes.min(self.left);
        let text = files::read_text(target, max as u64).map_err(|error| {
            let hint = match self.left < self.code_bytes {
                true => format!("all scripts together have {} bytes at most", limits::SCRIPTS_BYTES.max),
                false => "`sandbox.limits.code` bounds a script".to_owned(),
            };
            refused(&shown, error, hint)
        })?;
        self.left = self.left.saturating_sub(text.len());
        let code: Arc<str> = text.strip_prefix('\u{feff}').unwrap_or(&text).into();
        let sha256 = stubgen::digest(&*code);
        let source = Source { name, language: *language, path: path.to_owned(), code, sha256 };
        self.add(source, &shown)
    }

    fn add(&mut self, source: Source, shown: &Path) -> Result<(), Error> {
        let ident = ident(&source.name);
        let hint = "give each script a name of its own; case, and `/` or `_`, do not tell two apart";
        if let Some(other) = self.found.remove(&ident) {
            let other_shown = self.shown(&other.path);
            let what = format!("its tool has the same name as that of {}", shown.display());
            let name = Some(other.name);
            self.refused.push(Refused { name, error: refused(&other_shown, what, hint) });
            self.clashing.insert(ident);
            let what = format!("its tool has the same name as that of {}", other_shown.display());
            return Err(refused(shown, what, hint));
        }
        if self.clashing.contains(&ident) {
            return Err(refused(shown, "its tool has the same name as those of others", hint));
        }
        self.found.insert(ident, source);
        Ok(())
    }

    /// A path as people know it: relative to the folder of scripts, and below its name.
    fn shown(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(self.folder).unwrap_or(path);
        Path::new(self.folder.file_name().unwrap_or_default()).join(below)
    }
}

/// Wire name of the script of an entry, if it can have one.
fn wire_name(entry: &DirEntry, within: &[String]) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let (stem, _) = name.rsplit_once('.').filter(|_| is_script(&name))?;
    let parts: Vec<&str> = within.iter().map(String::as_str).chain([stem]).collect();
    parts.iter().all(|part| stubgen::is_tool_ident(part)).then(|| parts.join("/"))
}

/// Name of a script's tool, in lower case as some filesystems compare: what tells two scripts apart.
pub fn ident(name: &str) -> String {
    name.replace('/', "_").to_lowercase()
}

/// True for the name of a script.
fn is_script(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.iter().any(|(known, _)| *known == extension))
}
