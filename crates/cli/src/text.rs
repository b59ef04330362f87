//! Numbers and tables as people read them. Everything here is for terminals; JSON has the plain numbers.

use fsage_model::quantity::{as_f64, to_u64};

use fsage_model::escape;

/// A whole number with thousands separated by commas: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
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

/// `one file`, `2 files`: a count with the noun it goes with.
#[must_use]
pub fn plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// Bytes in the largest binary unit that leaves at least 1, to three significant digits: `1.21 GiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = as_f64(bytes) / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), UNITS[unit])
}

/// Nanoseconds in the unit that suits them, to three significant digits: `12.3 µs`, `1.05 s`, `2 min 5 s`.
#[must_use]
pub fn duration(ns: f64) -> String {
    if ns >= 119.5e9 {
        let seconds = to_u64(ns / 1e9);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        return if hours > 0 {
            format!("{hours} h {minutes} min")
        } else {
            format!("{minutes} min {seconds} s")
        };
    }
    for (factor, unit) in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] {
        if ns >= factor * 0.9995 {
            return format!("{} {unit}", significant(ns / factor));
        }
    }
    format!("{} ns", significant(ns))
}

/// A share (0..=1) in per cent with one decimal: `45.0 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A rate: `12,345/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}/s") } else { format!("{}/s", count(to_u64(per_second))) }
}

fn significant(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if decimals > 0 && text.ends_with('0') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Rows of cells in aligned columns, the first column left, the others right; no trailing blanks. A row is
/// one line whatever its cells hold ([`escape`]).
#[must_use]
pub fn table(rows: &[Vec<String>], indent: usize) -> String {
    let cell = |cell: &String| escape::line(cell).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = " ".repeat(indent);
        for (column, cell) in row.iter().enumerate() {
            let blanks = " ".repeat(width[column].saturating_sub(cell.chars().count()));
            if column == 0 {
                line.push_str(cell);
                line.push_str(&blanks);
            } else {
                line.push_str("  ");
                line.push_str(&blanks);
                line.push_str(cell);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A rounded power of two as an axis shows it: `4K`, `1M`.
#[must_use]
pub fn power(exponent: usize) -> String {
    const UNITS: [&str; 7] = ["B", "K", "M", "G", "T", "P", "E"];
    let unit = UNITS.get(exponent / 10).copied().unwrap_or("?");
    format!("{}{unit}", 1_u64 << (exponent % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(size(512), "512 B");
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1_300_000_000), "1.21 GiB");
        assert_eq!(size(1024 * 1024 - 1), "1 MiB");
        assert_eq!(size(u64::MAX), "16 EiB");
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(850.0), "850 ns");
        assert_eq!(duration(12_340.0), "12.3 µs");
        assert_eq!(duration(999_900.0), "1 ms");
        assert_eq!(duration(125e9), "2 min 5 s");
        assert_eq!(duration(7300e9), "2 h 1 min");
        assert_eq!(percent(0.4499), "45.0 %");
        assert_eq!(rate(3.21), "3.2/s");
        assert_eq!(rate(12_345.4), "12,345/s");
        assert_eq!(plural(1, "file", "files"), "1 file");
        assert_eq!(power(12), "4K");
        assert_eq!(power(63), "8E");
    }

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = vec![
            vec!["a".to_owned(), "1".to_owned(), String::new()],
            vec!["bcd".to_owned(), "20 µs".to_owned(), "x".to_owned()],
        ];
        assert_eq!(table(&rows, 1), " a        1\n bcd  20 µs  x\n");
    }
}
