//! Claims: published findings as tests that are written beforehand.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::size::Bytes;

/// A published finding and how to check it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// Short name of the claim.
    pub id: String,
    /// Author, year, section or table.
    pub source: String,
    /// What the publication says, in one sentence.
    pub statement: String,
    /// The published number, as text (`"11.40 ms → 11.84 ms"`).
    #[serde(default)]
    pub published: String,
    /// Check of the claim; absent: `all` is used, or the claim is not tested.
    #[serde(default)]
    pub check: Option<ClaimCheck>,
    /// Checks of a claim with several clauses, one per clause, instead of `check`: the claim holds if all of
    /// them hold, and is contradicted if one is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<ClaimCheck>,
    /// Conditions under which the finding was published; if one is not met, the verdict is *not comparable*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenSpec>,
    /// Factor, as a dotted path (`"file_system.kind"`), for each value of which the claim must hold; absent:
    /// all trials are judged together. File systems and media are always judged separately.
    #[serde(default)]
    pub each: Option<String>,
    /// Reason why the claim is not tested, if `check` and `all` are absent.
    #[serde(default)]
    pub not_tested: String,
}

impl ClaimSpec {
    /// Every clause: `check`, or those of `all`.
    pub fn clauses(&self) -> impl Iterator<Item = &ClaimCheck> {
        self.check.iter().chain(&self.all)
    }
}

/// A check of a claim. Cells are selected by factor values (dotted path → value); other factors vary, and are
/// paired between the two sides of a ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClaimCheck {
    /// metric(numerator) / metric(denominator), paired over the other factors and repeats.
    Ratio {
        /// Metric name.
        metric: String,
        /// Factor values of the numerator.
        numerator: BTreeMap<String, serde_json::Value>,
        /// Factor values of the denominator.
        denominator: BTreeMap<String, serde_json::Value>,
        /// Lower bound: holds if the whole confidence interval is above this value.
        #[serde(default)]
        above: Option<f64>,
        /// Upper bound: holds if the whole confidence interval is below this value; with `above`, between the
        /// two.
        #[serde(default)]
        below: Option<f64>,
        /// Instead of both bounds, for "as fast as": holds if the whole confidence interval is between 1 ÷
        /// (1 + `margin`) and 1 + `margin` (above 0).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        margin: Option<f64>,
    },
    /// Value of a metric in the selected cells.
    Value {
        /// Metric name.
        metric: String,
        /// Factor values of the cells; absent: all cells.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
        /// Lower bound: holds if the whole confidence interval is above this value.
        #[serde(default)]
        above: Option<f64>,
        /// Upper bound: holds if the whole confidence interval is below this value; with `above`, between the
        /// two.
        #[serde(default)]
        below: Option<f64>,
        /// Instead of both bounds, for a metric that is a ratio: holds if the whole confidence interval is
        /// between 1 ÷ (1 + `margin`) and 1 + `margin` (above 0).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        margin: Option<f64>,
    },
    /// Mean latency in the last quarter of the run ÷ mean latency in the second quarter.
    Trend {
        /// Name of the operation (`create`).
        operation: String,
        /// Factor values of the cells; absent: all cells.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
        /// Lower bound: holds if the whole confidence interval is above this value.
        #[serde(default)]
        above: Option<f64>,
        /// Upper bound: holds if the whole confidence interval is below this value; with `above`, between the
        /// two.
        #[serde(default)]
        below: Option<f64>,
        /// Instead of both bounds, for "does not change": holds if the whole confidence interval is between 1
        /// ÷ (1 + `margin`) and 1 + `margin` (above 0).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        margin: Option<f64>,
    },
    /// A count is 0. One occurrence contradicts the claim. None is no proof, so the result gives the number
    /// of request logs inspected and an upper bound of the frequency.
    Never {
        /// Name of the metric that counts the occurrences (`power.broken_states`).
        metric: String,
        /// Name of the metric that counts the cases inspected (`power.states`).
        of: String,
        /// Factor values of the cells; absent: all cells.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
    },
    /// A count is at least 1: the claim holds with one occurrence.
    Exists {
        /// Name of the metric that counts the occurrences.
        metric: String,
        /// Name of the metric that counts the cases inspected.
        of: String,
        /// Factor values of the cells; absent: all cells.
        #[serde(default, rename = "where")]
        cells: BTreeMap<String, serde_json::Value>,
    },
}

