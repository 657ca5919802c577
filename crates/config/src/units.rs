//! Durations such as `"1m30s"` and sizes such as `"64MiB"`.
//!
//! One small grammar for both, whole numbers with a unit each, so that errors in either are explained alike.

use std::time::Duration;

pub(super) const MILLI: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

pub(super) const DURATIONS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

pub(super) const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Form of a duration, for errors.
pub(super) const DURATION_FORM: &str = "write a number and ms, s, m, h or d, such as \"30s\", \"500ms\" or \"1m30s\"";

/// Form of a size, for errors.
pub(super) const SIZE_FORM: &str = "write a whole number and a unit, such as \"64MiB\" or \"256KiB\"";

/// Parses a duration; `None` if invalid.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (amount, after) = quantity(rest, DURATIONS)?;
        total = total.checked_add(amount)?;
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::from_millis(total))
}

/// Parses a size in bytes; `None` if invalid.
pub(super) fn size(text: &str) -> Option<u64> {
    match quantity(text.trim(), SIZES)? {
        (bytes, "") => Some(bytes),
        _ => None,
    }
}

/// Parses a number with its unit; returns the rest of the text.
fn quantity<'t>(text: &'t str, units: &[(&str, u64)]) -> Option<(u64, &'t str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let rest = text[digits..].trim_start_matches(' ');
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (_, factor) = units.iter().find(|(unit, _)| *unit == &rest[..letters])?;
    Some((number.checked_mul(*factor)?, &rest[letters..]))
}

/// Formats a duration in its largest whole unit.
pub(super) fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show(millis, DURATIONS)
}

/// Formats a size in its largest whole binary unit.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES[..4])
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let whole = units.iter().rev().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    let (unit, factor) = whole.unwrap_or(&units[0]);
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let millis = |text| duration(text).map(|d| d.as_millis());
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis(" 2m "), Some(120_000));
        assert_eq!(millis("1d1h1m30s"), Some(90_090_000));
        assert_eq!(millis("0s"), Some(0));
        for text in ["", " ", "30", "s", "-1s", "1.5s", "30 seconds", "30S", "1w", "s30", "99999999999999999999s"] {
            assert_eq!(millis(text), None, "{text:?}");
        }
        assert_eq!(millis("18446744073709551615h"), None);
    }

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("64 KiB"), Some(64 << 10));
        assert_eq!(size("1MB"), Some(1_000_000));
        for text in ["", "64", "64M", "1.5MiB", "MiB", "-1B", "1MiB1KiB", "99999999999GiB"] {
            assert_eq!(size(text), None, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_shown_as_they_would_be_written() {
        assert_eq!(show_duration(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(show_duration(Duration::from_secs(600)), "10m");
        assert_eq!(show_size(64 << 20), "64MiB");
        assert_eq!(show_size(1_000), "1000B");
        assert_eq!(show_size(0), "0B");
    }
}
