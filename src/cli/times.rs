//! Times as people say them on a terminal, and in UTC everywhere else.

use std::time::SystemTime;

use chrono::{DateTime, Local};
use clap::Args;

use super::ui::Stream;
use base::time::{now_ms, rfc3339, rfc3339_millis, unix_ms};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// In milliseconds since 1970: files may hold any number.
const YEAR_10000: i64 = 253_402_300_800_000;

/// Option of the commands that print times.
#[derive(Args, Clone, Copy)]
pub(super) struct Times {
    /// Print times in UTC on a terminal too, as in files and pipes
    #[arg(long)]
    utc: bool,
}

impl Times {
    /// A time for a table.
    pub(super) fn ago(self, ms: u64) -> String {
        match self.is_absolute() {
            true if Stream::Out.is_terminal() => rfc3339(ms),
            true => rfc3339_millis(ms),
            false => said(ms, now_ms()),
        }
    }

    /// A time for a line of its own, exact.
    pub(super) fn at(self, ms: u64) -> String {
        match local(ms, "%Y-%m-%d %H:%M:%S").filter(|_| !self.is_absolute()) {
            Some(local) => format!("{local} ({})", said(ms, now_ms())),
            None => self.ago(ms),
        }
    }

    /// True if times are points of time, not spans.
    pub(super) fn is_absolute(self) -> bool {
        self.utc || !Stream::Out.is_terminal()
    }
}

/// A time of a record, in milliseconds since 1970.
pub(super) fn parsed(rfc3339: &str) -> Option<u64> {
    humantime::parse_rfc3339_weak(rfc3339).ok().map(|time: SystemTime| unix_ms(time))
}

/// `2 min ago`, `in 3 h`; the local date where days no longer say much.
pub(super) fn said(ms: u64, now: u64) -> String {
    let secs = now.abs_diff(ms) / 1000;
    let span = match secs {
        0..MINUTE => format!("{secs} s"),
        MINUTE..HOUR => format!("{} min", secs / MINUTE),
        HOUR..DAY => format!("{} h", secs / HOUR),
        _ if secs < 7 * DAY => base::text::counted(usize::try_from(secs / DAY).unwrap_or_default(), "day"),
        _ => return local(ms, "%Y-%m-%d %H:%M").unwrap_or_else(|| rfc3339(ms)),
    };
    if ms > now && secs > 0 { format!("in {span}") } else { format!("{span} ago") }
}

fn local(ms: u64, form: &str) -> Option<String> {
    let time = DateTime::from_timestamp_millis(i64::try_from(ms).ok().filter(|ms| *ms < YEAR_10000)?)?;
    Some(time.with_timezone(&Local).format(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        let now = 1_800_000_000_000;
        let ago = |secs: u64| said(now - secs * 1000, now);
        assert_eq!(
            [0, 59, 60, 3599, 3600, 86_399, 86_400, 6 * 86_400].map(ago),
            ["0 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 day ago", "6 days ago"]
        );
        assert_eq!(said(now + 7_200_000, now), "in 2 h");
        assert!(ago(30 * 86_400).starts_with("2026-12-"));
        assert!(said(u64::MAX, now).starts_with("9999-"));
        assert_eq!((parsed("2027-01-15T08:00:00.999Z"), parsed("soon")), (Some(1_800_000_000_999), None));
    }
}
