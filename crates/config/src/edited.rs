//! Edits of the configuration file on disk: none makes a valid one invalid.

use std::io;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError, Edit, Env, check_text};
use base::files::Edited;
use base::limits;

/// Most attempts on a file that other programs write.
const ATTEMPTS: usize = 20;

/// An edit that was written.
#[derive(Debug)]
pub struct Written {
    /// The text before and after it.
    pub texts: [String; 2],
    /// The old file, if there was one.
    pub backup: Option<PathBuf>,
}

/// Why nothing was written.
#[derive(Debug)]
pub struct Unwritten {
    /// The problem.
    pub message: String,
    /// The fix.
    pub hint: Option<String>,
}

impl From<ConfigError> for Unwritten {
    fn from(mut error: ConfigError) -> Self {
        let hint = error.hint.take();
        Self { message: error.to_string(), hint }
    }
}

/// The text of a file that is edited; `None` without one.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn editable(path: &Path) -> Result<Option<String>, Unwritten> {
    text_of(path, &read(path)?)
}

/// Edits a file, which has the text `new` if there is none; `None` of `change` leaves it as it is.
///
/// # Errors
/// The file cannot be read or written, `change` fails, or its result is invalid where the text before was valid.
pub fn edit_file(
    path: &Path,
    new: &str,
    env: Env<'_>,
    change: impl Fn(&Edit<'_>) -> Result<Option<String>, ConfigError>,
) -> Result<Option<Written>, Unwritten> {
    let unwritten = |message: String| Unwritten { message, hint: None };
    for _ in 0..ATTEMPTS {
        let edited = read(path)?;
        let before = text_of(path, &edited)?.unwrap_or_else(|| new.to_owned());
        let Some(after) = change(&Edit::parse(path, &before)?)? else { return Ok(None) };
        let check = |text: &str| Config::of_text(text, path, env).map(drop);
        if let (Ok(()), Err(error)) = (check(&before), check(&after)) {
            return Err(unwritten(format!("the edit would make the file invalid: {error}")));
        }
        match edited.replace(after.as_bytes()) {
            Ok(backup) => {
                // The last one is enough to go back, and what was removed is to be gone.
                if let Some(backup) = &backup {
                    let _ = edited.forget_backups(backup);
                }
                return Ok(Some(Written { texts: [before, after], backup }));
            }
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) => return Err(unwritten(format!("cannot write {}: {error}", path.display()))),
        }
    }
    let message = format!("{} is being changed by another program; nothing was written", path.display());
    Err(Unwritten { message, hint: Some("try again".to_owned()) })
}

fn read(path: &Path) -> Result<Edited, Unwritten> {
    let failed = |error| Unwritten { message: format!("cannot read {}: {error}", path.display()), hint: None };
    Edited::read(path, limits::CONFIGURATION.max as u64).map_err(failed)
}

fn text_of(path: &Path, edited: &Edited) -> Result<Option<String>, Unwritten> {
    Ok(edited.content().map(|bytes| check_text(path, bytes.to_vec())).transpose()?)
}
