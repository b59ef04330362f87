//! Latency histograms by kind of operation.
//!
//! HDR histograms (high dynamic range, Tene 2012) with 3 significant digits over 1 ns ..= 1 h: a value is
//! known to within 0.1 %, longer ones count as 1 h. One takes about 270 KB and is made when its kind is
//! first seen. Intervals become lines of the HdrHistogram interval log (V2 + zlib, base64), which the Java,
//! Python and Go tools read; [`interval_log`] makes a whole file of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fsage_model::load::LatencySummary;
use fsage_model::operation::OperationKind;
use fsage_model::quantity::{as_f64, share};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

/// Longest latency distinguished: one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits kept.
const DIGITS: u8 = 3;

/// One histogram a kind of operation.
#[derive(Debug, Clone, Default)]
pub struct LatencySet {
    kinds: [Option<Box<Histogram<u64>>>; OperationKind::ALL.len()],
}

impl LatencySet {
    /// Adds one latency of `kind`.
    #[inline]
    pub fn record(&mut self, kind: OperationKind, latency_ns: u64) {
        if let Some(histogram) = &mut self.kinds[kind as usize] {
            histogram.saturating_record(latency_ns);
        } else if let Some(histogram) = self.open(kind) {
            histogram.saturating_record(latency_ns);
        }
    }

    /// Adds everything `other` holds.
    pub fn merge(&mut self, other: &Self) {
        for kind in OperationKind::ALL {
            let Some(from) = other.kinds[kind as usize].as_deref().filter(|from| !from.is_empty()) else {
                continue;
            };
            if let Some(to) = self.open(kind) {
                // Both have the same bounds, so that nothing can be out of range.
                let merged = to.add(from);
                debug_assert!(merged.is_ok());
            }
        }
    }

    /// Forgets every latency, keeping the memory.
    pub fn clear(&mut self) {
        for histogram in self.kinds.iter_mut().flatten().filter(|histogram| !histogram.is_empty()) {
            histogram.reset();
        }
    }

    /// Whether nothing was recorded since it was made or cleared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled().next().is_none()
    }

    /// The order statistics of every kind that has at least one latency.
    #[must_use]
    pub fn summary(&self) -> BTreeMap<OperationKind, LatencySummary> {
        self.filled().map(|(kind, histogram)| (kind, summarise(histogram))).collect()
    }

    /// One interval-log line a kind, tagged with the kind's name; times are relative to the log's base time.
    #[must_use]
    pub fn interval_lines(&self, start: Duration, duration: Duration) -> Vec<String> {
        self.filled().filter_map(|(kind, histogram)| line(histogram, start, duration, kind.name())).collect()
    }

    fn filled(&self) -> impl Iterator<Item = (OperationKind, &Histogram<u64>)> {
        OperationKind::ALL.into_iter().filter_map(|kind| {
            let histogram = self.kinds[kind as usize].as_deref()?;
            (!histogram.is_empty()).then_some((kind, histogram))
        })
    }

    #[cold]
    fn open(&mut self, kind: OperationKind) -> Option<&mut Histogram<u64>> {
        let slot = &mut self.kinds[kind as usize];
        if slot.is_none() {
            *slot = nanoseconds().map(Box::new);
        }
        slot.as_deref_mut()
    }
}

/// An empty histogram. The bounds are constants within what it allows: there always is one.
pub(crate) fn nanoseconds() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).ok()
}

/// All order statistics in one pass over the buckets that hold something.
pub(crate) fn summarise(histogram: &Histogram<u64>) -> LatencySummary {
    let count = histogram.len();
    let rank = |permille: u64| (u128::from(count) * u128::from(permille)).div_ceil(1000).max(1);
    let ranks = [rank(500), rank(900), rank(990), rank(999)];
    let mut values = [histogram.max(); 4];
    let (mut seen, mut next) = (0_u128, 0);
    for step in histogram.iter_recorded() {
        seen += u128::from(step.count_since_last_iteration());
        while next < ranks.len() && seen >= ranks[next] {
            values[next] = step.value_iterated_to().min(histogram.max());
            next += 1;
        }
        if next == ranks.len() {
            break;
        }
    }
    let [p50_ns, p90_ns, p99_ns, p999_ns] = values;
    LatencySummary {
        count,
        min_ns: histogram.min(),
        p50_ns,
        p90_ns,
        p99_ns,
        p999_ns,
        max_ns: histogram.max(),
        mean_ns: histogram.mean(),
    }
}

/// The exact order statistics of `count` latencies, which `at` gives in ascending order; `None` of none.
#[must_use]
pub fn summarise_sorted(count: usize, at: impl Fn(usize) -> u64) -> Option<LatencySummary> {
    let last = count.checked_sub(1)?;
    // Nearest rank, as with histograms.
    let quantile = |permille: usize| at((count * permille).div_ceil(1000).saturating_sub(1).min(last));
    let sum: u128 = (0..count).map(|place| u128::from(at(place))).sum();
    let many = u64::try_from(count).unwrap_or(u64::MAX);
    let (whole, rest) = (sum / u128::from(many), sum % u128::from(many));
    let mean_ns =
        as_f64(u64::try_from(whole).unwrap_or(u64::MAX)) + share(u64::try_from(rest).unwrap_or(0), many);
    Some(LatencySummary {
        count: many,
        min_ns: at(0),
        p50_ns: quantile(500),
        p90_ns: quantile(900),
        p99_ns: quantile(990),
        p999_ns: quantile(999),
        max_ns: at(last),
        mean_ns,
    })
}

