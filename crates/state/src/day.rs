//! Budget of a day in a private file: one line of fixed length, written at once under a lock, so that neither a crash
//! nor another gateway leaves half of it. Each configuration file has one budget, by any path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::error::{Error, ErrorCode, Result};
use base::files;
use base::task;
use base::time::{rfc3339, unix_ms};
use config::{Amount, Config};

/// Bytes of the line: the day, a space, twenty digits of millionths, the end.
const LENGTH: usize = 32;
/// Seconds of a day.
pub(super) const DAY: u64 = 24 * 60 * 60;

/// The file shared by all gateways with this configuration file.
///
/// `owner` is a client or profile with a budget of its own.
pub fn day_file(folder: &Path, config: &Config, owner: Option<&str>) -> PathBuf {
    let identity = identity(config);
    let whose = owner.map_or_else(|| identity.clone(), |owner| format!("{identity}\n{owner}"));
    folder.join(format!("spent-{}", stubgen::short_digest(&whose)))
}

/// Spends `cost` today, unless that exceeds `limit`: then what was spent already, and the start of the next budget
/// (RFC 3339).
///
/// # Errors
/// `INTERNAL` when the file cannot be used: an unknown rest is not spent.
pub(super) async fn take(
    file: &Path,
    cost: Amount,
    limit: Amount,
    now: SystemTime,
) -> Result<Result<(), (Amount, String)>> {
    let take = move |spent: Amount, last| match spent.plus(cost) {
        sum if sum > limit => (spent, Err((spent, midnight_after(unix_ms(last) / 1000 / DAY)))),
        sum => (sum, Ok(())),
    };
    change(file, now, take).await
}

/// Refunds a cost of today.
pub(super) async fn give_back(file: &Path, cost: Amount, now: SystemTime) {
    // A failed refund is logged, and stays spent.
    let _ = change(file, now, move |spent, _| (spent.minus(cost), ())).await;
}

/// Spent today, if readable.
pub(super) fn spent(file: &Path, now: SystemTime) -> Option<Amount> {
    let read = files::open_private(file, OpenOptions::new().read(true)).and_then(|mut file| read(&mut file));
    files::if_there(read).ok()?.map_or(Some(Amount::ZERO), |(_, kept)| Some(kept?.on(now).1))
}

/// Reads, changes and writes the sum of the day of `now`, under the lock.
async fn change<T: Send + 'static>(
    file: &Path,
    now: SystemTime,
    change: impl FnOnce(Amount, SystemTime) -> (Amount, T) + Send + 'static,
) -> Result<T> {
    let file = file.to_owned();
    let changed = move || {
        change_now(&file, now, change).map_err(|error| {
            tracing::error!(%error, file = %file.display(), "what was spent today is not known");
            Error::new(ErrorCode::Internal, "what was spent of today's budget cannot be read or written")
                .hint("the operator has to look at the log; the file that it names may be removed")
        })
    };
    task::apart(changed).await
}

/// `change` also gets a time of the last day that the sum counts for.
fn change_now<T>(
    file: &Path,
    now: SystemTime,
    change: impl FnOnce(Amount, SystemTime) -> (Amount, T),
) -> io::Result<T> {
    let mut file = files::open_lock(file)?;
    file.lock()?;
    let (line, kept) = read(&mut file)?;
    let (last, spent) = match kept {
        Some(kept) => kept.on(now),
        None if line.is_empty() => (now, Amount::ZERO),
        None => return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold a day and a sum")),
    };
    let (after, answer) = change(spent, last);
    let written = format!("{} {:020}\n", date(last), after.micros());
    if written != line {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(written.as_bytes())?;
    }
    Ok(answer)
}

/// Identity of a configuration: of one with a store that of all replicas, else that of its file.
pub(super) fn identity(config: &Config) -> String {
    match (&config.state, &config.path) {
        (Some(_), _) => "shared".to_owned(),
        (None, Some(path)) => identity_of(path),
        (None, None) => identity_of(Path::new("")),
    }
}

/// Identity of a configuration file: its resolved path; for one with several hard links, its device and inode.
fn identity_of(config: &Path) -> String {
    if let Ok(metadata) = fs::metadata(config) {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.nlink() > 1 {
            return format!("{}:{}", metadata.dev(), metadata.ino());
        }
    }
    let real = fs::canonicalize(config).or_else(|_| std::path::absolute(config));
    real.unwrap_or_else(|_| config.to_owned()).to_string_lossy().into_owned()
}

/// A day, as `2026-11-22`, and its sum.
struct Kept {
    day: String,
    spent: Amount,
}

impl Kept {
    /// Sum that counts at `now`, and a time of the last day it counts for. A clock set back by up to a day starts no
    /// new budget. An entry of a later day came from a wrong clock: it counts today.
    fn on(&self, now: SystemTime) -> (SystemTime, Amount) {
        let later = now + Duration::from_secs(DAY);
        let (today, tomorrow) = (date(now), date(later));
        match &self.day {
            day if *day < today => (now, Amount::ZERO),
            day if *day == tomorrow => (later, self.spent),
            _ => (now, self.spent),
        }
    }
}

