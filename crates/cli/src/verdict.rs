//! The verdict of `fsage scan` in words, and the thresholds it stands on.
//!
//! Files: what slows sequential reading down is the share of non-contiguous blocks,
//! which is 1 − the layout score (Smith & Seltzer 1997); the share of files in one extent says how many
//! files are touched. For scale: Petrovič 2017 §6 has about 92 % of files in one extent after ageing.
//!
//! | grade | files in one extent | and layout score |
//! | --- | --- | --- |
//! | `minimal` | at least 0.98 | at least 0.99 |
//! | `low` | at least 0.90 | at least 0.97 |
//! | `moderate` | at least 0.70 | at least 0.90 |
//! | `high` | else | else |
//!
//! Free space: what counts is how much of it can take a large file in one piece.
//!
//! | grade | share of the free bytes in extents of 1 MiB and more |
//! | --- | --- |
//! | `minimal` | at least 0.95 |
//! | `low` | at least 0.80 |
//! | `moderate` | at least 0.50 |
//! | `high` | else |

use fsage_model::layout::{FreeSpace, LayoutSummary, SizeHistogram};
use fsage_model::quantity::share;
use serde::Serialize;

use super::text;

/// log2 of the smallest free extent that counts as large: 1 MiB.
const LARGE_EXPONENT: usize = 20;

/// Grade of fragmentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Like a new file system.
    Minimal,
    /// Measurable, rarely slower.
    Low,
    /// Slower on a disk that seeks.
    Moderate,
    /// Slower on most devices.
    High,
}

impl Grade {
    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Moderate => "moderate",
            Self::High => "high",
        }
    }

    /// ANSI style: green, yellow, red.
    #[must_use]
    pub const fn style(self) -> &'static str {
        match self {
            Self::Minimal | Self::Low => "1;32",
            Self::Moderate => "1;33",
            Self::High => "1;31",
        }
    }
}

/// What the scan comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayoutVerdict {
    /// Grade of the files; absent when no file has an extent.
    pub files: Option<Grade>,
    /// Grade of the free space; absent when it is not known.
    pub free_space: Option<Grade>,
    /// Share (0..=1) of the free bytes in extents of at least 1 MiB; absent when it is not known.
    pub large_free_share: Option<f64>,
    /// The same as sentences.
    pub sentences: Vec<String>,
}

/// Judges.
#[must_use]
pub fn judge(layout: &LayoutSummary, free: Option<&FreeSpace>) -> LayoutVerdict {
    let mut sentences = Vec::new();
    let files = (layout.mapped_files > 0).then(|| files(layout));
    match files {
        Some(grade) => sentences.push(format!(
            "File fragmentation is {}: {} of files are in one extent, and {} of their blocks are non-contiguous.",
            grade.name(),
            text::percent(layout.one_extent_share),
            text::percent((1.0 - layout.layout_score).max(0.0)),
        )),
        None => sentences.push("No file has an extent, so there is no layout to judge.".to_owned()),
    }
    let large_free_share = free.filter(|f| f.bytes > 0).map(|f| large_share(&f.histogram));
    let free_space = large_free_share.map(free_grade);
    if let (Some(grade), Some(large)) = (free_space, large_free_share) {
        sentences.push(format!(
            "Free-space fragmentation is {}: {} of the free bytes are in extents of 1 MiB or more.",
            grade.name(),
            text::percent(large)
        ));
    }
    LayoutVerdict { files, free_space, large_free_share, sentences }
}

fn files(layout: &LayoutSummary) -> Grade {
    let at_least = |one: f64, score: f64| layout.one_extent_share >= one && layout.layout_score >= score;
    if at_least(0.98, 0.99) {
        Grade::Minimal
    } else if at_least(0.90, 0.97) {
        Grade::Low
    } else if at_least(0.70, 0.90) {
        Grade::Moderate
    } else {
        Grade::High
    }
}

fn free_grade(large: f64) -> Grade {
    if large >= 0.95 {
        Grade::Minimal
    } else if large >= 0.80 {
        Grade::Low
    } else if large >= 0.50 {
        Grade::Moderate
    } else {
        Grade::High
    }
}

fn large_share(histogram: &SizeHistogram) -> f64 {
    let large: u64 = histogram.bytes.iter().skip(LARGE_EXPONENT).sum();
    share(large, histogram.bytes.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_model::layout::FreeSpaceMethod;

    fn layout(one_extent_share: f64, layout_score: f64) -> LayoutSummary {
        LayoutSummary { mapped_files: 10, one_extent_share, layout_score, ..LayoutSummary::default() }
    }

    #[test]
    fn both_thresholds_must_be_met() {
        assert_eq!(judge(&layout(1.0, 1.0), None).files, Some(Grade::Minimal));
        assert_eq!(judge(&layout(1.0, 0.98), None).files, Some(Grade::Low));
        assert_eq!(judge(&layout(0.92, 0.95), None).files, Some(Grade::Moderate));
        assert_eq!(judge(&layout(0.5, 1.0), None).files, Some(Grade::High));
        assert_eq!(judge(&LayoutSummary::default(), None).files, None);
    }

    #[test]
    fn free_space_is_judged_by_bytes_in_large_pieces() {
        let mut histogram = SizeHistogram { count: vec![0; 22], bytes: vec![0; 22] };
        (histogram.bytes[12], histogram.bytes[21]) = (40, 60);
        let free = FreeSpace {
            method: FreeSpaceMethod::Getfsmap,
            caveat: String::new(),
            is_estimate: false,
            extents: 2,
            bytes: 100,
            largest_bytes: 60,
            median_bytes: 40,
            histogram,
        };
        let verdict = judge(&layout(1.0, 1.0), Some(&free));
        assert_eq!(verdict.free_space, Some(Grade::Moderate));
        assert_eq!(verdict.sentences.len(), 2);
        assert!(verdict.sentences[1].contains("60 %"));
    }
}
