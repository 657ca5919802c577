//! What was spent on a day, in a private file: one line of fixed length, written in one piece under a lock, so that
//! neither a crash nor another gateway leaves half of it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::Amount;
use crate::error::{Error, ErrorCode, Result};
use crate::files::{self, make_private_folder};

/// Bytes of the line: the day, a space, twenty digits of millionths, the end.
const LENGTH: usize = 32;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where what was spent is kept.
#[derive(Debug, Clone)]
pub(super) struct Day {
    file: PathBuf,
}

/// What came of taking from the budget.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is spent.
    Done,
    /// There was not enough.
    Refused {
        /// What was spent before.
        spent: Amount,
        /// When there is a new budget (RFC 3339).
        renews: String,
    },
}

impl Day {
    /// The file of all gateways with this configuration file.
    pub(super) fn new(folder: &Path, config: &Path) -> Self {
        Self { file: folder.join(format!("spent-{}", stubgen::short_digest(&config.to_string_lossy()))) }
    }

    /// Spends `cost` today, unless that exceeds `limit`.
    ///
    /// # Errors
    /// `INTERNAL` when the file cannot be used: what is not known to be left is not spent.
    pub(super) async fn take(&self, cost: Amount, limit: Amount, now: SystemTime) -> Result<Taken> {
        self.change(now, move |spent| match spent.plus(cost) {
            sum if sum > limit => (spent, Taken::Refused { spent, renews: renewal(now) }),
            sum => (sum, Taken::Done),
        })
        .await
    }

    /// Takes back what was spent today.
    pub(super) async fn give_back(&self, cost: Amount, now: SystemTime) {
        // What cannot be given back is in the log, and stays spent.
        let _ = self.change(now, move |spent| (spent.minus(cost), ())).await;
    }

    /// What was spent today, as far as it can be read.
    pub(super) fn spent(&self, now: SystemTime) -> Option<Amount> {
        match fs::read_to_string(&self.file) {
            Ok(line) => read(&line).map(|(day, spent)| if day < date(now) { Amount::ZERO } else { spent }),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(Amount::ZERO),
        }
    }

    /// Reads, changes and writes the sum of the day of `now`, alone.
    async fn change<T: Send + 'static>(
        &self,
        now: SystemTime,
        change: impl FnOnce(Amount) -> (Amount, T) + Send + 'static,
    ) -> Result<T> {
        let day = self.clone();
        let changed = tokio::task::spawn_blocking(move || day.change_now(now, change)).await;
        let changed = changed.unwrap_or_else(|error| Err(io::Error::other(error)));
        changed.map_err(|error| {
            tracing::error!(%error, file = %self.file.display(), "what was spent today is not known");
            Error::new(ErrorCode::Internal, "what was spent of today's budget cannot be read or written")
                .hint("the operator has to look at the log; the file that it names may be removed")
        })
    }

    fn change_now<T>(&self, now: SystemTime, change: impl FnOnce(Amount) -> (Amount, T)) -> io::Result<T> {
        let mut file = self.open()?;
        file.lock()?;
        let mut line = String::new();
        io::Read::by_ref(&mut file).take(2 * LENGTH as u64).read_to_string(&mut line)?;
        let today = date(now);
        let (day, spent) = match read(&line) {
            // A clock that goes back begins no day anew.
            Some((day, spent)) if day >= today => (day, spent),
            Some(_) => (today, Amount::ZERO),
            None if line.is_empty() => (today, Amount::ZERO),
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold a day and a sum")),
        };
        let (after, answer) = change(spent);
        let written = format!("{day} {:020}\n", after.micros());
        if written != line {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(written.as_bytes())?;
        }
        Ok(answer)
    }

    fn open(&self) -> io::Result<File> {
        make_private_folder(self.file.parent().unwrap_or(Path::new(".")))?;
        files::private().read(true).write(true).create(true).truncate(false).open(&self.file)
    }
}

/// The day, as `2026-11-22`, and what was spent on it.
fn read(line: &str) -> Option<(String, Amount)> {
    let (day, micros) = line.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = line.len() == LENGTH && day.len() == 10 && micros.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then_some((day.to_owned(), Amount::from_micros(micros.parse().ok()?)))
}

/// The UTC day of a time.
fn date(now: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(now).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

/// The midnight after a time.
fn renewal(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let next = Duration::from_secs((seconds / DAY.as_secs() + 1) * DAY.as_secs());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + next).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Amount = Amount::from_micros(2_000_000);

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).expect("a time")
    }

    #[tokio::test]
    async fn a_day_ends_at_midnight_utc_and_survives_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = || Day::new(&folder.path().join("state"), Path::new("/forge.toml"));
        let (late, next) = (at("2026-11-22T23:59:59Z"), at("2026-11-23T00:00:00Z"));
        assert_eq!(day().spent(late), Some(Amount::ZERO));
        assert_eq!(day().take(TWO, TWO, late).await.expect("a file"), Taken::Done);
        let renews = "2026-11-23T00:00:00Z".to_owned();
        assert_eq!(day().take(TWO, TWO, late).await.expect("a file"), Taken::Refused { spent: TWO, renews });
        day().give_back(TWO, late).await;
        assert_eq!(day().take(TWO, TWO, late).await.expect("a file"), Taken::Done);
        assert_eq!((day().spent(late), day().spent(next)), (Some(TWO), Some(Amount::ZERO)));
        assert_eq!(day().take(TWO, TWO, next).await.expect("a file"), Taken::Done);
        // A clock that is set back finds the later day.
        assert!(matches!(day().take(TWO, TWO, late).await.expect("a file"), Taken::Refused { .. }));
        let other = Day::new(&folder.path().join("state"), Path::new("/other.toml"));
        assert_eq!(other.spent(next), Some(Amount::ZERO));
    }

    #[tokio::test]
    async fn a_file_that_says_something_else_spends_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = Day::new(folder.path(), Path::new("/forge.toml"));
        for text in ["2026-11-22 12\n", "nonsense", "2026-11-22 0000000000000000x000\n"] {
            fs::write(&day.file, text).expect("a file");
            let refused = day.take(TWO, TWO, at("2026-11-22T12:00:00Z")).await.expect_err("not readable");
            assert_eq!(refused.code, ErrorCode::Internal, "{text}");
            assert_eq!(fs::read_to_string(&day.file).expect("a file"), text);
        }
    }
}
