//! Quantities as people read and write them.

use std::time::Duration;

/// A number of bytes, such as `1.5 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value >= 99.95 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// A duration, such as `3.2 ms`, `41 s` or `2 h 5 min`.
pub fn format_ms(ms: f64) -> String {
    let seconds = ms / 1e3;
    match ms {
        ms if ms < 0.0995 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 9_950.0 => format!("{seconds:.1} s"),
        ms if ms < 119_500.0 => format!("{seconds:.0} s"),
        ms if ms < 7_170_000.0 => format!("{:.0} min", seconds / 60.0),
        ms if ms < 172_800_000.0 => {
            let minutes = (seconds / 60.0).round() as u64;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// A number of events per second, such as `50/s` or `0.25/s`.
pub fn format_rate(hz: f64) -> String {
    match hz {
        hz if hz <= 0.0 => "0/s".into(),
        hz if hz < 0.01 => format!("{:.1}/h", hz * 3600.0),
        hz if hz < 9.95 => format!("{hz:.2}/s"),
        hz if hz < 99.95 => format!("{hz:.1}/s"),
        hz => format!("{hz:.0}/s"),
    }
}

/// Bytes per second, such as `1.5 GiB/s`.
pub fn format_rate_bytes(rate: f64) -> String {
    format!("{}/s", format_bytes(rate as u64))
}

/// A share of one, such as `12 %`.
pub fn format_share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Milliseconds from the instant `then_ns` to `now_ns`, none when that lies in the future.
pub fn elapsed_ms(then_ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_sub(then_ns) / 1_000_000
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// Several of a thing, such as `1 version` and `3 versions`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A time as a number of seconds, 0 included.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds such as 0.5".to_string())?;
    if !(0.0..=1e9).contains(&seconds) {
        return Err("give between 0 and 1000000000 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The number of a version. Versions are not counted from the newest down: that would be another one at each look.
pub fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        "give the number of a version, from 0 on, which 'still show' and 'still ls' list, or leave it out for the newest".into()
    })
}

/// Reads a number of bytes above 0, with k, M, G or T for powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[number.len()..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("give a number of bytes such as 4096, 4M or 2G".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "give a whole number of bytes above 0, such as 4096, 4M or 2G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_stay_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (500 << 20, "500 MiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
        for (ms, text) in [
            (0.05, "50 µs"),
            (3.21, "3.2 ms"),
            (60.0, "60 ms"),
            (1500.0, "1.5 s"),
            (90_000.0, "90 s"),
            (600_000.0, "10 min"),
            (7_500_000.0, "2 h 5 min"),
            (1e9, "12 days"),
        ] {
            assert_eq!(format_ms(ms), text);
        }
        assert_eq!(format_rate(50.0), "50.0/s");
        assert_eq!(format_rate(0.0), "0/s");
        assert_eq!(format_share(0.123), "12 %");
    }

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, bytes) in [("4096", 4096), ("4K", 4096), ("4KiB", 4096), ("2g", 2 << 30), ("1MB", 1 << 20)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "0", "-1", "1.5G", "4X", "99999999999T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_are_numbers_from_0_on() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "x", "", "nan", "inf", "10s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
