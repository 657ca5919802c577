//! Scripts that agents propose, one private file each in a folder of which nothing is called or served. A lock on the
//! folder orders the changes of all processes, and a file is replaced as a whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::replay::Cassette;
use crate::scripts::{Extension, ident, is_script_name};
use base::error::{Cause, Error, ErrorCode, Result};
use base::files::{self, Keep};
use base::{json, limits};

/// Owner of the scripts that `forgefs scripts suggest` proposes. No client has such a name: none replaces one of them.
pub const SUGGESTED: &str = "_suggest";
/// Version of the format.
const VERSION: u32 = 1;
/// Extension of a proposal.
const EXTENSION: &str = ".json";
/// Name of the lock.
const LOCK: &str = ".lock";
/// Most entries of the folder that are looked at.
const ENTRIES: usize = 8 * limits::PROPOSALS.max;
/// Longest wait for another process that changes the folder.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most memory of the values of a proposal.
const VALUES: usize = 8 * limits::PROPOSAL.max;
/// Suggested fix where there is no room.
const ROOM: &str = "a person has to accept or reject some: `forgefs scripts proposals`";

/// A proposed script. Every text of it is an agent's or a server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// Version of the format.
    pub proposal: u32,
    /// Name of the script, such as billing/refund.
    pub name: String,
    /// Client that proposed it, as the gateway knows it.
    pub client: String,
    /// The name that this client gives itself; for [`SUGGESTED`] the client whose runs they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Run that it was.
    pub run: String,
    /// Time of the proposal, in Unix milliseconds.
    pub at_ms: u64,
    /// Language by the extension of its file.
    pub extension: Extension,
    /// The script.
    pub code: String,
    /// Its first test, as the file has it; empty for that of a dry run, which has none.
    pub cassette: String,
    /// Its further tests, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_tests: Vec<String>,
}

/// A proposal as it was read.
#[derive(Debug)]
pub struct Kept {
    /// The proposal.
    pub proposal: Proposal,
    /// Its tests.
    pub tests: Vec<Cassette>,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// Name of its file.
    pub file: String,
}

/// A file of the folder: a proposal, or why it is none.
pub type Found = std::result::Result<Kept, (String, String)>;

