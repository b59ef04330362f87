//! Long series made short without lying: windows of neighbouring ticks keep their smallest minimum, the
//! median of their medians, their largest 99th percentile and their largest maximum. Smoothing is done
//! before, over every tick.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::layout::FreeSpace;
use fsage_model::load::{LatencySummary, Probe, Tick};
use fsage_model::operation::OperationKind;
use fsage_model::quantity::as_f64;
use serde::Serialize;

use super::text::rounded;
use crate::stats::{quantile, savitzky_golay};

/// Latency over the run, in microseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Latency {
    /// Operations done at the end of each point.
    pub operations: Vec<u64>,
    /// Seconds of load at the end of each point.
    pub seconds: Vec<f64>,
    /// Ticks behind each point.
    pub merged: usize,
    /// By operation.
    pub kinds: BTreeMap<OperationKind, LatencyKind>,
}

/// One operation's columns; a point without a success is absent (`null`).
#[derive(Debug, Clone, Default, Serialize)]
pub struct LatencyKind {
    min: Vec<Option<f64>>,
    p50: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
    max: Vec<Option<f64>>,
    smooth: Vec<Option<f64>>,
    /// Window of the smoothing, 0 when the series was too short.
    pub window: usize,
}

/// Latency columns of at most `points` points; `None` without ticks.
pub fn latency(ticks: &[Tick], points: usize) -> Option<Latency> {
    if ticks.is_empty() {
        return None;
    }
    let merged = ticks.len().div_ceil(points.max(1));
    let ends = || ticks.chunks(merged).filter_map(<[Tick]>::last);
    let kinds: BTreeSet<OperationKind> = ticks.iter().flat_map(|tick| tick.latency.keys().copied()).collect();
    let columns = kinds.into_iter().map(|kind| (kind, latency_kind(ticks, kind, merged))).collect();
    Some(Latency {
        operations: ends().map(|tick| tick.operations).collect(),
        seconds: ends().map(|tick| rounded(as_f64(tick.elapsed_ns) / 1e9)).collect(),
        merged,
        kinds: columns,
    })
}

/// Repeats of one cell in one: at each point the median of their medians and of their 99th percentiles, the
/// smallest minimum and the largest maximum. Points of the same number of operations fall together.
pub fn together(repeats: &[&Latency]) -> Latency {
    let [first, rest @ ..] = repeats else { return Latency::default() };
    if rest.is_empty() {
        return (*first).clone();
    }
    let points = repeats.iter().map(|one| one.operations.len()).max().unwrap_or(0).max(1);
    let last = repeats.iter().filter_map(|one| one.operations.last()).max().copied().unwrap_or(1).max(1);
    let slot = |operations: u64| {
        let slot = u128::from(operations.max(1) - 1) * points as u128 / u128::from(last);
        usize::try_from(slot).unwrap_or(0).min(points - 1)
    };
    // By slot: which points of which repeats.
    let mut slots: Vec<Vec<(&Latency, usize)>> = vec![Vec::new(); points];
    for one in repeats {
        for (index, operations) in one.operations.iter().enumerate() {
            slots[slot(*operations)].push((one, index));
        }
    }
    slots.retain(|members| !members.is_empty());
    let kinds: BTreeSet<OperationKind> = repeats.iter().flat_map(|one| one.kinds.keys().copied()).collect();
    let seconds = |members: &Vec<(&Latency, usize)>| {
        let all: Vec<f64> = members.iter().map(|(one, index)| one.seconds[*index]).collect();
        rounded(quantile::median(&all).unwrap_or(0.0))
    };
    Latency {
        operations: slots
            .iter()
            .filter_map(|all| all.iter().map(|(one, i)| one.operations[*i]).max())
            .collect(),
        seconds: slots.iter().map(seconds).collect(),
        merged: repeats.iter().map(|one| one.merged).max().unwrap_or(1),
        kinds: kinds.into_iter().map(|kind| (kind, together_kind(&slots, kind))).collect(),
    }
}

fn together_kind(slots: &[Vec<(&Latency, usize)>], kind: OperationKind) -> LatencyKind {
    let column = |pick: fn(&LatencyKind) -> &Vec<Option<f64>>, of: fn(&[f64]) -> Option<f64>| {
        let value = |members: &Vec<(&Latency, usize)>| {
            let all = members.iter().filter_map(|(one, index)| *pick(one.kinds.get(&kind)?).get(*index)?);
            of(&all.collect::<Vec<f64>>()).map(rounded)
        };
        slots.iter().map(value).collect()
    };
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
    let windows = slots.iter().flatten().filter_map(|(one, _)| one.kinds.get(&kind));
    LatencyKind {
        min: column(|one| &one.min, least),
        p50: column(|one| &one.p50, quantile::median),
        p99: column(|one| &one.p99, quantile::median),
        max: column(|one| &one.max, most),
        smooth: column(|one| &one.smooth, quantile::median),
        window: windows.map(|one| one.window).max().unwrap_or(0),
    }
}

