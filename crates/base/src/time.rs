//! Times of the Unix clock, and as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Latest time that is written, the end of the year 9999: files may hold any number.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// A time in milliseconds since 1970; 0 for an earlier one.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The time now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}

/// The time now, in seconds since 1970.
pub fn now_secs() -> u64 {
    now_ms() / 1000
}

/// A time in milliseconds since 1970 as RFC 3339 in UTC, to the second.
pub fn rfc3339(ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms).min(LAST)).to_string()
}

/// A time in milliseconds since 1970 as RFC 3339 in UTC, to the millisecond.
pub fn rfc3339_millis(ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms).min(LAST)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_time_that_can_be_written() {
        assert_eq!(rfc3339(1_800_000_000_999), "2027-01-15T08:00:00Z");
        assert_eq!(rfc3339_millis(1_800_000_000_999), "2027-01-15T08:00:00.999Z");
        assert_eq!(
            (rfc3339(u64::MAX), rfc3339_millis(u64::MAX)),
            ("9999-12-31T23:59:59Z".into(), "9999-12-31T23:59:59.000Z".into())
        );
        assert_eq!(unix_ms(UNIX_EPOCH - Duration::from_secs(1)), 0);
    }
}