/// A lock on the folder, held until dropped.
pub struct Alone(#[expect(dead_code, reason = "it is released with the file")] File);

/// The folder of proposals.
#[derive(Debug, Clone)]
pub struct Proposals {
    folder: PathBuf,
}

impl Proposals {
    /// Proposals in this folder, which need not be there.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Checks that a client may propose a script of this name.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a name that is none, or one of another proposal; `BUDGET_EXCEEDED` without room.
    pub fn check(&self, name: &str, client: &str) -> Result<()> {
        self.place(name, client).map(drop)
    }

    /// File of a client's proposal of this name, which it may write.
    fn place(&self, name: &str, client: &str) -> Result<String> {
        limits::PROPOSAL_NAME.check(name.len())?;
        if !is_script_name(name) {
            let what = format!("`save_as`: {:?} is no name of a script", base::text::brief(name));
            return Err(Error::new(ErrorCode::InvalidArgs, what)
                .hint("write letters, digits and `_`, the first one a letter; `/` for folders; no reserved words"));
        }
        self.free(name, client)
    }

    /// Keeps a proposal, in place of the one of the same name by the same client; the name of its file.
    ///
    /// # Errors
    /// As [`Proposals::check`]; and `INVALID_ARGS` for a proposal that is too large, `BUSY` while another process
    /// changes the folder, `INTERNAL` when it cannot be written.
    pub fn keep(&self, proposal: &Proposal) -> Result<String> {
        let text =
            serde_json::to_string_pretty(proposal).map_err(|error| failed("a proposal", "has no JSON", error))?;
        limits::PROPOSAL.check(text.len())?;
        let _alone = self.alone()?;
        let file = self.place(&proposal.name, &proposal.client)?;
        let written = files::replace(&self.folder.join(&file), text.as_bytes(), Keep::Synced);
        written.map_err(|error| failed(&file, "cannot be written", error))?;
        Ok(file)
    }

    /// All proposals, by the name of their file.
    ///
    /// # Errors
    /// `INTERNAL` when the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Found>> {
        Ok(self.files()?.into_iter().map(|file| self.read(&file).map_err(|why| (file, why))).collect())
    }

    /// The proposal of a name; `None` without one.
    ///
    /// # Errors
    /// `INVALID_ARGS` when its file is no proposal, `INTERNAL` when the folder cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Kept>> {
        let ident = ident(name);
        let Some(file) = self.files()?.into_iter().find(|file| of(file).is_some_and(|(own, _)| own == ident)) else {
            return Ok(None);
        };
        match self.read(&file) {
            Ok(kept) => Ok(Some(kept).filter(|kept| kept.proposal.name == name)),
            Err(why) => Err(Error::new(ErrorCode::InvalidArgs, format!("{} is no proposal: {why}", self.shown(&file)))
                .hint("`forgefs scripts reject` with the name of the file removes it")),
        }
    }

    /// Removes a file of the folder; false if there is none of this name.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be removed.
    pub fn remove(&self, file: &str, _: &Alone) -> Result<bool> {
        if !self.files()?.iter().any(|known| known == file) {
            return Ok(false);
        }
        fs::remove_file(self.folder.join(file)).map_err(|error| failed(file, "cannot be removed", error))?;
        Ok(true)
    }

    /// Waits until no other process changes the folder, and keeps all from changing it.
    ///
    /// # Errors
    /// `BUSY` when one takes too long, `INTERNAL` when the folder cannot be used.
    pub fn alone(&self) -> Result<Alone> {
        let unfit = |error: io::Error| failed("the folder of proposals", "cannot be used", error);
        self.refuse_link().map_err(unfit)?;
        let lock = files::open_lock(&self.folder.join(LOCK)).map_err(unfit)?;
        match files::lock(&lock, PATIENCE) {
            Ok(()) => Ok(Alone(lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let what = format!("another process changes the proposals, for over {} s", PATIENCE.as_secs());
                Err(Error::new(ErrorCode::Busy, what).hint("try again when it has ended"))
            }
            Err(error) => Err(unfit(error)),
        }
    }

    /// A file of the folder as people know it.
    pub fn shown(&self, file: &str) -> String {
        Path::new(self.folder.file_name().unwrap_or_default()).join(file).display().to_string()
    }

    /// File of a client's proposal of this name, unless another proposal has it or there is no room.
    fn free(&self, name: &str, client: &str) -> Result<String> {
        let (ident, file) = (ident(name), format!("{}.{client}{EXTENSION}", ident(name)));
        let files = self.files()?;
        let taken = |by: &str| {
            let what = format!("`save_as`: there is a proposal of the name `{name}` already, {by}");
            Err(Error::new(ErrorCode::InvalidArgs, what)
                .hint("use another name; it stays until a person decides about it"))
        };
        match files.iter().find(|file| of(file).is_some_and(|(own, _)| own == ident)) {
            Some(own) if *own == file => match self.read(own) {
                Ok(kept) if kept.proposal.name == name => return Ok(file),
                Ok(kept) => {
                    return taken(&format!("`{}`: `/`, `_` and case do not tell two apart", kept.proposal.name));
                }
                Err(_) => return taken("whose file is damaged"),
            },
            Some(_) => return taken("of another client"),
            None => {}
        }
        let own = files.iter().filter(|file| of(file).is_some_and(|(_, owner)| owner == client)).count();
        for (limit, count) in [(limits::PROPOSALS, files.len()), (limits::PROPOSALS_OF_CLIENT, own)] {
            if count >= limit.max {
                return Err(limit.exceeded(ErrorCode::BudgetExceeded, count + 1).hint(ROOM));
            }
        }
        Ok(file)
    }

    /// Names of the files of proposals, sorted.
    fn files(&self) -> Result<Vec<String>> {
        let unfit = |error: io::Error| failed("the folder of proposals", "cannot be read", error);
        self.refuse_link().map_err(unfit)?;
        let entries = files::if_there(fs::read_dir(&self.folder)).map_err(unfit)?;
        let mut found = Vec::new();
        for (count, entry) in entries.into_iter().flatten().enumerate() {
            if count >= ENTRIES {
                return Err(unfit(io::Error::other(format!("it has over {ENTRIES} entries"))));
            }
            let name = entry.map_err(unfit)?.file_name();
            found.extend(name.to_str().filter(|name| of(name).is_some()).map(str::to_owned));
        }
        found.sort();
        Ok(found)
    }

    /// Reads a file once: what it holds is what is shown, tested and accepted.
    fn read(&self, file: &str) -> std::result::Result<Kept, String> {
        let path = self.folder.join(file);
        let bytes = files::read_private(&path, limits::PROPOSAL.max as u64).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
        let proposal: Proposal = json::parse(text.as_bytes(), VALUES).map_err(|unfit| unfit.to_string())?;
        if proposal.proposal != VERSION {
            return Err(format!("it has version {}, and this ForgeFS reads {VERSION}", proposal.proposal));
        }
        let is_its_name = is_script_name(&proposal.name)
            && of(file) == Some((&ident(&proposal.name), &proposal.client))
            && proposal.name.len() <= limits::PROPOSAL_NAME.max;
        if !is_its_name {
            return Err("its name or client is not that of its file".to_owned());
        }
        let tests = proposal.tests().map(Cassette::parse).collect::<Result<_>>().map_err(|error| error.message)?;
        Ok(Kept { tests, sha256: stubgen::digest(&text), file: file.to_owned(), proposal })
    }

    /// A link would have proposals land elsewhere.
    fn refuse_link(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.folder).is_ok_and(|metadata| metadata.is_symlink()) {
            true => Err(io::Error::other("it is a link; replace it by the folder itself")),
            false => Ok(()),
        }
    }
}

impl Proposal {
    /// Its tests, as their files have them.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(&self.cassette).chain(&self.more_tests);
        all.map(String::as_str).filter(|test| !test.is_empty())
    }

    /// A proposal of now.
    pub fn new(
        name: &str,
        client: &str,
        agent: Option<String>,
        run: &str,
        at_ms: u64,
        script: (Extension, String, &[Cassette]),
    ) -> Self {
        let (extension, code, tests) = script;
        let mut tests = tests.iter().map(Cassette::text);
        let (cassette, more_tests) = (tests.next().unwrap_or_default(), tests.collect());
        let (name, client, run) = (name.to_owned(), client.to_owned(), run.to_owned());
        Self { proposal: VERSION, name, client, agent, run, at_ms, extension, code, cassette, more_tests }
    }
}

/// Identifier and client in the name of a file.
fn of(file: &str) -> Option<(&str, &str)> {
    let (ident, client) = file.strip_suffix(EXTENSION)?.split_once('.')?;
    (!ident.is_empty() && !client.is_empty()).then_some((ident, client))
}

/// The error of a file, by its name: its path is for the log.
fn failed(file: &str, what: &str, error: impl Into<Cause> + std::fmt::Display) -> Error {
    tracing::error!(file, %error, "a proposal {what}");
    Error::new(ErrorCode::Internal, format!("{file} {what}"))
        .caused_by(error)
        .hint("a person has to see to the folder and the disk")
}
