//! The scale on which a metric is averaged and compared.
//!
//! Times, rates, sizes and ratios go by their logs: averages are geometric means, and sides are compared by B
//! ÷ A. Shares, and counts of what need not happen at all, go as they are: arithmetic means and B − A. What
//! decides is what the metric *is*, never which values were measured: a single 0 among thousands would
//! otherwise turn a geometric mean into an arithmetic one and a ratio into a difference. A 0 that has no log
//! is left out and counted.

use fsage_model::measure::DISK_COUNTER;
use fsage_model::metric;
use serde::Serialize;

/// How values are averaged and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Geometric means, B ÷ A.
    Ratio,
    /// Arithmetic means, B − A: shares, and counts of what need not happen.
    Difference,
}

/// Counts of which a good file system has none.
const NONE_AT_BEST: [&str; 2] = [metric::NONCONTIGUOUS_FILES, metric::SMALL_EXTENTS];

impl Scale {
    /// The scale of a metric with this name and unit.
    #[must_use]
    pub fn of(name: &str, unit: &str) -> Self {
        let ends_with =
            |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let last = name.rsplit('.').next().unwrap_or(name);
        let need_not_happen =
            NONE_AT_BEST.into_iter().any(ends_with) || (last.starts_with(DISK_COUNTER) && unit == "count");
        if unit == "share" || need_not_happen { Self::Difference } else { Self::Ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_belongs_to_the_metric() {
        for (name, unit) in [
            ("latency.read.mean_ns", "model ns"),
            ("full_over_empty.grep", "ratio"),
            (metric::FREE_LARGEST_BYTES, "bytes"),
            ("grep.read_requests", "count"),
            ("age.disk_seek_ns", "model ns"),
        ] {
            assert_eq!(Scale::of(name, unit), Scale::Ratio, "{name}");
        }
        for (name, unit) in [
            (metric::LAYOUT_SCORE, "share"),
            ("full.layout.small_extents", "count"),
            (metric::NONCONTIGUOUS_FILES, "count"),
            ("age.disk_gc_collections", "count"),
        ] {
            assert_eq!(Scale::of(name, unit), Scale::Difference, "{name}");
        }
    }
}
