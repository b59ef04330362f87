//! Numbers as people read them, in one format for the command line, logs and reports: thousands are separated by
//! commas, measured values have three significant digits, and what is a whole number of its unit has no
//! decimals (`4 KiB`, `80 %`). JSON and CSV have plain numbers in base units.

use crate::quantity::{as_f64, to_u64};

/// A whole number with thousands separated by commas: `1,234,567`.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2,000 files`: a count with the noun it goes with.
#[must_use]
pub fn plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(value), if value == 1 { one } else { many })
}

/// Three significant digits; below 1 two decimals down to 0.01, four down to 0.001, never scientific from 0.001 up; `–` for what is not a number.
#[must_use]
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 999.5 {
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", grouped(to_u64(size)))
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.01 || size == 0.0 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.4}")
    } else {
        format!("{value:.1e}")
    }
}

/// Bytes in the largest binary unit that leaves at least 1: `1.50 GiB`, `4 KiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut scaled, mut unit) = (value, 0);
    while scaled.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", exact_or_significant(scaled), UNITS[unit])
}

/// A whole number of bytes: see [`bytes`].
#[must_use]
pub fn whole_bytes(value: u64) -> String {
    bytes(as_f64(value))
}

/// A duration given in nanoseconds: `850 ns`, `12.3 µs`, `1.05 s`, `2 min 5 s`, `3 h 4 min`.
#[must_use]
pub fn duration(ns: f64) -> String {
    if ns.abs() >= 119.5e9 && ns.is_finite() {
        let sign = if ns < 0.0 { "−" } else { "" };
        let seconds = to_u64(ns.abs() / 1e9);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        return if hours > 0 {
            format!("{sign}{} h {minutes} min", grouped(hours))
        } else {
            format!("{sign}{minutes} min {seconds} s")
        };
    }
    for (factor, unit) in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] {
        if ns.abs() >= factor * 0.9995 {
            return format!("{} {unit}", significant(ns / factor));
        }
    }
    format!("{} ns", exact_or_significant(ns))
}

/// A share (0..=1) as a percentage: `45.2 %`, `80 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == value.round() { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

/// A rate: `12,345/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    if per_second < 10.0 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", grouped(to_u64(per_second)))
    }
}

fn exact_or_significant(value: f64) -> String {
    if value == value.round() && value.abs() < 999.5 { format!("{value:.0}") } else { significant(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_234_567].map(grouped), ["0", "999", "1,234,567"]);
        assert_eq!([1, 2000].map(|n| plural(n, "file", "files")), ["1 file", "2,000 files"]);
        assert_eq!([512, 4096, 1_300_000_000].map(whole_bytes), ["512 B", "4 KiB", "1.21 GiB"]);
        assert_eq!([1023, 1024 * 1024 - 1, u64::MAX].map(whole_bytes), ["1,023 B", "1.00 MiB", "16 EiB"]);
        assert_eq!(bytes(-1536.0), "-1.50 KiB");
        assert_eq!([0.0, 850.0, 12_345.0].map(duration), ["0 ns", "850 ns", "12.3 µs"]);
        assert_eq!([999_900.0, 90e9, 125e9].map(duration), ["1.00 ms", "90.0 s", "2 min 5 s"]);
        assert_eq!([7300e9, -7300e9, f64::NAN].map(duration), ["2 h 1 min", "−2 h 1 min", "– ns"]);
        assert_eq!([0.000_12, f64::NAN, -1234.0].map(significant), ["1.2e-4", "–", "−1,234"]);
        assert_eq!([0.0, 0.001, 0.004_96, 0.01].map(significant), ["0.00", "0.0010", "0.0050", "0.01"]);
        assert_eq!([0.8, 0.925, 0.4499].map(percent), ["80 %", "92.5 %", "45.0 %"]);
        assert_eq!([3.21, 12_345.4].map(rate), ["3.2/s", "12,345/s"]);
    }
}
