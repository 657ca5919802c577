//! Records that are listed by their number and named by the beginning of their ids.

use clap::Args;

use super::Failure;
use run::replay::shown;

/// Name of the newest record: ids are hexadecimal.
pub(super) const LAST: &str = "last";

/// Option of a command that lists records.
#[derive(Args)]
pub(super) struct Newest {
    /// Number of entries, the newest ones
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

impl Newest {
    /// The last ones of `all`.
    pub(super) fn of<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[all.len().saturating_sub(self.limit)..]
    }
}

/// Finds the record by the beginning of its id; `last` is the last of them. `what` names the records, and `list` the command
/// that lists them.
///
/// # Errors
/// None, or several, have this id.
pub(super) fn one<T>(
    all: impl IntoIterator<Item = T>,
    id: impl Fn(&T) -> &str,
    begin: &str,
    [what, list]: [&str; 2],
) -> Result<T, Failure> {
    if begin == LAST {
        return all.into_iter().last().ok_or_else(|| Failure::usage(format!("no {what} is there yet")));
    }
    let mut found = all.into_iter().filter(|record| id(record).starts_with(begin));
    let first = found.next();
    let more = found.count();
    let begin = shown(begin);
    match first {
        Some(record) if more == 0 => Ok(record),
        Some(_) => {
            let what = format!("{} {what}s have ids that begin with `{begin}`", more + 1);
            Err(Failure::usage(what).hint("give more of the id"))
        }
        None => Err(Failure::usage(format!("no {what} has an id that begins with `{begin}`"))
            .hint(format!("`forgefs {list} list` shows those that are kept"))),
    }
}
