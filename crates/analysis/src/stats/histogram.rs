//! Helpers for [`SizeHistogram`]s: bucket `i` holds sizes from 2^i to below 2^(i+1) bytes.

use fsage_model::layout::SizeHistogram;
use fsage_model::quantity::as_f64;

/// Lower bound of a bucket in words: `4 KiB`.
#[must_use]
pub fn bucket_label(bucket: usize) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = UNITS.get(bucket / 10).copied().unwrap_or("?");
    format!("{} {unit}", 1_u32 << (bucket % 10))
}

/// First and last bucket that hold anything, over several histograms; `None` when all are empty.
#[must_use]
pub fn span<'a>(histograms: impl IntoIterator<Item = &'a SizeHistogram>) -> Option<(usize, usize)> {
    histograms.into_iter().fold(None, |span, histogram| {
        let first = histogram.count.iter().position(|&n| n > 0);
        let last = histogram.count.iter().rposition(|&n| n > 0);
        match (first, last, span) {
            (Some(first), Some(last), Some((a, b))) => Some((first.min(a), last.max(b))),
            (Some(first), Some(last), None) => Some((first, last)),
            _ => span,
        }
    })
}

/// Items in all buckets.
#[must_use]
pub fn total(histogram: &SizeHistogram) -> u64 {
    histogram.count.iter().sum()
}

/// The bucket that holds the median item; `None` when empty.
#[must_use]
pub fn median_bucket(histogram: &SizeHistogram) -> Option<usize> {
    let half = as_f64(total(histogram)) / 2.0;
    if half <= 0.0 {
        return None;
    }
    let mut seen = 0.0;
    histogram.count.iter().position(|&n| {
        seen += as_f64(n);
        seen >= half
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_lower_bound() {
        assert_eq!(bucket_label(0), "1 B");
        assert_eq!(bucket_label(12), "4 KiB");
        assert_eq!(bucket_label(39), "512 GiB");
        assert_eq!(bucket_label(63), "8 EiB");
    }

    #[test]
    fn span_and_median_skip_empty_ends() {
        let a = SizeHistogram { count: vec![0, 0, 5, 0, 1], bytes: vec![0; 5] };
        let b = SizeHistogram { count: vec![0, 3], bytes: vec![0; 2] };
        let empty = SizeHistogram::default();
        assert_eq!(span([&a, &b, &empty]), Some((1, 4)));
        assert_eq!(span([&empty]), None);
        assert_eq!(median_bucket(&a), Some(2));
        assert_eq!(median_bucket(&empty), None);
        assert_eq!(total(&a), 6);
    }
}