fn latency_kind(ticks: &[Tick], kind: OperationKind, merged: usize) -> LatencyKind {
    let present = || ticks.iter().filter_map(|tick| tick.latency.get(&kind));
    // By a disk's own clock what stays in the page cache takes no time: where that is most of them, the mean
    // has the rest.
    let by_mean = present().all(|l| l.p50_ns == 0);
    let middle_ns = |l: &LatencySummary| if by_mean { l.mean_ns } else { as_f64(l.p50_ns) };
    let medians: Vec<f64> = present().map(middle_ns).collect();
    let smoothed = savitzky_golay::smooth(&medians, savitzky_golay::WINDOW, savitzky_golay::ORDER);
    // Next to an outlier the polynomial swings far below every point, even below 0: no line is better.
    let lowest = medians.iter().copied().fold(f64::INFINITY, f64::min) / 2.0;
    let mut smooth = smoothed.values.into_iter().map(|ns| if ns < lowest { f64::NAN } else { ns });
    let mut columns = LatencyKind { window: smoothed.window, ..LatencyKind::default() };
    for window in ticks.chunks(merged) {
        let present: Vec<&LatencySummary> =
            window.iter().filter_map(|tick| tick.latency.get(&kind)).collect();
        let lines: Vec<f64> = smooth.by_ref().take(present.len()).filter(|ns| ns.is_finite()).collect();
        let middle = |values: &[f64]| quantile::median(values).map(micro);
        let medians: Vec<f64> = present.iter().map(|l| middle_ns(l)).collect();
        columns.min.push(present.iter().map(|l| l.min_ns).min().map(|ns| micro(as_f64(ns))));
        columns.p50.push(middle(&medians));
        columns.p99.push(present.iter().map(|l| l.p99_ns).max().map(|ns| micro(as_f64(ns))));
        columns.max.push(present.iter().map(|l| l.max_ns).max().map(|ns| micro(as_f64(ns))));
        columns.smooth.push(middle(&lines));
    }
    columns
}

fn micro(ns: f64) -> f64 {
    rounded(ns / 1e3)
}

/// Free space over the run: rows are powers of two, columns probes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FreeMap {
    /// Operations done at each column.
    pub operations: Vec<u64>,
    /// Use of the volume at each column, 0..=1.
    pub used: Vec<f64>,
    /// Power of two of the first row.
    pub first: usize,
    /// Extents by row and column.
    pub count: Vec<Vec<u64>>,
    /// Bytes by row and column.
    pub bytes: Vec<Vec<u64>>,
    /// Smallest number of extents within each column's probes, as `count`; empty unless probes were merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub count_min: Vec<Vec<u64>>,
    /// Median number of extents, likewise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub count_median: Vec<Vec<u64>>,
    /// Probes behind each column: `count` and `bytes` are the largest of each row among them, so that nothing
    /// that was there for a moment is lost.
    pub merged: usize,
    /// What must be known about how it was found; empty when exact.
    pub caveat: String,
}

