//! Metrics, units and names as a report shows them; numbers as [`fsage_model::number`] writes them.

use fsage_model::quantity::to_u64;

use fsage_model::metric;
use fsage_model::number;

pub use fsage_model::number::{bytes, duration as nanoseconds, grouped, significant, whole_bytes};

use crate::stats::{Estimate, Interval};

/// A share as a percentage that no line break separates from its sign.
#[must_use]
pub fn percent(share: f64) -> String {
    number::percent(share).replace(' ', "\u{202f}")
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

/// The interval of an estimate, its ends as `text` writes them, or why there is none.
#[must_use]
pub fn interval(found: &Estimate, text: impl Fn(f64) -> String) -> String {
    match found.interval {
        Some(Interval { low, high }) => format!("{} to {}", text(low), text(high)),
        None => found.basis.describe().to_owned(),
    }
}

/// `1 trial`, `2 trials`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    let number = grouped(u64::try_from(count).unwrap_or(u64::MAX));
    if count == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
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
            "12.5 MiB less; statfs says 2 KiB"
        );
        assert_eq!(with_sizes("holds 4096 bytes."), "holds 4 KiB.");
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
