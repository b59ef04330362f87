//! Histograms of sizes as bars in a terminal, in block characters or plain ASCII.

use fsage_model::layout::SizeHistogram;
use fsage_model::quantity::{as_f64, share, to_u64};

use super::text;

/// Width of the longest bar, in characters.
const BAR: usize = 32;
/// log2 of the smallest size that has a row of its own.
const TINY: usize = 10;
/// Eighths of a character, for the end of a bar.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar for a share (0..=1) of the longest. What is not nothing shows at least the thinnest mark.
#[must_use]
pub fn bar(share: f64, unicode: bool) -> String {
    if share <= 0.0 {
        return String::new();
    }
    if !unicode {
        return "#".repeat(whole(share * as_f64(BAR as u64)).max(1));
    }
    let eighths = whole(share * as_f64(BAR as u64) * 8.0).max(1);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn whole(value: f64) -> usize {
    usize::try_from(to_u64(value)).unwrap_or(usize::MAX).min(BAR * 8)
}

/// Rows of a histogram: size class, bar of its share of the items, items, and its share of the bytes. What is
/// smaller than 1 KiB is one row: below the block of every file system its size does not matter.
#[must_use]
pub fn rows(histogram: &SizeHistogram, noun: &str, unicode: bool) -> String {
    let classes = classes(histogram);
    let longest = classes.iter().map(|(_, count, _)| *count).max().unwrap_or(0);
    let all_bytes: u64 = classes.iter().map(|(_, _, bytes)| *bytes).sum();
    if longest == 0 {
        return format!("    (no {noun})\n");
    }
    let mut text = format!("    {:>5}  {:<BAR$}  {:>11}  {:>7}\n", "size", "", noun, "bytes");
    for (label, count, bytes) in classes {
        let bar = bar(share(count, longest), unicode);
        let blanks = " ".repeat(BAR.saturating_sub(bar.chars().count()));
        let (count, bytes) = (text::count(count), text::percent(share(bytes, all_bytes)));
        text.push_str(&format!("    {label:>5}  {bar}{blanks}  {count:>11}  {bytes:>7}\n"));
    }
    text
}

/// Label, items and bytes from the first to the last class that holds something.
fn classes(histogram: &SizeHistogram) -> Vec<(String, u64, u64)> {
    let bytes = |exponent: usize| histogram.bytes.get(exponent).copied().unwrap_or(0);
    let tiny = histogram.count.len().min(TINY);
    let mut classes =
        vec![("< 1K".to_owned(), histogram.count[..tiny].iter().sum(), (0..tiny).map(bytes).sum())];
    for (exponent, count) in histogram.count.iter().enumerate().skip(TINY) {
        classes.push((text::power(exponent), *count, bytes(exponent)));
    }
    let used = |class: &(String, u64, u64)| class.1 > 0;
    let first = classes.iter().position(used).unwrap_or(0);
    let end = classes.iter().rposition(used).map_or(0, |last| last + 1);
    classes.get(first..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_never_vanish() {
        assert_eq!(bar(0.0, true), "");
        assert_eq!(bar(1e-9, true), "▏");
        assert_eq!(bar(1e-9, false), "#");
        assert_eq!(bar(1.0, true).chars().count(), BAR);
        assert_eq!(bar(0.5, false).len(), BAR / 2);
    }

    #[test]
    fn only_the_classes_between_the_smallest_and_the_largest_are_shown() {
        let mut histogram = SizeHistogram { count: vec![0; 15], bytes: vec![0; 15] };
        (histogram.count[12], histogram.bytes[12]) = (30, 30 * 4096);
        (histogram.count[14], histogram.bytes[14]) = (15, 15 * 16384);
        let text = rows(&histogram, "extents", false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines[1].contains("4K") && lines[1].contains(&"#".repeat(BAR)) && lines[1].ends_with("33.3 %")
        );
        assert!(lines[2].contains("8K") && lines[2].trim_end().ends_with("0 %"));
        assert!(rows(&SizeHistogram::default(), "extents", true).contains("no extents"));
    }
}
