//! Numbers as people read them. Units are IEC for bytes; thousands are set apart by a thin space.

use fsage_model::quantity::{as_f64, to_u64};

use fsage_model::metric;

/// A duration given in nanoseconds: `12.3 µs`.
#[must_use]
pub fn nanoseconds(ns: f64) -> String {
    let steps =
        [(1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (120e9, 1e9, "s"), (7.2e12, 60e9, "min")];
    let (scale, unit) = steps
        .iter()
        .find(|(limit, ..)| ns.abs() < *limit)
        .map_or((3.6e12, "h"), |(_, scale, unit)| (*scale, *unit));
    format!("{} {unit}", significant(ns / scale))
}

/// Bytes: `1.50 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut scaled, mut unit) = (value, 0);
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{} B", grouped(to_u64(scaled)))
    } else {
        format!("{} {}", significant(scaled), UNITS[unit])
    }
}

/// A whole number with its thousands set apart.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, never scientific up to a million.
#[must_use]
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 1000.0 {
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", grouped(to_u64(size)))
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.001 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == value.round() { format!("{value:.0}\u{202f}%") } else { format!("{value:.1}\u{202f}%") }
}

/// The unit of a virtual disk's model without its mark, or `None` when it has none: `model ns` is `ns`.
#[must_use]
pub fn plain_unit(unit: &str) -> Option<&str> {
    match unit {
        "bytes/model s" => Some("bytes/s"),
        "1/model s" => Some("1/s"),
        other => other.strip_prefix("model "),
    }
}

/// A value in a metric's unit (`ns`, `s`, `bytes`, `count`, `share`, `1/s`, `bytes/s`, `s/GiB`); what is by a
/// model's clock says so.
#[must_use]
pub fn in_unit(value: f64, unit: &str) -> String {
    if let Some(plain) = plain_unit(unit) {
        return format!("{} (model)", in_unit(value, plain));
    }
    match unit {
        "ns" => nanoseconds(value),
        "s" => nanoseconds(value * 1e9),
        "bytes" => bytes(value),
        "share" => percent(value),
        "bytes/s" => format!("{}/s", bytes(value)),
        "s/GiB" => format!("{} s/GiB", significant(value)),
        "1/s" => format!("{} /s", significant(value)),
        "count" if value == value.round() && value >= 0.0 => grouped(to_u64(value)),
        _ => significant(value),
    }
}

/// A ratio: `×1.84`.
#[must_use]
pub fn ratio(value: f64) -> String {
    format!("×{}", significant(value))
}

/// `1 trial`, `2 trials`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    let number = grouped(u64::try_from(count).unwrap_or(u64::MAX));
    if count == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}

/// A whole number of bytes.
#[must_use]
pub fn whole_bytes(value: u64) -> String {
    bytes(as_f64(value))
}

/// A sentence with its byte counts made readable: `13107200 bytes less` is `12.5 MiB less`.
#[must_use]
pub fn with_sizes(text: &str) -> String {
    let mut parts: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for i in (1..parts.len()).rev() {
        let Some(rest) =
            parts[i].strip_prefix("bytes").filter(|rest| !rest.starts_with(char::is_alphanumeric))
        else {
            continue;
        };
        if let Some(value) = parts[i - 1].parse::<u64>().ok().filter(|value| *value >= 1024) {
            parts[i - 1] = format!("{}{rest}", whole_bytes(value));
            parts.remove(i);
        }
    }
    parts.join(" ")
}

/// An operation's or factor's name in words: `random_write` → `random write`.
#[must_use]
pub fn words(name: &str) -> String {
    name.replace(['_', '-'], " ")
}

/// A metric's name in words: `latency.create.p99_ns` → `create, p99 latency`.
#[must_use]
pub fn metric(metric: &str) -> String {
    let what = |last: &str| match last {
        metric::MEAN_NS => "mean latency".to_owned(),
        metric::P50_NS => "median latency".to_owned(),
        metric::P99_NS => "p99 latency".to_owned(),
        metric::P999_NS => "p99.9 latency".to_owned(),
        metric::MAX_NS => "largest latency".to_owned(),
        other => words(other),
    };
    if let Some((operation, statistic)) = metric::latency_parts(metric) {
        return format!("{}, {}", words(operation), what(statistic));
    }
    match metric {
        metric::FREE_EXTENTS => "free extents".to_owned(),
        metric::FREE_MEDIAN_BYTES => "median free extent".to_owned(),
        metric::FREE_LARGEST_BYTES => "largest free extent".to_owned(),
        metric::LAYOUT_SCORE => "layout score".to_owned(),
        metric::OPERATIONS_PER_S => "ageing speed".to_owned(),
        metric::DEVICE_BYTES => "device bytes written".to_owned(),
        other => words(other.rsplit('.').next().unwrap_or_default()),
    }
}

/// Rounded to four significant digits: what charts carry, so that the page stays small.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 3.0 - value.abs().log10().floor();
    if digits >= 0.0 {
        let scale = 10_f64.powf(digits);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powf(-digits);
        (value / scale).round() * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(nanoseconds(950.0), "950 ns");
        assert_eq!(nanoseconds(12_345.0), "12.3 µs");
        assert_eq!(nanoseconds(90e9), "90.0 s");
        assert_eq!(nanoseconds(3.6e12), "60.0 min");
        assert_eq!(nanoseconds(36e12), "10.0 h");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1536.0 * 1024.0 * 1024.0), "1.50 GiB");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(significant(0.000_12), "1.2e-4");
        assert_eq!(significant(f64::NAN), "–");
        assert_eq!(percent(0.8), "80\u{202f}%");
        assert_eq!(percent(0.925), "92.5\u{202f}%");
        assert_eq!(in_unit(3.0, "count"), "3");
        assert_eq!(in_unit(2.0, "s"), "2.00 s");
        assert_eq!(in_unit(2.0, "model s"), "2.00 s (model)");
        assert_eq!(in_unit(2.0, "1/model s"), "2.00 /s (model)");
        assert_eq!(counted(1, "trial"), "1 trial");
        assert_eq!(counted(0, "trial"), "0 trials");
    }

    #[test]
    fn byte_counts_in_sentences_are_made_readable() {
        assert_eq!(
            with_sizes("13107200 bytes less; statfs says 2048 bytes"),
            "12.5 MiB less; statfs says 2.00 KiB"
        );
        assert_eq!(with_sizes("holds 4096 bytes."), "holds 4.00 KiB.");
        assert_eq!(with_sizes("12 bytes, 5000 files, some bytes"), "12 bytes, 5000 files, some bytes");
    }

    #[test]
    fn rounding_keeps_four_digits() {
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(1.234_56), 1.235);
        assert_eq!(rounded(0.0), 0.0);
        assert_eq!(rounded(f64::NAN), 0.0);
    }
}