impl ClaimCheck {
    /// Where the whole interval must lie for it to hold: above the first and below the second.
    #[must_use]
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Ratio { above, below, margin, .. }
            | Self::Value { above, below, margin, .. }
            | Self::Trend { above, below, margin, .. } => match margin {
                Some(margin) => (Some(1.0 / (1.0 + margin)), Some(1.0 + margin)),
                None => (*above, *below),
            },
            Self::Never { .. } | Self::Exists { .. } => (None, None),
        }
    }

    /// Its margin of equivalence.
    #[must_use]
    pub const fn margin(&self) -> Option<f64> {
        match self {
            Self::Ratio { margin, .. } | Self::Value { margin, .. } | Self::Trend { margin, .. } => *margin,
            Self::Never { .. } | Self::Exists { .. } => None,
        }
    }

    /// Of a check of counts: the metrics of what is counted and of what was inspected.
    #[must_use]
    pub fn counts(&self) -> Option<(&str, &str)> {
        match self {
            Self::Never { metric, of, .. } | Self::Exists { metric, of, .. } => Some((metric, of)),
            Self::Ratio { .. } | Self::Value { .. } | Self::Trend { .. } => None,
        }
    }

    /// Whether it has a bound as well as a margin, or neither, or one that nothing can meet; of counts: whether
    /// what is counted is what was inspected.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        if let Some((metric, of)) = self.counts() {
            return metric.is_empty() || of.is_empty() || metric == of;
        }
        match (self.bound_above(), self.bound_below(), self.margin()) {
            (None, None, Some(margin)) => !(margin.is_finite() && margin > 0.0),
            (_, _, Some(_)) | (None, None, None) => true,
            (Some(above), Some(below), None) => above.partial_cmp(&below) != Some(std::cmp::Ordering::Less),
            (_, _, None) => false,
        }
    }

    const fn bound_above(&self) -> Option<f64> {
        match self {
            Self::Ratio { above, .. } | Self::Value { above, .. } | Self::Trend { above, .. } => *above,
            Self::Never { .. } | Self::Exists { .. } => None,
        }
    }

    const fn bound_below(&self) -> Option<f64> {
        match self {
            Self::Ratio { below, .. } | Self::Value { below, .. } | Self::Trend { below, .. } => *below,
            Self::Never { .. } | Self::Exists { .. } => None,
        }
    }

    /// The choices of factor values that it makes, by their keys.
    #[must_use]
    pub fn sides(&self) -> Vec<(&'static str, &BTreeMap<String, serde_json::Value>)> {
        match self {
            Self::Ratio { numerator, denominator, .. } => {
                vec![("numerator", numerator), ("denominator", denominator)]
            }
            Self::Value { cells, .. }
            | Self::Trend { cells, .. }
            | Self::Never { cells, .. }
            | Self::Exists { cells, .. } => vec![("where", cells)],
        }
    }
}

/// Conditions of a claim. Every trial used to judge it must meet them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GivenSpec {
    /// Names of media, as in `volume.medium`; a real device matches none.
    pub medium: Vec<String>,
    /// Device classes, modelled or real; a loop device has none, because the device below its file is
    /// unknown.
    pub class: Vec<DeviceClass>,
    /// Clock by which times are measured: `model` (of a virtual disk) or `wall`.
    pub time: Option<GivenTime>,
    /// Size of the volume.
    pub size: Option<SizeRange>,
    /// Overwrites of the volume during ageing: bytes written to the device ÷ size of the volume.
    pub dose: Option<Range>,
    /// Share of the volume that fits into the page cache: memory of the host ÷ size of the volume; 0 if the
    /// load uses direct I/O.
    pub cache: Option<Range>,
    /// Range of the checked latency itself, in nanoseconds, on every side: distinguishes a device from the
    /// page cache.
    pub latency: Option<Range>,
    /// Other metrics of the trial: name → range.
    pub metrics: BTreeMap<String, Range>,
    /// Other settings: dotted path → permitted values.
    pub settings: BTreeMap<String, Vec<serde_json::Value>>,
}

/// Class of a device by its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClass {
    /// A hard disk: a model of one, or a device that the kernel reports as rotational.
    HardDisk,
    /// Flash: a model of an SSD or a card, or a device that the kernel reports as non-rotational.
    Flash,
    /// A model that takes no time.
    Memory,
}

impl DeviceClass {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HardDisk => "a hard disk",
            Self::Flash => "flash",
            Self::Memory => "memory",
        }
    }
}

/// Clock by which times are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GivenTime {
    /// The clock of a virtual disk.
    Model,
    /// Wall-clock time.
    Wall,
}

/// A range of numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Range {
    /// Minimum.
    pub at_least: Option<f64>,
    /// Maximum.
    pub at_most: Option<f64>,
}

impl Range {
    /// Whether a value lies in it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }
}

/// A range of sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SizeRange {
    /// Minimum.
    pub at_least: Option<Bytes>,
    /// Maximum.
    pub at_most: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_no_bounds_and_are_of_something_else() {
        let check = |text: &str| serde_json::from_str::<ClaimCheck>(text);
        for kind in ["never", "exists"] {
            let good = check(&format!(r#"{{"kind": "{kind}", "metric": "m", "of": "all"}}"#)).unwrap();
            assert_eq!((good.counts(), good.bounds()), (Some(("m", "all")), (None, None)));
            assert!(!good.is_malformed() && good.margin().is_none());
            assert!(
                check(&format!(r#"{{"kind": "{kind}", "metric": "m", "of": "m"}}"#)).unwrap().is_malformed()
            );
            // Without what was inspected nobody knows what "none" means, and bounds mean nothing.
            assert!(check(&format!(r#"{{"kind": "{kind}", "metric": "m"}}"#)).is_err());
            assert!(
                check(&format!(r#"{{"kind": "{kind}", "metric": "m", "of": "a", "below": 1}}"#)).is_err()
            );
        }
    }

    #[test]
    fn a_margin_is_a_factor_either_way() {
        let check = |bounds: &str| -> ClaimCheck {
            serde_json::from_str(&format!(r#"{{"kind": "value", "metric": "m"{bounds}}}"#)).unwrap()
        };
        let (above, below) = check(r#", "margin": 0.25"#).bounds();
        assert_eq!((above, below), (Some(0.8), Some(1.25)));
        assert_eq!(check(r#", "above": 2.0"#).bounds(), (Some(2.0), None));
        for bad in
            ["", r#", "margin": 0.0"#, r#", "margin": 0.1, "above": 1.0"#, r#", "above": 2.0, "below": 1.0"#]
        {
            assert!(check(bad).is_malformed(), "{bad}");
        }
        for good in [r#", "margin": 0.05"#, r#", "below": 1.0"#, r#", "above": 1.0, "below": 2.0"#] {
            assert!(!check(good).is_malformed(), "{good}");
        }
    }
}