/// Free-space columns, at most `columns` of them; `None` when no probe knew the free space.
pub fn free_map(probes: &[Probe], columns: usize) -> Option<FreeMap> {
    let known: Vec<(&Probe, &FreeSpace)> =
        probes.iter().filter_map(|probe| Some((probe, probe.free_space.as_ref()?))).collect();
    let merged = known.len().div_ceil(columns.max(1)).max(1);
    let ends = || known.chunks(merged).filter_map(<[_]>::last);
    let caveat = super::text::with_sizes(&known.last()?.1.caveat);
    let (first, final_row) =
        crate::stats::histogram::span(known.iter().map(|(_, free)| &free.histogram)).unwrap_or((12, 12));
    // One row a power of two: of each window what `of` takes from its sorted values.
    let rows = |pick: fn(&FreeSpace) -> &Vec<u64>, of: fn(&[u64]) -> Option<&u64>| -> Vec<Vec<u64>> {
        let cell = |window: &[(&Probe, &FreeSpace)], bucket: usize| {
            let values = window.iter().map(|(_, free)| pick(free).get(bucket).copied().unwrap_or(0));
            let mut values: Vec<u64> = values.collect();
            values.sort_unstable();
            of(&values).copied().unwrap_or(0)
        };
        (first..=final_row)
            .map(|bucket| known.chunks(merged).map(|window| cell(window, bucket)).collect())
            .collect()
    };
    let more = |of| if merged > 1 { rows(|free| &free.histogram.count, of) } else { Vec::new() };
    Some(FreeMap {
        operations: ends().map(|(probe, _)| probe.operations).collect(),
        used: ends()
            .map(|(probe, _)| rounded(fsage_model::quantity::share(probe.used_bytes, probe.total_bytes)))
            .collect(),
        first,
        count: rows(|free| &free.histogram.count, <[u64]>::last),
        bytes: rows(|free| &free.histogram.bytes, <[u64]>::last),
        count_min: more(<[u64]>::first),
        count_median: more(|values| values.get(values.len() / 2)),
        merged,
        caveat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(n: u64, ns: u64) -> Tick {
        let summary = LatencySummary {
            count: 10,
            min_ns: ns / 2,
            p50_ns: ns,
            p90_ns: ns,
            p99_ns: ns * 3,
            p999_ns: ns * 4,
            max_ns: ns * 5,
            mean_ns: as_f64(ns),
        };
        let latency =
            if n % 7 == 3 { BTreeMap::new() } else { BTreeMap::from([(OperationKind::Create, summary)]) };
        Tick { operations: n * 100, elapsed_ns: n * 1_000_000, latency }
    }

    #[test]
    fn reducing_keeps_minimum_median_and_maximum() {
        let ticks: Vec<Tick> =
            (1..=1000).map(|n| tick(n, if n == 501 { 9_000_000 } else { 2_000 })).collect();
        let latency = latency(&ticks, 100).unwrap();
        assert_eq!((latency.operations.len(), latency.merged), (100, 10));
        assert_eq!(latency.operations.last(), Some(&100_000));
        let create = &latency.kinds[&OperationKind::Create];
        let largest = create.max.iter().flatten().copied().fold(0.0, f64::max);
        assert_eq!(largest, 45_000.0, "the outlier must survive");
        assert!(create.p50.iter().flatten().all(|&us| us == 2.0));
        assert!(create.min.iter().flatten().all(|&us| us == 1.0));
        assert_eq!(create.window, 101);
    }

    #[test]
    fn repeats_share_a_line_that_is_their_median() {
        let of = |ns: u64| latency(&(1..=100).map(|n| tick(n, ns)).collect::<Vec<_>>(), 100).unwrap();
        let (low, middle, high) = (of(1_000), of(2_000), of(90_000));
        let all = together(&[&low, &middle, &high]);
        assert_eq!(all.operations, low.operations, "points of the same operations fall together");
        let create = &all.kinds[&OperationKind::Create];
        assert!(create.p50.iter().flatten().all(|&us| us == 2.0));
        assert!(create.p99.iter().flatten().all(|&us| us == 6.0));
        assert!(
            create.min.iter().flatten().all(|&us| us == 0.5)
                && create.max.iter().flatten().all(|&us| us == 450.0)
        );
        assert_eq!(
            create.p50.iter().filter(|point| point.is_none()).count(),
            14,
            "gaps of all repeats stay gaps"
        );
        // A repeat that ended early, and one alone.
        let short = latency(&(1..=50).map(|n| tick(n, 2_000)).collect::<Vec<_>>(), 100).unwrap();
        assert_eq!(together(&[&middle, &short]).operations.last(), Some(&10_000));
        assert_eq!(together(&[&high]).operations, high.operations);
        assert!(together(&[]).operations.is_empty());
    }

    #[test]
    fn a_burst_of_free_extents_survives_in_the_map() {
        let probe = |operations: u64| {
            let mut count = vec![0; 16];
            count[12] = if operations == 33 { 5000 } else { 10 };
            let histogram = fsage_model::layout::SizeHistogram { bytes: count.clone(), count };
            let free = serde_json::json!({
                "method": "getfsmap", "caveat": "", "extents": 1, "bytes": 1, "largest_bytes": 1,
                "median_bytes": 1, "histogram": histogram,
            });
            serde_json::from_value(serde_json::json!({"operations": operations, "free_space": free})).unwrap()
        };
        let probes: Vec<Probe> = (1..=100).map(probe).collect();
        let map = free_map(&probes, 10).unwrap();
        assert_eq!((map.merged, map.first, map.operations.last()), (10, 12, Some(&100)));
        assert_eq!(map.count[0], [10, 10, 10, 5000, 10, 10, 10, 10, 10, 10]);
        assert_eq!((map.count_min[0][3], map.count_median[0][3]), (10, 10));
        assert_eq!(free_map(&probes, 100).unwrap().count_min, Vec::<Vec<u64>>::new());
    }

    #[test]
    fn a_smoothed_line_that_swings_below_every_point_is_left_out() {
        let ticks: Vec<Tick> = (1..=40).map(|n| tick(n, if n == 20 { 90_000_000 } else { 2_000 })).collect();
        let create = &latency(&ticks, 2000).unwrap().kinds[&OperationKind::Create];
        assert!(create.smooth.iter().flatten().all(|&us| us >= 1.0));
        assert!(create.smooth.iter().flatten().any(|&us| us > 1000.0));
    }

    #[test]
    fn short_series_stay_whole_and_gaps_stay_gaps() {
        let ticks: Vec<Tick> = (1..=20).map(|n| tick(n, 2_000)).collect();
        let latency = latency(&ticks, 2000).unwrap();
        let create = &latency.kinds[&OperationKind::Create];
        assert_eq!(create.p50.len(), 20);
        assert_eq!(create.p50[2], None);
        assert_eq!(create.smooth[2], None);
        assert_eq!(create.window, 17);
        assert!(super::latency(&[], 10).is_none());
    }
}