/// Reads the line of a file, and parses it.
fn read(file: &mut File) -> io::Result<(String, Option<Kept>)> {
    let mut line = String::new();
    io::Read::by_ref(file).take(2 * LENGTH as u64).read_to_string(&mut line)?;
    let kept = parse(&line);
    Ok((line, kept))
}

fn parse(line: &str) -> Option<Kept> {
    let (day, micros) = line.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = line.len() == LENGTH && day.len() == 10 && micros.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then_some(Kept { day: day.to_owned(), spent: Amount::from_micros(micros.parse().ok()?) })
}

/// UTC date of a time.
fn date(now: SystemTime) -> String {
    rfc3339(unix_ms(now)).split('T').next().unwrap_or_default().to_owned()
}

/// The midnight after a day, counted from 1970.
pub(super) fn midnight_after(day: u64) -> String {
    rfc3339((day + 1).saturating_mul(DAY * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Amount = Amount::from_micros(2_000_000);

    fn at_path(path: impl AsRef<Path>) -> Config {
        Config { path: Some(path.as_ref().to_owned()), ..Config::empty() }
    }

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).expect("a time")
    }

    #[tokio::test]
    async fn a_day_ends_at_midnight_utc_and_survives_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = &day_file(&folder.path().join("state"), &at_path("/forge.toml"), None);
        let (late, next) = (at("2026-11-22T23:59:59Z"), at("2026-11-23T00:00:00Z"));
        assert_eq!(spent(day, late), Some(Amount::ZERO));
        assert_eq!(take(day, TWO, TWO, late).await.expect("a file"), Ok(()));
        let renews = "2026-11-23T00:00:00Z".to_owned();
        assert_eq!(take(day, TWO, TWO, late).await.expect("a file"), Err((TWO, renews)));
        give_back(day, TWO, late).await;
        assert_eq!(take(day, TWO, TWO, late).await.expect("a file"), Ok(()));
        assert_eq!((spent(day, late), spent(day, next)), (Some(TWO), Some(Amount::ZERO)));
        assert_eq!(take(day, TWO, TWO, next).await.expect("a file"), Ok(()));
        // A clock that is set back finds the later day.
        let renews = "2026-11-24T00:00:00Z".to_owned();
        assert_eq!(take(day, TWO, TWO, late).await.expect("a file"), Err((TWO, renews)));
        let other = &day_file(&folder.path().join("state"), &at_path("/other.toml"), None);
        assert_eq!(spent(other, next), Some(Amount::ZERO));
    }

    #[tokio::test]
    async fn a_date_in_the_future_counts_today_and_is_renewed_tomorrow() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = &day_file(folder.path(), &at_path("/forge.toml"), None);
        let (today, tomorrow) = (at("2026-11-22T12:00:00Z"), at("2026-11-23T12:00:00Z"));
        for future in ["2026-11-24", "2027-01-01", "9999-12-31", "~~~~~~~~~~"] {
            fs::write(day, format!("{future} {:020}\n", TWO.micros())).expect("a file");
            assert_eq!(spent(day, today), Some(TWO), "{future}");
            let renews = "2026-11-23T00:00:00Z".to_owned();
            assert_eq!(take(day, TWO, TWO, today).await.expect("a file"), Err((TWO, renews)));
            assert_eq!(take(day, TWO, TWO, tomorrow).await.expect("a file"), Ok(()), "{future}");
        }
    }

    #[test]
    fn one_configuration_has_one_budget_by_whatever_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("x")).expect("a folder");
        fs::write(at("forge.toml"), "").expect("a file");
        std::os::unix::fs::symlink(at("forge.toml"), at("x/link.toml")).expect("a link");
        std::os::unix::fs::symlink(at("x"), at("y")).expect("a link");
        let file = |path: &str| day_file(folder.path(), &at_path(at(path)), None);
        for other in ["x/../forge.toml", "./x/.././forge.toml", "x/link.toml", "y/link.toml", "y/../forge.toml"] {
            assert_eq!(file(other), file("forge.toml"), "{other}");
        }
        fs::hard_link(at("forge.toml"), at("x/forge.toml")).expect("a second name");
        assert_eq!(file("x/forge.toml"), file("forge.toml"));
        fs::write(at("other.toml"), "").expect("a file");
        assert_ne!(file("other.toml"), file("forge.toml"));
    }

    #[tokio::test]
    async fn a_file_that_says_something_else_spends_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = &day_file(folder.path(), &at_path("/forge.toml"), None);
        for text in ["2026-11-22 12\n", "nonsense", "2026-11-22 0000000000000000x000\n"] {
            fs::write(day, text).expect("a file");
            let refused = take(day, TWO, TWO, at("2026-11-22T12:00:00Z")).await.expect_err("not readable");
            assert_eq!(refused.code, ErrorCode::Internal, "{text}");
            assert_eq!(fs::read_to_string(day).expect("a file"), text);
        }
    }
}
