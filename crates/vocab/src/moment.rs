//! Points in time as text: RFC 3339 in UTC, which records, answers and pages have in common.
//!
//! The calendar is the library's. A time that it has no year for is written as its number, because a file
//! may claim any time and showing it must not fail.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const NANOS_PER_MS: i128 = 1_000_000;

/// Milliseconds since the Unix epoch as `2026-11-30T13:52:17.004Z`.
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    match OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * NANOS_PER_MS) {
        Ok(at) => format!("{}.{:03}Z", to_the_second(at), at.millisecond()),
        Err(_) => format!("{ms} ms after 1970"),
    }
}

/// Seconds since the Unix epoch as `2026-11-30T13:52:17Z`.
#[must_use]
pub fn rfc3339_seconds(seconds: i64) -> String {
    match OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => format!("{}Z", to_the_second(at)),
        Err(_) => format!("{seconds} s after 1970"),
    }
}

/// Reads an RFC 3339 time of any zone as milliseconds since the Unix epoch; digits behind the millisecond are
/// dropped. `None` for what is no time, and for one before 1970.
#[must_use]
pub fn read_rfc3339(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos().div_euclid(NANOS_PER_MS)).ok()
}

fn to_the_second(at: OffsetDateTime) -> String {
    let (date, time) = (at.date(), at.time());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{read_rfc3339, rfc3339, rfc3339_seconds};

    #[test]
    fn known_times() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_796_046_737_004, "2026-11-30T13:52:17.004Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!((rfc3339(ms).as_str(), read_rfc3339(text)), (text, Some(ms)));
        }
        assert_eq!(rfc3339_seconds(-1), "1969-12-31T23:59:59Z");
        assert_eq!(read_rfc3339("2026-11-30T11:59:59.9999999+02:00"), Some(1_796_032_799_999));
        assert_eq!(read_rfc3339("2026-11-30T08:29:59-01:30"), Some(1_796_032_799_000));
    }

    #[test]
    fn what_is_no_time_is_read_as_none_and_what_has_no_year_is_written_as_a_number() {
        for bad in ["", "2026-11-30", "2026-02-29T00:00:00Z", "2026-11-30T24:00:00Z", "1969-12-31T23:59:59Z", "now"] {
            assert_eq!(read_rfc3339(bad), None, "{bad}");
        }
        assert_eq!(rfc3339(u64::MAX), "18446744073709551615 ms after 1970");
        assert_eq!(rfc3339_seconds(i64::MIN), "-9223372036854775808 s after 1970");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ms in 0_u64..253_402_300_800_000) {
            prop_assert_eq!(read_rfc3339(&rfc3339(ms)), Some(ms));
        }
    }
}
