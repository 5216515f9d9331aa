//! Times as A2A writes them: RFC 3339, in UTC, to the millisecond.

const DAY_MS: u64 = 86_400_000;

/// Milliseconds since the Unix epoch, as `2026-11-30T10:00:00.123Z`.
pub(crate) fn write(ms: u64) -> String {
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (year, month, day) = civil(days);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Reads one; digits after the millisecond are dropped. Nothing before 1970 and no leap second.
pub(crate) fn read(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
    if date.next().is_some() || !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let mark = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at_checked(mark)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.split(':');
    let (hour, minute, second) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    if clock.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days(year, month, day)?;
    let milli = millis(fraction)?;
    let local = days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + milli;
    let (east, offset) = match zone {
        "Z" | "z" => (true, 0),
        _ => {
            let (east, rest) =
                zone.strip_prefix('+').map(|rest| (true, rest)).or_else(|| Some((false, zone.strip_prefix('-')?)))?;
            let (hours, minutes) = rest.split_once(':')?;
            let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
            (east, if hours > 23 || minutes > 59 { return None } else { hours * 3_600_000 + minutes * 60_000 })
        }
    };
    if east { local.checked_sub(offset) } else { Some(local + offset) }
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

fn millis(fraction: &str) -> Option<u64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("00".chars()).take(3).collect();
    digits.parse().ok()
}

/// The day's number, if there is such a day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years begin in March, so that the leap day is a year's last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let number = y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    let number = number.checked_sub(719_469)?;
    (civil(number) == (year, month, day)).then_some(number)
}

/// Year, month and day of a day's number.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{read, write};

    #[test]
    fn known_times() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_796_032_799_999, "2026-11-30T09:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!((write(ms).as_str(), read(text)), (text, Some(ms)));
        }
        assert_eq!(read("2026-11-30T11:59:59.9999999+02:00"), Some(1_796_032_799_999));
        assert_eq!(read("2026-11-30T08:29:59-01:30"), Some(1_796_032_799_000));
    }

    #[test]
    fn what_is_no_time() {
        for bad in [
            "",
            "2026-11-30",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T00:00:00",
            "2026-11-30T00:00:00.Z",
            "1970-01-01T00:00:00+00:01",
            "26-11-30T00:00:00Z",
            "2026-11-30T00:00:00+2:00",
            "1960-01-01T00:00:00Z",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ms in 0_u64..253_402_300_800_000) {
            prop_assert_eq!(read(&write(ms)), Some(ms));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,40}") {
            let _ = read(&text);
        }
    }
}