/// One interval-log line of latencies that come in bins: a value in nanoseconds for all operations of each. `None`
/// without operations. `tag` has no commas and no white space.
#[must_use]
pub fn bins_line(
    tag: &str,
    duration: Duration,
    bins: impl IntoIterator<Item = (u64, u64)>,
) -> Option<String> {
    let mut histogram = nanoseconds()?;
    for (latency_ns, operations) in bins {
        histogram.saturating_record_n(latency_ns, operations);
    }
    (!histogram.is_empty()).then(|| line(&histogram, Duration::ZERO, duration, tag)).flatten()
}

fn line(histogram: &Histogram<u64>, start: Duration, duration: Duration, tag: &str) -> Option<String> {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut text, &mut serializer).ok()?;
    writer.write_histogram(histogram, start, duration, Tag::new(tag)).ok()?;
    Some(String::from_utf8(text).ok()?.trim_end().to_owned())
}

/// A whole interval log (`.hlog`) of the lines of [`LatencySet::interval_lines`] or [`bins_line`], whose times count
/// from `base`. Maxima are in nanoseconds.
#[must_use]
pub fn interval_log<'a>(base: SystemTime, lines: impl IntoIterator<Item = &'a str>) -> String {
    let seconds = base.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut log = String::from("#[Latencies in nanoseconds, one tag a kind of operation]\n");
    log.push_str("#[Histogram log format version 1.3]\n");
    // Writing to a string does not fail.
    let _ = writeln!(log, "#[BaseTime: {seconds:.3} (seconds since epoch)]");
    let _ = writeln!(log, "#[StartTime: {seconds:.3} (seconds since epoch)]");
    log.push_str(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
    );
    for line in lines {
        log.push_str(line);
        log.push('\n');
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn order_statistics_are_within_a_thousandth() {
        let mut set = LatencySet::default();
        for value in 1..=10_000_u64 {
            set.record(OperationKind::Read, value * 1000);
        }
        let all = set.summary();
        let read = &all[&OperationKind::Read];
        assert_eq!((all.len(), read.count), (1, 10_000));
        for (got, want) in [
            (read.min_ns, 1_000),
            (read.p50_ns, 5_000_000),
            (read.p90_ns, 9_000_000),
            (read.p99_ns, 9_900_000),
        ] {
            assert!(got.abs_diff(want) * 1000 <= want, "{got} is not {want}");
        }
        assert!(read.p999_ns <= read.max_ns);
        set.clear();
        assert!(set.summary().is_empty());
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut a, mut b, mut both) = (LatencySet::default(), LatencySet::default(), LatencySet::default());
        for value in 0..1000_u64 {
            let half = if value % 2 == 0 { &mut a } else { &mut b };
            half.record(OperationKind::Create, value * value);
            both.record(OperationKind::Create, value * value);
        }
        a.merge(&b);
        assert_eq!(a.summary(), both.summary());
    }

    #[test]
    fn longer_than_the_range_counts_as_the_longest() {
        let mut set = LatencySet::default();
        set.record(OperationKind::Fsync, u64::MAX);
        assert!(set.summary()[&OperationKind::Fsync].max_ns >= HIGHEST_NS);
    }

    #[test]
    fn bins_are_one_line_that_holds_every_operation() {
        let line = bins_line("read", Duration::from_secs(1), [(724, 3), (117_248, 1000)]).unwrap();
        let log = interval_log(SystemTime::now(), [line.as_str()]);
        let mut deserializer = hdrhistogram::serialization::Deserializer::new();
        let mut seen = 0;
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let bytes = decode_base64(interval.encoded_histogram());
                let histogram: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
                assert_eq!((histogram.len(), histogram.count_at(724)), (1003, 3));
                assert!(histogram.value_at_percentile(50.0).abs_diff(117_248) < 118);
                seen += 1;
            }
        }
        assert_eq!(seen, 1);
        assert_eq!(bins_line("read", Duration::from_secs(1), []), None);
    }

    #[test]
    fn the_log_is_read_back_by_the_library() {
        let mut set = LatencySet::default();
        set.record(OperationKind::Create, 1234);
        set.record(OperationKind::RandomWrite, 99);
        let lines = set.interval_lines(Duration::from_millis(1500), Duration::from_secs(2));
        let log = interval_log(SystemTime::now(), lines.iter().map(String::as_str));
        let mut tags = Vec::new();
        let mut deserializer = hdrhistogram::serialization::Deserializer::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                tags.push(interval.tag().unwrap().as_str().to_owned());
                assert_eq!(interval.start_timestamp(), Duration::from_millis(1500));
                let bytes = decode_base64(interval.encoded_histogram());
                let histogram: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
                assert_eq!(histogram.len(), 1);
            }
        }
        assert_eq!(tags, ["create", "random_write"]);
    }

    fn decode_base64(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = Vec::new();
        let (mut bits, mut have) = (0_u32, 0);
        for byte in text.bytes().filter(|byte| *byte != b'=') {
            let value = ALPHABET.iter().position(|letter| *letter == byte).unwrap();
            bits = (bits << 6) | u32::try_from(value).unwrap();
            have += 6;
            if have >= 8 {
                have -= 8;
                out.push(u8::try_from((bits >> have) & 0xff).unwrap());
            }
        }
        out
    }
}
